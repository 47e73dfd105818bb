//! Protobuf's records: numbers, lengths and keys, read with bounds checks and written in their shortest form.

use std::ops::Range;

use super::error::ProtoError;

pub(super) use crate::types::plan::{DELIMITED, FIXED64, VARINT};

/// Wire types of groups, which no Kubernetes message has.
const START_GROUP: u8 = 3;
const END_GROUP: u8 = 4;
const FIXED32: u8 = 5;

/// Reads records one after another.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    pos: usize,
}

/// The key of a record.
#[derive(Clone, Copy)]
pub(super) struct Key {
    pub(super) tag: u32,
    pub(super) wire: u8,
    /// The position of the record's first byte.
    pub(super) start: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, pos: 0 }
    }

    /// Creates a reader of a part; positions are those in the whole.
    pub(super) fn of_range(bytes: &'a [u8], range: Range<usize>) -> Self {
        Self { bytes: &bytes[..range.end], pos: range.start }
    }

    pub(super) fn position(&self) -> usize {
        self.pos
    }

    /// Reads the next record's key; `None` at the end. `message` is the name for errors.
    // Inlined, as a result of this size is otherwise returned through memory, which takes longer than the work itself.
    #[inline(always)]
    pub(super) fn key(&mut self, message: impl AsRef<str>) -> Result<Option<Key>, ProtoError> {
        let start = self.pos;
        if start >= self.bytes.len() {
            return Ok(None);
        }
        let key = self.varint()?;
        let wire = (key & 7) as u8;
        // Like Go, the number is cut to 32 bits.
        let tag = (key >> 3) as u32;
        if wire == END_GROUP || (tag as i32) <= 0 {
            return Err(refused(message.as_ref(), key));
        }
        Ok(Some(Key { tag, wire, start }))
    }

    #[inline(always)]
    pub(super) fn varint(&mut self) -> Result<u64, ProtoError> {
        match self.bytes.get(self.pos) {
            Some(&byte) if byte < 0x80 => {
                self.pos += 1;
                Ok(u64::from(byte))
            }
            _ => match self.bytes.get(self.pos..self.pos + 2) {
                Some(&[low, high]) if high < 0x80 => {
                    self.pos += 2;
                    Ok(u64::from(low & 0x7f) | u64::from(high) << 7)
                }
                _ => self.long_varint(),
            },
        }
    }

    fn long_varint(&mut self) -> Result<u64, ProtoError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.pos).ok_or(ProtoError::UnexpectedEof)?;
            self.pos += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ProtoError::IntOverflow)
    }

    /// Reads the bytes of a delimited value.
    #[inline(always)]
    pub(super) fn delimited(&mut self) -> Result<&'a [u8], ProtoError> {
        let range = self.delimited_range()?;
        Ok(&self.bytes[range])
    }

    /// Reads a delimited value and returns the position of its bytes.
    #[inline(always)]
    pub(super) fn delimited_range(&mut self) -> Result<Range<usize>, ProtoError> {
        let length = self.varint()?;
        let left = self.bytes.len() - self.pos;
        if length > left as u64 {
            return Err(beyond(length));
        }
        let start = self.pos;
        // At most the remaining length, which is a usize.
        self.pos += length as usize;
        Ok(start..self.pos)
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, ProtoError> {
        let bytes = self.bytes[self.pos..].first_chunk::<8>().ok_or(ProtoError::UnexpectedEof)?;
        self.pos += 8;
        Ok(u64::from_le_bytes(*bytes))
    }

    /// Skips the value of an unknown record; a group with its whole contents.
    pub(super) fn skip(&mut self, key: Key) -> Result<(), ProtoError> {
        let mut wire = key.wire;
        let mut depth = 0usize;
        loop {
            match wire {
                VARINT => {
                    self.varint()?;
                }
                FIXED64 => self.step(8)?,
                DELIMITED => {
                    self.delimited()?;
                }
                START_GROUP => depth += 1,
                END_GROUP => depth = depth.checked_sub(1).ok_or(ProtoError::UnexpectedEndOfGroup)?,
                FIXED32 => self.step(4)?,
                _ => return Err(ProtoError::malformed(format!("proto: illegal wireType {wire}"))),
            }
            if depth == 0 {
                return Ok(());
            }
            wire = (self.varint()? & 7) as u8;
        }
    }

    fn step(&mut self, n: usize) -> Result<(), ProtoError> {
        if self.bytes.len() - self.pos < n {
            return Err(ProtoError::UnexpectedEof);
        }
        self.pos += n;
        Ok(())
    }
}

