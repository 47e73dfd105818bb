//! The syntax of Go's regular expressions, with Go's syntax errors.

mod unicode;

use std::fmt;

const REPEAT_MAX: i64 = 1000;
const DEPTH_MAX: usize = 1000;

/// Checks a regular expression; the error is the text of Go's `regexp.Compile`.
pub fn check(pattern: &str) -> Result<(), String> {
    Parser { whole: pattern, rest: pattern, groups: vec![Group::default()] }.parse().map_err(|error| error.to_string())
}

struct Error<'a> {
    problem: &'static str,
    at: &'a str,
}

impl fmt::Display for Error<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.problem, self.at)
    }
}

const INVALID_CHAR_RANGE: &str = "invalid character class range";
const INVALID_ESCAPE: &str = "invalid escape sequence";
const INVALID_PERL: &str = "invalid or unsupported Perl syntax";
const INVALID_REPEAT: &str = "invalid repeat count";

/// The repetitions within a group.
#[derive(Default)]
struct Group {
    /// The maximum number of times that the last item is repeated, including repetitions within it; `None` if there is
    /// no item that could be repeated.
    last: Option<i64>,
    /// The same maximum over all items before it.
    others: i64,
}

impl Group {
    fn push(&mut self, weight: i64) {
        self.others = self.others.max(self.last.replace(weight).unwrap_or(0));
    }
}

struct Parser<'a> {
    whole: &'a str,
    rest: &'a str,
    /// The open groups, beginning with the expression itself.
    groups: Vec<Group>,
}

type Parsed<'a, T = ()> = Result<T, Error<'a>>;

impl<'a> Parser<'a> {
    fn parse(mut self) -> Parsed<'a> {
        // The repetition directly before, since two in a row are an error.
        let mut repetition = None;
        while let Some(next) = self.rest.chars().next() {
            let before = self.rest;
            let mut repeated = false;
            match next {
                '(' if before.starts_with("(?") => self.perl_group()?,
                '(' => {
                    self.skip(1);
                    self.open()?;
                }
                ')' => self.close()?,
                '|' => {
                    self.skip(1);
                    let group = self.group();
                    group.others = group.others.max(group.last.take().unwrap_or(0));
                }
                '[' => {
                    self.class()?;
                    self.group().push(1);
                }
                '*' | '+' | '?' => {
                    self.skip(1);
                    self.repeat(before, repetition, None)?;
                    repeated = true;
                }
                '{' => match self.counts() {
                    Some((min, max)) => {
                        let at = before_end(before, self.rest);
                        if !(0..=REPEAT_MAX).contains(&min) || max > REPEAT_MAX || (max >= 0 && min > max) {
                            return Err(Error { problem: INVALID_REPEAT, at });
                        }
                        self.repeat(before, repetition, Some((min, max)))?;
                        repeated = true;
                    }
                    None => {
                        self.skip(1);
                        self.group().push(1);
                    }
                },
                '\\' => self.backslash()?,
                _ => {
                    self.skip(next.len_utf8());
                    self.group().push(1);
                }
            }
            repetition = repeated.then_some(before);
        }
        if self.groups.len() > 1 {
            return Err(Error { problem: "missing closing )", at: self.whole });
        }
        Ok(())
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn next(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.skip(next.len_utf8());
        Some(next)
    }

    fn group(&mut self) -> &mut Group {
        self.groups.last_mut().expect("the expression itself is never closed")
    }

