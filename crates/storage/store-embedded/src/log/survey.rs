//! Reads a damaged log as far as possible: searches for the next complete frame behind a broken one. A frame is only
//! valid at the position and in the store for which it was written, so that none is found by mistake.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::acknowledged::{AcknowledgedEnd, AcknowledgedFile};
use super::format::{
    Cover, End, FRAME_HEADER, FrameHeader, Framing, Head, LENGTH, Marks, Notes, PAGE, StoreId, read_notes,
    record_positions, repair,
};
use super::open::{Walk, read_head_of};
use super::tolerant_file::TolerantFile;
use crate::files::{Files, LogFile};
use crate::record::{self, Guess};

/// A part of a log. Parts are reported in order.
pub(crate) enum Finding {
    Record {
        revision: u64,
        bytes: Bytes,
    },
    /// A damaged record.
    Broken {
        revision: u64,
        /// The apparent contents of the rest of the record.
        guess: Guess,
        segment: String,
        at: u64,
    },
    /// Bytes that cannot be split into records.
    Unreadable {
        segment: String,
        at: u64,
        len: u64,
    },
    /// Segments, or the log behind the last one, are missing.
    Missing(String),
    Problem(String),
}

/// Called with each finding.
pub(crate) type FindingVisitor<'a> = dyn FnMut(Finding) -> io::Result<()> + 'a;

/// The information about a log besides its records.
#[derive(Default)]
pub(crate) struct SurveyResult {
    pub(crate) notes: Notes,
    /// The end that had been acknowledged, if that can be read.
    pub(crate) acknowledged: Option<AcknowledgedEnd>,
}

/// A file of the log, with its head if the head is intact.
struct SegmentFile {
    cover: Cover,
    head: Option<Head>,
    file: Arc<TolerantFile>,
}

/// Reports all findings of a directory.
pub(crate) fn survey(files: &dyn Files, report: &mut FindingVisitor<'_>) -> io::Result<SurveyResult> {
    let names = files.list()?;
    let covers = choose_covers(names.iter().filter_map(|name| Cover::of_name(name)).collect(), report)?;
    let segments = open_segments(files, covers, report)?;
    let mut result = SurveyResult::default();
    match AcknowledgedFile::open(files) {
        Ok(found) => result.acknowledged = found.map(|(_, end)| end),
        Err(error) => report(Finding::Problem(error.to_string()))?,
    }
    let Some(store) = identify(&segments)? else {
        report(Finding::Missing("no segment has a head that can be read, so that nothing in them can".to_owned()))?;
        return Ok(result);
    };
    let mut next_number = 0;
    for (n, segment) in segments.iter().enumerate() {
        let SegmentFile { cover, head, file } = segment;
        if cover.first > next_number {
            let missing = format!("the segments {next_number} to {} of the log are missing", cover.first - 1);
            report(Finding::Missing(missing))?;
        }
        next_number = cover.last + 1;
        if let Some(foreign) = head.as_ref().filter(|head| head.store != store) {
            report(Finding::Missing(format!("{} belongs to another store", foreign.cover.name())))?;
            continue;
        }
        let next = segments.get(n + 1).filter(|next| next.cover.first == cover.last + 1);
        let end = match cover.generation {
            0 => next.and_then(|next| Some(next.head.as_ref()?.before)),
            _ => head.as_ref().map(|head| head.sealed),
        };
        // The notes in the head of an original segment are complete.
        if let Some(head) = head.as_ref().filter(|head| head.cover.generation == 0) {
            result.notes = head.notes.clone();
        }
        let last = n + 1 == segments.len();
        let mut reader = SegmentReader::new(store, segment, end)?;
        if end.is_none() && cover.generation == 0 {
            reader.next_first_sequence = next.map_or(Ok(None), |next| first_sequence(store, next))?;
        }
        reader.acknowledged = result.acknowledged.map(|end| end.sequence).filter(|_| last);
        reader.last = last;
        reader.read(&mut result.notes, report)?;
        for problem in file.problems() {
            report(Finding::Problem(problem))?;
        }
    }
    Ok(result)
}

