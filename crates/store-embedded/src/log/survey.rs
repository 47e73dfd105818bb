//! Reads a damaged log as far as possible: searches for the next complete frame behind a broken one. A frame is valid
//! only at the position and in the store for which it was written, so that none is found by mistake.

use std::io;
use std::sync::Arc;

use bytes::Bytes;

use super::acknowledged::AcknowledgedFile;
use super::format::{
    Cover, End, FRAME_HEADER, FrameHeader, Framing, Head, LENGTH, Marks, Notes, PAGE, StoreId, read_notes,
    record_places,
};
use super::open::{Walk, read_head};
use crate::files::{Files, LogFile};
use crate::record;

/// A part of a log; parts are reported in order.
pub(crate) enum Finding {
    Record {
        revision: u64,
        bytes: Bytes,
    },
    /// A record that is damaged.
    Broken {
        revision: u64,
        /// The key, if it can be read from the rest of the record.
        key: Option<Bytes>,
        segment: String,
        at: u64,
    },
    /// Bytes that cannot be divided into records.
    Unreadable {
        segment: String,
        at: u64,
        len: u64,
    },
    Problem(String),
}

/// Reports all findings of a directory. Returns the notes beside the log.
pub(crate) fn survey(files: &dyn Files, tell: &mut dyn FnMut(Finding) -> io::Result<()>) -> io::Result<Notes> {
    let names = files.list()?;
    let covers = choose(names.iter().filter_map(|name| Cover::of_name(name)).collect(), tell)?;
    let mut segments = Vec::with_capacity(covers.len());
    for cover in covers {
        let head = match read_head(files, cover) {
            Ok((head, _)) => Some(head),
            Err(error) => {
                tell(Finding::Problem(error.to_string()))?;
                None
            }
        };
        segments.push((cover, head));
    }
    let Some(store) = segments.iter().rev().find_map(|(_, head)| Some(head.as_ref()?.store)) else {
        tell(Finding::Problem("no segment has a head that can be read, so that nothing in them can".to_owned()))?;
        return Ok(Notes::new());
    };
    let known = match AcknowledgedFile::open(files) {
        Ok(known) => known.map(|(_, known)| known.sequence),
        Err(error) => {
            tell(Finding::Problem(error.to_string()))?;
            None
        }
    };
    let mut notes = Notes::new();
    for (n, (cover, head)) in segments.iter().enumerate() {
        if let Some(stranger) = head.as_ref().filter(|head| head.store != store) {
            tell(Finding::Problem(format!("{} belongs to another store", stranger.cover.name())))?;
            continue;
        }
        let file = files.open(&cover.name())?;
        let next = segments.get(n + 1).filter(|(next, _)| next.first == cover.last + 1);
        let end = match cover.generation {
            0 => next.and_then(|(_, next)| Some(next.as_ref()?.before)),
            _ => head.as_ref().map(|head| head.sealed),
        };
        // The notes of an original segment's head are complete.
        if let Some(head) = head.as_ref().filter(|head| head.cover.generation == 0) {
            notes = head.notes.clone();
        }
        let last = n + 1 == segments.len();
        let mut reader = Reader::new(store, *cover, head.as_ref(), file, end)?;
        reader.acknowledged = known.filter(|_| last);
        reader.last = last;
        reader.read(&mut notes, tell)?;
    }
    Ok(notes)
}

/// Chooses the newest of files that cover the same segments; reports overlaps and missing segments.
fn choose(mut covers: Vec<Cover>, tell: &mut dyn FnMut(Finding) -> io::Result<()>) -> io::Result<Vec<Cover>> {
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
    let mut next = 0;
    for cover in &chosen {
        if cover.first > next {
            let missing = format!("the segments {next} to {} of the log are missing", cover.first - 1);
            tell(Finding::Problem(missing))?;
        }
        next = cover.last + 1;
    }
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
}

// === impl Reader ===

impl Reader {
    fn new(
        store: StoreId,
        cover: Cover,
        head: Option<&Head>,
        file: Arc<dyn LogFile>,
        end: Option<End>,
    ) -> io::Result<Self> {
        let size = file.size()?;
        let limit = end.map_or(size, |end| end.at.min(size));
        let begin = head.map_or(PAGE as u64, |head| head.encode().len() as u64);
        let written = cover.generation == 0;
        let follows = head.map(|head| (if written { head.sequence } else { 0 }, head.before.chain));
        let framing = Framing::new(store, cover, head.map_or(Marks::Unknown, |head| head.marks));
        let walk = Walk::over(framing, file, begin, limit);
        Ok(Self { name: cover.name(), written, walk, limit, end, follows, last: false, acknowledged: None })
    }

    fn read(&mut self, notes: &mut Notes, tell: &mut dyn FnMut(Finding) -> io::Result<()>) -> io::Result<()> {
        while self.walk.at < self.limit {
            let at = self.walk.at;
            match self.walk.frame_at(at)? {
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
            tell(Finding::Problem(format!("{} ends at byte {at}, which is not where it was ended", self.name)))?;
        }
        if let Some(known) = self.acknowledged.filter(|known| *known > sequence) {
            let text = format!("the log ends at its frame {sequence}, but frame {known} had been acknowledged");
            tell(Finding::Problem(text))?;
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
        tell: &mut dyn FnMut(Finding) -> io::Result<()>,
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
    fn broken(&mut self, mut at: u64, end: u64, tell: &mut dyn FnMut(Finding) -> io::Result<()>) -> io::Result<()> {
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
    fn broken_frame(
        &mut self,
        at: u64,
        header: &FrameHeader,
        tell: &mut dyn FnMut(Finding) -> io::Result<()>,
    ) -> io::Result<()> {
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

    fn record(
        &self,
        at: u64,
        revision: u64,
        bytes: Bytes,
        tell: &mut dyn FnMut(Finding) -> io::Result<()>,
    ) -> io::Result<()> {
        // A rewritten segment has gaps, so only the record itself has its revision.
        let seen = record::peek(&bytes).map(|seen| seen.revision);
        let revision = if self.written { revision } else { seen.unwrap_or(revision) };
        if record::is_whole(revision, &bytes) {
            return tell(Finding::Record { revision, bytes });
        }
        let key = record::guess_key(&bytes);
        tell(Finding::Broken { revision, key, segment: self.name.clone(), at })
    }

    fn unreadable(&self, at: u64, len: u64, tell: &mut dyn FnMut(Finding) -> io::Result<()>) -> io::Result<()> {
        tell(Finding::Unreadable { segment: self.name.clone(), at, len })
    }
}
