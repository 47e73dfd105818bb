//! Rewriting of segments without dead records. A rewritten segment replaces one segment, or several consecutive ones,
//! so that the log stays in the order of revisions.
//!
//! A dead put may be dropped at any time: the version that replaced it, or the deletion, still exists. A dead deletion
//! may only be dropped if no older record of its key can be left, that is, if no older segment has a dead put. Puts are
//! marked as dead before the deletions that follow them, so that this holds from one compaction to the next.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::format::{Cover, End, FrameBuilder, Framing, Head, LENGTH, NEW_MARKS, Notes, PAGE, StoreId, damaged};
use super::segment::{Bits, RecordPosition, Records, Segment};
use super::spares::Spare;
use super::table::{ActiveRewrite, SegmentTable};
use super::{Inner, LogOptions, read_records};
use crate::files::{LogFile, write_all};
use crate::record;

/// The rewriting of some segments.
struct RewriteJob {
    store: StoreId,
    cover: Cover,
    next_revision: u64,
    sequence: u64,
    before: End,
    /// Consecutive segments.
    sources: Vec<Source>,
}

/// A segment that is rewritten.
struct Source {
    cover: Cover,
    /// Its index among all segments.
    position: usize,
    file: Arc<dyn LogFile>,
    /// The records that were dead when the job was created. All sources use that moment: with a later one, a deletion
    /// might be dropped while an earlier put, which died in between, was kept.
    dead: Bits,
    /// Whether to drop dead deletions as well.
    drops_deletions: bool,
}

/// The bytes copied between two syncs, and in one frame. Writers have to wait for a sync of the same disk.
const SYNC_INTERVAL_BYTES: u64 = 1 << 20;
const FRAME: usize = 256 << 10;
/// The bytes per second that are copied while few are dead. More are copied while many are.
const BYTES_PER_SECOND: u64 = 8 << 20;
/// The number of small segments above which neighbors are merged.
const MAX_SMALL_SEGMENTS: usize = 8;
/// The dead bytes for which a segment is rewritten on a full disk.
const MIN_DEAD_WHEN_FULL: u64 = 64 << 10;
/// The number of records that are examined, or marked as dead, before the lock is released for writers.
const YIELD_INTERVAL: usize = 4096;

/// Rewrites the segments from which most bytes can be dropped. Returns true if something was done.
pub(crate) fn step(inner: &Inner) -> bool {
    if inner.options.background && inner.rewrite_failure.is_waiting() {
        return false;
    }
    // Not within the `if let`, which would hold the lock that `finish` takes when it fails again.
    let unfinished_rewrite = inner.unfinished_rewrite.lock().take();
    if let Some(rewritten) = unfinished_rewrite {
        return rewritten.finish(inner);
    }
    let full = inner.counters.full.load(Ordering::Relaxed);
    let job = RewriteJob::choose(&mut inner.table.write(), &inner.options, full);
    let Some(job) = job else {
        // No segment needs rewriting any more, so earlier failures do not matter.
        inner.rewrite_failure.clear();
        return false;
    };
    match job.run(inner) {
        Ok(Some((segment, moved))) => RewrittenSegment { job, segment, moved }.finish(inner),
        Ok(None) => {
            job.abandon(inner);
            false
        }
        Err(error) => {
            job.abandon(inner);
            inner.rewrite_failure.record(&error, &job.sources[0].cover.name());
            false
        }
    }
}

/// A rewritten segment that is complete and has its name.
pub(crate) struct RewrittenSegment {
    job: RewriteJob,
    segment: Segment,
    moved: u64,
}

// === impl RewrittenSegment ===

