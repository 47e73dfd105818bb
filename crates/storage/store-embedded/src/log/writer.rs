//! The end of the log: writes one frame for each group of writes, durably before any caller gets a reply, and starts a
//! new segment when the old one is full or has failed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;

use super::acknowledged::{AcknowledgedEnd, AcknowledgedFile, UNFINISHED};
use super::format::{
    ALIGN, Cover, End, FRAME_HEADER, FrameBuilder, FrameHeader, Framing, Head, LENGTH, Marks, NEW_MARKS, Notes,
    StoreId, decode_notes, record_positions,
};
use super::segment::{Records, Segment};
use super::spares::{PREFIX, Spare};
use super::{Inner, Pending, records};
use crate::disk::Batch;
use crate::files::{LogFile, is_transient, write_all};
use crate::record;

pub(crate) struct Writer {
    store: StoreId,
    number: u64,
    marks: Marks,
    /// The segment that this process tried to start last. A failed attempt may have left a file with its name.
    attempted: u64,
    file: Arc<dyn LogFile>,
    /// The position of the next frame, and the checksum of the previous one.
    end: End,
    /// The size that the file system has reserved.
    limit: u64,
    /// True after a failed write or sync: the bytes behind `end` are unknown. The segment gets no more writes.
    broken: bool,
    /// The end of an earlier process's unfinished frame, if that is the only reason for `broken`.
    torn: Option<u64>,
    sequence: u64,
    next_revision: u64,
    head: AcknowledgedFile,
    frame: Vec<u8>,
}

/// The capacity that the frame buffer keeps after a large frame.
const MAX_RETAINED_FRAME: usize = 1 << 20;

/// The error of a frame that was not written.
enum AppendError {
    /// Nothing of the frame was written.
    Begin(io::Error),
    /// The segment that it was written to is no longer usable.
    Write(io::Error),
}

// === impl AppendError ===

impl AppendError {
    fn error(self) -> io::Error {
        match self {
            Self::Begin(error) | Self::Write(error) => error,
        }
    }
}

// === impl Writer ===

impl Writer {
    /// Creates a new log, or prepares an existing one for appending.
    pub(crate) fn start(inner: &Inner, pending: Pending) -> io::Result<()> {
        for name in inner.files.list()? {
            if name.starts_with(PREFIX) || name == UNFINISHED {
                inner.files.remove(&name)?;
            }
        }
        let is_new = inner.table.read().segments.is_empty();
        if is_new {
            let table = inner.table.read();
            let head = new_head(table.store, 0, crate::record::FIRST_REVISION + 1, 0, End::default(), Notes::new());
            drop(table);
            let segment = create_segment(inner, &head, 0, false)?;
            inner.table.write().segments.push(segment);
        } else {
            // The process that renamed files may have been killed before that was durable.
            inner.files.sync_dir()?;
        }
        for name in &pending.superseded {
            if let Err(error) = inner.files.remove(name) {
                tracing::warn!(%error, file = name, "failed to remove rewritten segment");
            }
        }
        let (head, known) = match pending.acknowledged {
            Some(acknowledged) => acknowledged,
            None => (AcknowledgedFile::create(&*inner.files)?, AcknowledgedEnd::default()),
        };
        let mut writer = {
            let table = inner.table.read();
            let segment = table.segments.last().ok_or_else(|| io::Error::other("there is no segment"))?;
            let next = table.segments.iter().rev().find_map(|segment| segment.records.last_revision());
            Self {
                store: table.store,
                number: segment.cover.last,
                marks: segment.marks,
                attempted: segment.cover.last,
                file: segment.file.clone(),
                end: segment.end,
                limit: segment.allocated,
                broken: pending.tail.torn.is_some(),
                torn: pending.tail.torn,
                sequence: pending.tail.sequence - pending.tail.unconfirmed.len() as u64,
                next_revision: next.map_or(segment.next_revision, |last| last + 1).max(known.revision + 1),
                head,
                frame: Vec::new(),
            }
        };
        if writer.broken {
            tracing::warn!(segment = writer.number, at = writer.end.at, "discarded incomplete write");
        }
        inner.head.begin(&writer.head);
        // These frames can be read, but may not be durable, and a failed sync is reported only once. Therefore their
        // bytes are written again, which needs no space, or otherwise all of them in a new segment.
        let unconfirmed = &pending.tail.unconfirmed;
        match writer.write_again(unconfirmed) {
            Ok(()) => unconfirmed.iter().try_for_each(|(header, frame)| writer.adopt(inner, header, frame))?,
            Err(error) => {
                tracing::error!(%error, segment = writer.number, "write failed, continuing in a new segment");
                writer.broken = true;
                for (header, frame) in unconfirmed {
                    writer.rewrite(inner, header, frame)?;
                }
            }
        }
        *inner.writer.lock() = Some(writer);
        Ok(())
    }

