//! The bytes of a segment: its head and its frames. `docs/store-format.md` describes them.

use std::collections::BTreeMap;
use std::io;

use bytes::{Buf, BufMut, Bytes};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The format of the directory. Format 1 was a database of another engine.
pub(crate) const FORMAT: u32 = 2;
const MAGIC: [u8; 8] = *b"BINNACLE";
/// Features that a program must support to read a segment: the frames in it have derived marks.
const DERIVED_MARKS: u32 = 1;
const SUPPORTED_FEATURES: u32 = DERIVED_MARKS;
/// Frames start at a multiple of this, so that writing them never changes a page of the head.
pub(crate) const PAGE: usize = 4096;
const HEAD_FIXED: usize = 116;
/// Leases are the only notes that can be numerous: this is room for millions.
const MAX_HEAD: usize = 256 << 20;
/// The maximum length of a head in which a flipped bit is searched for.
const MAX_REPAIRED: usize = 16 << 10;

/// The mark of frames in segments without [`DERIVED_MARKS`].
const FIXED_MARK: u32 = 0x6D61_7246;
/// Makes the marks of frames independent of the seeds of their checksums.
const MARK_SEED: u64 = 0x6B72_614D_656D_6172;
pub(crate) const FRAME_HEADER: usize = 48;
pub(crate) const ALIGN: usize = 8;
/// The length field before each record.
pub(crate) const LENGTH: usize = 4;
const REMOVED: u32 = u32::MAX;

/// Facts besides the log, by name.
pub(crate) type Notes = BTreeMap<Bytes, Bytes>;

/// The end position of frames, and the checksum of the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) at: u64,
    pub(crate) chain: u64,
}

/// The ID that distinguishes a store's segments from those of other stores, and its frames from user data that look
/// like frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreId(pub(crate) [u8; 16]);

/// The original segments that a file contains: numbers `first` to `last`, rewritten or original (generation 0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cover {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) generation: u64,
}

/// The first bytes of the frames in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// The same constant everywhere, as written by earlier versions. A client can store values full of it, each of
    /// which may be a frame until its checksum is compared.
    Fixed,
    /// Derived from the store's ID and the position, so that no client data look like frames.
    Derived,
    /// Either, in a segment whose head is damaged.
    Unknown,
}

/// The marks of new segments.
pub(crate) const NEW_MARKS: Marks = Marks::Derived;

/// The parameters that frames depend on besides their contents: a frame is only valid in the store, in the segment and
/// at the position for which it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Framing {
    pub(crate) store: StoreId,
    pub(crate) cover: Cover,
    pub(crate) marks: Marks,
    mark_key: u64,
}

/// The head of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) store: StoreId,
    pub(crate) cover: Cover,
    pub(crate) marks: Marks,
    /// The first revision that a record in the segment can have.
    pub(crate) next_revision: u64,
    /// The number of the first frame.
    pub(crate) sequence: u64,
    /// The end of the previous segment. The bytes behind it were never acknowledged.
    pub(crate) before: End,
    /// The end of this segment, if it was rewritten.
    pub(crate) sealed: End,
    /// All notes at the segment's start. Empty in a rewritten segment.
    pub(crate) notes: Notes,
}

/// The error of a head that is not usable.
#[derive(Debug)]
pub(crate) enum HeadError {
    Damaged(String),
    Format(u32),
    /// The segment requires these features.
    Features(u32),
}

/// The fixed part of a frame, before its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    pub(crate) body: u32,
    pub(crate) sequence: u64,
    /// The revision of the first record.
    pub(crate) revision: u64,
    pub(crate) records: u32,
    /// The length in bytes of the notes, which come before the records.
    pub(crate) notes: u32,
    /// The checksum of the previous frame.
    pub(crate) chain: u64,
    pub(crate) checksum: u64,
}

// === impl StoreId ===

impl StoreId {
    /// Returns a random ID.
    pub(crate) fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        // Each `RandomState` has new keys from the operating system.
        let (a, b) = (RandomState::new().hash_one(0_u8), RandomState::new().hash_one(1_u8));
        let mut id = [0; 16];
        id[..8].copy_from_slice(&a.to_le_bytes());
        id[8..].copy_from_slice(&b.to_le_bytes());
        Self(id)
    }

    fn head_seed(self) -> u64 {
        xxh3_64(&self.0)
    }
}