    fn open(&mut self) -> Parsed<'a> {
        if self.groups.len() > DEPTH_MAX {
            return Err(Error { problem: "expression nests too deeply", at: self.whole });
        }
        self.groups.push(Group::default());
        Ok(())
    }

    fn close(&mut self) -> Parsed<'a> {
        if self.groups.len() == 1 {
            return Err(Error { problem: "unexpected )", at: self.whole });
        }
        self.skip(1);
        if let Some(group) = self.groups.pop() {
            self.group().push(group.others.max(group.last.unwrap_or(0)));
        }
        Ok(())
    }

    /// Parses the optional `?` of a repetition; errors if a repetition is not allowed here or exceeds the limit.
    fn repeat(&mut self, before: &'a str, repetition: Option<&'a str>, counts: Option<(i64, i64)>) -> Parsed<'a> {
        if self.rest.starts_with('?') {
            self.skip(1);
        }
        let rest = self.rest;
        if let Some(repetition) = repetition {
            return Err(Error { problem: "invalid nested repetition operator", at: before_end(repetition, rest) });
        }
        let Some(weight) = &mut self.group().last else {
            return Err(Error { problem: "missing argument to repetition operator", at: before_end(before, rest) });
        };
        if let Some((min, max)) = counts {
            let times = if max < 0 { min } else { max };
            *weight = if max == 0 { 0 } else { weight.saturating_mul(times.max(1)) };
            if (min >= 2 || max >= 2) && *weight > REPEAT_MAX {
                return Err(Error { problem: INVALID_REPEAT, at: before_end(before, rest) });
            }
        }
        Ok(())
    }

    /// Parses `{n}`, `{n,}` or `{n,m}`; anything else is literal. -1 stands for no maximum and for too large a number.
    fn counts(&mut self) -> Option<(i64, i64)> {
        let (mut min, mut rest) = number(&self.rest[1..])?;
        let mut max = min;
        if let Some(after) = rest.strip_prefix(',') {
            rest = after;
            max = -1;
            if !rest.starts_with('}') {
                (max, rest) = number(rest)?;
                if max < 0 {
                    min = -1;
                }
            }
        }
        self.rest = rest.strip_prefix('}')?;
        Some((min, max))
    }

    /// Parses what begins with `(?`: a group name, flags, or a whole group without capture.
    fn perl_group(&mut self) -> Parsed<'a> {
        let before = self.rest;
        let name =
            [("(?P<", 4), ("(?<", 3)].into_iter().find(|(start, at)| before.starts_with(start) && before.len() > *at);
        if let Some((_, start)) = name {
            const INVALID_NAME: &str = "invalid named capture";
            let Some(end) = before.find('>') else { return Err(Error { problem: INVALID_NAME, at: before }) };
            let name = &before[start.min(end)..end];
            if name.is_empty() || !name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric()) {
                return Err(Error { problem: INVALID_NAME, at: &before[..=end] });
            }
            self.skip(end + 1);
            return self.open();
        }
        self.skip(2);
        let (mut negative, mut any) = (false, false);
        while let Some(flag) = self.next() {
            match flag {
                'i' | 'm' | 's' | 'U' => any = true,
                '-' if !negative => (negative, any) = (true, false),
                ':' | ')' if any || !negative => return if flag == ':' { self.open() } else { Ok(()) },
                _ => break,
            }
        }
        Err(Error { problem: INVALID_PERL, at: before_end(before, self.rest) })
    }

    fn backslash(&mut self) -> Parsed<'a> {
        let before = self.rest;
        match before.as_bytes().get(1) {
            Some(b'C') => return Err(Error { problem: INVALID_ESCAPE, at: &before[..2] }),
            Some(b'Q') => {
                let (literal, rest) = before[2..].split_once("\\E").unwrap_or((&before[2..], ""));
                self.rest = rest;
                if !literal.is_empty() {
                    self.group().push(1);
                }
                return Ok(());
            }
            Some(b'A' | b'b' | b'B' | b'z') => self.skip(2),
            _ if self.unicode_class()? || self.perl_class() => {}
            _ => drop(self.escape()?),
        }
        self.group().push(1);
        Ok(())
    }

    /// Parses `\d`, `\s`, `\w` and their negations.
    fn perl_class(&mut self) -> bool {
        let found = ["\\d", "\\D", "\\s", "\\S", "\\w", "\\W"].iter().any(|class| self.rest.starts_with(class));
        if found {
            self.skip(2);
        }
        found
    }

    /// Parses `\pL` or `\p{Name}`.
    fn unicode_class(&mut self) -> Parsed<'a, bool> {
        let before = self.rest;
        if !before.starts_with("\\p") && !before.starts_with("\\P") {
            return Ok(false);
        }
        self.skip(2);
        let mut name = match self.next() {
            Some('{') => {
                let Some(end) = before.find('}') else { return Err(Error { problem: INVALID_CHAR_RANGE, at: before }) };
                self.rest = &before[end + 1..];
                &before[3..end]
            }
            _ => &before[2..before.len() - self.rest.len()],
        };
        name = name.strip_prefix('^').unwrap_or(name);
        if !unicode::is_class(name) {
            return Err(Error { problem: INVALID_CHAR_RANGE, at: before_end(before, self.rest) });
        }
        Ok(true)
    }

    fn class(&mut self) -> Parsed<'a> {
        const NAMES: [&str; 14] = [
            "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper",
            "word", "xdigit",
        ];
        let whole = self.rest;
        self.skip(1);
        if self.rest.starts_with('^') {
            self.skip(1);
        }
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            let before = self.rest;
            if let Some(name) = before.strip_prefix("[:")
                && let Some(end) = name.find(":]")
            {
                let name = &name[..end];
                let at = &before[..end + 4];
                if !NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                    return Err(Error { problem: INVALID_CHAR_RANGE, at });
                }
                self.skip(at.len());
                continue;
            }
            if self.unicode_class()? || self.perl_class() {
                continue;
            }
            let low = self.class_char(whole)?;
            if self.rest.len() >= 2 && self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.skip(1);
                if self.class_char(whole)? < low {
                    return Err(Error { problem: INVALID_CHAR_RANGE, at: before_end(before, self.rest) });
                }
            }
        }
        self.skip(1);
        Ok(())
    }

    fn class_char(&mut self, whole: &'a str) -> Parsed<'a, u32> {
        if self.rest.starts_with('\\') {
            return self.escape();
        }
        self.next().map(u32::from).ok_or(Error { problem: "missing closing ]", at: whole })
    }

    /// Parses an escape of a single character.
    fn escape(&mut self) -> Parsed<'a, u32> {
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

/// Returns `text` without its suffix `rest`.
fn before_end<'a>(text: &'a str, rest: &str) -> &'a str {
    &text[..text.len() - rest.len()]
}

