//! Items of CBOR, one head after the other, and the check of a whole document before it is decoded.

use super::{CborError, SELF_DESCRIBED};
use crate::Limits;

/// The major types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Major {
    Unsigned,
    Negative,
    Bytes,
    Text,
    Array,
    Map,
    Tag,
    Simple,
}

/// The head of an item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) major: Major,
    /// The lower five bits of the initial byte, below the type.
    pub(crate) info: u8,
    pub(crate) argument: u64,
}

/// The byte that ends an item of indefinite length.
const BREAK: u8 = 0xff;
const INDEFINITE: u8 = 31;

impl Major {
    fn of(initial: u8) -> Self {
        match initial >> 5 {
            0 => Self::Unsigned,
            1 => Self::Negative,
            2 => Self::Bytes,
            3 => Self::Text,
            4 => Self::Array,
            5 => Self::Map,
            6 => Self::Tag,
            _ => Self::Simple,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unsigned => "positive integer",
            Self::Negative => "negative integer",
            Self::Bytes => "byte string",
            Self::Text => "UTF-8 text string",
            Self::Array => "array",
            Self::Map => "map",
            Self::Tag => "tag",
            Self::Simple => "primitives",
        }
    }
}

impl Head {
    /// Returns the error for an item whose type the destination does not accept; `target` is the destination's Go type.
    pub(crate) fn mismatch(&self, target: impl FnOnce() -> String) -> CborError {
        // Go reads the number first.
        let overflow = self.integer().filter(|integer| *integer < i64::MIN.into());
        let why = overflow.map(|integer| format!("{integer} overflows Go's int64")).unwrap_or_default();
        CborError::mismatch(self.major, target(), why)
    }

    pub(crate) fn is_indefinite(&self) -> bool {
        self.info == INDEFINITE
    }

    /// Returns the number if the item is a floating point number.
    pub(crate) fn float(&self) -> Option<f64> {
        match (self.major, self.info) {
            (Major::Simple, 25) => Some(from_half(self.argument as u16)),
            (Major::Simple, 26) => Some(f32::from_bits(self.argument as u32).into()),
            (Major::Simple, 27) => Some(f64::from_bits(self.argument)),
            _ => None,
        }
    }

    /// Returns the number if the item is an integer: 64 bits and a sign.
    pub(crate) fn integer(&self) -> Option<i128> {
        match self.major {
            Major::Unsigned => Some(self.argument.into()),
            Major::Negative => Some(-1 - i128::from(self.argument)),
            _ => None,
        }
    }
}

fn from_half(bits: u16) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => fraction * 2f64.powi(-24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
    }
}

pub(super) fn invalid_text() -> CborError {
    CborError::document("cbor: invalid UTF-8 string")
}

fn unexpected_end() -> CborError {
    CborError::document("unexpected EOF")
}

fn not_accepted(major: Major, detail: &str) -> CborError {
    let name = major.name();
    CborError::document(format!("cbor: data item of cbor type {name} is not accepted by protocol: {detail}"))
}

/// Returns the error for a simple value other than false, true and null.
pub(crate) fn unknown_simple(value: u64) -> CborError {
    not_accepted(Major::Simple, &format!("simple value {value} is not recognized"))
}

/// A position in a document.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// The number of remaining entries of an array or map; `None` for indefinite length.
pub(crate) struct Entries(Option<u64>);

impl<'a> Reader<'a> {
    /// Returns a reader at the start of a document, which must be one well-formed item.
    pub(crate) fn new(bytes: &'a [u8], limits: &Limits) -> Result<Self, CborError> {
        if bytes.len() > limits.max_bytes {
            return Err(CborError::TooLarge { limit: limits.max_bytes });
        }
        if bytes.is_empty() {
            return Err(CborError::document("EOF"));
        }
        let mut reader = Self { bytes, at: 0 };
        reader.check(0, limits.max_depth)?;
        let (left, at) = (bytes.len() - reader.at, reader.at);
        if left > 0 {
            return Err(CborError::document(format!("cbor: {left} bytes of extraneous data starting at index {at}")));
        }
        Ok(Self { bytes, at: 0 })
    }

