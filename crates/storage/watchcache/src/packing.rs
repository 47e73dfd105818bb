//! Values of objects that are large and rarely read: a while after its change, a value is kept compressed.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::entry::Entry;

/// The time between a change and the compression of its value: what a controller changes, it often changes again.
const FRESH: Duration = Duration::from_secs(5);
/// The number of values that are compressed before events are processed.
const TURN: usize = 32;
/// The fastest level: most of the time for a new definition that is not read goes here.
const LEVEL: Compression = Compression::fast();

/// The stored bytes of an object.
#[derive(Debug)]
pub(crate) enum Value {
    Plain(Bytes),
    Packing(Box<Packing>),
}

/// A value that is compressed after a while.
#[derive(Debug)]
pub(crate) struct Packing {
    length: usize,
    form: Mutex<Form>,
}

#[derive(Debug)]
enum Form {
    Plain(Bytes),
    Packed(Box<[u8]>),
}

/// The stored bytes of an object, decompressed if they were kept compressed.
#[derive(Debug)]
pub enum ValueRef<'e> {
    Kept(&'e Bytes),
    Unpacked(Bytes),
}

impl Deref for ValueRef<'_> {
    type Target = Bytes;

    #[inline]
    fn deref(&self) -> &Bytes {
        match self {
            Self::Kept(bytes) => bytes,
            Self::Unpacked(bytes) => bytes,
        }
    }
}

impl Value {
    pub(crate) fn new(bytes: Bytes, packs: bool) -> Self {
        match packs {
            true => {
                let (length, form) = (bytes.len(), Mutex::new(Form::Plain(bytes)));
                Self::Packing(Box::new(Packing { length, form }))
            }
            false => Self::Plain(bytes),
        }
    }

    #[inline]
    pub(crate) fn get(&self) -> ValueRef<'_> {
        match self {
            Self::Plain(bytes) => ValueRef::Kept(bytes),
            Self::Packing(packing) => ValueRef::Unpacked(packing.get()),
        }
    }

    /// Returns the length of the bytes as they are stored.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::Packing(packing) => packing.length,
        }
    }

    /// Compresses the bytes if that makes them smaller; returns true if they are compressed.
    pub(crate) fn pack(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Packing(packing) => packing.pack(),
        }
    }

    #[cfg(test)]
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self, Self::Packing(packing) if matches!(*packing.form.lock(), Form::Packed(_)))
    }
}

impl Packing {
    fn get(&self) -> Bytes {
        let form = self.form.lock();
        let packed = match &*form {
            Form::Plain(bytes) => return bytes.clone(),
            Form::Packed(packed) => packed,
        };
        let mut bytes = Vec::with_capacity(self.length);
        let read = DeflateDecoder::new(&**packed).read_to_end(&mut bytes);
        assert!(read.is_ok() && bytes.len() == self.length, "memory is damaged: a compressed value cannot be read");
        bytes.into()
    }

    /// Readers do not wait for it.
    fn pack(&self) -> bool {
        let bytes = match &*self.form.lock() {
            Form::Plain(bytes) => bytes.clone(),
            Form::Packed(_) => return true,
        };
        let mut encoder = DeflateEncoder::new(Vec::with_capacity(bytes.len() / 4), LEVEL);
        // Writing to memory does not fail.
        let Ok(packed) = encoder.write_all(&bytes).and_then(|()| encoder.finish()) else { return false };
        let is_smaller = packed.len() < bytes.len();
        if is_smaller {
            *self.form.lock() = Form::Packed(packed.into());
        }
        is_smaller
    }
}

/// The entries whose values are to be compressed, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Unpacked(Mutex<VecDeque<(Instant, Weak<Entry>)>>);

impl Unpacked {
    pub(crate) fn extend<'e>(&self, entries: impl IntoIterator<Item = &'e Arc<Entry>>) {
        let now = Instant::now();
        self.0.lock().extend(entries.into_iter().map(|entry| (now, Arc::downgrade(entry))));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Compresses some of the values that are old enough at `now`, and calls `packed` with their entries. Returns true
    /// if there may be more of them.
    pub(crate) fn pack(&self, now: Instant, packed: impl Fn(&Entry)) -> bool {
        for _ in 0..TURN {
            let mut unpacked = self.0.lock();
            let entry = match unpacked.front() {
                Some((at, entry)) if now.saturating_duration_since(*at) >= FRESH => entry.upgrade(),
                _ => {
                    // Frees the memory of a burst.
                    if unpacked.capacity() > 1024 && unpacked.capacity() > 4 * unpacked.len() {
                        let left = unpacked.len();
                        unpacked.shrink_to(2 * left);
                    }
                    return false;
                }
            };
            unpacked.pop_front();
            drop(unpacked);
            if let Some(entry) = entry.filter(|entry| entry.pack()) {
                packed(&entry);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use binnacle_store::{KeyValue, Revision};

    use super::*;
    use crate::attrs::Meta;

    #[test]
    fn bytes_are_the_same_packed_and_unpacked() {
        for (bytes, packs, smaller) in [
            (vec![], true, false),
            (vec![7], true, false),
            (b"field ".repeat(1000), true, true),
            (b"field ".repeat(1000), false, false),
            ((0..=255).collect(), true, false),
        ] {
            let value = Value::new(bytes.clone().into(), packs);
            value.pack();
            assert_eq!(value.is_packed(), smaller, "{} bytes, {packs}", bytes.len());
            value.pack();
            assert_eq!((&**value.get() == bytes.as_slice(), value.len()), (true, bytes.len()));
        }
    }

    #[test]
    fn what_changed_a_while_ago_is_packed() {
        let text = b"description ".repeat(100);
        let make = |n: u64| {
            let meta = Meta::new("a", &[], &[]);
            let (key, value, revision) = (Bytes::new(), Bytes::from(text.clone()), Revision(n));
            let (create_revision, mod_revision) = (revision, revision);
            let kv = KeyValue { key, value: value.clone(), create_revision, mod_revision, lease: None };
            Arc::new(Entry::new(meta, value, true, &kv))
        };
        let unpacked = Unpacked::default();
        let entries: Vec<Arc<Entry>> = (1..=50).map(make).collect();
        let size = entries[0].size();
        unpacked.extend(&entries);
        // Those that are gone do not count.
        unpacked.extend([&make(51)]);
        let packed = || entries.iter().filter(|entry| entry.is_packed()).count();
        let now = Instant::now();
        let told = Cell::new(0);
        let pack = |now| unpacked.pack(now, |_| told.set(told.get() + 1));
        assert_eq!((pack(now), packed()), (false, 0), "all are fresh");
        assert_eq!((pack(now + FRESH), packed()), (true, TURN));
        assert_eq!((pack(now + FRESH), packed()), (false, 50));
        assert!(unpacked.is_empty());
        assert_eq!(told.get(), 50);
        assert!(entries.iter().all(|entry| **entry.value() == text && entry.value_len() == text.len()));
        assert_eq!(entries[0].size(), size, "what is accounted does not change");
    }
}
