//! The format of a backup.
//!
//! Frames follow a magic number, each with its length and a checksum. The last one holds their number and a checksum
//! over all, so that a file with a missing end or a missing frame is invalid.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};

use binnacle_store::{KeyValue, LeaseId, Revision};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The contents of one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Head(Head),
    /// A key as of the start of the history, or as put since then. The former are sorted by key, the latter by
    /// revision.
    Put(KeyValue),
    Delete {
        key: Bytes,
        revision: Revision,
    },
    /// A lease with its remaining seconds at the end.
    Lease {
        lease: LeaseId,
        seconds: u64,
    },
    /// Data beside the objects: the digests of all resources, the keys of a logical cluster.
    Note {
        name: String,
        data: Bytes,
    },
    /// The number of frames before this one, their checksum, and the newest revision.
    End {
        frames: u64,
        sum: u64,
        revision: Revision,
    },
}

/// The first frame of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// The prefix of the keys of all objects.
    pub(crate) root: String,
    /// The first revision of the history.
    pub(crate) begins: Revision,
}

/// The note with the digests of the objects at the newest revision, as JSON.
pub(crate) const DIGESTS: &str = "digests";

const MAGIC: &[u8; 8] = b"BINBAK\x00\x01";
/// The largest valid frame: etcd's largest value, with a margin.
const MAX_FRAME: usize = 256 << 20;
const FRAME_HEADER: usize = 12;

const HEAD: u8 = 1;
const PUT: u8 = 2;
const DELETE: u8 = 3;
const LEASE: u8 = 4;
const END: u8 = 5;
const NOTE: u8 = 6;

/// Writes frames.
pub(crate) struct Writer {
    out: BufWriter<File>,
    frames: u64,
    sum: Xxh3,
    pub(crate) bytes: u64,
}

/// Reads frames, in order or by offset.
pub(crate) struct Reader {
    input: BufReader<File>,
    at: u64,
    frames: u64,
    sum: Xxh3,
}

// === impl Writer ===

impl Writer {
    /// Writes the start of an empty file.
    pub(crate) fn begin(file: File, head: Head) -> io::Result<Self> {
        let mut writer = Self { out: BufWriter::with_capacity(1 << 20, file), frames: 0, sum: Xxh3::new(), bytes: 8 };
        writer.out.write_all(MAGIC)?;
        writer.write(&Frame::Head(head))?;
        Ok(writer)
    }

    pub(crate) fn write(&mut self, frame: &Frame) -> io::Result<()> {
        let payload = encode(frame);
        if payload.len() > MAX_FRAME {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a value is too large for a backup"));
        }
        let checksum = xxh3_64(&payload);
        self.out.write_all(&(payload.len() as u32).to_le_bytes())?;
        self.out.write_all(&checksum.to_le_bytes())?;
        self.out.write_all(&payload)?;
        self.frames += 1;
        self.sum.update(&checksum.to_le_bytes());
        self.bytes += (FRAME_HEADER + payload.len()) as u64;
        Ok(())
    }

    /// Writes the end and syncs the file.
    pub(crate) fn finish(mut self, revision: Revision) -> io::Result<u64> {
        self.write(&Frame::End { frames: self.frames, sum: self.sum.digest(), revision })?;
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(self.bytes)
    }
}

// === impl Reader ===

impl Reader {
    /// Reads the start of a file and its first frame, the head.
    pub(crate) fn open(file: File) -> io::Result<(Self, Head)> {
        let mut input = BufReader::with_capacity(1 << 20, file);
        let mut magic = [0; 8];
        input.read_exact(&mut magic).map_err(|_| damaged("it is no backup"))?;
        if magic != *MAGIC {
            return Err(damaged("it is no backup, or one of another release"));
        }
        let mut reader = Self { input, at: 8, frames: 0, sum: Xxh3::new() };
        match reader.next()? {
            Some((_, Frame::Head(head))) => Ok((reader, head)),
            _ => Err(damaged("it does not begin as a backup does")),
        }
    }

