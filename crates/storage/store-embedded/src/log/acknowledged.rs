//! The file `head`: the acknowledged end of the log. It is separate from the log, because a log that has lost its end
//! looks like a log that never had it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use super::background_failure::BackgroundFailure;
use super::format::damaged;
use crate::files::{Files, LogFile, ReadError, write_all};

/// The last write that is certain to be durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AcknowledgedEnd {
    /// The number of frames written.
    pub(crate) sequence: u64,
    pub(crate) revision: u64,
    /// The newest segment.
    pub(crate) segment: u64,
}

/// Two slots that are written in turn, so that a torn write leaves the other one intact. The file is synced when a
/// segment is started, and once a second in the background. It survives the process, and after a power failure it is at
/// worst older than the log, which is safe.
pub(crate) struct AcknowledgedFile {
    file: Arc<dyn LogFile>,
    slot_index: u64,
}

pub(crate) const NAME: &str = "head";
pub(crate) const UNFINISHED: &str = "head.new";
const SLOT: usize = 32;

// === impl AcknowledgedFile ===

impl AcknowledgedFile {
    /// Opens the file. Returns `None` if it does not exist.
    pub(crate) fn open(files: &dyn Files) -> io::Result<Option<(Self, AcknowledgedEnd)>> {
        let file = match files.open(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut bytes = [0; 2 * SLOT];
        let read = file.read_at(&mut bytes, 0).map_err(ReadError::of(NAME))?;
        let slots = [read_slot(&bytes[..SLOT]), read_slot(&bytes[SLOT..])];
        let newest = slots.iter().flatten().max().copied();
        if read < 2 * SLOT || newest.is_none() {
            return Err(damaged("the file \"head\" is damaged".to_owned()));
        }
        let slot_index = u64::from(slots[0] == newest);
        Ok(Some((Self { file, slot_index }, newest.unwrap_or_default())))
    }

    /// Creates the file durably: once it has its name, it is complete.
    pub(crate) fn create(files: &dyn Files) -> io::Result<Self> {
        let mut created = Self { file: files.create(UNFINISHED)?, slot_index: 0 };
        // Both slots exist from the start, so that later writes need no space on a full disk.
        for _ in 0..2 {
            created.advance(AcknowledgedEnd::default())?;
        }
        created.file.sync_data()?;
        files.rename(UNFINISHED, NAME)?;
        files.sync_dir()?;
        Ok(created)
    }

    pub(crate) fn advance(&mut self, to: AcknowledgedEnd) -> io::Result<()> {
        let mut slot = [0; SLOT];
        for (bytes, number) in slot.chunks_exact_mut(8).zip([to.sequence, to.revision, to.segment]) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        let checksum = xxh3_64(&slot[..SLOT - 8]);
        slot[SLOT - 8..].copy_from_slice(&checksum.to_le_bytes());
        write_all(&*self.file, &slot, self.slot_index * SLOT as u64)?;
        self.slot_index = 1 - self.slot_index;
        Ok(())
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Syncs the file in the background, so that a disk that loses synced writes does not lose more than those of the last
/// second unnoticed.
pub(crate) struct HeadSync {
    file: OnceLock<Arc<dyn LogFile>>,
    /// True if the file was written to since the last sync.
    dirty: AtomicBool,
    last: Mutex<Option<Instant>>,
    failure: BackgroundFailure,
}

/// The minimum time between two syncs.
pub(crate) const HEAD_SPACING: Duration = Duration::from_millis(500);

// === impl HeadSync ===

impl Default for HeadSync {
    fn default() -> Self {
        Self {
            file: OnceLock::new(),
            dirty: AtomicBool::default(),
            last: Mutex::default(),
            failure: BackgroundFailure::new("make durable how far the log has come"),
        }
    }
}

impl HeadSync {
    /// Uses this file from now on.
    pub(crate) fn begin(&self, head: &AcknowledgedFile) {
        self.file.get_or_init(|| head.file.clone());
    }

    pub(crate) fn mark_dirty(&self) {
        self.dirty.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty.load(Ordering::Relaxed)
    }

    /// Syncs the file if it was written to and the last sync is not too recent.
    pub(crate) fn sync(&self) {
        let Some(file) = self.file.get() else { return };
        let mut last = self.last.lock();
        if last.is_some_and(|last| last.elapsed() < HEAD_SPACING) || !self.dirty.swap(false, Ordering::Relaxed) {
            return;
        }
        *last = Some(Instant::now());
        match file.sync_data() {
            Ok(()) => self.failure.clear(),
            Err(error) => {
                self.dirty.store(true, Ordering::Relaxed);
                self.failure.record(&error, NAME);
            }
        }
    }
}

fn read_slot(slot: &[u8]) -> Option<AcknowledgedEnd> {
    let number = |n: usize| Some(u64::from_le_bytes(slot.get(n * 8..n * 8 + 8)?.try_into().ok()?));
    let checksum = number(3)?;
    let read = AcknowledgedEnd { sequence: number(0)?, revision: number(1)?, segment: number(2)? };
    (xxh3_64(&slot[..SLOT - 8]) == checksum).then_some(read)
}
