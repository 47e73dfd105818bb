//! Reads the log of a directory without changing it: selects the valid files, and finds the log's end and missing data.

use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::acknowledged::{AcknowledgedEnd, AcknowledgedFile};
use super::format::{
    ALIGN, Cover, End, FRAME_HEADER, FrameHeader, Framing, Head, HeadError, LENGTH, Notes, PAGE, StoreId, damaged,
    read_notes, record_positions,
};
use super::segment::{Records, Segment};
use crate::disk::RecordVisitor;
use crate::files::{Files, LogFile, ReadError};
use crate::record;

/// A log that exists in a directory.
pub(crate) struct ExistingLog {
    pub(crate) store: StoreId,
    /// The segments in order. The last one is open for writing.
    pub(crate) segments: Vec<Segment>,
    pub(crate) acknowledged: Option<(AcknowledgedFile, AcknowledgedEnd)>,
    pub(crate) notes: Notes,
    pub(crate) tail: Tail,
    /// Files that rewritten ones replace.
    pub(crate) superseded: Vec<String>,
    pub(crate) next_generation: u64,
}

/// The end of the log.
#[derive(Default)]
pub(crate) struct Tail {
    /// Complete frames that can be read, but may not be durable: the process that wrote them could not record that they
    /// were. The contents of other frames are not kept.
    pub(crate) unconfirmed: Vec<(FrameHeader, Bytes)>,
    /// The sequence number of the next frame.
    pub(crate) sequence: u64,
    /// The end of the bytes behind them, if there are any: they belong to an unfinished frame.
    pub(crate) torn: Option<u64>,
}

const READ_BYTES: usize = 1 << 20;
/// The interval at which the progress of a search is logged.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Reads the log of a directory. Returns `None` if there is none.
pub(crate) fn open(files: &dyn Files) -> io::Result<Option<ExistingLog>> {
    let names = files.list()?;
    let acknowledged = AcknowledgedFile::open(files)?;
    let (covers, superseded) = choose_covers(names.iter().filter_map(|name| Cover::of_name(name)).collect())?;
    let next_generation = covers.iter().chain(&superseded).map(|cover| cover.generation + 1).max().unwrap_or(1);
    let Some(last) = covers.last() else {
        return match acknowledged {
            Some(_) => Err(damaged("all segments of the log are missing".to_owned())),
            None => Ok(None),
        };
    };
    if last.generation != 0 {
        return Err(damaged(format!("the segment {} of the log is missing", last.last + 1)));
    }
    let mut segments = Vec::with_capacity(covers.len());
    let mut heads = Vec::with_capacity(covers.len());
    for cover in &covers {
        let (head, segment) = read_head(files, *cover)?;
        heads.push(head);
        segments.push(segment);
    }
    let Some(newest) = heads.last() else { return Ok(None) };
    let store = newest.store;
    if let Some(foreign) = heads.iter().find(|head| head.store != store) {
        return Err(damaged(format!("{} belongs to another store", foreign.cover.name())));
    }
    // The end of a segment is in the head of the next one, or in its own head if it was rewritten.
    for n in 0..segments.len() - 1 {
        let end = if heads[n].cover.generation == 0 { heads[n + 1].before } else { heads[n].sealed };
        segments[n].end = end;
    }
    let mut notes = newest.notes.clone();
    let acknowledged_end = acknowledged.as_ref().map(|(_, end)| *end);
    let tail = find_end(store, &mut segments, acknowledged_end.unwrap_or_default(), &mut notes)?;
    check_acknowledged(acknowledged_end, last.last, &tail)?;
    let superseded = superseded.into_iter().map(Cover::name).collect();
    Ok(Some(ExistingLog { store, segments, acknowledged, notes, tail, superseded, next_generation }))
}

/// Selects the valid files: those of later generations replace the segments they cover. No segment may be missing.
fn choose_covers(mut covers: Vec<Cover>) -> io::Result<(Vec<Cover>, Vec<Cover>)> {
    covers.sort_by_key(|cover| std::cmp::Reverse(cover.generation));
    let (mut chosen, mut superseded) = (Vec::<Cover>::new(), Vec::new());
    for cover in covers {
        match chosen.iter().find(|other| other.overlaps(cover)) {
            None => chosen.push(cover),
            Some(other) if other.contains(cover) => superseded.push(cover),
            Some(other) => {
                return Err(damaged(format!("{} and {} overlap", other.name(), cover.name())));
            }
        }
    }
    chosen.sort_unstable();
    let mut next = 0;
    for cover in &chosen {
        if cover.first != next {
            return Err(damaged(format!("the segments {next} to {} of the log are missing", cover.first - 1)));
        }
        next = cover.last + 1;
    }
    Ok((chosen, superseded))
}