// === impl Framing ===

impl Framing {
    pub(crate) fn new(store: StoreId, cover: Cover, marks: Marks) -> Self {
        let mark_key = xxh3_64_with_seed(&frame_position(cover, 0), store.head_seed() ^ MARK_SEED);
        Self { store, cover, marks, mark_key }
    }

    /// Returns the checksum seed of a frame.
    fn seed(self, at: u64) -> u64 {
        xxh3_64_with_seed(&frame_position(self.cover, at), self.store.head_seed())
    }

    /// Returns the mark of a new frame.
    fn mark(self, at: u64) -> u32 {
        match self.marks {
            Marks::Fixed => FIXED_MARK,
            Marks::Derived | Marks::Unknown => derived_mark(self.mark_key, at),
        }
    }

    fn is_marked(self, mark: u32, at: u64) -> bool {
        match self.marks {
            _ if mark == 0 => false,
            Marks::Fixed => mark == FIXED_MARK,
            Marks::Derived => mark == derived_mark(self.mark_key, at),
            Marks::Unknown => mark == FIXED_MARK || mark == derived_mark(self.mark_key, at),
        }
    }
}

fn frame_position(cover: Cover, at: u64) -> [u8; 32] {
    let mut frame_position = [0; 32];
    for (slot, number) in frame_position.chunks_exact_mut(8).zip([cover.first, cover.last, cover.generation, at]) {
        slot.copy_from_slice(&number.to_le_bytes());
    }
    frame_position
}

/// Returns the mark of a frame at a position. A search computes it for every position, so it is only a few operations
/// (the last ones of splitmix64) on the secret key of the segment.
fn derived_mark(key: u64, at: u64) -> u32 {
    let mut mixed = key ^ at;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    // Never zero, since unused space is full of zeros.
    (mixed >> 32) as u32 | 1
}

// === impl Cover ===

impl Cover {
    pub(crate) fn one(number: u64) -> Self {
        Self { first: number, last: number, generation: 0 }
    }

    pub(crate) fn name(self) -> String {
        format!("log-{:010}-{:010}-{:010}", self.first, self.last, self.generation)
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix("log-")?.split('-').map(|part| part.parse().ok());
        let cover = Self { first: parts.next()??, last: parts.next()??, generation: parts.next()?? };
        (cover.name() == name && cover.first <= cover.last).then_some(cover)
    }

    pub(crate) fn contains(self, other: Self) -> bool {
        self.first <= other.first && other.last <= self.last
    }

    pub(crate) fn overlaps(self, other: Self) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

// === impl Head ===

impl Head {
    /// The position of the store's identity.
    pub(crate) const STORE: std::ops::Range<usize> = 24..40;

    /// Encodes the head, with zeros up to the first frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut notes = Vec::new();
        for (name, value) in &self.notes {
            put_note(&mut notes, name, Some(value));
        }
        let len = (HEAD_FIXED + notes.len() + 8).next_multiple_of(PAGE);
        let mut out = Vec::with_capacity(len);
        out.put_slice(&MAGIC);
        out.put_u32_le(FORMAT);
        // Features that a reader must support, and features that it may ignore.
        out.put_u32_le(if self.marks == Marks::Fixed { 0 } else { DERIVED_MARKS });
        out.put_u32_le(0);
        out.put_u32_le(len as u32);
        out.put_slice(&self.store.0);
        let Cover { first, last, generation } = self.cover;
        let positions = [self.before.at, self.before.chain, self.sealed.at, self.sealed.chain];
        for number in [first, last, generation, self.next_revision, self.sequence].into_iter().chain(positions) {
            out.put_u64_le(number);
        }
        out.put_u32_le(notes.len() as u32);
        out.put_slice(&notes);
        out.put_u64_le(xxh3_64_with_seed(&out, self.store.head_seed()));
        out.resize(len, 0);
        out
    }