impl RewrittenSegment {
    /// Makes the name durable and lets readers use the new file. Until then a start may find either the old or the new
    /// files, so no other segment is rewritten before.
    fn finish(self, inner: &Inner) -> bool {
        if let Err(error) = inner.files.sync_dir() {
            inner.rewrite_failure.record(&error, &self.job.cover.name());
            *inner.unfinished_rewrite.lock() = Some(self);
            return false;
        }
        let Self { job, segment, moved } = self;
        install(inner, segment);
        inner.counters.moving_bytes.store(0, Ordering::Relaxed);
        inner.counters.moves.fetch_add(1, Ordering::Relaxed);
        inner.counters.moved_bytes.fetch_add(moved, Ordering::Relaxed);
        for source in &job.sources {
            let name = source.cover.name();
            if let Err(error) = inner.files.remove(&name) {
                tracing::warn!(%error, segment = name, "failed to remove rewritten segment");
            }
        }
        inner.rewrite_failure.clear();
        true
    }
}

// === impl RewriteJob ===

impl RewriteJob {
    fn choose(table: &mut SegmentTable, options: &LogOptions, full: bool) -> Option<Self> {
        debug_assert!(table.active_rewrite.is_none(), "two rewrite at a time");
        let capacity = table.capacity(options);
        let needed = table.usage().needed();
        let sealed = &table.segments[..table.segments.len().checked_sub(1)?];
        let dead: u64 = sealed.iter().map(|segment| segment.records.usage.dead()).sum();
        let enough = if full { MIN_DEAD_WHEN_FULL } else { needed / 4 + capacity / 2 };
        let first = if dead > enough { most_dead(sealed) } else { None };
        let first = first.or_else(|| small_neighbors(sealed, capacity))?;
        let range = widen(sealed, first, capacity);
        let drops_deletions = sealed[..range.start].iter().all(|segment| segment.records.usage.dead_puts == 0);
        let source = |(position, segment): (usize, &Segment)| Source {
            cover: segment.cover,
            position,
            file: segment.file.clone(),
            dead: segment.records.dead(),
            drops_deletions,
        };
        let chosen = &sealed[range.clone()];
        let (oldest, newest) = (chosen.first()?, chosen.last()?);
        let generation = table.next_generation;
        let job = Self {
            store: table.store,
            cover: Cover { first: oldest.cover.first, last: newest.cover.last, generation },
            next_revision: oldest.next_revision,
            sequence: oldest.sequence,
            before: oldest.before,
            sources: range.clone().zip(chosen).map(source).collect(),
        };
        table.next_generation += 1;
        table.active_rewrite = Some(ActiveRewrite { range, died: Vec::new() });
        Some(job)
    }

    /// Ends the job without a rewritten segment.
    fn abandon(&self, inner: &Inner) {
        inner.table.write().active_rewrite = None;
        inner.counters.moving_bytes.store(0, Ordering::Relaxed);
    }

    /// Writes the new file and renames it, not durably yet. Returns `None` if the log is being closed.
    fn run(&self, inner: &Inner) -> io::Result<Option<(Segment, u64)>> {
        let spare = inner.spares.take(inner)?;
        inner.counters.moving_bytes.store(spare.len, Ordering::Relaxed);
        let written = self.write(inner, &spare).and_then(|written| match written {
            Some(written) => match inner.files.rename(&spare.name, &self.cover.name()) {
                // The rename failed but took effect, so a start may find the file now.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists && self.has_name(inner) => Ok(Some(written)),
                renamed => renamed.map(|()| Some(written)),
            },
            None => Ok(None),
        });
        if !matches!(written, Ok(Some(_))) {
            spare.remove(&*inner.files);
        }
        written
    }

    fn has_name(&self, inner: &Inner) -> bool {
        inner.files.list().is_ok_and(|names| names.contains(&self.cover.name()))
    }

