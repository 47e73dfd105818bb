//! Compression of values that are large and rarely read, a while after their last change.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::entry::Entry;

/// The time between a change and the compression of its value. Controllers often change an object several times in a
/// row.
const COMPRESS_AFTER: Duration = Duration::from_secs(5);
/// The maximum number of values that are compressed before events are processed.
const MAX_PER_TURN: usize = 32;

/// The entries whose values are to be compressed, oldest first.
#[derive(Debug, Default)]
pub(crate) struct CompressionQueue(Mutex<VecDeque<(Instant, Weak<Entry>)>>);

impl CompressionQueue {
    pub(crate) fn extend<'e>(&self, entries: impl IntoIterator<Item = &'e Arc<Entry>>) {
        let now = Instant::now();
        self.0.lock().extend(entries.into_iter().map(|entry| (now, Arc::downgrade(entry))));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Compresses some of the values that are old enough at `now`, and calls `compressed` with their entries. Returns
    /// true if there may be more of them.
    pub(crate) fn compress(&self, now: Instant, compressed: impl Fn(&Entry)) -> bool {
        for _ in 0..MAX_PER_TURN {
            let mut compression_queue = self.0.lock();
            let entry = match compression_queue.front() {
                Some((at, entry)) if now.saturating_duration_since(*at) >= COMPRESS_AFTER => entry.upgrade(),
                _ => {
                    // Frees the memory of a burst.
                    if compression_queue.capacity() > 1024 && compression_queue.capacity() > 4 * compression_queue.len()
                    {
                        let left = compression_queue.len();
                        compression_queue.shrink_to(2 * left);
                    }
                    return false;
                }
            };
            compression_queue.pop_front();
            drop(compression_queue);
            if let Some(entry) = entry.filter(|entry| entry.compress()) {
                compressed(&entry);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use binnacle_store::{KeyValue, Revision};
    use bytes::Bytes;

    use super::*;
    use crate::attrs::Meta;

    #[test]
    fn compresses_values_after_a_while() {
        let text = b"description ".repeat(100);
        let make = |n: u64| {
            let meta = Meta::new("a", &[], &[]);
            let (key, value, revision) = (Bytes::new(), Bytes::from(text.clone()), Revision(n));
            let (create_revision, mod_revision) = (revision, revision);
            let kv = KeyValue { key, value: value.clone(), create_revision, mod_revision, lease: None };
            Arc::new(Entry::new(meta, value, true, &kv))
        };
        let compression_queue = CompressionQueue::default();
        let entries: Vec<Arc<Entry>> = (1..=50).map(make).collect();
        let size = entries[0].size();
        compression_queue.extend(&entries);
        // Dropped entries do not count.
        compression_queue.extend([&make(51)]);
        let compressed = || entries.iter().filter(|entry| entry.is_compressed()).count();
        let now = Instant::now();
        let notified = Cell::new(0);
        let compress = |now| compression_queue.compress(now, |_| notified.set(notified.get() + 1));
        assert_eq!((compress(now), compressed()), (false, 0), "all are fresh");
        assert_eq!((compress(now + COMPRESS_AFTER), compressed()), (true, MAX_PER_TURN));
        assert_eq!((compress(now + COMPRESS_AFTER), compressed()), (false, 50));
        assert!(compression_queue.is_empty());
        assert_eq!(notified.get(), 50);
        assert!(entries.iter().all(|entry| **entry.value() == text && entry.value_len() == text.len()));
        assert_eq!(entries[0].size(), size, "what is accounted does not change");
    }
}