    /// Returns the length of the whole head, from its first page.
    pub(crate) fn len(page: &[u8]) -> Option<usize> {
        let len = u32::from_le_bytes(page.get(20..24)?.try_into().ok()?) as usize;
        (page.starts_with(&MAGIC) && len.is_multiple_of(PAGE) && len > 0 && len <= MAX_HEAD).then_some(len)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, HeadError> {
        let damaged = |what: &str| HeadError::Damaged(format!("its head {what}"));
        let mut rest = bytes.strip_prefix(&MAGIC).ok_or_else(|| damaged("does not begin as one"))?;
        if bytes.len() < HEAD_FIXED + 8 {
            return Err(damaged("is too short"));
        }
        let (format, required) = (rest.get_u32_le(), rest.get_u32_le());
        if format != FORMAT {
            return Err(HeadError::Format(format));
        }
        rest.advance(8);
        let mut store = [0; 16];
        rest.copy_to_slice(&mut store);
        let store = StoreId(store);
        let mut number = || rest.get_u64_le();
        let cover = Cover { first: number(), last: number(), generation: number() };
        let (next_revision, sequence) = (number(), number());
        let before = End { at: number(), chain: number() };
        let sealed = End { at: number(), chain: number() };
        let notes_len = rest.get_u32_le() as usize;
        let end = HEAD_FIXED.checked_add(notes_len).filter(|end| end + 8 <= bytes.len());
        let end = end.ok_or_else(|| damaged("is cut off"))?;
        let checksum = xxh3_64_with_seed(&bytes[..end], store.head_seed());
        if bytes[end..end + 8] != checksum.to_le_bytes() || bytes[end + 8..].iter().any(|byte| *byte != 0) {
            return Err(damaged("does not match its checksum"));
        }
        if required & !SUPPORTED_FEATURES != 0 {
            return Err(HeadError::Features(required));
        }
        let mut notes = Notes::new();
        read_notes(&bytes[HEAD_FIXED..end], &mut notes).ok_or_else(|| damaged("has unreadable notes"))?;
        let marks = if required & DERIVED_MARKS == 0 { Marks::Fixed } else { Marks::Derived };
        Ok(Self { store, cover, marks, next_revision, sequence, before, sealed, notes })
    }
}

/// Returns the original of a damaged head if a single bit of it is wrong.
pub(crate) fn repair(bytes: &[u8]) -> Option<Head> {
    let mut bytes = bytes.get(..bytes.len().min(MAX_REPAIRED))?.to_vec();
    (0..bytes.len() * 8).find_map(|bit| {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let head = Head::decode(&bytes).ok();
        bytes[bit / 8] ^= 1 << (bit % 8);
        head
    })
}

// === impl FrameHeader ===

impl FrameHeader {
    /// Reads a possible header at a position. The caller still has to compare the checksum.
    pub(crate) fn read(mut bytes: &[u8], framing: Framing, at: u64) -> Option<Self> {
        if bytes.len() < FRAME_HEADER || !framing.is_marked(bytes.get_u32_le(), at) {
            return None;
        }
        Some(Self {
            body: bytes.get_u32_le(),
            sequence: bytes.get_u64_le(),
            revision: bytes.get_u64_le(),
            records: bytes.get_u32_le(),
            notes: bytes.get_u32_le(),
            chain: bytes.get_u64_le(),
            checksum: bytes.get_u64_le(),
        })
    }

    /// Returns the length of the frame in bytes, including padding.
    pub(crate) fn frame_len(&self) -> usize {
        (FRAME_HEADER + self.body as usize).next_multiple_of(ALIGN)
    }

    /// Returns true if exactly this frame was written for this position. `frame` is the whole frame.
    pub(crate) fn matches(&self, frame: &[u8], framing: Framing, at: u64) -> bool {
        checksum(frame, framing.seed(at)) == self.checksum
    }
}

/// Returns the checksum of everything except the checksum itself, which is at the end of the header.
fn checksum(frame: &[u8], seed: u64) -> u64 {
    let header = xxh3_64_with_seed(&frame[..FRAME_HEADER - 8], seed);
    xxh3_64_with_seed(&frame[FRAME_HEADER..], header)
}

/// A frame being built. The buffer is reused for the next one.
pub(crate) struct FrameBuilder<'a> {
    out: &'a mut Vec<u8>,
    notes: u32,
    records: u32,
    revision: u64,
}