/// Opens all segments that can be opened.
fn open_segments(
    files: &dyn Files,
    covers: Vec<Cover>,
    report: &mut FindingVisitor<'_>,
) -> io::Result<Vec<SegmentFile>> {
    let mut segments = Vec::with_capacity(covers.len());
    for cover in covers {
        let name = cover.name();
        let file = match files.open(&name) {
            Ok(file) => Arc::new(TolerantFile::new(name, file)),
            Err(error) => {
                report(Finding::Problem(format!("{name} cannot be opened: {error}")))?;
                continue;
            }
        };
        let head = match read_head_of(file.clone(), cover) {
            Ok((head, _)) => Some(head),
            Err(error) => {
                let repair = repair_head(&*file, cover)?;
                // Data that a later version wrote are not damaged.
                if repair.is_none() && error.kind() == io::ErrorKind::Unsupported {
                    return Err(error);
                }
                report(Finding::Problem(error.to_string()))?;
                repair
            }
        };
        segments.push(SegmentFile { cover, head, file });
    }
    Ok(segments)
}

/// Returns the identity of the store, without which no frame is recognized: from an intact head, or else from a damaged
/// one, if frames prove it.
fn identify(segments: &[SegmentFile]) -> io::Result<Option<StoreId>> {
    if let Some(store) = segments.iter().rev().find_map(|segment| Some(segment.head.as_ref()?.store)) {
        return Ok(Some(store));
    }
    for segment in segments.iter().rev() {
        let mut page = [0; PAGE];
        let read = segment.file.read_at(&mut page, 0)?;
        let Some(id) = page[..read].get(Head::STORE).and_then(|id| <[u8; 16]>::try_from(id).ok()) else { continue };
        let framing = Framing::new(StoreId(id), segment.cover, Marks::Unknown);
        let mut walk = Walk::without_chain(framing, segment.file.clone(), PAGE as u64, segment.file.size()?);
        if walk.next_frame(PAGE as u64)?.0.is_some() {
            return Ok(Some(StoreId(id)));
        }
    }
    Ok(None)
}

/// Returns the head of a segment in which one bit is wrong.
fn repair_head(file: &dyn LogFile, cover: Cover) -> io::Result<Option<Head>> {
    let mut page = [0; PAGE];
    let read = file.read_at(&mut page, 0)?;
    let len = Head::len(&page[..read]).filter(|len| *len as u64 <= file.size().unwrap_or_default());
    let mut bytes = vec![0; len.unwrap_or(PAGE)];
    let read = file.read_at(&mut bytes, 0)?;
    Ok(repair(&bytes[..read]).filter(|head| head.cover == cover))
}

/// Returns the number of the first frame in a segment without a head.
fn first_sequence(store: StoreId, segment: &SegmentFile) -> io::Result<Option<u64>> {
    let framing = Framing::new(store, segment.cover, Marks::Unknown);
    let mut walk = Walk::without_chain(framing, segment.file.clone(), PAGE as u64, segment.file.size()?);
    let first = walk.frame_at(PAGE as u64)?.filter(|_| segment.cover.generation == 0);
    Ok(first.map(|(header, _)| header.sequence))
}

/// Selects the newest of files that cover the same segments, and reports overlaps.
fn choose_covers(mut covers: Vec<Cover>, report: &mut FindingVisitor<'_>) -> io::Result<Vec<Cover>> {
    covers.sort_by_key(|cover| std::cmp::Reverse(cover.generation));
    let mut chosen = Vec::<Cover>::new();
    for cover in covers {
        match chosen.iter().find(|other| other.overlaps(cover)) {
            None => chosen.push(cover),
            Some(other) if other.contains(cover) => {}
            Some(other) => {
                report(Finding::Problem(format!("{} and {} overlap", other.name(), cover.name())))?;
            }
        }
    }
    chosen.sort_unstable();
    Ok(chosen)
}

