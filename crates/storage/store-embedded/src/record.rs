//! The bytes of one revision in the log. `docs/store-format.md` describes them.
//!
//! A record includes its own revision in its checksum, so that a torn or misplaced record is detected.

use bytes::{BufMut, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64;

/// The revision of a new store, so that its first write gets 2, as in etcd.
pub(crate) const FIRST_REVISION: u64 = 1;

/// The changes of one revision.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Put(Put),
    /// One transaction deletes one key; the end of a lease deletes many at one revision.
    Delete(Vec<Deletion>),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Put {
    pub(crate) key: Bytes,
    pub(crate) value: Bytes,
    pub(crate) created: u64,
    /// The revision of the replaced version, or 0 if there is none.
    pub(crate) previous: u64,
    /// 0 means no lease.
    pub(crate) lease: i64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Deletion {
    pub(crate) key: Bytes,
    /// The revision of the deleted version.
    pub(crate) previous: u64,
}

const FORMAT: u8 = 1;
const PUT: u8 = 1;
const DELETE: u8 = 2;
const HEADER: usize = 18;
const PUT_HEADER: usize = HEADER + 28;

/// Encodes a put. Also returns the value as a slice of the record, so that both share one allocation.
pub(crate) fn encode_put(revision: u64, put: &Put) -> (Bytes, Bytes) {
    let mut buf = BytesMut::with_capacity(PUT_HEADER + put.key.len() + put.value.len());
    write_header(&mut buf, revision, PUT);
    buf.put_u64_le(put.created);
    buf.put_u64_le(put.previous);
    buf.put_i64_le(put.lease);
    put_key(&mut buf, &put.key);
    let value_at = buf.len();
    buf.put_slice(&put.value);
    let record = seal(buf);
    let value = record.slice(value_at..);
    (record, value)
}

pub(crate) fn encode_delete(revision: u64, deletions: &[Deletion]) -> Bytes {
    let keys: usize = deletions.iter().map(|deletion| deletion.key.len() + 12).sum();
    let mut buf = BytesMut::with_capacity(HEADER + 4 + keys);
    write_header(&mut buf, revision, DELETE);
    buf.put_u32_le(deletions.len() as u32);
    for deletion in deletions {
        buf.put_u64_le(deletion.previous);
        put_key(&mut buf, &deletion.key);
    }
    seal(buf)
}

/// Decodes a record. Keys and values are slices of `bytes`. The error is a message.
pub(crate) fn decode(revision: u64, bytes: &Bytes) -> Result<Record, String> {
    let damaged = |what: &str| format!("revision {revision}: {what}");
    let mut reader = Reader { bytes, at: 0 };
    let checksum = reader.u64().ok_or_else(|| damaged("the record is too short"))?;
    if xxh3_64(&bytes[8..]) != checksum {
        return Err(damaged("the checksum does not match"));
    }
    if reader.u64() != Some(revision) {
        return Err(damaged("the record belongs to another revision"));
    }
    if reader.u8() != Some(FORMAT) {
        return Err(damaged("the record has an unknown format"));
    }
    let record = match reader.u8() {
        Some(PUT) => reader.put().map(Record::Put),
        Some(DELETE) => reader.deletions().map(Record::Delete),
        _ => None,
    };
    record.ok_or_else(|| damaged("the record has an unknown shape"))
}

/// The fields at the start of a record.
pub(crate) struct RecordHeader {
    pub(crate) revision: u64,
    pub(crate) deletion: bool,
}

/// Reads the start of a record. The caller verifies its checksum.
pub(crate) fn peek(bytes: &[u8]) -> Option<RecordHeader> {
    let revision = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
    Some(RecordHeader { revision, deletion: *bytes.get(HEADER - 1)? == DELETE })
}

/// Returns true if the bytes are the undamaged record of a revision.
pub(crate) fn is_whole(revision: u64, bytes: &[u8]) -> bool {
    let checksum = bytes.get(..8).map(|checksum| checksum == xxh3_64(&bytes[8..]).to_le_bytes());
    checksum == Some(true) && peek(bytes).is_some_and(|header| header.revision == revision)
}

fn write_header(buf: &mut BytesMut, revision: u64, kind: u8) {
    buf.put_u64_le(0);
    buf.put_u64_le(revision);
    buf.put_u8(FORMAT);
    buf.put_u8(kind);
}

/// The apparent contents of the rest of a damaged record.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Guess {
    /// The key (the first one of a deletion), if it looks like a key.
    pub(crate) key: Option<Bytes>,
    /// Deletions, as far as they can be read.
    pub(crate) deletions: Vec<Deletion>,
}

/// Reads a damaged record. The result may be damaged, too.
pub(crate) fn guess(bytes: &Bytes) -> Guess {
    let mut reader = Reader { bytes, at: HEADER - 1 };
    match reader.u8() {
        Some(PUT) => {
            // The key comes after three numbers.
            reader.at += 24;
            Guess { key: reader.key().filter(looks_like_a_key), deletions: Vec::new() }
        }
        Some(DELETE) => {
            let count = reader.u32().unwrap_or_default() as usize;
            let mut deletion = || {
                let previous = reader.u64()?;
                Some(Deletion { previous, key: reader.key().filter(looks_like_a_key)? })
            };
            let deletions: Vec<_> = std::iter::from_fn(&mut deletion).take(count).collect();
            Guess { key: deletions.first().map(|deletion| deletion.key.clone()), deletions }
        }
        _ => Guess::default(),
    }
}

fn looks_like_a_key(key: &Bytes) -> bool {
    std::str::from_utf8(key).is_ok_and(|text| !text.is_empty() && !text.contains(char::is_control))
}

fn put_key(buf: &mut BytesMut, key: &[u8]) {
    buf.put_u32_le(key.len() as u32);
    buf.put_slice(key);
}

fn seal(mut buf: BytesMut) -> Bytes {
    let checksum = xxh3_64(&buf[8..]);
    buf[..8].copy_from_slice(&checksum.to_le_bytes());
    buf.freeze()
}

struct Reader<'a> {
    bytes: &'a Bytes,
    at: usize,
}