    /// Writes a group. Returns true if a segment was started for it. A [transient](is_transient) error changes nothing.
    /// After another error nothing more can be written.
    pub(crate) fn commit(&mut self, inner: &Inner, batch: &Batch) -> io::Result<bool> {
        let before = self.number;
        match self.append(inner, batch) {
            Ok(()) => {}
            Err(AppendError::Begin(error)) if is_transient(&error) => {
                // Deletions must not wait for space as long as there is some.
                if !self.wipe_torn(inner, batch) {
                    return Err(error);
                }
                self.append(inner, batch).map_err(AppendError::error)?;
            }
            // Retries in a new segment, once: a disk that fails twice in a row cannot be trusted.
            Err(AppendError::Begin(error) | AppendError::Write(error)) => {
                inner.counters.failures.fetch_add(1, Ordering::Relaxed);
                tracing::error!(%error, segment = self.number, "write failed, continuing in a new segment");
                self.append(inner, batch).map_err(AppendError::error)?;
            }
        }
        Ok(self.number != before)
    }

    /// Overwrites an unfinished frame of an earlier process with zeros, as if it had never been started, which needs no
    /// space. Returns true if a group can be written there.
    fn wipe_torn(&mut self, inner: &Inner, batch: &Batch) -> bool {
        let Some(end) = self.torn.filter(|_| self.end.at + batch_room(batch) <= self.limit) else { return false };
        // If the next segment already has its name, its head defines the end of this one.
        let next = Cover::one(self.number + 1).name();
        if inner.files.list().is_ok_and(|names| !names.contains(&next)) {
            // Only once: if it fails, the bytes here are unknown.
            self.torn = None;
            let zeros = vec![0; end.saturating_sub(self.end.at) as usize];
            match write_all(&*self.file, &zeros, self.end.at).and_then(|()| self.file.sync_data()) {
                Ok(()) => {
                    tracing::info!(
                        segment = self.number,
                        at = self.end.at,
                        "no space for a new segment, continuing in the current one"
                    );
                    self.broken = false;
                }
                Err(error) => tracing::error!(%error, segment = self.number, "failed to erase incomplete write"),
            }
        }
        !self.broken
    }

