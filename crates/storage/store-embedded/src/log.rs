//! The log on disk: segments that are appended to, rewritten without dead records, and removed. Segments are always in
//! the order of revisions. `docs/store-format.md` describes the bytes and why the order of writes is safe.

pub(crate) mod acknowledged;
mod background_failure;
pub(crate) mod format;
mod mover;
pub(crate) mod open;
pub(crate) mod segment;
pub(crate) mod spares;
mod stats;
pub(crate) mod survey;
mod table;
mod tolerant_file;
mod writer;

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use binnacle_supervise::supervise_blocking;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex, RwLock};

use self::acknowledged::{HEAD_SPACING, HeadSync};
use self::background_failure::BackgroundFailure;
use self::format::{LENGTH, Notes, damaged};
use self::open::{ExistingLog, Tail};
use self::segment::RecordPosition;
use self::spares::Spares;
use self::stats::Counters;
use self::table::SegmentTable;
use self::writer::Writer;
use crate::disk::{Batch, Disk, LogStats, RecordVisitor};
use crate::files::{Files, LogFile};

/// The size of segments, and how they are rewritten.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// The minimum size of a segment. Segments take a quarter of the needed bytes, within these bounds: a small store
    /// has small files.
    pub min_segment: u64,
    pub max_segment: u64,
    /// Whether a background thread rewrites segments. Otherwise each writer does so, for tests that repeat every single
    /// operation.
    pub background: bool,
}

/// A log in a directory.
pub struct LogDisk {
    inner: Arc<Inner>,
    mover: Mutex<Option<JoinHandle<()>>>,
}

pub(crate) struct Inner {
    files: Arc<dyn Files>,
    options: LogOptions,
    table: RwLock<SegmentTable>,
    writer: Mutex<Option<Writer>>,
    notes: Mutex<Notes>,
    spares: Spares,
    counters: Counters,
    /// The existing state, until the first write to the log.
    found: Mutex<Option<Pending>>,
    /// Held by the thread that rewrites segments, since the table can only track one rewrite at a time. Without a
    /// background thread, this serializes writers and erasures.
    rewrite_lock: Mutex<()>,
    /// Failures of rewriting.
    rewrite_failure: BackgroundFailure,
    head: HeadSync,
    /// A rewritten segment whose rename is not durable yet.
    unfinished_rewrite: Mutex<Option<mover::RewrittenSegment>>,
    signal: Mutex<Signal>,
    wake: Condvar,
}

/// The work that remains for the start of writing.
struct Pending {
    acknowledged: Option<(acknowledged::AcknowledgedFile, acknowledged::AcknowledgedEnd)>,
    tail: Tail,
    superseded: Vec<String>,
}

#[derive(Default)]
struct Signal {
    work: bool,
    stop: bool,
}

/// The interval at which segments are checked without a wake-up.
const MOVER_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum size of one read of a scan.
const SCAN_RECORDS: usize = 1024;
const SCAN_BYTES: u64 = 1 << 20;

// === impl LogOptions ===

impl Default for LogOptions {
    fn default() -> Self {
        Self { min_segment: 4 << 20, max_segment: 64 << 20, background: true }
    }
}

// === impl LogDisk ===

impl LogDisk {
    /// Opens the log of a directory, which may be empty, without changing anything.
    pub fn open(files: Arc<dyn Files>, options: LogOptions) -> io::Result<Self> {
        let found = open::open(&*files)?;
        let mut pending = Pending { acknowledged: None, tail: Tail::default(), superseded: Vec::new() };
        let (mut table, mut notes) = (SegmentTable::default(), Notes::new());
        if let Some(ExistingLog { store, segments, acknowledged, notes: found, tail, superseded, next_generation }) =
            found
        {
            table = SegmentTable { store, segments, next_generation, active_rewrite: None };
            notes = found;
            pending = Pending { acknowledged, tail, superseded };
        }
        let inner = Inner {
            files,
            options,
            table: RwLock::new(table),
            writer: Mutex::default(),
            notes: Mutex::new(notes),
            spares: Spares::default(),
            counters: Counters::default(),
            found: Mutex::new(Some(pending)),
            rewrite_lock: Mutex::default(),
            rewrite_failure: BackgroundFailure::new("rewrite a segment"),
            head: HeadSync::default(),
            unfinished_rewrite: Mutex::default(),
            signal: Mutex::default(),
            wake: Condvar::new(),
        };
        Ok(Self { inner: Arc::new(inner), mover: Mutex::default() })
    }

