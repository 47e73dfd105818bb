//! Reads a damaged log as far as possible: searches for the next complete frame behind a broken one. A frame is valid
//! only at the position and in the store for which it was written, so that none is found by mistake.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::acknowledged::{Acknowledged, AcknowledgedFile};
use super::format::{
    Cover, End, FRAME_HEADER, FrameHeader, Framing, Head, LENGTH, Marks, Notes, PAGE, StoreId, read_notes,
    record_places, repaired,
};
use super::open::{Walk, read_head_of};
use super::tolerant::Tolerant;
use crate::files::{Files, LogFile};
use crate::record::{self, Guess};

/// A part of a log; parts are reported in order.
pub(crate) enum Finding {
    Record {
        revision: u64,
        bytes: Bytes,
    },
    /// A record that is damaged.
    Broken {
        revision: u64,
        /// What the rest of the record seems to say.
        guess: Guess,
        segment: String,
        at: u64,
    },
    /// Bytes that cannot be divided into records.
    Unreadable {
        segment: String,
        at: u64,
        len: u64,
    },
    /// Segments, or what is behind the last one, are missing.
    Missing(String),
    Problem(String),
}

/// Called with each finding.
pub(crate) type Tell<'a> = dyn FnMut(Finding) -> io::Result<()> + 'a;

/// What is known of a log beside its records.
#[derive(Default)]
pub(crate) struct Surveyed {
    pub(crate) notes: Notes,
    /// The end that had been acknowledged, if that can be read.
    pub(crate) acknowledged: Option<Acknowledged>,
}

/// A file of the log, with its head if that is whole.
struct Surveying {
    cover: Cover,
    head: Option<Head>,
    file: Arc<Tolerant>,
}

/// Reports all findings of a directory.
pub(crate) fn survey(files: &dyn Files, tell: &mut Tell<'_>) -> io::Result<Surveyed> {
    let names = files.list()?;
    let covers = choose(names.iter().filter_map(|name| Cover::of_name(name)).collect(), tell)?;
    let segments = open_segments(files, covers, tell)?;
    let mut surveyed = Surveyed::default();
    match AcknowledgedFile::open(files) {
        Ok(known) => surveyed.acknowledged = known.map(|(_, known)| known),
        Err(error) => tell(Finding::Problem(error.to_string()))?,
    }
    let Some(store) = identify(&segments)? else {
        tell(Finding::Missing("no segment has a head that can be read, so that nothing in them can".to_owned()))?;
        return Ok(surveyed);
    };
    let mut next_number = 0;
    for (n, segment) in segments.iter().enumerate() {
        let Surveying { cover, head, file } = segment;
        if cover.first > next_number {
            let missing = format!("the segments {next_number} to {} of the log are missing", cover.first - 1);
            tell(Finding::Missing(missing))?;
        }
        next_number = cover.last + 1;
        if let Some(stranger) = head.as_ref().filter(|head| head.store != store) {
            tell(Finding::Missing(format!("{} belongs to another store", stranger.cover.name())))?;
            continue;
        }
        let next = segments.get(n + 1).filter(|next| next.cover.first == cover.last + 1);
        let end = match cover.generation {
            0 => next.and_then(|next| Some(next.head.as_ref()?.before)),
            _ => head.as_ref().map(|head| head.sealed),
        };
        // The notes of an original segment's head are complete.
        if let Some(head) = head.as_ref().filter(|head| head.cover.generation == 0) {
            surveyed.notes = head.notes.clone();
        }
        let last = n + 1 == segments.len();
        let mut reader = Reader::new(store, segment, end)?;
        if end.is_none() && cover.generation == 0 {
            reader.bound = next.map_or(Ok(None), |next| first_sequence(store, next))?;
        }
        reader.acknowledged = surveyed.acknowledged.map(|known| known.sequence).filter(|_| last);
        reader.last = last;
        reader.read(&mut surveyed.notes, tell)?;
        for problem in file.problems() {
            tell(Finding::Problem(problem))?;
        }
    }
    Ok(surveyed)
}

/// Opens all segments that can be opened.
fn open_segments(files: &dyn Files, covers: Vec<Cover>, tell: &mut Tell<'_>) -> io::Result<Vec<Surveying>> {
    let mut segments = Vec::with_capacity(covers.len());
    for cover in covers {
        let name = cover.name();
        let file = match files.open(&name) {
            Ok(file) => Arc::new(Tolerant::new(name, file)),
            Err(error) => {
                tell(Finding::Problem(format!("{name} cannot be opened: {error}")))?;
                continue;
            }
        };
        let head = match read_head_of(file.clone(), cover) {
            Ok((head, _)) => Some(head),
            Err(error) => {
                let repaired = repaired_head(&*file, cover)?;
                // What a later version wrote is not damaged.
                if repaired.is_none() && error.kind() == io::ErrorKind::Unsupported {
                    return Err(error);
                }
                tell(Finding::Problem(error.to_string()))?;
                repaired
            }
        };
        segments.push(Surveying { cover, head, file });
    }
    Ok(segments)
}