// === impl Reader ===

impl Reader<'_> {
    fn put(&mut self) -> Option<Put> {
        let created = self.u64()?;
        let previous = self.u64()?;
        let lease = self.u64()? as i64;
        let key = self.key()?;
        let value = self.bytes.slice(self.at..);
        Some(Put { key, value, created, previous, lease })
    }

    fn deletions(&mut self) -> Option<Vec<Deletion>> {
        let count = self.u32()? as usize;
        let mut deletions = Vec::with_capacity(count.min(self.bytes.len() / 12));
        for _ in 0..count {
            let previous = self.u64()?;
            deletions.push(Deletion { previous, key: self.key()? });
        }
        (self.at == self.bytes.len()).then_some(deletions)
    }

    fn key(&mut self) -> Option<Bytes> {
        let len = self.u32()? as usize;
        let end = self.at.checked_add(len).filter(|&end| end <= self.bytes.len())?;
        let key = self.bytes.slice(self.at..end);
        self.at = end;
        Some(key)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array = self.bytes.get(self.at..self.at + N)?.try_into().ok()?;
        self.at += N;
        Some(array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put() -> Put {
        Put {
            key: Bytes::from_static(b"/registry/pods/a"),
            value: Bytes::from_static(b"value"),
            created: 3,
            previous: 7,
            lease: -5,
        }
    }

    #[test]
    fn records_round_trip() {
        let (bytes, value) = encode_put(9, &put());
        assert_eq!(value, put().value);
        assert_eq!(decode(9, &bytes), Ok(Record::Put(put())));

        for deletions in [
            vec![Deletion { key: Bytes::from_static(b"a"), previous: 1 }],
            (0..100).map(|n| Deletion { key: Bytes::from(format!("key-{n}")), previous: n }).collect(),
        ] {
            let bytes = encode_delete(4, &deletions);
            assert_eq!(decode(4, &bytes), Ok(Record::Delete(deletions)));
        }
    }

    #[test]
    fn detects_changed_and_truncated_records() {
        let (bytes, _) = encode_put(9, &put());
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 0x10;
            assert!(decode(9, &Bytes::from(changed)).is_err(), "byte {at}");
            assert!(decode(9, &bytes.slice(..at)).is_err(), "cut at {at}");
        }
        assert_eq!(decode(10, &bytes), Err("revision 10: the record belongs to another revision".to_owned()));
    }
}
