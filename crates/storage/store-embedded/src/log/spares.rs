//! Spare files that are created in advance: space for the next segment and for one that is rewritten, reserved in the
//! file system before it is needed. Without both, the store only accepts writes that free space.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::Inner;
use super::background_failure::BackgroundFailure;
use crate::files::{Files, LogFile, is_out_of_space};

pub(crate) struct Spares {
    ready: Mutex<Vec<Spare>>,
    created: AtomicU64,
    /// Failures of creating spare files, other than a full disk.
    failure: BackgroundFailure,
}

/// An empty file with reserved space.
pub(crate) struct Spare {
    pub(crate) name: String,
    pub(crate) file: Arc<dyn LogFile>,
    pub(crate) len: u64,
}

pub(crate) const PREFIX: &str = "spare-";
const SPARE_COUNT: usize = 2;

// === impl Spares ===

impl Default for Spares {
    fn default() -> Self {
        let failure = BackgroundFailure::new("make the next segment ahead");
        Self { ready: Mutex::default(), created: AtomicU64::new(0), failure }
    }
}

impl Spares {
    /// Takes a spare file, or creates a small one now because the caller needs it. On a full disk that file has no
    /// reserved space, and grows as far as it can.
    pub(crate) fn take(&self, inner: &Inner) -> io::Result<Spare> {
        if let Some(spare) = self.ready.lock().pop() {
            return Ok(spare);
        }
        match self.create(&*inner.files, inner.options.min_segment) {
            Err(error) if is_out_of_space(&error) => self.create(&*inner.files, 0),
            created => created,
        }
    }

    /// Creates the missing spare files, and records whether the disk is full.
    pub(crate) fn fill(&self, inner: &Inner) {
        let full = &inner.counters.full;
        while self.ready.lock().len() < SPARE_COUNT {
            let capacity = inner.table.read().capacity(&inner.options);
            match self.create(&*inner.files, capacity) {
                Ok(spare) => self.ready.lock().push(spare),
                Err(error) => {
                    if is_out_of_space(&error) && !full.swap(true, Ordering::Relaxed) {
                        let free = inner.files.free_bytes().unwrap_or_default() >> 10;
                        tracing::error!(%error, free_kib = free, "no space for the next segment: only deletions are accepted");
                    } else if !is_out_of_space(&error) {
                        self.failure.record(&error, PREFIX);
                    }
                    return;
                }
            }
        }
        self.failure.clear();
        if full.swap(false, Ordering::Relaxed) {
            tracing::info!("space for the next segment is available again: all writes are accepted");
        }
    }

    /// Creates the next segment while another one is rewritten, so that writers need not do it.
    pub(crate) fn top_up(&self, inner: &Inner) {
        if !self.ready.lock().is_empty() || inner.counters.full.load(Ordering::Relaxed) {
            return;
        }
        let capacity = inner.table.read().capacity(&inner.options);
        match self.create(&*inner.files, capacity) {
            Ok(spare) => self.ready.lock().push(spare),
            Err(error) => tracing::debug!(%error, "cannot make a segment ahead while another is rewritten"),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.ready.lock().iter().map(|spare| spare.len).sum()
    }

    pub(crate) fn remove_all(&self, files: &dyn Files) {
        for spare in self.ready.lock().drain(..) {
            spare.remove(files);
        }
    }

    fn create(&self, files: &dyn Files, len: u64) -> io::Result<Spare> {
        let name = format!("{PREFIX}{}", self.created.fetch_add(1, Ordering::Relaxed));
        let file = files.create(&name)?;
        let spare = Spare { name, file, len };
        let allocated = if len == 0 { Ok(()) } else { spare.file.allocate(len) };
        match allocated {
            Ok(()) => Ok(spare),
            Err(error) => {
                spare.remove(files);
                Err(error)
            }
        }
    }
}

// === impl Spare ===

impl Spare {
    /// Removes the file. If this fails, the next start does so.
    pub(crate) fn remove(self, files: &dyn Files) {
        match files.remove(&self.name) {
            Ok(()) => {}
            // A start that failed has removed its whole directory.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%error, file = self.name, "failed to remove unused file"),
        }
    }
}
