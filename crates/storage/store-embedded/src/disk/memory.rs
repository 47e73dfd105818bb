//! The log of a store that only exists as long as its process.

use std::collections::BTreeMap;
use std::io;

use bytes::Bytes;
use parking_lot::RwLock;

use super::{Batch, Disk, RecordVisitor};

/// A log in memory. Clones of its records share their bytes with the engine's index.
#[derive(Default)]
pub struct MemoryDisk {
    contents: RwLock<Contents>,
}

#[derive(Default)]
struct Contents {
    records: BTreeMap<u64, Bytes>,
    meta: BTreeMap<Bytes, Bytes>,
}

/// The number of records that a scan copies per lock.
const CHUNK: usize = 256;

// === impl MemoryDisk ===

impl Disk for MemoryDisk {
    fn is_in_memory(&self) -> bool {
        true
    }

    fn commit(&self, batch: &Batch) -> io::Result<()> {
        let mut contents = self.contents.write();
        contents.records.extend(batch.records.iter().cloned());
        for (key, value) in &batch.meta {
            match value {
                Some(value) => contents.meta.insert(key.clone(), value.clone()),
                None => contents.meta.remove(key),
            };
        }
        Ok(())
    }

    fn erase(&self, revisions: &[u64]) -> io::Result<()> {
        let mut contents = self.contents.write();
        for revision in revisions {
            contents.records.remove(revision);
        }
        Ok(())
    }

    fn read(&self, revision: u64) -> io::Result<Option<Bytes>> {
        Ok(self.contents.read().records.get(&revision).cloned())
    }

    fn scan(&self, first: u64, last: u64, visit: &mut RecordVisitor<'_>) -> io::Result<()> {
        let mut next = first;
        while next <= last {
            let chunk: Vec<_> =
                self.contents.read().records.range(next..=last).take(CHUNK).map(|(r, b)| (*r, b.clone())).collect();
            let Some(&(end, _)) = chunk.last() else { break };
            for (revision, bytes) in chunk {
                if visit(revision, bytes).is_break() {
                    return Ok(());
                }
            }
            next = end + 1;
        }
        Ok(())
    }

    fn meta(&self) -> io::Result<Vec<(Bytes, Bytes)>> {
        Ok(self.contents.read().meta.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn acknowledged(&self) -> io::Result<u64> {
        Ok(0)
    }
}
