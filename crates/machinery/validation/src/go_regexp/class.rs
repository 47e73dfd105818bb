//! Classes of characters and escapes.

use super::{
    ClassItem, Error, INVALID_CHAR_RANGE, INVALID_ESCAPE, NamedSet, ParseResult, Parser, before_end, unicode::is_class,
};

impl<'a> Parser<'a> {
    /// Parses `\d`, `\s`, `\w`, `\pL` or `\p{Name}`, or one of their negations, if there is one.
    pub(super) fn named_class(&mut self) -> ParseResult<'a, Option<ClassItem<'a>>> {
        match self.rest.as_bytes() {
            [b'\\', b'p' | b'P', ..] => self.unicode_class().map(Some),
            [b'\\', letter @ (b'd' | b'D' | b's' | b'S' | b'w' | b'W'), ..] => {
                let set = NamedSet::Perl(letter.to_ascii_lowercase());
                let negated = letter.is_ascii_uppercase();
                self.skip(2);
                Ok(Some(ClassItem::Named { set, negated }))
            }
            _ => Ok(None),
        }
    }

    fn unicode_class(&mut self) -> ParseResult<'a, ClassItem<'a>> {
        let before = self.rest;
        let mut negated = before.starts_with("\\P");
        self.skip(2);
        let mut name = match self.next() {
            Some('{') => {
                let Some(end) = before.find('}') else { return Err(Error { problem: INVALID_CHAR_RANGE, at: before }) };
                self.rest = &before[end + 1..];
                &before[3..end]
            }
            _ => &before[2..before.len() - self.rest.len()],
        };
        if let Some(positive) = name.strip_prefix('^') {
            name = positive;
            negated = !negated;
        }
        if !is_class(name) {
            return Err(Error { problem: INVALID_CHAR_RANGE, at: before_end(before, self.rest) });
        }
        Ok(ClassItem::Named { set: NamedSet::Unicode(name), negated })
    }

    /// Parses a class in brackets.
    pub(super) fn class(&mut self) -> ParseResult<'a> {
        let whole = self.rest;
        self.skip(1);
        let negated = self.rest.starts_with('^');
        if negated {
            self.skip(1);
        }
        let mut items = Vec::new();
        while items.is_empty() || !self.rest.starts_with(']') {
            items.push(self.class_item(whole)?);
        }
        self.skip(1);
        self.push_class(before_end(whole, self.rest), negated, items);
        Ok(())
    }

    fn class_item(&mut self, whole: &'a str) -> ParseResult<'a, ClassItem<'a>> {
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
            "word", "xdigit",
        ];
        let before = self.rest;
        if let Some(name) = before.strip_prefix("[:")
            && let Some(end) = name.find(":]")
        {
            let at = &before[..end + 4];
            let (name, negated) = name[..end].strip_prefix('^').map_or((&name[..end], false), |name| (name, true));
            if !NAMES.contains(&name) {
                return Err(Error { problem: INVALID_CHAR_RANGE, at });
            }
            self.skip(at.len());
            return Ok(ClassItem::Named { set: NamedSet::Posix(name), negated });
        }
        if let Some(item) = self.named_class()? {
            return Ok(item);
        }
        let low = self.class_char(whole)?;
        let mut high = low;
        if self.rest.len() >= 2 && self.rest.starts_with('-') && !self.rest.starts_with("-]") {
            self.skip(1);
            high = self.class_char(whole)?;
            if high < low {
                return Err(Error { problem: INVALID_CHAR_RANGE, at: before_end(before, self.rest) });
            }
        }
        Ok(ClassItem::Range(low, high))
    }

    fn class_char(&mut self, whole: &'a str) -> ParseResult<'a, u32> {
        if self.rest.starts_with('\\') {
            return self.escape();
        }
        self.next().map(u32::from).ok_or(Error { problem: "missing closing ]", at: whole })
    }

    /// Parses an escape of a single character.
    pub(super) fn escape(&mut self) -> ParseResult<'a, u32> {
        let before = self.rest;
        self.skip(1);
        let Some(c) = self.next() else {
            return Err(Error { problem: "trailing backslash at end of expression", at: "" });
        };
        let octal = |rest: &str| rest.starts_with(|c: char| ('0'..='7').contains(&c));
        let value = match c {
            '0'..='7' if c == '0' || octal(self.rest) => {
                let mut value = u32::from(c) - u32::from('0');
                for _ in 1..3 {
                    if octal(self.rest) {
                        value = value * 8 + self.next().and_then(|c| c.to_digit(8)).unwrap_or(0);
                    }
                }
                Some(value)
            }
            'x' => self.hexadecimal(),
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            _ if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c.into()),
            _ => None,
        };
        value.ok_or(Error { problem: INVALID_ESCAPE, at: before_end(before, self.rest) })
    }

    /// Parses two hexadecimal digits, or any number of them in braces.
    fn hexadecimal(&mut self) -> Option<u32> {
        let first = self.next()?;
        if first != '{' {
            let second = self.next();
            return Some(first.to_digit(16)? * 16 + second?.to_digit(16)?);
        }
        let (mut value, mut digits) = (0, 0);
        loop {
            match self.next()? {
                '}' if digits > 0 => return Some(value),
                c => value = value * 16 + c.to_digit(16)?,
            }
            digits += 1;
            if value > u32::from(char::MAX) {
                return None;
            }
        }
    }
}