// === impl FrameBuilder ===

impl<'a> FrameBuilder<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        out.clear();
        out.resize(FRAME_HEADER, 0);
        Self { out, notes: 0, records: 0, revision: 0 }
    }

    /// Appends a note. Notes come before records.
    pub(crate) fn note(&mut self, name: &[u8], value: Option<&Bytes>) {
        put_note(self.out, name, value);
        self.notes = (self.out.len() - FRAME_HEADER) as u32;
    }

    /// Appends a record. Returns its position in the frame.
    pub(crate) fn record(&mut self, revision: u64, record: &[u8]) -> usize {
        if self.records == 0 {
            self.revision = revision;
        }
        self.records += 1;
        let at = self.out.len();
        self.out.put_u32_le(record.len() as u32);
        self.out.put_slice(record);
        at
    }

    pub(crate) fn len(&self) -> usize {
        self.out.len().next_multiple_of(ALIGN)
    }

    /// Completes the frame for its position. Returns its checksum.
    pub(crate) fn seal(self, framing: Framing, at: u64, sequence: u64, chain: u64) -> u64 {
        let body = (self.out.len() - FRAME_HEADER) as u32;
        self.out.resize(self.out.len().next_multiple_of(ALIGN), 0);
        let mut header = &mut self.out[..FRAME_HEADER];
        header.put_u32_le(framing.mark(at));
        header.put_u32_le(body);
        header.put_u64_le(sequence);
        header.put_u64_le(self.revision);
        header.put_u32_le(self.records);
        header.put_u32_le(self.notes);
        header.put_u64_le(chain);
        let checksum = checksum(self.out, framing.seed(at));
        self.out[FRAME_HEADER - 8..FRAME_HEADER].copy_from_slice(&checksum.to_le_bytes());
        checksum
    }
}

fn put_note(out: &mut Vec<u8>, name: &[u8], value: Option<&Bytes>) {
    out.put_u32_le(name.len() as u32);
    out.put_u32_le(value.map_or(REMOVED, |value| value.len() as u32));
    out.put_slice(name);
    out.put_slice(value.map_or(&[], |value| value));
}

/// Applies the note changes in a frame or head. Returns `None` if the bytes are not notes.
pub(crate) fn read_notes(mut bytes: &[u8], notes: &mut Notes) -> Option<()> {
    for (name, value) in decode_notes(&mut bytes)? {
        match value {
            Some(value) => notes.insert(name, value),
            None => notes.remove(&name),
        };
    }
    Some(())
}

pub(crate) fn decode_notes(bytes: &mut &[u8]) -> Option<Vec<(Bytes, Option<Bytes>)>> {
    let mut notes = Vec::new();
    while !bytes.is_empty() {
        if bytes.len() < 8 {
            return None;
        }
        let (name, value) = (bytes.get_u32_le() as usize, bytes.get_u32_le());
        let name = bytes.split_off(..name)?;
        let value =
            if value == REMOVED { None } else { Some(Bytes::copy_from_slice(bytes.split_off(..value as usize)?)) };
        notes.push((Bytes::copy_from_slice(name), value));
    }
    Some(notes)
}

/// Returns the positions and lengths of the records in a frame. A position is behind the length field.
pub(crate) fn record_positions(frame: &[u8], header: &FrameHeader) -> Option<Vec<(usize, usize)>> {
    let mut at = FRAME_HEADER.checked_add(header.notes as usize)?;
    let end = FRAME_HEADER + header.body as usize;
    let mut positions = Vec::with_capacity((header.records as usize).min(frame.len() / LENGTH));
    for _ in 0..header.records {
        let length = frame.get(at..at + LENGTH)?;
        let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
        at += LENGTH;
        let next = at.checked_add(length).filter(|next| *next <= end)?;
        positions.push((at, length));
        at = next;
    }
    (at == end).then_some(positions)
}