/// Parses digits without leading zeros; -1 if there are too many.
fn number(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().ok().filter(|n| *n < 100_000_000).unwrap_or(-1), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed() {
        for pattern in [
            "",
            "a",
            "^[a-z]([-a-z0-9]*[a-z0-9])?$",
            "(?i)a|b*",
            "(?:a)+?",
            "(?P<n>a)(?<m>b)",
            "a{2}b{1,}c{0,5}",
            "a{,2}",
            "{",
            "x{2",
            r"\d\D\pL\p{Greek}\P{^Lu}\p{old italic}\p{letter}",
            r"[[:alpha:]\d\-a-]",
            r"[]a]",
            r"[^]a]",
            r"\x41\x{1F600}\012\Qa*b\E*",
            r"\Aa\b\z",
            "(|a)*",
            "(a{10}){100}",
            "^*",
            "(?i-s:a)",
            "a(?i)*",
        ] {
            assert_eq!(check(pattern), Ok(()), "{pattern}");
        }
    }

    #[test]
    fn errors() {
        for (pattern, want) in [
            ("([", "missing closing ]: `[`"),
            ("^(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
            ("(?<=a)", "invalid named capture: `(?<=a)`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a+?*", "invalid nested repetition operator: `+?*`"),
            ("a{2}{3}", "invalid nested repetition operator: `{2}{3}`"),
            ("*", "missing argument to repetition operator: `*`"),
            ("(+?)", "missing argument to repetition operator: `+?`"),
            ("a|*", "missing argument to repetition operator: `*`"),
            ("(abc", "missing closing ): `(abc`"),
            ("a)", "unexpected ): `a)`"),
            ("x[a-z", "missing closing ]: `[a-z`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            (r"\p{foo}", "invalid character class range: `\\p{foo}`"),
            (r"abc\", "trailing backslash at end of expression: ``"),
            (r"\8", "invalid escape sequence: `\\8`"),
            (r"\1", "invalid escape sequence: `\\1`"),
            (r"\C", "invalid escape sequence: `\\C`"),
            (r"\x", "invalid escape sequence: `\\x`"),
            (r"\xZZ", "invalid escape sequence: `\\xZZ`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{3,2}", "invalid repeat count: `{3,2}`"),
            ("(a{100}){100}", "invalid repeat count: `{100}`"),
            ("(?P<a b>x)", "invalid named capture: `(?P<a b>`"),
            ("(?P<a", "invalid named capture: `(?P<a`"),
            ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
        ] {
            assert_eq!(check(pattern), Err(format!("error parsing regexp: {want}")), "{pattern}");
        }
    }
}
