//! Stored values, which may be compressed.

use std::io::{Read, Write};
use std::ops::Deref;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use parking_lot::Mutex;

/// The fastest level: this is most of the cost of a new definition that nobody reads.
const LEVEL: Compression = Compression::fast();

/// The stored bytes of an object.
#[derive(Debug)]
pub(crate) enum Value {
    Plain(Bytes),
    Compressible(Box<CompressibleValue>),
}

/// A value that is compressed after a while.
#[derive(Debug)]
pub(crate) struct CompressibleValue {
    length: usize,
    representation: Mutex<Representation>,
}

#[derive(Debug)]
enum Representation {
    Plain(Bytes),
    Compressed(Box<[u8]>),
}

/// The stored bytes of an object, decompressed if necessary.
#[derive(Debug)]
pub enum ValueRef<'e> {
    Borrowed(&'e Bytes),
    Owned(Bytes),
}

impl Deref for ValueRef<'_> {
    type Target = Bytes;

    #[inline]
    fn deref(&self) -> &Bytes {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl Value {
    pub(crate) fn new(bytes: Bytes, compresses: bool) -> Self {
        match compresses {
            true => {
                let (length, representation) = (bytes.len(), Mutex::new(Representation::Plain(bytes)));
                Self::Compressible(Box::new(CompressibleValue { length, representation }))
            }
            false => Self::Plain(bytes),
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> ValueRef<'_> {
        match self {
            Self::Plain(bytes) => ValueRef::Borrowed(bytes),
            Self::Compressible(value) => ValueRef::Owned(value.get()),
        }
    }

    /// Returns the length of the uncompressed bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Compressible(value) => value.length,
        }
    }

    /// Compresses the bytes if that makes them smaller; returns true if they are compressed.
    pub(crate) fn compress(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Compressible(value) => value.compress(),
        }
    }

    #[cfg(test)]
    pub(crate) fn is_compressed(&self) -> bool {
        matches!(self, Self::Compressible(value) if matches!(*value.representation.lock(), Representation::Compressed(_)))
    }
}

impl CompressibleValue {
    fn get(&self) -> Bytes {
        let representation = self.representation.lock();
        let compressed = match &*representation {
            Representation::Plain(bytes) => return bytes.clone(),
            Representation::Compressed(compressed) => compressed,
        };
        let mut bytes = Vec::with_capacity(self.length);
        let read = DeflateDecoder::new(&**compressed).read_to_end(&mut bytes);
        assert!(read.is_ok() && bytes.len() == self.length, "memory is damaged: a compressed value cannot be read");
        bytes.into()
    }

    /// Compresses the value without blocking its readers.
    fn compress(&self) -> bool {
        let bytes = match &*self.representation.lock() {
            Representation::Plain(bytes) => bytes.clone(),
            Representation::Compressed(_) => return true,
        };
        let mut encoder = DeflateEncoder::new(Vec::with_capacity(bytes.len() / 4), LEVEL);
        // Writing to memory does not fail.
        let Ok(compressed) = encoder.write_all(&bytes).and_then(|()| encoder.finish()) else { return false };
        let is_smaller = compressed.len() < bytes.len();
        if is_smaller {
            *self.representation.lock() = Representation::Compressed(compressed.into());
        }
        is_smaller
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_preserves_values() {
        for (bytes, compresses, smaller) in [
            (vec![], true, false),
            (vec![7], true, false),
            (b"field ".repeat(1000), true, true),
            (b"field ".repeat(1000), false, false),
            ((0..=255).collect(), true, false),
        ] {
            let value = Value::new(bytes.clone().into(), compresses);
            value.compress();
            assert_eq!(value.is_compressed(), smaller, "{} bytes, {compresses}", bytes.len());
            value.compress();
            assert_eq!((&**value.get() == bytes.as_slice(), value.len()), (true, bytes.len()));
        }
    }
}