/// Returns the identity of the store, without which no frame is recognized: from a whole head, or else from a damaged one,
/// if frames prove it.
fn identify(segments: &[Surveying]) -> io::Result<Option<StoreId>> {
    if let Some(store) = segments.iter().rev().find_map(|segment| Some(segment.head.as_ref()?.store)) {
        return Ok(Some(store));
    }
    for segment in segments.iter().rev() {
        let mut page = [0; PAGE];
        let read = segment.file.read_at(&mut page, 0)?;
        let Some(id) = page[..read].get(Head::STORE).and_then(|id| <[u8; 16]>::try_from(id).ok()) else { continue };
        let framing = Framing::new(StoreId(id), segment.cover, Marks::Unknown);
        let mut walk = Walk::over(framing, segment.file.clone(), PAGE as u64, segment.file.size()?);
        if walk.next_frame(PAGE as u64)?.0.is_some() {
            return Ok(Some(StoreId(id)));
        }
    }
    Ok(None)
}

/// Returns the head of a segment in which one bit is wrong.
fn repaired_head(file: &dyn LogFile, cover: Cover) -> io::Result<Option<Head>> {
    let mut page = [0; PAGE];
    let read = file.read_at(&mut page, 0)?;
    let len = Head::len(&page[..read]).filter(|len| *len as u64 <= file.size().unwrap_or_default());
    let mut bytes = vec![0; len.unwrap_or(PAGE)];
    let read = file.read_at(&mut bytes, 0)?;
    Ok(repaired(&bytes[..read]).filter(|head| head.cover == cover))
}

/// Returns the number of the first frame in a segment without a head.
fn first_sequence(store: StoreId, segment: &Surveying) -> io::Result<Option<u64>> {
    let framing = Framing::new(store, segment.cover, Marks::Unknown);
    let mut walk = Walk::over(framing, segment.file.clone(), PAGE as u64, segment.file.size()?);
    let first = walk.frame_at(PAGE as u64)?.filter(|_| segment.cover.generation == 0);
    Ok(first.map(|(header, _)| header.sequence))
}

/// Chooses the newest of files that cover the same segments; reports overlaps.
fn choose(mut covers: Vec<Cover>, tell: &mut Tell<'_>) -> io::Result<Vec<Cover>> {
    covers.sort_by_key(|cover| std::cmp::Reverse(cover.generation));
    let mut chosen = Vec::<Cover>::new();
    for cover in covers {
        match chosen.iter().find(|known| known.overlaps(cover)) {
            None => chosen.push(cover),
            Some(known) if known.contains(cover) => {}
            Some(known) => {
                tell(Finding::Problem(format!("{} and {} overlap", known.name(), cover.name())))?;
            }
        }
    }
    chosen.sort_unstable();
    Ok(chosen)
}

/// A walk through one segment.
struct Reader {
    name: String,
    /// True for an original segment: its revisions have no gaps.
    written: bool,
    walk: Walk,
    limit: u64,
    /// The end of the segment and its last checksum, if they are known.
    end: Option<End>,
    /// The number of the next frame and the checksum of the one before, where they are known.
    follows: Option<(u64, u64)>,
    last: bool,
    /// The number of acknowledged frames, if it is known.
    acknowledged: Option<u64>,
    /// The number of the next segment's first frame: frames here with this number or a later one do not count.
    bound: Option<u64>,
}

// === impl Reader ===

impl Reader {
    fn new(store: StoreId, segment: &Surveying, end: Option<End>) -> io::Result<Self> {
        let Surveying { cover, head, file } = segment;
        let size = file.size()?;
        let limit = end.map_or(size, |end| end.at.min(size));
        let begin = head.as_ref().map_or(PAGE as u64, |head| head.encode().len() as u64);
        let written = cover.generation == 0;
        let follows = head.as_ref().map(|head| (if written { head.sequence } else { 0 }, head.before.chain));
        let framing = Framing::new(store, *cover, head.as_ref().map_or(Marks::Unknown, |head| head.marks));
        let walk = Walk::over(framing, file.clone(), begin, limit);
        let name = cover.name();
        Ok(Self { name, written, walk, limit, end, follows, last: false, acknowledged: None, bound: None })
    }