fn read_head(files: &dyn Files, cover: Cover) -> io::Result<(Head, Segment)> {
    read_head_of(files.open(&cover.name())?, cover)
}

/// Reads the head of an open segment.
pub(crate) fn read_head_of(file: Arc<dyn LogFile>, cover: Cover) -> io::Result<(Head, Segment)> {
    let name = cover.name();
    let mut bytes = vec![0; PAGE];
    let read = file.read_at(&mut bytes, 0).map_err(ReadError::of(&name))?;
    let len = Head::len(&bytes[..read]).ok_or_else(|| damaged(format!("{name} is damaged: it has no head")))?;
    if len > PAGE {
        let size = usize::try_from(file.size()?).unwrap_or(usize::MAX);
        bytes = vec![0; len.min(size)];
        let read = file.read_at(&mut bytes, 0).map_err(ReadError::of(&name))?;
        bytes.truncate(read);
    }
    let head = Head::decode(&bytes).map_err(|bad| match bad {
        HeadError::Damaged(detail) => damaged(format!("{name} is damaged: {detail}")),
        HeadError::Format(found) => io::Error::new(io::ErrorKind::Unsupported, UnknownFormat(found)),
        HeadError::Features(features) => {
            let detail = format!("{name} asks for features that this program does not know ({features:#x})");
            io::Error::new(io::ErrorKind::Unsupported, detail)
        }
    })?;
    if head.cover != cover {
        return Err(damaged(format!("{name} is not the segment that its name says")));
    }
    let segment = Segment {
        cover,
        marks: head.marks,
        next_revision: head.next_revision,
        sequence: head.sequence,
        before: head.before,
        allocated: file.size()?,
        file,
        begin: len as u64,
        end: End { at: len as u64, chain: head.before.chain },
        records: Records::default(),
    };
    Ok((head, segment))
}

/// The error of a directory that was written in another format.
#[derive(Debug, thiserror::Error)]
#[error("the log has format {0}")]
pub(crate) struct UnknownFormat(pub(crate) u32);

/// Reads the last segment up to its acknowledged end, and keeps the frames behind it.
fn find_end(
    store: StoreId,
    segments: &mut [Segment],
    acknowledged_end: AcknowledgedEnd,
    notes: &mut Notes,
) -> io::Result<Tail> {
    let Some(segment) = segments.last_mut() else { return Ok(Tail::default()) };
    let mut walk = Walk::new(store, segment, segment.file.size()?);
    let mut tail = Tail { sequence: segment.sequence, ..Tail::default() };
    let broken = loop {
        match walk.next()? {
            Step::Frame { header, bytes, .. } => {
                let frame_notes = bytes.get(FRAME_HEADER..FRAME_HEADER + header.notes as usize).unwrap_or_default();
                read_notes(frame_notes, notes).ok_or_else(|| walk.damaged("has unreadable notes"))?;
                if header.sequence < acknowledged_end.sequence {
                    segment.end = End { at: walk.at, chain: walk.chain };
                } else {
                    tail.unconfirmed.push((header, Bytes::copy_from_slice(&bytes)));
                }
                tail.sequence = header.sequence + 1;
            }
            Step::End => break None,
            Step::Broken(detail) => break Some(detail),
        }
    };
    if let Some(detail) = broken {
        match walk.rest()? {
            Rest::Empty => {}
            Rest::Torn(end) => tail.torn = Some(end),
            // Each frame is made durable before the next one is started, so this is damage.
            Rest::Frame(at) => return Err(damaged(format!("{detail}, and the log goes on at byte {at}"))),
        }
    }
    Ok(tail)
}

fn check_acknowledged(acknowledged_end: Option<AcknowledgedEnd>, newest: u64, tail: &Tail) -> io::Result<()> {
    match acknowledged_end {
        // The first start was interrupted before its first write.
        None if newest == 0 && tail.sequence == 0 => Ok(()),
        None => Err(damaged("the file \"head\" is missing".to_owned())),
        Some(acknowledged_end) if acknowledged_end.segment > newest => {
            Err(damaged(format!("the segment {} of the log is missing", acknowledged_end.segment)))
        }
        Some(acknowledged_end) if acknowledged_end.sequence > tail.sequence => Err(damaged(format!(
            "the log ends at its frame {}, but frame {} had been acknowledged, up to revision {}",
            tail.sequence, acknowledged_end.sequence, acknowledged_end.revision
        ))),
        Some(_) => Ok(()),
    }
}