/// Returns the error for an invalid key.
#[cold]
fn refused(message: &str, key: u64) -> ProtoError {
    match (key & 7) as u8 {
        END_GROUP => ProtoError::end_group(message),
        _ => ProtoError::illegal_tag(message, (key >> 3) as i32, key),
    }
}

#[cold]
fn beyond(length: u64) -> ProtoError {
    if length > i64::MAX as u64 { ProtoError::NegativeLength } else { ProtoError::UnexpectedEof }
}

/// Returns the number of bytes of a varint.
pub(super) fn varint_len(n: u64) -> usize {
    (64 - (n | 1).leading_zeros() as usize).div_ceil(7)
}

#[inline]
pub(super) fn put_varint(mut n: u64, out: &mut Vec<u8>) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

#[inline]
pub(super) fn put_key(tag: u32, wire: u8, out: &mut Vec<u8>) {
    put_varint(u64::from(tag) << 3 | u64::from(wire), out);
}

#[inline]
pub(super) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes a delimited value whose length is known only after it was written.
#[inline]
pub(super) fn put_delimited(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(0);
    let start = out.len();
    write(out);
    let n = out.len() - start;
    if n < 0x80 {
        out[start - 1] = n as u8;
    } else {
        widen(out, start, n);
    }
}

/// Inserts space for a length of more than one byte.
fn widen(out: &mut Vec<u8>, start: usize, n: usize) {
    let extra = varint_len(n as u64) - 1;
    out.resize(start + n + extra, 0);
    out.copy_within(start..start + n, start + extra);
    let mut rest = n;
    for byte in &mut out[start - 1..start + extra] {
        *byte = (rest & 0x7f) as u8 | 0x80;
        rest >>= 7;
    }
    out[start + extra - 1] &= 0x7f;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_and_decodes_varints() {
        for n in [0, 1, 127, 128, 300, 16383, 16384, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_varint(n, &mut out);
            assert_eq!(out.len(), varint_len(n));
            assert_eq!(Reader::new(&out).varint(), Ok(n));
            out.pop();
            assert_eq!(Reader::new(&out).varint(), Err(ProtoError::UnexpectedEof));
        }
        assert_eq!(Reader::new(&[0xff; 11]).varint(), Err(ProtoError::IntOverflow));
    }

    #[test]
    fn writes_lengths_of_delimited_fields() {
        for n in [0, 1, 127, 128, 129, 16383, 16384, 3_000_000] {
            let mut out = vec![7];
            put_delimited(&mut out, |out| out.resize(out.len() + n, 5));
            out.push(9);
            let mut reader = Reader::new(&out[1..]);
            let inner = reader.delimited().expect("was just written");
            assert_eq!(inner.len(), n);
            assert!(inner.iter().all(|b| *b == 5));
            assert_eq!(&out[1 + reader.position()..], &[9]);
        }
    }

    #[test]
    fn rejects_lengths_beyond_the_end() {
        for (length, want) in [
            (5, ProtoError::UnexpectedEof),
            (1 << 62, ProtoError::UnexpectedEof),
            (1 << 63, ProtoError::NegativeLength),
        ] {
            let mut out = Vec::new();
            put_varint(length, &mut out);
            out.extend(b"abcd");
            assert_eq!(Reader::new(&out).delimited(), Err(want));
        }
    }

    #[test]
    fn skips_unknown_fields() {
        let check = |bytes: &[u8], want: Result<usize, ProtoError>| {
            let mut reader = Reader::new(bytes);
            let got = reader.key("M").and_then(|key| reader.skip(key.expect("a case has bytes")));
            assert_eq!(got.map(|()| reader.position()), want, "{bytes:?}");
        };
        check(&[0x08, 0x96, 0x01, 0xff], Ok(3));
        check(&[0x09, 1, 2, 3, 4, 5, 6, 7, 8], Ok(9));
        check(&[0x09, 1, 2, 3], Err(ProtoError::UnexpectedEof));
        check(&[0x0d, 1, 2, 3, 4], Ok(5));
        check(&[0x0a, 2, 1, 2], Ok(4));
        check(&[0x0b, 0x08, 1, 0x13, 0x14, 0x0c, 7], Ok(6));
        check(&[0x0b, 0x08, 1], Err(ProtoError::UnexpectedEof));
        check(&[0x0e], Err(ProtoError::malformed("proto: illegal wireType 6")));
        check(&[0x0c], Err(ProtoError::malformed("proto: M: wiretype end group for non-group")));
        check(&[0x02, 0], Err(ProtoError::malformed("proto: M: illegal tag 0 (wire type 2)")));
    }
}