/// A walk through one segment.
struct SegmentReader {
    name: String,
    /// True for an original segment, whose revisions have no gaps.
    original: bool,
    walk: Walk,
    limit: u64,
    /// The end of the segment and its last checksum, if they are available.
    end: Option<End>,
    /// The number of the next frame and the checksum of the previous one, where they are available.
    expected_next: Option<(u64, u64)>,
    last: bool,
    /// The number of acknowledged frames, if it is available.
    acknowledged: Option<u64>,
    /// The number of the next segment's first frame. Frames here with this number or a later one do not count.
    next_first_sequence: Option<u64>,
}

// === impl SegmentReader ===

impl SegmentReader {
    fn new(store: StoreId, segment: &SegmentFile, end: Option<End>) -> io::Result<Self> {
        let SegmentFile { cover, head, file } = segment;
        let size = file.size()?;
        let limit = end.map_or(size, |end| end.at.min(size));
        let begin = head.as_ref().map_or(PAGE as u64, |head| head.encode().len() as u64);
        let original = cover.generation == 0;
        let expected_next = head.as_ref().map(|head| (if original { head.sequence } else { 0 }, head.before.chain));
        let framing = Framing::new(store, *cover, head.as_ref().map_or(Marks::Unknown, |head| head.marks));
        let walk = Walk::without_chain(framing, file.clone(), begin, limit);
        let name = cover.name();
        Ok(Self {
            name,
            original,
            walk,
            limit,
            end,
            expected_next,
            last: false,
            acknowledged: None,
            next_first_sequence: None,
        })
    }

    fn read(&mut self, notes: &mut Notes, report: &mut FindingVisitor<'_>) -> io::Result<()> {
        while self.walk.at < self.limit {
            let at = self.walk.at;
            match self.walk.frame_at(at)? {
                Some((header, _)) if self.next_first_sequence.is_some_and(|first| header.sequence >= first) => break,
                Some((header, bytes)) => self.report_frame(at, &header, &bytes, notes, report)?,
                None => {
                    let (next, written_end) = self.walk.next_frame(at)?;
                    match next {
                        Some(next) => self.report_broken(at, next, report)?,
                        // Unused space, or an unfinished write.
                        None if self.last || self.end.is_none() => break,
                        None => {
                            self.report_broken(at, written_end.max(at), report)?;
                            self.end = None;
                        }
                    }
                    let Some(next) = next else { break };
                    self.walk.at = next;
                }
            }
        }
        let (sequence, chain) = self.expected_next.unwrap_or_default();
        if self.end.is_some_and(|end| end.at != self.walk.at || end.chain != chain) {
            let at = self.walk.at;
            report(Finding::Missing(format!("{} ends at byte {at}, which is not where it was ended", self.name)))?;
        }
        if let Some((sequence, next_first_sequence)) =
            self.expected_next.map(|(sequence, _)| sequence).zip(self.next_first_sequence)
            && sequence < next_first_sequence
        {
            let text = format!(
                "{} ends with its frame {sequence}, and the next segment begins with {next_first_sequence}",
                self.name
            );
            report(Finding::Missing(text))?;
        }
        if let Some(acknowledged) = self.acknowledged.filter(|acknowledged| *acknowledged > sequence) {
            let text = format!("the log ends at its frame {sequence}, but frame {acknowledged} had been acknowledged");
            report(Finding::Missing(text))?;
            let (_, written_end) = self.walk.next_frame(self.walk.at)?;
            if written_end > self.walk.at {
                self.report_broken(self.walk.at, written_end, report)?;
            }
        }
        Ok(())
    }