    /// Checks the next item, and advances past it.
    fn check(&mut self, depth: usize, max_depth: usize) -> Result<(), CborError> {
        let deeper = |depth: usize| match depth {
            depth if depth >= max_depth => {
                Err(CborError::document(format!("cbor: exceeded max nested level {max_depth}")))
            }
            depth => Ok(depth + 1),
        };
        let head = self.head()?;
        let name = head.major.name();
        match head.major {
            Major::Bytes | Major::Text if head.is_indefinite() => {
                while !self.at_break()? {
                    let initial = self.initial()?;
                    if Major::of(initial) != head.major {
                        let found = Major::of(initial).name();
                        let why = format!("cbor: wrong element type {found} for indefinite-length {name}");
                        return Err(CborError::document(why));
                    }
                    if initial & 0x1f == INDEFINITE {
                        let why = format!("cbor: indefinite-length {name} chunk is not definite-length");
                        return Err(CborError::document(why));
                    }
                    self.check(depth, max_depth)?;
                }
            }
            Major::Bytes | Major::Text => {
                check_length(head, "causing integer overflow")?;
                self.take(head.argument)?;
            }
            Major::Array | Major::Map => {
                let depth = deeper(depth)?;
                if !head.is_indefinite() {
                    check_length(head, "it would cause integer overflow")?;
                }
                let mut entries = self.entries(head);
                while entries.next(self)? {
                    self.check(depth, max_depth)?;
                    if head.major == Major::Map {
                        if head.is_indefinite() && self.initial()? == BREAK {
                            return Err(CborError::document("cbor: unexpected \"break\" code"));
                        }
                        self.check(depth, max_depth)?;
                    }
                }
            }
            Major::Tag => {
                let (mut tag, mut depth) = (head.argument, depth);
                loop {
                    let next = Major::of(self.initial()?);
                    if matches!(tag, 2 | 3) {
                        return Err(not_accepted(Major::Tag, "bignum"));
                    }
                    if next != Major::Tag {
                        break;
                    }
                    tag = self.head()?.argument;
                    depth = deeper(depth)?;
                }
                self.check(depth, max_depth)?;
            }
            Major::Unsigned | Major::Negative | Major::Simple => {}
        }
        Ok(())
    }

    fn initial(&self) -> Result<u8, CborError> {
        self.bytes.get(self.at).copied().ok_or_else(unexpected_end)
    }

    pub(crate) fn next_major(&self) -> Result<Major, CborError> {
        self.initial().map(Major::of)
    }