    fn maintain(&self) {
        if self.inner.options.background {
            self.inner.wake_mover();
        } else {
            self.inner.fill_and_rewrite();
        }
    }
}

impl Disk for LogDisk {
    fn load(&self, visit: &mut RecordVisitor<'_>) -> io::Result<()> {
        let mut table = self.inner.table.write();
        let SegmentTable { store, segments, .. } = &mut *table;
        for segment in segments {
            if open::read_segment(*store, segment, visit)?.is_break() {
                return Ok(());
            }
        }
        drop(table);
        let found = self.inner.found.lock();
        for (header, frame) in found.iter().flat_map(|pending| &pending.tail.unconfirmed) {
            for record in records(header, frame)? {
                let header = crate::record::peek(&record).ok_or_else(|| damaged("an unknown record".to_owned()))?;
                if visit(header.revision, record).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn stored_bytes(&self) -> u64 {
        self.inner.table.read().segments.iter().map(|segment| segment.end.at.saturating_sub(segment.begin)).sum()
    }

    fn start(&self) -> io::Result<()> {
        let Some(pending) = self.inner.found.lock().take() else { return Ok(()) };
        Writer::start(&self.inner, pending)?;
        self.inner.assess();
        if self.inner.options.background {
            let inner = self.inner.clone();
            let mover = std::thread::Builder::new().name("store-mover".to_owned()).spawn(move || {
                supervise_blocking("store mover", || inner.run_mover(), |pause| inner.pause(pause));
            })?;
            *self.mover.lock() = Some(mover);
        } else {
            self.inner.fill_and_rewrite();
        }
        Ok(())
    }

    fn commit(&self, batch: &Batch) -> io::Result<()> {
        // The next process would not find what is written now.
        self.inner.files.check_in_place().map_err(|displaced| io::Error::new(io::ErrorKind::NotFound, displaced))?;
        let delay = self.inner.write_delay(batch.records.iter().map(|(_, record)| record.len() as u64).sum());
        if !delay.is_zero() {
            // Segments are rewritten more slowly than they are written. The delay keeps the disk from filling up.
            std::thread::sleep(delay);
        }
        let mut writer = self.inner.writer.lock();
        let writer_ref = writer.as_mut().ok_or_else(|| io::Error::other("the log was not started"))?;
        let rolled = writer_ref.commit(&self.inner, batch)?;
        drop(writer);
        if rolled || !self.inner.options.background {
            self.maintain();
        }
        Ok(())
    }

    fn erase(&self, revisions: &[u64]) -> io::Result<()> {
        self.inner.table.write().mark_dead(revisions);
        self.maintain();
        Ok(())
    }

    fn read(&self, revision: u64) -> io::Result<Option<Bytes>> {
        let found = self.inner.table.read().find(revision);
        let Some((file, position)) = found else { return Ok(None) };
        let bytes = read_records(&*file, &[position])?;
        Ok(bytes.into_iter().next())
    }

    fn scan(&self, first: u64, last: u64, visit: &mut RecordVisitor<'_>) -> io::Result<()> {
        let mut next = first;
        while next <= last {
            let run = self.inner.table.read().run(next, last, SCAN_RECORDS, SCAN_BYTES);
            let Some((file, positions)) = run else { break };
            let records = read_records(&*file, &positions)?;
            for (position, record) in positions.iter().zip(records) {
                if visit(position.revision, record).is_break() {
                    return Ok(());
                }
            }
            let Some(read) = positions.last().and_then(|position| position.revision.checked_add(1)) else { break };
            next = read;
        }
        Ok(())
    }

    fn meta(&self) -> io::Result<Vec<(Bytes, Bytes)>> {
        Ok(self.inner.notes.lock().iter().map(|(name, value)| (name.clone(), value.clone())).collect())
    }

    fn acknowledged(&self) -> io::Result<u64> {
        let found = self.inner.found.lock();
        Ok(found.as_ref().and_then(|pending| pending.acknowledged.as_ref()).map_or(0, |(_, known)| known.revision))
    }

    fn has_reserve(&self, bytes: u64) -> bool {
        // Only the room of the active segment: without the last spare file, no segment could be rewritten to free
        // space.
        let room = self.inner.writer.lock().as_ref().map_or(0, Writer::room);
        room.saturating_sub(bytes) >= self.inner.options.min_segment / 2
    }

    fn has_room(&self) -> bool {
        if !self.inner.options.background && self.inner.counters.full.load(Ordering::Relaxed) {
            self.inner.fill_and_rewrite();
        }
        !self.inner.counters.full.load(Ordering::Relaxed)
    }

    fn health(&self) -> Result<(), String> {
        self.inner.health()
    }

    fn free_bytes(&self) -> Option<u64> {
        self.inner.files.free_bytes()
    }

    fn stats(&self) -> LogStats {
        self.inner.stats()
    }
}

impl Drop for LogDisk {
    fn drop(&mut self) {
        self.inner.signal.lock().stop = true;
        self.inner.wake.notify_all();
        if let Some(mover) = self.mover.lock().take() {
            // A panic of the mover was logged where it happened.
            let _ = mover.join();
        }
        self.inner.spares.remove_all(&*self.inner.files);
    }
}

/// Returns the records in a frame.
fn records(header: &format::FrameHeader, frame: &Bytes) -> io::Result<Vec<Bytes>> {
    let positions = format::record_positions(frame, header);
    let positions = positions.ok_or_else(|| damaged("a frame has an unknown shape".to_owned()))?;
    Ok(positions.into_iter().map(|(at, len)| frame.slice(at..at + len)).collect())
}

/// Reads consecutive records of a file.
fn read_records(file: &dyn LogFile, positions: &[RecordPosition]) -> io::Result<Vec<Bytes>> {
    let (Some(first), Some(last)) = (positions.first(), positions.last()) else { return Ok(Vec::new()) };
    let lost =
        |position: &RecordPosition| damaged(format!("revision {} is not where it was written", position.revision));
    let len = usize::try_from(last.at + last.room - first.at).map_err(|_| lost(first))?;
    let mut bytes = vec![0; len];
    let read = file.read_at(&mut bytes, first.at)?;
    bytes.truncate(read);
    let bytes = Bytes::from(bytes);
    positions
        .iter()
        .map(|position| {
            let from = (position.at - first.at) as usize;
            let length = bytes.get(from..from + LENGTH).and_then(|length| length.try_into().ok());
            let length = u32::from_le_bytes(length.ok_or_else(|| lost(position))?) as usize;
            let from = from + LENGTH;
            let end = from.checked_add(length).filter(|end| *end <= bytes.len()).ok_or_else(|| lost(position))?;
            Ok(bytes.slice(from..end))
        })
        .collect()
}

// === impl Inner ===

impl Inner {
    fn wake_mover(&self) {
        self.signal.lock().work = true;
        self.wake.notify_all();
    }

    /// Runs the thread that rewrites segments.
    fn run_mover(&self) {
        loop {
            self.fill_and_rewrite();
            self.head.sync();
            let wait = if self.head.is_dirty() { HEAD_SPACING } else { MOVER_INTERVAL };
            let mut signal = self.signal.lock();
            if !signal.work && !signal.stop {
                self.wake.wait_for(&mut signal, wait);
            }
            signal.work = false;
            if signal.stop {
                return;
            }
        }
    }

    fn stopping(&self) -> bool {
        self.signal.lock().stop
    }

    /// Waits until woken, unless the log is being closed.
    fn pause(&self, how_long: Duration) {
        let mut signal = self.signal.lock();
        if !signal.stop && self.options.background {
            self.wake.wait_for(&mut signal, how_long);
        }
    }

    /// Keeps spare files ready, and rewrites segments until none is worth it.
    fn fill_and_rewrite(&self) {
        let _one = self.rewrite_lock.lock();
        loop {
            self.spares.fill(self);
            let moved = mover::step(self);
            self.assess();
            if !moved || self.stopping() {
                return;
            }
        }
    }
}