    fn read(&mut self, notes: &mut Notes, tell: &mut Tell<'_>) -> io::Result<()> {
        while self.walk.at < self.limit {
            let at = self.walk.at;
            match self.walk.frame_at(at)? {
                Some((header, _)) if self.bound.is_some_and(|bound| header.sequence >= bound) => break,
                Some((header, bytes)) => self.frame(at, &header, &bytes, notes, tell)?,
                None => {
                    let (next, written) = self.walk.next_frame(at)?;
                    match next {
                        Some(next) => self.broken(at, next, tell)?,
                        // Unused space, or an unfinished write.
                        None if self.last || self.end.is_none() => break,
                        None => {
                            self.broken(at, written.max(at), tell)?;
                            self.end = None;
                        }
                    }
                    let Some(next) = next else { break };
                    self.walk.at = next;
                }
            }
        }
        let (sequence, chain) = self.follows.unwrap_or_default();
        if self.end.is_some_and(|end| end.at != self.walk.at || end.chain != chain) {
            let at = self.walk.at;
            tell(Finding::Missing(format!("{} ends at byte {at}, which is not where it was ended", self.name)))?;
        }
        if let Some((sequence, bound)) = self.follows.map(|(sequence, _)| sequence).zip(self.bound)
            && sequence < bound
        {
            let text =
                format!("{} ends with its frame {sequence}, and the next segment begins with {bound}", self.name);
            tell(Finding::Missing(text))?;
        }
        if let Some(known) = self.acknowledged.filter(|known| *known > sequence) {
            let text = format!("the log ends at its frame {sequence}, but frame {known} had been acknowledged");
            tell(Finding::Missing(text))?;
            let (_, written) = self.walk.next_frame(self.walk.at)?;
            if written > self.walk.at {
                self.broken(self.walk.at, written, tell)?;
            }
        }
        Ok(())
    }

    fn frame(
        &mut self,
        at: u64,
        header: &FrameHeader,
        bytes: &Bytes,
        notes: &mut Notes,
        tell: &mut Tell<'_>,
    ) -> io::Result<()> {
        if self.follows.is_some_and(|follows| follows != (header.sequence, header.chain)) {
            let text = format!("{} is damaged: its frame at byte {at} does not follow the one before it", self.name);
            tell(Finding::Problem(text))?;
        }
        let noted = bytes.get(FRAME_HEADER..FRAME_HEADER + header.notes as usize);
        if noted.and_then(|noted| read_notes(noted, notes)).is_none() {
            tell(Finding::Problem(format!("{} is damaged: unreadable notes at byte {at}", self.name)))?;
        }
        match record_places(bytes, header) {
            Some(places) => {
                for (n, (place, len)) in places.into_iter().enumerate() {
                    let record = bytes.slice(place..place + len);
                    self.record(at + (place - LENGTH) as u64, header.revision.wrapping_add(n as u64), record, tell)?;
                }
            }
            None => self.unreadable(at, bytes.len() as u64, tell)?,
        }
        self.follows = Some((header.sequence + 1, header.checksum));
        self.walk.at = at + bytes.len() as u64;
        Ok(())
    }

    /// Reports the broken frames between two positions.
    fn broken(&mut self, mut at: u64, end: u64, tell: &mut Tell<'_>) -> io::Result<()> {
        self.follows = None;
        while at < end {
            let header = self.walk.header_at(at)?;
            let frame = header.map(|header| (header, at + header.frame_len() as u64));
            let frame = frame.filter(|(_, next)| *next <= end);
            let Some((header, next)) = frame else { return self.unreadable(at, end - at, tell) };
            // Another frame must begin at its end, or its length cannot be trusted.
            let follower = self.walk.header_at(next)?;
            let goes_on = follower.is_some_and(|follower| follower.sequence == header.sequence.wrapping_add(1));
            if next < end && !goes_on {
                return self.unreadable(at, end - at, tell);
            }
            self.broken_frame(at, &header, tell)?;
            at = next;
        }
        Ok(())
    }

    /// Reports the records in a broken frame, as long as their lengths are usable.
    fn broken_frame(&mut self, at: u64, header: &FrameHeader, tell: &mut Tell<'_>) -> io::Result<()> {
        let Some(bytes) = self.walk.bytes(at, header.frame_len())? else {
            return self.unreadable(at, header.frame_len() as u64, tell);
        };
        let until = FRAME_HEADER + header.body as usize;
        let mut place = FRAME_HEADER + header.notes as usize;
        let mut revision = header.revision;
        for _ in 0..header.records {
            let length = bytes.get(place..place + LENGTH).and_then(|length| length.try_into().ok());
            let length = length.map(|length| u32::from_le_bytes(length) as usize);
            let Some(length) = length.filter(|length| place + LENGTH + length <= until) else { break };
            let record = bytes.slice(place + LENGTH..place + LENGTH + length);
            self.record(at + place as u64, revision, record, tell)?;
            revision = revision.wrapping_add(1);
            place += LENGTH + length;
        }
        if place < until {
            self.unreadable(at + place as u64, (until - place) as u64, tell)?;
        }
        tell(Finding::Problem(format!("{} is damaged: its frame at byte {at} does not match its checksum", self.name)))
    }

    fn record(&self, at: u64, revision: u64, bytes: Bytes, tell: &mut Tell<'_>) -> io::Result<()> {
        // A rewritten segment has gaps, so only the record itself has its revision.
        let seen = record::peek(&bytes).map(|seen| seen.revision);
        let revision = if self.written { revision } else { seen.unwrap_or(revision) };
        if record::is_whole(revision, &bytes) {
            return tell(Finding::Record { revision, bytes });
        }
        let guess = record::guess(&bytes);
        tell(Finding::Broken { revision, guess, segment: self.name.clone(), at })
    }

    fn unreadable(&self, at: u64, len: u64, tell: &mut Tell<'_>) -> io::Result<()> {
        tell(Finding::Unreadable { segment: self.name.clone(), at, len })
    }
}