    fn report_frame(
        &mut self,
        at: u64,
        header: &FrameHeader,
        bytes: &Bytes,
        notes: &mut Notes,
        report: &mut FindingVisitor<'_>,
    ) -> io::Result<()> {
        if self.expected_next.is_some_and(|expected_next| expected_next != (header.sequence, header.chain)) {
            let text = format!("{} is damaged: its frame at byte {at} does not follow the one before it", self.name);
            report(Finding::Problem(text))?;
        }
        let note_bytes = bytes.get(FRAME_HEADER..FRAME_HEADER + header.notes as usize);
        if note_bytes.and_then(|note_bytes| read_notes(note_bytes, notes)).is_none() {
            report(Finding::Problem(format!("{} is damaged: unreadable notes at byte {at}", self.name)))?;
        }
        match record_positions(bytes, header) {
            Some(places) => {
                for (n, (place, len)) in places.into_iter().enumerate() {
                    let record = bytes.slice(place..place + len);
                    self.report_record(
                        at + (place - LENGTH) as u64,
                        header.revision.wrapping_add(n as u64),
                        record,
                        report,
                    )?;
                }
            }
            None => self.report_unreadable(at, bytes.len() as u64, report)?,
        }
        self.expected_next = Some((header.sequence + 1, header.checksum));
        self.walk.at = at + bytes.len() as u64;
        Ok(())
    }

    /// Reports the broken frames between two positions.
    fn report_broken(&mut self, mut at: u64, end: u64, report: &mut FindingVisitor<'_>) -> io::Result<()> {
        self.expected_next = None;
        while at < end {
            let header = self.walk.header_at(at)?;
            let frame = header.map(|header| (header, at + header.frame_len() as u64));
            let frame = frame.filter(|(_, next)| *next <= end);
            let Some((header, next)) = frame else { return self.report_unreadable(at, end - at, report) };
            // Another frame must start at its end, or its length cannot be trusted.
            let follower = self.walk.header_at(next)?;
            let is_followed = follower.is_some_and(|follower| follower.sequence == header.sequence.wrapping_add(1));
            if next < end && !is_followed {
                return self.report_unreadable(at, end - at, report);
            }
            self.report_broken_frame(at, &header, report)?;
            at = next;
        }
        Ok(())
    }

    /// Reports the records in a broken frame, as long as their lengths are usable.
    fn report_broken_frame(
        &mut self,
        at: u64,
        header: &FrameHeader,
        report: &mut FindingVisitor<'_>,
    ) -> io::Result<()> {
        let Some(bytes) = self.walk.bytes(at, header.frame_len())? else {
            return self.report_unreadable(at, header.frame_len() as u64, report);
        };
        let until = FRAME_HEADER + header.body as usize;
        let mut place = FRAME_HEADER + header.notes as usize;
        let mut revision = header.revision;
        for _ in 0..header.records {
            let length = bytes.get(place..place + LENGTH).and_then(|length| length.try_into().ok());
            let length = length.map(|length| u32::from_le_bytes(length) as usize);
            let Some(length) = length.filter(|length| place + LENGTH + length <= until) else { break };
            let record = bytes.slice(place + LENGTH..place + LENGTH + length);
            self.report_record(at + place as u64, revision, record, report)?;
            revision = revision.wrapping_add(1);
            place += LENGTH + length;
        }
        if place < until {
            self.report_unreadable(at + place as u64, (until - place) as u64, report)?;
        }
        report(Finding::Problem(format!(
            "{} is damaged: its frame at byte {at} does not match its checksum",
            self.name
        )))
    }

    fn report_record(&self, at: u64, revision: u64, bytes: Bytes, report: &mut FindingVisitor<'_>) -> io::Result<()> {
        // A rewritten segment has gaps, so only the record itself contains its revision.
        let header = record::peek(&bytes).map(|header| header.revision);
        let revision = if self.original { revision } else { header.unwrap_or(revision) };
        if record::is_whole(revision, &bytes) {
            return report(Finding::Record { revision, bytes });
        }
        let guess = record::guess(&bytes);
        report(Finding::Broken { revision, guess, segment: self.name.clone(), at })
    }

    fn report_unreadable(&self, at: u64, len: u64, report: &mut FindingVisitor<'_>) -> io::Result<()> {
        report(Finding::Unreadable { segment: self.name.clone(), at, len })
    }
}