/// Reads the acknowledged records of a segment, and stores their positions.
pub(crate) fn read_segment(
    store: StoreId,
    segment: &mut Segment,
    visit: &mut RecordVisitor<'_>,
) -> io::Result<ControlFlow<()>> {
    let mut records = Records::default();
    let mut walk = Walk::new(store, segment, segment.end.at);
    loop {
        match walk.next()? {
            Step::Frame { at, header, bytes } => {
                let places = record_positions(&bytes, &header).ok_or_else(|| walk.damaged("has an unknown shape"))?;
                for (place, len) in places {
                    let record = bytes.slice(place..place + len);
                    let header = record::peek(&record).ok_or_else(|| walk.damaged("has an unknown record"))?;
                    let kept =
                        records.push(header.revision, at + (place - LENGTH) as u64, len + LENGTH, header.deletion);
                    if !kept {
                        return Err(walk.damaged("has records that do not ascend"));
                    }
                    if visit(header.revision, record).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            Step::End if walk.chain == segment.end.chain => break,
            Step::End => return Err(walk.damaged("is not the one that was written there")),
            Step::Broken(detail) => return Err(damaged(detail)),
        }
    }
    records.shrink();
    segment.records = records;
    Ok(ControlFlow::Continue(()))
}

/// A walk through the frames of one segment.
pub(crate) struct Walk {
    framing: Framing,
    file: Arc<dyn LogFile>,
    pub(crate) at: u64,
    pub(crate) chain: u64,
    sequence: u64,
    limit: u64,
    buffer: Bytes,
    buffer_at: u64,
}

pub(crate) enum Step {
    Frame {
        at: u64,
        header: FrameHeader,
        bytes: Bytes,
    },
    End,
    /// There is no complete frame here.
    Broken(String),
}

/// The bytes behind the last complete frame.
enum Rest {
    Empty,
    /// Other bytes, up to this position.
    Torn(u64),
    Frame(u64),
}

// === impl Walk ===

impl Walk {
    pub(crate) fn new(store: StoreId, segment: &Segment, limit: u64) -> Self {
        let framing = Framing::new(store, segment.cover, segment.marks);
        let mut walk = Self::without_chain(framing, segment.file.clone(), segment.begin, limit);
        walk.chain = segment.before.chain;
        walk.sequence = if segment.cover.generation == 0 { segment.sequence } else { 0 };
        walk
    }

    /// Returns a walk through a file without further information about it.
    pub(crate) fn without_chain(framing: Framing, file: Arc<dyn LogFile>, begin: u64, limit: u64) -> Self {
        Self { framing, file, at: begin, chain: 0, sequence: 0, limit, buffer: Bytes::new(), buffer_at: 0 }
    }

    pub(crate) fn next(&mut self) -> io::Result<Step> {
        let at = self.at;
        if at == self.limit {
            return Ok(Step::End);
        }
        let Some((header, bytes)) = self.frame_at(at)? else {
            return Ok(Step::Broken(format!("{} is damaged at byte {at}", self.framing.cover.name())));
        };
        if header.chain != self.chain || header.sequence != self.sequence {
            return Err(self.damaged("does not follow the one before it"));
        }
        self.at += bytes.len() as u64;
        self.chain = header.checksum;
        self.sequence += 1;
        Ok(Step::Frame { at, header, bytes })
    }

    /// Returns the frame at a position, if it is complete and was written for that position.
    pub(crate) fn frame_at(&mut self, at: u64) -> io::Result<Option<(FrameHeader, Bytes)>> {
        let Some(header) = self.bytes(at, FRAME_HEADER)? else { return Ok(None) };
        let Some(header) = FrameHeader::read(&header, self.framing, at) else { return Ok(None) };
        let Some(bytes) = self.bytes(at, header.frame_len())? else { return Ok(None) };
        Ok(header.matches(&bytes, self.framing, at).then_some((header, bytes)))
    }

    /// Returns bytes of the file, if all of them are before the limit.
    pub(crate) fn bytes(&mut self, at: u64, len: usize) -> io::Result<Option<Bytes>> {
        if self.limit.saturating_sub(at) < len as u64 {
            return Ok(None);
        }
        let buffered = |buffer: &Bytes, buffer_at: u64| {
            let from = usize::try_from(at.checked_sub(buffer_at)?).ok()?;
            (from.checked_add(len)? <= buffer.len()).then(|| buffer.slice(from..from + len))
        };
        if let Some(bytes) = buffered(&self.buffer, self.buffer_at) {
            return Ok(Some(bytes));
        }
        let want = (self.limit - at).min(len.max(READ_BYTES) as u64) as usize;
        let mut buffer = vec![0; want];
        let read = self.file.read_at(&mut buffer, at).map_err(ReadError::of(&self.framing.cover.name()))?;
        buffer.truncate(read);
        (self.buffer, self.buffer_at) = (buffer.into(), at);
        Ok(buffered(&self.buffer, self.buffer_at))
    }

    fn rest(&mut self) -> io::Result<Rest> {
        Ok(match self.next_frame(self.at)? {
            (Some(at), _) => Rest::Frame(at),
            (None, end) if end > self.at => Rest::Torn(end),
            (None, _) => Rest::Empty,
        })
    }

    /// Returns the header at a position, if a frame may start there.
    pub(crate) fn header_at(&mut self, at: u64) -> io::Result<Option<FrameHeader>> {
        Ok(self.bytes(at, FRAME_HEADER)?.and_then(|header| FrameHeader::read(&header, self.framing, at)))
    }

    /// Finds the next complete frame from a position on. Also returns the end of the non-zero bytes read so far. If
    /// marks are derived, only real frames are compared with their checksums, so that the time is linear.
    pub(crate) fn next_frame(&mut self, mut at: u64) -> io::Result<(Option<u64>, u64)> {
        let (begin, mut end) = (at, at);
        let mut reported = Instant::now();
        while at < self.limit {
            let len = (self.limit - at).min(READ_BYTES as u64) as usize;
            let Some(chunk) = self.bytes(at, len)? else { break };
            if let Some(last) = chunk.iter().rposition(|byte| *byte != 0) {
                end = at + last as u64 + 1;
                for from in (0..=last).step_by(ALIGN) {
                    let candidate = at + from as u64;
                    let marked = match chunk.get(from..from + FRAME_HEADER) {
                        Some(header) => FrameHeader::read(header, self.framing, candidate),
                        None => self.header_at(candidate)?,
                    };
                    if marked.is_some() {
                        if self.frame_at(candidate)?.is_some() {
                            return Ok((Some(candidate), end));
                        }
                        self.report(&mut reported, begin, candidate);
                    }
                }
            }
            at += len as u64;
            self.report(&mut reported, begin, at);
        }
        Ok((None, end))
    }

    /// Logs the progress of a long search.
    fn report(&self, reported: &mut Instant, begin: u64, at: u64) {
        if reported.elapsed() >= REPORT_INTERVAL {
            *reported = Instant::now();
            let (done, all) = ((at - begin) >> 10, (self.limit - begin) >> 10);
            let segment = self.framing.cover.name();
            tracing::info!(%segment, "searching for writes behind one that is not whole: {done} of {all} KiB");
        }
    }

    pub(crate) fn damaged(&self, what: &str) -> io::Error {
        damaged(format!("{} is damaged: its frame before byte {} {what}", self.framing.cover.name(), self.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files that a start may find if replaced ones were not removed: first, last and generation.
    #[test]
    fn later_generations_replace_covered_segments() {
        type Names = &'static [(u64, u64, u64)];
        let cases: [(Names, Option<(Names, Names)>); 6] = [
            (&[(0, 0, 0), (1, 1, 0)], Some((&[(0, 0, 0), (1, 1, 0)], &[]))),
            (&[(0, 0, 0), (0, 0, 1), (1, 1, 0)], Some((&[(0, 0, 1), (1, 1, 0)], &[(0, 0, 0)]))),
            (&[(0, 0, 1), (0, 0, 3), (1, 1, 0)], Some((&[(0, 0, 3), (1, 1, 0)], &[(0, 0, 1)]))),
            (&[(0, 0, 1), (1, 1, 0), (0, 1, 2), (2, 2, 0)], Some((&[(0, 1, 2), (2, 2, 0)], &[(0, 0, 1), (1, 1, 0)]))),
            // Neither covers the other, and a segment is missing.
            (&[(0, 1, 1), (1, 2, 2), (3, 3, 0)], None),
            (&[(0, 0, 0), (2, 2, 0)], None),
        ];
        for (found, want) in cases {
            let covers = |names: Names| -> Vec<Cover> {
                names.iter().map(|&(first, last, generation)| Cover { first, last, generation }).collect()
            };
            let got = choose_covers(covers(found)).ok().map(|(chosen, mut superseded)| {
                superseded.sort_unstable();
                (chosen, superseded)
            });
            assert_eq!(got, want.map(|(chosen, superseded)| (covers(chosen), covers(superseded))), "{found:?}");
        }
    }
}
