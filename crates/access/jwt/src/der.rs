//! The subset of DER that keys need: values in order, each with tag and length.

use crate::KeyError;

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
pub(crate) const NULL: u8 = 0x05;
pub(crate) const OID: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
/// The context tags 0 and 1 of explicit fields.
pub(crate) const CONTEXT_0: u8 = 0xa0;
pub(crate) const CONTEXT_1: u8 = 0xa1;

/// `rsaEncryption` and `id-ecPublicKey`.
pub(crate) const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
pub(crate) const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// The values that have not been read yet.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Reads the next value, which must have this tag.
    pub(crate) fn expect(&mut self, tag: u8) -> Result<&'a [u8], KeyError> {
        match self.next()? {
            (found, value) if found == tag => Ok(value),
            (found, _) => Err(KeyError(format!("asn1: structure error: expected tag {tag}, found {found}"))),
        }
    }

    /// Reads the next value if it has this tag; otherwise reads nothing.
    pub(crate) fn optional(&mut self, tag: u8) -> Result<Option<&'a [u8]>, KeyError> {
        if self.0.first() == Some(&tag) { self.expect(tag).map(Some) } else { Ok(None) }
    }

    pub(crate) fn sequence(&mut self) -> Result<Reader<'a>, KeyError> {
        self.expect(SEQUENCE).map(Reader)
    }

    /// Reads a non-negative integer, without leading zeros.
    pub(crate) fn unsigned(&mut self) -> Result<&'a [u8], KeyError> {
        let bytes = self.expect(INTEGER)?;
        if bytes.first().is_none_or(|first| first & 0x80 != 0) {
            return Err(KeyError::new("asn1: structure error: a negative number"));
        }
        Ok(trim_zeros(bytes))
    }

    /// Reads a bit string of whole bytes.
    pub(crate) fn bits(&mut self) -> Result<&'a [u8], KeyError> {
        match self.expect(BIT_STRING)?.split_first() {
            Some((0, bytes)) => Ok(bytes),
            _ => Err(KeyError::new("asn1: structure error: a bit string of broken bytes")),
        }
    }

    fn next(&mut self) -> Result<(u8, &'a [u8]), KeyError> {
        let truncated = || KeyError::new("asn1: syntax error: data truncated");
        let [tag, first, rest @ ..] = self.0 else { return Err(truncated()) };
        let (length, rest) = match first {
            0..=0x7f => (usize::from(*first), rest),
            0x81..=0x84 => {
                let count = usize::from(first & 0x7f);
                let (bytes, rest) = rest.split_at_checked(count).ok_or_else(truncated)?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return Err(KeyError::new("asn1: structure error: a length that DER does not have")),
        };
        let (value, rest) = rest.split_at_checked(length).ok_or_else(truncated)?;
        self.0 = rest;
        Ok((*tag, value))
    }
}

/// Encodes a value of several parts, with its tag and length.
pub(crate) fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = vec![tag];
    match u8::try_from(length) {
        Ok(short @ 0..=0x7f) => out.push(short),
        _ => {
            let bytes = length.to_be_bytes();
            let bytes = trim_zeros(&bytes);
            out.push(0x80 | bytes.len() as u8);
            out.extend_from_slice(bytes);
        }
    }
    for part in parts {
        out.extend_from_slice(part);
    }
    out
}

/// Encodes a non-negative integer; a zero is prepended if the first byte would make it negative.
pub(crate) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let bytes = trim_zeros(bytes);
    let positive: &[u8] = if bytes.first().is_none_or(|first| first & 0x80 != 0) { &[0] } else { &[] };
    value(INTEGER, &[positive, bytes])
}

pub(crate) fn trim_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        for length in [0, 1, 127, 128, 255, 256, 70000] {
            let bytes = vec![7; length];
            let written = value(OCTET_STRING, &[&bytes]);
            let mut reader = Reader::new(&written);
            assert_eq!(reader.expect(OCTET_STRING).unwrap(), bytes);
            assert!(reader.expect(OCTET_STRING).is_err());
            assert!(Reader::new(&written[..written.len() - 1]).expect(OCTET_STRING).is_err());
        }
        for bad in [&[][..], &[2], &[2, 0x80], &[2, 0x85, 0, 0, 0, 0, 1, 0], &[2, 0x84, 0xff, 0xff, 0xff, 0xff, 0]] {
            assert!(Reader::new(bad).expect(INTEGER).is_err(), "{bad:?}");
        }
        assert_eq!(unsigned(&[0, 0x80]), [2, 2, 0, 0x80]);
        assert_eq!(unsigned(&[]), [2, 1, 0]);
        assert!(Reader::new(&[2, 1, 0xff]).unsigned().is_err());
    }
}