pub(crate) fn damaged(detail: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            store: StoreId::random(),
            cover: Cover { first: 3, last: 7, generation: 12 },
            marks: Marks::Derived,
            next_revision: 900,
            sequence: 55,
            before: End { at: 8192, chain: 77 },
            sealed: End { at: 12345, chain: 78 },
            notes: Notes::from([(Bytes::from_static(b"name"), Bytes::from_static(b"value"))]),
        }
    }

    #[test]
    fn head_round_trips_and_detects_changed_bytes() {
        let bytes = head().encode();
        let mut again = head();
        let read = Head::decode(&bytes).expect("it is whole");
        again.store = read.store;
        assert_eq!(read, again);
        assert_eq!(Head::len(&bytes), Some(PAGE));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(Head::decode(&changed).is_err(), "byte {at}");
            if at % 997 == 0 || (at < HEAD_FIXED && at % 7 == 0) {
                assert_eq!(repair(&changed), Some(read.clone()), "byte {at}");
                changed[at] ^= 1;
                assert_eq!(repair(&changed), None, "two bits of byte {at}");
            }
        }
        assert!(matches!(
            Head::decode(&{
                let mut later = bytes.clone();
                later[8] = 9;
                later
            }),
            Err(HeadError::Format(9))
        ));
    }

    #[test]
    fn frame_is_valid_only_unchanged_and_in_place() {
        for marks in [Marks::Fixed, Marks::Derived] {
            let (store, cover) = (StoreId::random(), Cover::one(4));
            let framing = Framing::new(store, cover, marks);
            let mut frame = Vec::new();
            let mut builder = FrameBuilder::new(&mut frame);
            builder.note(b"a", Some(&Bytes::from_static(b"b")));
            builder.note(b"c", None);
            assert_eq!(builder.record(9, b"record"), FRAME_HEADER + 19);
            builder.record(10, b"");
            let chain = builder.seal(framing, 4096, 3, 99);
            let valid = |bytes: &[u8], framing, at| {
                FrameHeader::read(bytes, framing, at)
                    .is_some_and(|header| header.frame_len() == bytes.len() && header.matches(bytes, framing, at))
            };
            let header = FrameHeader::read(&frame, framing, 4096).expect("a header");
            assert_eq!((header.checksum, header.chain, header.sequence, header.revision), (chain, 99, 3, 9));
            assert_eq!(header.frame_len(), frame.len());
            assert!(valid(&frame, framing, 4096));
            assert!(valid(&frame, Framing::new(store, cover, Marks::Unknown), 4096));
            let at = FRAME_HEADER + 19 + LENGTH;
            assert_eq!(record_positions(&frame, &header), Some(vec![(at, 6), (at + 10, 0)]));
            assert!(!valid(&frame, framing, 4104));
            let others = [
                Framing::new(store, Cover::one(5), marks),
                Framing::new(StoreId::random(), cover, marks),
                Framing::new(store, cover, if marks == Marks::Fixed { Marks::Derived } else { Marks::Fixed }),
            ];
            for other in others {
                assert!(!valid(&frame, other, 4096), "{other:?}");
                // Derived marks differ, so that the checksum need not be compared.
                assert_eq!(
                    FrameHeader::read(&frame, other, 4096).is_some(),
                    other.marks == Marks::Fixed && marks == other.marks
                );
            }
            for at in 0..frame.len() {
                let mut changed = frame.clone();
                changed[at] ^= 1;
                assert!(!valid(&changed, framing, 4096), "byte {at}");
            }
        }
    }

    #[test]
    fn file_name_encodes_cover() {
        let cover = Cover { first: 3, last: 70, generation: 2 };
        assert_eq!(cover.name(), "log-0000000003-0000000070-0000000002");
        assert_eq!(Cover::of_name(&cover.name()), Some(cover));
        for name in ["log-1-2-3", "log", "head", "log-0000000003-0000000002-0000000002", "spare-1"] {
            assert_eq!(Cover::of_name(name), None, "{name}");
        }
        assert!(cover.contains(Cover::one(70)) && !cover.contains(Cover { first: 70, last: 71, generation: 0 }));
        assert!(cover.overlaps(Cover { first: 70, last: 71, generation: 0 }) && !cover.overlaps(Cover::one(71)));
    }
}
