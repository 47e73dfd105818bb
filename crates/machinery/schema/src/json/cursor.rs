//! A position in a JSON text, with the tokens that all JSON readers use.

use std::borrow::Cow;

use crate::limits::{Budget, TooManyElements};

/// The error of a text that is not JSON, nests too deep or has too many elements; [`super::read_error`] returns the
/// details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidJson;

impl From<TooManyElements> for InvalidJson {
    fn from(_: TooManyElements) -> Self {
        Self
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    pos: usize,
    /// The remaining memory of readers that build a tree.
    pub(crate) budget: Budget,
}

/// Converts bytes to text. As in Go, each byte that is not valid UTF-8 becomes a replacement character.
pub(crate) fn go_utf8(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Cow::Owned(out)
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self::within(text, Budget::unlimited())
    }

    pub(crate) fn within(text: &'a str, budget: Budget) -> Self {
        Self { text, pos: 0, budget }
    }

    pub(crate) fn position(&self) -> usize {
        self.pos
    }

    /// Returns the text that was read since that position.
    pub(crate) fn since(&self, position: usize) -> &'a str {
        &self.text[position..self.pos]
    }

    /// Returns the next byte that is not space, without consuming it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<u8, InvalidJson> {
        let bytes = self.text.as_bytes();
        while let Some(b) = bytes.get(self.pos) {
            if !matches!(b, b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(*b);
            }
            self.pos += 1;
        }
        Err(InvalidJson)
    }

    /// Consumes the expected byte and the space before it.
    #[inline]
    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), InvalidJson> {
        if self.peek()? != byte {
            return Err(InvalidJson);
        }
        self.pos += 1;
        Ok(())
    }

    /// Succeeds if only space is left.
    pub(crate) fn end(&mut self) -> Result<(), InvalidJson> {
        match self.peek() {
            Err(InvalidJson) => Ok(()),
            Ok(_) => Err(InvalidJson),
        }
    }

    /// Enters an object or a list at its opening bracket; returns true if it has members.
    #[inline]
    pub(crate) fn open(&mut self, close: u8) -> Result<bool, InvalidJson> {
        self.pos += 1;
        if self.peek()? == close {
            self.pos += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Consumes the comma or closing bracket after a member; returns true if another member follows.
    #[inline]
    pub(crate) fn more(&mut self, close: u8) -> Result<bool, InvalidJson> {
        let byte = self.peek()?;
        self.pos += 1;
        if byte == b',' {
            return Ok(true);
        }
        if byte == close { Ok(false) } else { Err(InvalidJson) }
    }

    /// Reads the name of a member and its colon.
    #[inline]
    pub(crate) fn name(&mut self) -> Result<Cow<'a, str>, InvalidJson> {
        if self.peek()? != b'"' {
            return Err(InvalidJson);
        }
        let name = self.string()?;
        self.expect(b':')?;
        Ok(name)
    }

    /// Reads a string at its opening quote.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, InvalidJson> {
        let start = self.pos + 1;
        let bytes = self.text.as_bytes();
        let end = plain(bytes, start);
        match bytes.get(end) {
            Some(b'"') => {
                self.pos = end + 1;
                Ok(Cow::Borrowed(&self.text[start..end]))
            }
            Some(b'\\') => self.escaped(start, end).map(Cow::Owned),
            _ => Err(InvalidJson),
        }
    }

    /// Reads a number at its first byte.
    pub(crate) fn number(&mut self) -> Result<&'a str, InvalidJson> {
        let bytes = self.text.as_bytes();
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let start = self.pos;
        let whole = if bytes.get(start) == Some(&b'-') { start + 1 } else { start };
        let mut end = digits(whole);
        if end == whole || (bytes[whole] == b'0' && end > whole + 1) {
            return Err(InvalidJson);
        }
        if bytes.get(end) == Some(&b'.') {
            let from = end + 1;
            end = digits(from);
            if end == from {
                return Err(InvalidJson);
            }
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let from = if matches!(bytes.get(end + 1), Some(b'+' | b'-')) { end + 2 } else { end + 1 };
            end = digits(from);
            if end == from {
                return Err(InvalidJson);
            }
        }
        self.pos = end;
        Ok(&self.text[start..end])
    }

    /// Reads one of the words `null`, `true` and `false`.
    #[inline]
    pub(crate) fn word(&mut self, word: &str) -> Result<(), InvalidJson> {
        if !self.text.as_bytes()[self.pos..].starts_with(word.as_bytes()) {
            return Err(InvalidJson);
        }
        self.pos += word.len();
        Ok(())
    }

    /// Skips any value after checking its syntax, and returns its text.
    pub(crate) fn skip(&mut self, depth: usize) -> Result<&'a str, InvalidJson> {
        let first = self.peek()?;
        let start = self.pos;
        match first {
            b'{' => {
                let depth = depth.checked_sub(1).ok_or(InvalidJson)?;
                let mut more = self.open(b'}')?;
                while more {
                    self.name()?;
                    self.skip(depth)?;
                    more = self.more(b'}')?;
                }
            }
            b'[' => {
                let depth = depth.checked_sub(1).ok_or(InvalidJson)?;
                let mut more = self.open(b']')?;
                while more {
                    self.skip(depth)?;
                    more = self.more(b']')?;
                }
            }
            b'"' => {
                self.string()?;
            }
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'n' => self.word("null")?,
            _ => {
                self.number()?;
            }
        }
        Ok(&self.text[start..self.pos])
    }

    /// Reads the rest of a string that has an escape at `at`.
    #[cold]
    fn escaped(&mut self, start: usize, at: usize) -> Result<String, InvalidJson> {
        let bytes = self.text.as_bytes();
        let mut out = String::with_capacity(at - start + 32);
        out.push_str(&self.text[start..at]);
        let mut at = at;
        loop {
            match bytes.get(at) {
                Some(b'"') => {
                    self.pos = at + 1;
                    return Ok(out);
                }
                Some(b'\\') => at = escape(bytes, at + 1, &mut out)?,
                _ => return Err(InvalidJson),
            }
            let end = plain(bytes, at);
            out.push_str(&self.text[at..end]);
            at = end;
        }
    }
}