    /// Reads the head of the next item, and advances past it.
    pub(crate) fn head(&mut self) -> Result<Head, CborError> {
        let initial = self.initial()?;
        self.at += 1;
        let (major, info) = (Major::of(initial), initial & 0x1f);
        let argument = match info {
            0..=23 => info.into(),
            24..=27 => self.take(1 << (info - 24))?.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)),
            INDEFINITE => match major {
                Major::Bytes | Major::Text | Major::Array | Major::Map => 0,
                Major::Simple => return Err(CborError::document("cbor: unexpected \"break\" code")),
                _ => return Err(invalid_information(info, major)),
            },
            _ => return Err(invalid_information(info, major)),
        };
        let head = Head { major, info, argument };
        if major == Major::Simple {
            if info == 24 && argument < 32 {
                let why = format!("cbor: invalid simple value {argument} for type {}", major.name());
                return Err(CborError::document(why));
            }
            match head.float() {
                Some(n) if n.is_nan() => return Err(not_accepted(major, "floating-point NaN")),
                Some(n) if n.is_infinite() => return Err(not_accepted(major, "floating-point infinity")),
                _ => {}
            }
        }
        Ok(head)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], CborError> {
        let end = usize::try_from(length).ok().and_then(|length| self.at.checked_add(length));
        let slice = end.and_then(|end| self.bytes.get(self.at..end)).ok_or_else(unexpected_end)?;
        self.at += slice.len();
        Ok(slice)
    }

    /// Returns true at the end of an item of indefinite length, and advances past it.
    fn at_break(&mut self) -> Result<bool, CborError> {
        let ends = self.initial()? == BREAK;
        self.at += usize::from(ends);
        Ok(ends)
    }

    /// Returns the chunks of a string: one if its length is definite.
    pub(crate) fn chunks(&mut self, head: Head) -> Result<Vec<&'a [u8]>, CborError> {
        if !head.is_indefinite() {
            return Ok(vec![self.take(head.argument)?]);
        }
        let mut chunks = Vec::new();
        while !self.at_break()? {
            let length = self.head()?.argument;
            chunks.push(self.take(length)?);
        }
        Ok(chunks)
    }

    pub(crate) fn entries(&self, head: Head) -> Entries {
        Entries((!head.is_indefinite()).then_some(head.argument))
    }

    /// Checks that the item with this head is null, the only one that fits everywhere; `target` names Go's type of the
    /// destination.
    pub(crate) fn expect_null(&mut self, head: Head, target: impl FnOnce() -> String) -> Result<(), CborError> {
        match (head.major, head.info) {
            (Major::Simple, 22) => Ok(()),
            (Major::Simple, info) if info <= 24 && !matches!(info, 20 | 21) => Err(unknown_simple(head.argument)),
            (Major::Text, _) => {
                // Go reads the text first.
                let is_text = self.chunks(head)?.iter().all(|chunk| std::str::from_utf8(chunk).is_ok());
                Err(if is_text { head.mismatch(target) } else { invalid_text() })
            }
            _ => Err(head.mismatch(target)),
        }
    }

    /// Skips an item that Go decodes to a nil pointer (null or `undefined`), and returns true if there is one.
    pub(crate) fn skip_nil(&mut self) -> bool {
        let is_nil = matches!(self.bytes.get(self.at), Some(0xf6 | 0xf7));
        self.at += usize::from(is_nil);
        is_nil
    }

    /// Skips self-description tags.
    pub(crate) fn skip_self_described(&mut self) {
        while self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(&SELF_DESCRIBED)) {
            self.at += SELF_DESCRIBED.len();
        }
    }

    /// Reads the head of the next item that is not a tag. Calls `tag` for each tag before it, outermost first, with the
    /// reader after the tag.
    pub(crate) fn untagged<E: From<CborError>>(
        &mut self,
        mut tag: impl FnMut(&mut Self, u64) -> Result<(), E>,
    ) -> Result<Head, E> {
        self.skip_self_described();
        loop {
            let head = self.head()?;
            if head.major != Major::Tag {
                return Ok(head);
            }
            self.check_tag(head.argument)?;
            tag(self, head.argument)?;
        }
    }

    /// Checks the item after a tag that Go's library validates.
    fn check_tag(&self, tag: u64) -> Result<(), CborError> {
        let initial = self.initial()?;
        let (found, fits, expected) = match (tag, Major::of(initial)) {
            (0, found) => (found, found == Major::Text, "text string"),
            (1, found) => {
                let fits = matches!(found, Major::Unsigned | Major::Negative) || (0xf9..=0xfb).contains(&initial);
                (found, fits, "integer or floating-point number")
            }
            _ => return Ok(()),
        };
        if fits {
            return Ok(());
        }
        let found = found.name();
        Err(CborError::document(format!("cbor: tag number {tag} must be followed by {expected}, got {found}")))
    }

    /// Skips the next item.
    pub(crate) fn skip(&mut self) -> Result<(), CborError> {
        self.check(0, usize::MAX)
    }
}