    /// Fills a file and makes its contents durable. Returns `None` if the log is being closed.
    fn write(&self, inner: &Inner, spare: &Spare) -> io::Result<Option<(Segment, u64)>> {
        let file = &spare.file;
        let framing = Framing::new(self.store, self.cover, NEW_MARKS);
        let mut output = Output {
            framing,
            file: file.clone(),
            end: End { at: PAGE as u64, chain: self.before.chain },
            sequence: 0,
            frame: Vec::new(),
            records: Records::default(),
        };
        let mut pace = Pace { started: Instant::now(), synced: 0 };
        for source in &self.sources {
            let mut next = 0;
            while let Some(positions) = source.next_live(inner, &mut next) {
                for run in runs(&positions) {
                    output.copy(&*source.file, run)?;
                    inner.counters.moving_bytes.fetch_max(output.end.at, Ordering::Relaxed);
                    if !pace.wait(inner, &output)? {
                        return Ok(None);
                    }
                }
            }
        }
        let Output { end, mut records, .. } = output;
        let head = Head {
            store: self.store,
            cover: self.cover,
            marks: framing.marks,
            next_revision: self.next_revision,
            sequence: self.sequence,
            before: self.before,
            sealed: end,
            notes: Notes::new(),
        };
        write_all(&**file, &head.encode(), 0)?;
        file.set_len(end.at)?;
        file.sync_data()?;
        records.shrink();
        let moved = records.usage.total;
        let segment = Segment {
            cover: self.cover,
            marks: framing.marks,
            next_revision: self.next_revision,
            sequence: self.sequence,
            before: self.before,
            begin: PAGE as u64,
            file: file.clone(),
            end,
            allocated: end.at,
            records,
        };
        Ok(Some((segment, moved)))
    }
}

// === impl Source ===

impl Source {
    /// Returns the positions of the next records to keep, or `None` after the last one.
    fn next_live(&self, inner: &Inner, next: &mut usize) -> Option<Vec<RecordPosition>> {
        let table = inner.table.read();
        let segment = &table.segments[self.position];
        let records = &segment.records;
        let turn = *next..records.len().min(*next + YIELD_INTERVAL);
        if turn.is_empty() {
            return None;
        }
        *next = turn.end;
        let is_dropped = |n: usize| self.dead.get(n) && (self.drops_deletions || !records.is_deletion(n));
        Some(turn.filter(|n| !is_dropped(*n)).map(|n| records.position(n, segment.end.at)).collect())
    }
}

/// Replaces the old files with the new one for readers.
fn install(inner: &Inner, mut segment: Segment) {
    loop {
        let mut table = inner.table.write();
        let Some(active_rewrite) = &mut table.active_rewrite else { return };
        let died = std::mem::take(&mut active_rewrite.died);
        let range = active_rewrite.range.clone();
        let few = died.len() <= YIELD_INTERVAL;
        // Writers must not wait while many records are marked as dead.
        let waiting = few.then_some(table);
        for revision in died {
            if let Some(n) = segment.records.find(revision) {
                segment.records.mark_dead(n);
            }
        }
        if let Some(mut table) = waiting {
            table.segments.splice(range, [segment]);
            table.active_rewrite = None;
            return;
        }
    }
}

/// Returns the segment from which most bytes can be dropped, or the oldest one whose dead puts prevent deletions in
/// other segments from being dropped.
fn most_dead(sealed: &[Segment]) -> Option<usize> {
    let mut clean = true;
    let mut worst: Option<(usize, u64, u64)> = None;
    for (n, segment) in sealed.iter().enumerate() {
        let usage = segment.records.usage;
        let droppable = usage.dead_puts + if clean { usage.dead_deletions } else { 0 };
        let size = segment.end.at;
        if droppable > 0 && worst.is_none_or(|(_, most, of)| droppable * of > most * size) {
            worst = Some((n, droppable, size));
        }
        clean &= usage.dead_puts == 0;
    }
    let (n, droppable, size) = worst?;
    if droppable * 4 >= size {
        Some(n)
    } else {
        sealed.iter().position(|segment| segment.records.usage.dead_puts > 0).or(Some(n))
    }
}

/// Returns the first of two small neighbors, if there are many small segments.
fn small_neighbors(sealed: &[Segment], capacity: u64) -> Option<usize> {
    let small = |segment: &Segment| segment.end.at < capacity / 8;
    if sealed.iter().filter(|segment| small(segment)).count() <= MAX_SMALL_SEGMENTS {
        return None;
    }
    sealed.windows(2).position(|pair| pair.iter().all(small))
}