    /// Returns the next frame and its offset; `None` after the end, which is verified.
    pub(crate) fn next(&mut self) -> io::Result<Option<(u64, Frame)>> {
        let at = self.at;
        let (frame, len, checksum) = self.read()?;
        self.at += len;
        if let Frame::End { frames, sum, .. } = frame {
            if (frames, sum) != (self.frames, self.sum.digest()) {
                return Err(damaged("frames are missing or in another order"));
            }
            if self.input.read(&mut [0])? != 0 {
                return Err(damaged("it goes on after its end"));
            }
            self.at = u64::MAX;
            return Ok(Some((at, frame)));
        }
        self.frames += 1;
        self.sum.update(&checksum.to_le_bytes());
        Ok(Some((at, frame)))
    }

    /// Reads the frame at an offset that [`next`](Self::next) returned.
    pub(crate) fn read_at(&mut self, at: u64) -> io::Result<Frame> {
        let here = self.input.stream_position()?;
        // A seek within the buffer does not touch the file.
        self.input.seek_relative(at.wrapping_sub(here) as i64)?;
        self.read().map(|(frame, ..)| frame)
    }

    pub(crate) fn rewind(&mut self) -> io::Result<()> {
        self.input.seek(SeekFrom::Start(0)).map(drop)
    }

    fn read(&mut self) -> io::Result<(Frame, u64, u64)> {
        let at = self.at;
        let cut = |error: io::Error| match error.kind() {
            io::ErrorKind::UnexpectedEof => damaged("it has no end"),
            _ => error,
        };
        let mut header = [0; FRAME_HEADER];
        self.input.read_exact(&mut header).map_err(cut)?;
        let mut fields = &header[..];
        let (len, checksum) = (fields.get_u32_le() as usize, fields.get_u64_le());
        if len > MAX_FRAME {
            return Err(damaged(&format!("a frame at byte {at} is too long")));
        }
        // Grows as bytes arrive, so that an invalid length does not allocate memory.
        let mut payload = Vec::with_capacity(len.min(1 << 20));
        if (&mut self.input).take(len as u64).read_to_end(&mut payload)? != len {
            return Err(damaged("it has no end"));
        }
        if xxh3_64(&payload) != checksum {
            return Err(damaged(&format!("the checksum of a frame at byte {at} does not match")));
        }
        let frame = decode(payload.into()).ok_or_else(|| damaged(&format!("a frame at byte {at} is not known")))?;
        Ok((frame, (FRAME_HEADER + len) as u64, checksum))
    }
}

