//! A disk in memory that survives its users, and fails or loses power at a chosen operation.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use binnacle_store_embedded::disk::{Batch, Disk, Visit};
use bytes::Bytes;
use parking_lot::Mutex;

/// What is on the platter; it outlives the stores that use it.
#[derive(Clone, Default)]
pub(crate) struct CrashDisk {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Clone, Default)]
struct Inner {
    records: BTreeMap<u64, Bytes>,
    meta: BTreeMap<Bytes, Bytes>,
    /// Erased as far as the running store can see, not yet durable.
    erasing: Vec<u64>,
    acknowledged: u64,
    /// Operations that write, so far.
    writes: u64,
    plan: Option<(u64, Fault)>,
    dead: bool,
}

/// What happens at the chosen write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing of it is written: a full disk.
    Refused,
    /// It is written, but the disk says otherwise: a failed sync.
    WrittenButFailed,
    /// Power goes before it; nothing answers any more.
    CutBefore,
    /// Power goes after it, before anybody is told.
    CutAfter,
}

pub(crate) const FAULTS: [Fault; 4] = [Fault::Refused, Fault::WrittenButFailed, Fault::CutBefore, Fault::CutAfter];

impl CrashDisk {
    /// Lets write number `at` (from 0) go wrong.
    pub(crate) fn plan(&self, at: u64, fault: Fault) {
        self.inner.lock().plan = Some((at, fault));
    }

    pub(crate) fn writes(&self) -> u64 {
        self.inner.lock().writes
    }

    /// What a machine finds that starts after the failure: of what was not durable, the first `survived`.
    pub(crate) fn restarted(&self, survived: usize) -> Self {
        let mut inner = self.inner.lock().clone();
        let erasing = std::mem::take(&mut inner.erasing);
        for revision in erasing.into_iter().take(survived) {
            inner.records.remove(&revision);
        }
        inner.writes = 0;
        inner.plan = None;
        inner.dead = false;
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    pub(crate) fn erasing(&self) -> usize {
        self.inner.lock().erasing.len()
    }

    /// Loses or changes a record behind the store's back.
    pub(crate) fn tamper(&self, change: impl FnOnce(&mut BTreeMap<u64, Bytes>)) {
        change(&mut self.inner.lock().records);
    }
}

impl Inner {
    /// Whether this write takes place, and what is said of it.
    fn begin(&mut self) -> Result<Option<Fault>, io::Error> {
        self.alive()?;
        let number = self.writes;
        self.writes += 1;
        match self.plan {
            Some((at, Fault::Refused)) if at == number => Err(io::Error::from(io::ErrorKind::StorageFull)),
            Some((at, Fault::CutBefore)) if at == number => {
                self.dead = true;
                Err(io::Error::other("the power is off"))
            }
            Some((at, fault)) if at == number => Ok(Some(fault)),
            _ => Ok(None),
        }
    }

    fn end(&mut self, fault: Option<Fault>) -> io::Result<()> {
        match fault {
            Some(Fault::CutAfter) => {
                self.dead = true;
                Err(io::Error::other("the power is off"))
            }
            Some(_) => Err(io::Error::other("the sync failed")),
            None => Ok(()),
        }
    }

    fn alive(&self) -> io::Result<()> {
        if self.dead { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    fn visible(&self, revision: u64) -> bool {
        !self.erasing.contains(&revision)
    }
}

impl Disk for CrashDisk {
    fn commit(&self, batch: &Batch) -> io::Result<()> {
        let mut inner = self.inner.lock();
        let fault = inner.begin()?;
        // A durable write makes durable what was written before it.
        for revision in std::mem::take(&mut inner.erasing) {
            inner.records.remove(&revision);
        }
        inner.records.extend(batch.records.iter().cloned());
        for (key, value) in &batch.meta {
            match value {
                Some(value) => inner.meta.insert(key.clone(), value.clone()),
                None => inner.meta.remove(key),
            };
        }
        inner.end(fault)?;
        if let Some((revision, _)) = batch.records.last() {
            inner.acknowledged = *revision;
        }
        Ok(())
    }

    fn erase(&self, revisions: &[u64]) -> io::Result<()> {
        let mut inner = self.inner.lock();
        let fault = inner.begin()?;
        inner.erasing.extend_from_slice(revisions);
        inner.end(fault)
    }

    fn read(&self, revision: u64) -> io::Result<Option<Bytes>> {
        let inner = self.inner.lock();
        inner.alive()?;
        Ok(inner.records.get(&revision).filter(|_| inner.visible(revision)).cloned())
    }

    fn scan(&self, first: u64, last: u64, visit: &mut Visit<'_>) -> io::Result<()> {
        let found: Vec<_> = {
            let inner = self.inner.lock();
            inner.alive()?;
            let visible = inner.records.range(first..=last).filter(|(revision, _)| inner.visible(**revision));
            visible.map(|(revision, bytes)| (*revision, bytes.clone())).collect()
        };
        for (revision, bytes) in found {
            if visit(revision, bytes).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn meta(&self) -> io::Result<Vec<(Bytes, Bytes)>> {
        let inner = self.inner.lock();
        inner.alive()?;
        Ok(inner.meta.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn acknowledged(&self) -> io::Result<u64> {
        Ok(self.inner.lock().acknowledged)
    }
}