/// Adds neighbors that are small, or mostly dead, as long as the result fits into one segment.
fn widen(sealed: &[Segment], first: usize, capacity: u64) -> std::ops::Range<usize> {
    let live = |n: usize| sealed[n].records.usage.needed();
    let fits = |n: usize| sealed[n].end.at < capacity / 4 || sealed[n].records.usage.dead() * 2 > sealed[n].end.at;
    let span = |from: usize, to: usize| {
        let newest = sealed[to].records.last_revision().unwrap_or(sealed[to].next_revision);
        newest.saturating_sub(sealed[from].next_revision) < u64::from(u32::MAX)
    };
    let mut range = first..first + 1;
    let mut total = live(first);
    while range.end < sealed.len()
        && fits(range.end)
        && span(range.start, range.end)
        && total + live(range.end) <= capacity
    {
        total += live(range.end);
        range.end += 1;
    }
    while range.start > 0
        && fits(range.start - 1)
        && span(range.start - 1, range.end - 1)
        && total + live(range.start - 1) <= capacity
    {
        range.start -= 1;
        total += live(range.start);
    }
    range
}

/// Splits positions into runs that can be read at once.
fn runs(positions: &[RecordPosition]) -> impl Iterator<Item = &[RecordPosition]> {
    let mut rest = positions;
    std::iter::from_fn(move || {
        let first = rest.first()?;
        let is_adjacent = |pair: &[RecordPosition]| {
            pair[0].at + pair[0].room == pair[1].at && pair[1].at + pair[1].room - first.at <= FRAME as u64
        };
        let len = 1 + rest.windows(2).take_while(|pair| is_adjacent(pair)).count();
        let (run, others) = rest.split_at(len);
        rest = others;
        Some(run)
    })
}

/// A file that is being filled with records of other segments.
struct Output {
    framing: Framing,
    file: Arc<dyn LogFile>,
    end: End,
    sequence: u64,
    frame: Vec<u8>,
    records: Records,
}

// === impl Output ===

impl Output {
    fn copy(&mut self, source: &dyn LogFile, run: &[RecordPosition]) -> io::Result<()> {
        let records = read_records(source, run)?;
        let mut builder = FrameBuilder::new(&mut self.frame);
        for (position, bytes) in run.iter().zip(&records) {
            if !record::is_whole(position.revision, bytes) {
                return Err(damaged(format!("revision {} is damaged", position.revision)));
            }
            let at = self.end.at + builder.record(position.revision, bytes) as u64;
            let deletion = record::peek(bytes).is_some_and(|header| header.deletion);
            if !self.records.push(position.revision, at, bytes.len() + LENGTH, deletion) {
                return Err(damaged(format!("revision {} is not where it should be", position.revision)));
            }
        }
        let len = builder.len() as u64;
        let chain = builder.seal(self.framing, self.end.at, self.sequence, self.end.chain);
        write_all(&*self.file, &self.frame, self.end.at)?;
        self.end = End { at: self.end.at + len, chain };
        self.sequence += 1;
        Ok(())
    }
}

/// The rate limit of rewriting a segment.
struct Pace {
    started: Instant,
    synced: u64,
}

// === impl Pace ===

impl Pace {
    /// Waits to keep to the rate limit. Returns false if the log is being closed.
    fn wait(&mut self, inner: &Inner, output: &Output) -> io::Result<bool> {
        if output.end.at - self.synced < SYNC_INTERVAL_BYTES {
            return Ok(true);
        }
        self.synced = output.end.at;
        output.file.sync_data()?;
        inner.spares.top_up(inner);
        inner.assess();
        if inner.options.background {
            inner.head.sync();
        }
        // The closer the files are to their bound, the faster the copying.
        let most = inner.options.max_segment.max(1);
        let hurry = 1 + 16 * most / inner.slack().max(most / 16);
        let due = Duration::from_secs_f64(output.end.at as f64 / (BYTES_PER_SECOND * hurry) as f64);
        if let Some(early) = due.checked_sub(self.started.elapsed()) {
            inner.pause(early.min(Duration::from_secs(1)));
        }
        Ok(!inner.stopping())
    }
}