/// Reads one escape after its backslash; returns its end.
fn escape(bytes: &[u8], at: usize, out: &mut String) -> Result<usize, InvalidJson> {
    out.push(match bytes.get(at).ok_or(InvalidJson)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let unit = hex4(bytes, at + 1).ok_or(InvalidJson)?;
            let after = at + 5;
            // An unpaired surrogate becomes the replacement character.
            if (0xd800..0xdc00).contains(&unit)
                && bytes.get(after..after + 2) == Some(b"\\u")
                && let Some(low @ 0xdc00..0xe000) = hex4(bytes, after + 2)
            {
                let code = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                return Ok(after + 6);
            }
            out.push(char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER));
            return Ok(after);
        }
        _ => return Err(InvalidJson),
    });
    Ok(at + 1)
}

fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.iter().try_fold(0, |value, b| Some(value << 4 | char::from(*b).to_digit(16)?))
}

/// Returns the end of the plain bytes of a string: a quote, a backslash, a control character or the end of the text.
#[inline]
fn plain(bytes: &[u8], from: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let mut at = from;
    // Eight bytes at a time: a borrow out of a byte means that it was zero, or below a bound.
    while let Some(chunk) = bytes.get(at..at + 8).and_then(|chunk| <[u8; 8]>::try_from(chunk).ok()) {
        let word = u64::from_le_bytes(chunk);
        let quotes = word ^ (ONES * u64::from(b'"'));
        let slashes = word ^ (ONES * u64::from(b'\\'));
        let special = (quotes.wrapping_sub(ONES) & !quotes)
            | (slashes.wrapping_sub(ONES) & !slashes)
            | (word.wrapping_sub(ONES * 0x20) & !word);
        let special = special & HIGHS;
        if special != 0 {
            // Borrows only affect higher bytes, so the lowest mark is correct.
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while bytes.get(at).is_some_and(|b| !matches!(b, b'"' | b'\\' | 0..0x20)) {
        at += 1;
    }
    at
}