    fn append(&mut self, inner: &Inner, batch: &Batch) -> Result<(), AppendError> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.reserve(usize::try_from(batch_room(batch)).unwrap_or_default());
        let mut builder = FrameBuilder::new(&mut frame);
        for (name, value) in &batch.meta {
            builder.note(name, value.as_ref());
        }
        let mut positions = Vec::with_capacity(batch.records.len());
        for (revision, record) in &batch.records {
            positions.push((*revision, builder.record(*revision, record), record));
        }
        let len = builder.len() as u64;
        if self.broken || self.end.at + len > self.limit {
            self.roll(inner, len).map_err(AppendError::Begin)?;
        }
        let at = self.end.at;
        let framing = Framing::new(self.store, Cover::one(self.number), self.marks);
        let chain = builder.seal(framing, at, self.sequence, self.end.chain);
        let started = Instant::now();
        if let Err(error) = write_all(&*self.file, &frame, at).and_then(|()| self.file.sync_data()) {
            // It is unknown which part of the frame is on disk, or will be.
            self.broken = true;
            return Err(AppendError::Write(error));
        }
        inner.counters.record_sync(started.elapsed());
        self.end = End { at: at + len, chain };
        self.sequence += 1;
        if let Some((revision, _)) = batch.records.last() {
            self.next_revision = revision + 1;
        }
        if frame.capacity() <= MAX_RETAINED_FRAME {
            self.frame = frame;
        }
        self.publish(inner, at, &positions, &batch.meta);
        self.note_acknowledged(inner);
        Ok(())
    }

    /// Lets readers find the records that are now durable.
    fn publish(&self, inner: &Inner, at: u64, positions: &[(u64, usize, &Bytes)], meta: &[(Bytes, Option<Bytes>)]) {
        if !meta.is_empty() {
            let mut notes = inner.notes.lock();
            for (name, value) in meta {
                match value {
                    Some(value) => notes.insert(name.clone(), value.clone()),
                    None => notes.remove(name),
                };
            }
        }
        let mut table = inner.table.write();
        let Some(segment) = table.segments.last_mut() else { return };
        segment.end = self.end;
        for (revision, position, record) in positions {
            let deletion = record::peek(record).is_some_and(|header| header.deletion);
            segment.records.push(*revision, at + *position as u64, record.len() + LENGTH, deletion);
        }
    }

    /// Records the end of the log. It is only a lower bound, so a failure does no harm.
    fn note_acknowledged(&mut self, inner: &Inner) {
        let to = AcknowledgedEnd { sequence: self.sequence, revision: self.next_revision - 1, segment: self.number };
        if let Err(error) = self.head.advance(to) {
            tracing::warn!(%error, "cannot note in \"head\" how far the log has come");
        }
        inner.head.mark_dirty();
    }

    /// Returns the bytes that can still be written to the segment.
    pub(crate) fn room(&self) -> u64 {
        if self.broken { 0 } else { self.limit.saturating_sub(self.end.at) }
    }

    /// Starts a segment, which discards the bytes behind the end of the previous one.
    fn roll(&mut self, inner: &Inner, room: u64) -> io::Result<()> {
        let notes = inner.notes.lock().clone();
        let head = new_head(self.store, self.number + 1, self.next_revision, self.sequence, self.end, notes);
        // As soon as the new segment may have its name, its head determines the end of the old one.
        let was_whole = !std::mem::replace(&mut self.broken, true);
        let is_retry = std::mem::replace(&mut self.attempted, self.number + 1) == self.number + 1;
        let segment = create_segment(inner, &head, room, is_retry).inspect_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                // The file does not belong to this process, and is never replaced.
                self.attempted = self.number;
            }
        })?;
        self.number += 1;
        self.marks = segment.marks;
        self.limit = segment.allocated;
        let old = std::mem::replace(&mut self.file, segment.file.clone());
        let old_end = std::mem::replace(&mut self.end, segment.end);
        (self.broken, self.torn) = (false, None);
        let mut table = inner.table.write();
        if let Some(sealed) = table.segments.last_mut() {
            sealed.records.shrink();
            // Frees the unused space. A file that failed is not changed again.
            if was_whole && old.set_len(old_end.at).is_ok() {
                sealed.allocated = old_end.at;
            }
        }
        table.segments.push(segment);
        drop(table);
        self.note_acknowledged(inner);
        if let Err(error) = self.head.sync() {
            tracing::warn!(%error, "failed to sync the name of the newest segment");
        }
        Ok(())
    }

    /// Writes the same bytes to the same position, so that the sync writes them to disk again.
    fn write_again(&self, frames: &[(FrameHeader, Bytes)]) -> io::Result<()> {
        if frames.is_empty() {
            return Ok(());
        }
        let mut at = self.end.at;
        for (_, frame) in frames {
            write_all(&*self.file, frame, at)?;
            at += frame.len() as u64;
        }
        self.file.sync_data()
    }

    /// Continues after an existing frame.
    fn adopt(&mut self, inner: &Inner, header: &FrameHeader, frame: &Bytes) -> io::Result<()> {
        let positions = record_positions(frame, header)
            .ok_or_else(|| super::damaged("a frame that was whole is not".to_owned()))?;
        let at = self.end.at;
        let records: Vec<_> = positions
            .into_iter()
            .map(|(position, len)| (position - LENGTH, frame.slice(position..position + len)))
            .collect();
        let positions =
            records.iter().filter_map(|(position, record)| Some((record::peek(record)?.revision, *position, record)));
        let positions: Vec<_> = positions.collect();
        self.end = End { at: at + frame.len() as u64, chain: header.checksum };
        self.sequence = header.sequence + 1;
        if let Some((revision, ..)) = positions.last() {
            self.next_revision = revision + 1;
        }
        self.publish(inner, at, &positions, &[]);
        self.note_acknowledged(inner);
        Ok(())
    }

    /// Writes a frame of an earlier process to a new position.
    fn rewrite(&mut self, inner: &Inner, header: &FrameHeader, frame: &Bytes) -> io::Result<()> {
        let damaged = || super::damaged("a frame that was whole is not".to_owned());
        let mut notes = frame.get(FRAME_HEADER..FRAME_HEADER + header.notes as usize).ok_or_else(damaged)?;
        let meta = decode_notes(&mut notes).ok_or_else(damaged)?;
        let with_revision = |record: Bytes| Some((record::peek(&record)?.revision, record));
        let records = records(header, frame)?.into_iter().map(with_revision).collect::<Option<Vec<_>>>();
        let batch = Batch { records: records.ok_or_else(damaged)?, meta };
        self.commit(inner, &batch).map(drop)
    }
}