fn damaged(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

fn encode(frame: &Frame) -> Bytes {
    let mut out = BytesMut::new();
    match frame {
        Frame::Head(Head { root, begins }) => {
            out.put_u8(HEAD);
            out.put_u64_le(begins.0);
            out.put_slice(root.as_bytes());
        }
        Frame::Put(kv) => {
            out.reserve(29 + kv.key.len() + kv.value.len());
            out.put_u8(PUT);
            out.put_u64_le(kv.create_revision.0);
            out.put_u64_le(kv.mod_revision.0);
            out.put_i64_le(kv.lease.map_or(0, |lease| lease.0));
            out.put_u32_le(kv.key.len() as u32);
            out.put_slice(&kv.key);
            out.put_slice(&kv.value);
        }
        Frame::Delete { key, revision } => {
            out.put_u8(DELETE);
            out.put_u64_le(revision.0);
            out.put_slice(key);
        }
        Frame::Note { name, data } => {
            out.put_u8(NOTE);
            out.put_u32_le(name.len() as u32);
            out.put_slice(name.as_bytes());
            out.put_slice(data);
            return out.freeze();
        }
        Frame::Lease { lease, seconds } => {
            out.put_u8(LEASE);
            out.put_i64_le(lease.0);
            out.put_u64_le(*seconds);
        }
        Frame::End { frames, sum, revision } => {
            out.put_u8(END);
            out.put_u64_le(*frames);
            out.put_u64_le(*sum);
            out.put_u64_le(revision.0);
        }
    }
    out.freeze()
}

fn decode(mut bytes: Bytes) -> Option<Frame> {
    let number = |bytes: &mut Bytes| bytes.try_get_u64_le().ok();
    let frame = match bytes.try_get_u8().ok()? {
        HEAD => {
            let begins = Revision(number(&mut bytes)?);
            return Some(Frame::Head(Head { begins, root: String::from_utf8(bytes.into()).ok()? }));
        }
        PUT => {
            let (created, modified) = (number(&mut bytes)?, number(&mut bytes)?);
            let lease = bytes.try_get_i64_le().ok()?;
            let len = bytes.try_get_u32_le().ok()? as usize;
            if len > bytes.len() {
                return None;
            }
            let key = bytes.split_to(len);
            return Some(Frame::Put(KeyValue {
                key,
                value: bytes,
                create_revision: Revision(created),
                mod_revision: Revision(modified),
                lease: (lease != 0).then_some(LeaseId(lease)),
            }));
        }
        DELETE => return Some(Frame::Delete { revision: Revision(number(&mut bytes)?), key: bytes }),
        LEASE => Frame::Lease { lease: LeaseId(bytes.try_get_i64_le().ok()?), seconds: number(&mut bytes)? },
        NOTE => {
            let len = bytes.try_get_u32_le().ok()? as usize;
            let name = (len <= bytes.len()).then(|| bytes.split_to(len))?;
            return Some(Frame::Note { name: String::from_utf8(name.into()).ok()?, data: bytes });
        }
        END => {
            let (frames, sum) = (number(&mut bytes)?, number(&mut bytes)?);
            Frame::End { frames, sum, revision: Revision(number(&mut bytes)?) }
        }
        _ => return None,
    };
    bytes.is_empty().then_some(frame)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn frames() -> Vec<Frame> {
        let kv = |n: u64, lease| KeyValue {
            key: Bytes::from(format!("/registry/k/{n}")),
            value: Bytes::from(vec![n as u8; 300]),
            create_revision: Revision(n),
            mod_revision: Revision(n + 1),
            lease,
        };
        vec![
            Frame::Put(kv(1, None)),
            Frame::Put(kv(2, Some(LeaseId(-7)))),
            Frame::Delete { key: Bytes::from_static(b"/registry/k/1"), revision: Revision(9) },
            Frame::Lease { lease: LeaseId(-7), seconds: 30 },
            Frame::Note { name: "keys".to_owned(), data: Bytes::from_static(b"k") },
        ]
    }

    /// Reads and verifies a file. Returns the number of frames, and the first and the newest revision.
    fn examine(file: File) -> io::Result<(u64, Revision, Revision)> {
        let (mut reader, head) = Reader::open(file)?;
        loop {
            match reader.next()? {
                Some((_, Frame::End { frames, revision, .. })) => return Ok((frames, head.begins, revision)),
                Some(_) => {}
                None => return Err(damaged("it has no end")),
            }
        }
    }

    fn read(path: &Path) -> io::Result<Vec<(u64, Frame)>> {
        let (mut reader, head) = Reader::open(File::open(path)?)?;
        assert_eq!(head, Head { root: "/registry/".to_owned(), begins: Revision(1) });
        let mut found = Vec::new();
        while let Some((at, frame)) = reader.next()? {
            if matches!(frame, Frame::End { .. }) {
                break;
            }
            found.push((at, frame));
        }
        for (at, frame) in found.iter().rev() {
            assert_eq!(reader.read_at(*at)?, *frame);
        }
        Ok(found)
    }

    #[test]
    fn frames_round_trip_and_damage_is_detected() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("backup");
        let file = File::create_new(&path).expect("a file");
        let head = Head { root: "/registry/".to_owned(), begins: Revision(1) };
        let mut writer = Writer::begin(file, head).expect("a head");
        for frame in frames() {
            writer.write(&frame).expect("a frame");
        }
        let bytes = writer.finish(Revision(9)).expect("an end");
        let examined = examine(File::open(&path).expect("the file")).expect("it is whole");
        assert_eq!(examined, (6, Revision(1), Revision(9)));
        let whole = std::fs::read(&path).expect("the file");
        assert_eq!(bytes, whole.len() as u64);
        let found: Vec<_> = read(&path).expect("it is whole").into_iter().map(|(_, frame)| frame).collect();
        assert_eq!(found, frames());
        let try_bytes = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("the file is replaced");
            read(&path).is_err()
        };
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 4;
            assert!(try_bytes(&changed), "byte {at}");
            assert!(examine(File::open(&path).expect("the file")).is_err(), "byte {at}");
            assert!(try_bytes(&whole[..at]), "cut at {at}");
        }
        assert!(try_bytes(&[&whole[..], b"x"].concat()));
        // One frame is removed: the head ends at byte 39.
        let first = 8 + FRAME_HEADER + 9 + "/registry/".len();
        let second = first + FRAME_HEADER + 29 + "/registry/k/1".len() + 300;
        assert!(try_bytes(&[&whole[..first], &whole[second..]].concat()));
    }
}
