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
mod tolerant;
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
use self::open::{Found, Tail};
use self::segment::RecordPosition;
use self::spares::Spares;
use self::stats::Counters;
use self::table::Table;
use self::writer::Writer;
use crate::disk::{Batch, Disk, LogStats, Visit};
use crate::files::{Files, LogFile};

/// The size of segments, and the way in which they are rewritten.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// The size of a segment is a quarter of the needed bytes, within these bounds: a small store has small files.
    pub min_segment: u64,
    pub max_segment: u64,
    /// True when a background thread rewrites segments; otherwise each writer does it too, for tests that repeat every
    /// single operation.
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
    table: RwLock<Table>,
    writer: Mutex<Option<Writer>>,
    notes: Mutex<Notes>,
    spares: Spares,
    counters: Counters,
    /// The state that was found, until the first write to the log.
    found: Mutex<Option<Pending>>,
    /// Held by the thread that rewrites segments: the table knows of one rewriting only. Without a background thread writers and
    /// erasures meet here.
    rewriting: Mutex<()>,
    /// Failures of rewriting.
    trouble: BackgroundFailure,
    head: HeadSync,
    /// A rewritten segment whose rename is not durable yet.
    unsettled: Mutex<Option<mover::Rewritten>>,
    signal: Mutex<Signal>,
    wake: Condvar,
}

/// The work that is left for the start of writing.
struct Pending {
    acknowledged: Option<(acknowledged::AcknowledgedFile, acknowledged::Acknowledged)>,
    tail: Tail,
    superseded: Vec<String>,
}

#[derive(Default)]
struct Signal {
    work: bool,
    stop: bool,
}

/// The interval at which segments are checked without a wake-up.
const PATROL: Duration = Duration::from_secs(1);
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
    /// Opens the log of a directory, which may be empty, and changes nothing.
    pub fn open(files: Arc<dyn Files>, options: LogOptions) -> io::Result<Self> {
        let found = open::open(&*files)?;
        let mut pending = Pending { acknowledged: None, tail: Tail::default(), superseded: Vec::new() };
        let (mut table, mut notes) = (Table::default(), Notes::new());
        if let Some(Found { store, segments, acknowledged, notes: found, tail, superseded, next_generation }) = found {
            table = Table { store, segments, next_generation, moving: None };
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
            rewriting: Mutex::default(),
            trouble: BackgroundFailure::with("rewrite a segment"),
            head: HeadSync::default(),
            unsettled: Mutex::default(),
            signal: Mutex::default(),
            wake: Condvar::new(),
        };
        Ok(Self { inner: Arc::new(inner), mover: Mutex::default() })
    }

    fn maintain(&self) {
        if self.inner.options.background {
            self.inner.wake_mover();
        } else {
            self.inner.look_after();
        }
    }
}

impl Disk for LogDisk {
    fn load(&self, visit: &mut Visit<'_>) -> io::Result<()> {
        let mut table = self.inner.table.write();
        let Table { store, segments, .. } = &mut *table;
        for segment in segments {
            if open::read_segment(*store, segment, visit)?.is_break() {
                return Ok(());
            }
        }
        drop(table);
        let found = self.inner.found.lock();
        for (header, frame) in found.iter().flat_map(|pending| &pending.tail.unconfirmed) {
            for record in records(header, frame)? {
                let seen = crate::record::peek(&record).ok_or_else(|| damaged("an unknown record".to_owned()))?;
                if visit(seen.revision, record).is_break() {
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
                supervise_blocking("store mover", || inner.patrol(), |pause| inner.pause(pause));
            })?;
            *self.mover.lock() = Some(mover);
        } else {
            self.inner.look_after();
        }
        Ok(())
    }

    fn commit(&self, batch: &Batch) -> io::Result<()> {
        // The next process would not find what is written now.
        self.inner.files.in_place().map_err(|displaced| io::Error::new(io::ErrorKind::NotFound, displaced))?;
        let delay = self.inner.delay_of(batch.records.iter().map(|(_, record)| record.len() as u64).sum());
        if !delay.is_zero() {
            // Segments are rewritten more slowly than they are written: the delay keeps the disk from filling.
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
        self.inner.table.write().bury(revisions);
        self.maintain();
        Ok(())
    }

    fn read(&self, revision: u64) -> io::Result<Option<Bytes>> {
        let found = self.inner.table.read().find(revision);
        let Some((file, place)) = found else { return Ok(None) };
        let bytes = read_places(&*file, &[place])?;
        Ok(bytes.into_iter().next())
    }

    fn scan(&self, first: u64, last: u64, visit: &mut Visit<'_>) -> io::Result<()> {
        let mut next = first;
        while next <= last {
            let run = self.inner.table.read().run(next, last, SCAN_RECORDS, SCAN_BYTES);
            let Some((file, places)) = run else { break };
            let records = read_places(&*file, &places)?;
            for (place, record) in places.iter().zip(records) {
                if visit(place.revision, record).is_break() {
                    return Ok(());
                }
            }
            let Some(read) = places.last().and_then(|place| place.revision.checked_add(1)) else { break };
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
        // Only of the active segment: without the last spare, no segment could be rewritten to give space back.
        let room = self.inner.writer.lock().as_ref().map_or(0, Writer::room);
        room.saturating_sub(bytes) >= self.inner.options.min_segment / 2
    }

    fn has_room(&self) -> bool {
        if !self.inner.options.background && self.inner.counters.full.load(Ordering::Relaxed) {
            self.inner.look_after();
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
    let places = format::record_places(frame, header);
    let places = places.ok_or_else(|| damaged("a frame has an unknown shape".to_owned()))?;
    Ok(places.into_iter().map(|(at, len)| frame.slice(at..at + len)).collect())
}

/// Reads consecutive records of a file.
fn read_places(file: &dyn LogFile, places: &[RecordPosition]) -> io::Result<Vec<Bytes>> {
    let (Some(first), Some(last)) = (places.first(), places.last()) else { return Ok(Vec::new()) };
    let lost = |place: &RecordPosition| damaged(format!("revision {} is not where it was written", place.revision));
    let len = usize::try_from(last.at + last.room - first.at).map_err(|_| lost(first))?;
    let mut bytes = vec![0; len];
    let read = file.read_at(&mut bytes, first.at)?;
    bytes.truncate(read);
    let bytes = Bytes::from(bytes);
    places
        .iter()
        .map(|place| {
            let from = (place.at - first.at) as usize;
            let length = bytes.get(from..from + LENGTH).and_then(|length| length.try_into().ok());
            let length = u32::from_le_bytes(length.ok_or_else(|| lost(place))?) as usize;
            let from = from + LENGTH;
            let end = from.checked_add(length).filter(|end| *end <= bytes.len()).ok_or_else(|| lost(place))?;
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
    fn patrol(&self) {
        loop {
            self.look_after();
            self.head.sync();
            let wait = if self.head.is_newer() { HEAD_SPACING } else { PATROL };
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

    /// Keeps spare files ready and rewrites segments until none is worth it.
    fn look_after(&self) {
        let _one = self.rewriting.lock();
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