/// Returns the maximum length of a group's frame in bytes.
fn batch_room(batch: &Batch) -> u64 {
    let note = |(name, value): &(Bytes, Option<Bytes>)| 8 + name.len() + value.as_ref().map_or(0, Bytes::len);
    let notes: usize = batch.meta.iter().map(note).sum();
    let records: usize = batch.records.iter().map(|(_, record)| record.len() + LENGTH).sum();
    (FRAME_HEADER + notes + records + ALIGN) as u64
}

fn new_head(store: StoreId, number: u64, next_revision: u64, sequence: u64, before: End, notes: Notes) -> Head {
    Head {
        store,
        cover: Cover::one(number),
        marks: NEW_MARKS,
        next_revision,
        sequence,
        before,
        sealed: End::default(),
        notes,
    }
}

/// Starts a segment durably, with its name and with room for a frame. It only replaces a file with its name if
/// `is_retry` is set.
fn create_segment(inner: &Inner, head: &Head, room: u64, is_retry: bool) -> io::Result<Segment> {
    let spare = inner.spares.take(inner)?;
    let Spare { file, len, .. } = &spare;
    let (file, mut allocated) = (file.clone(), *len);
    let bytes = head.encode();
    let begin = bytes.len() as u64;
    let name = head.cover.name();
    let mut write = || {
        if begin + room > allocated {
            allocated = begin + room;
            file.allocate(allocated)?;
        }
        write_all(&*file, &bytes, 0)?;
        file.sync_data()
    };
    if let Err(error) = write() {
        spare.remove(&*inner.files);
        return Err(error);
    }
    let renamed =
        if is_retry { inner.files.replace(&spare.name, &name) } else { inner.files.rename(&spare.name, &name) };
    if let Err(error) = renamed {
        spare.remove(&*inner.files);
        return Err(error);
    }
    inner.files.sync_dir()?;
    Ok(Segment {
        cover: head.cover,
        marks: head.marks,
        next_revision: head.next_revision,
        sequence: head.sequence,
        before: head.before,
        begin,
        end: End { at: begin, chain: head.before.chain },
        allocated,
        file,
        records: Records::default(),
    })
}