impl Entries {
    /// Returns true if there is another entry.
    pub(crate) fn next(&mut self, reader: &mut Reader<'_>) -> Result<bool, CborError> {
        match &mut self.0 {
            Some(left) => match left.checked_sub(1) {
                Some(less) => {
                    *left = less;
                    Ok(true)
                }
                None => Ok(false),
            },
            None => reader.at_break().map(|ends| !ends),
        }
    }
}

fn check_length(head: Head, why: &str) -> Result<(), CborError> {
    if i64::try_from(head.argument).is_ok() {
        return Ok(());
    }
    let (name, length) = (head.major.name(), head.argument);
    Err(CborError::document(format!("cbor: {name} length {length} is too large, {why}")))
}

fn invalid_information(info: u8, major: Major) -> CborError {
    CborError::document(format!("cbor: invalid additional information {info} for type {}", major.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_half_precision_floats() {
        for (bits, want) in [
            (0x0000, 0.0),
            (0x0001, 5.960_464_477_539_063e-8),
            (0x03ff, 0.000_060_975_551_605_224_61),
            (0x0400, 0.000_061_035_156_25),
            (0x3c00, 1.0),
            (0x3e00, 1.5),
            (0x7bff, 65504.0),
            (0xc400, -4.0),
        ] {
            assert_eq!(from_half(bits), want, "{bits:04x}");
        }
        assert!(from_half(0x7c00).is_infinite() && from_half(0x7e00).is_nan());
    }

    #[test]
    fn rejects_malformed_documents() {
        let nested = |levels: usize| [vec![0x81; levels], vec![0x00]].concat();
        for (bytes, want) in [
            (&b""[..], "EOF"),
            (b"\x18", "unexpected EOF"),
            (b"\x62a", "unexpected EOF"),
            (b"\xa1\x61a", "unexpected EOF"),
            (b"\xd9\xd9\xf7", "unexpected EOF"),
            (b"\x00\x01\x02", "cbor: 2 bytes of extraneous data starting at index 1"),
            (b"\x1c", "cbor: invalid additional information 28 for type positive integer"),
            (b"\x3f", "cbor: invalid additional information 31 for type negative integer"),
            (b"\xff", "cbor: unexpected \"break\" code"),
            (b"\xbf\x61a\xff", "cbor: unexpected \"break\" code"),
            (b"\xf8\x10", "cbor: invalid simple value 16 for type primitives"),
            (b"\x7f\x41a\xff", "cbor: wrong element type byte string for indefinite-length UTF-8 text string"),
            (b"\x5f\x5f\xff\xff", "cbor: indefinite-length byte string chunk is not definite-length"),
            (
                b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff",
                "cbor: byte string length 18446744073709551615 is too large, causing integer overflow",
            ),
            (
                b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
                "cbor: array length 18446744073709551615 is too large, it would cause integer overflow",
            ),
            (b"\x9b\x00\xff\xff\xff\xff\xff\xff\xff", "unexpected EOF"),
            (
                b"\xf9\x7e\x00",
                "cbor: data item of cbor type primitives is not accepted by protocol: floating-point NaN",
            ),
            (
                b"\xfa\xff\x80\x00\x00",
                "cbor: data item of cbor type primitives is not accepted by protocol: floating-point infinity",
            ),
            (b"\xc2\x41\x01", "cbor: data item of cbor type tag is not accepted by protocol: bignum"),
            (&nested(257), "cbor: exceeded max nested level 256"),
            (&[vec![0xc6; 258], vec![0]].concat(), "cbor: exceeded max nested level 256"),
        ] {
            let error = Reader::new(bytes, &Limits::default()).map(|_| ()).expect_err("no document");
            assert_eq!(error.to_string(), want, "{bytes:02x?}");
        }
        assert!(Reader::new(&nested(256), &Limits::default()).is_ok());
    }
}
