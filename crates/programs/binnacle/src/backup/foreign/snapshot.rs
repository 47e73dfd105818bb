//! Files of `etcdctl snapshot save`: etcd's database and its SHA-256 checksum.
//!
//! The bucket `key` has a value for each revision of each key, `lease` has the leases, `meta` the compacted revision.

use std::fs::File;
use std::io::{self, Read, Seek};

use binnacle_registry::ROOT;
use binnacle_store::{KeyValue, LeaseId, Revision};
use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::bolt::Bolt;
use super::damaged;
use crate::backup::file::{Frame, Head, Writer};

/// The length of the checksum at the end, by which a snapshot differs from a database of whole pages.
const CHECKSUM: u64 = 32;
/// The length of the key of a deletion: a revision and a mark.
const TOMBSTONE: usize = 18;

/// Writes the snapshot as a backup.
pub(super) fn convert(out: File, mut file: File) -> io::Result<()> {
    verify(&mut file)?;
    let bolt = Bolt::open(file)?;
    let mut begins = 0;
    if let Some(meta) = bolt.bucket(b"meta")? {
        bolt.each(&meta, |name, value| {
            if matches!(name, b"scheduledCompactRev" | b"finishedCompactRev") {
                begins = begins.max(revision(value)?);
            }
            Ok(())
        })?;
    }
    let keys =
        bolt.bucket(b"key")?.ok_or_else(|| damaged("it has no bucket with keys, so it is no snapshot of etcd"))?;
    let mut writer = Writer::begin(out, Head { root: ROOT.to_owned(), begins: Revision(begins) })?;
    let (mut newest, mut found) = (begins, false);
    bolt.each(&keys, |at, value| {
        let revision = revision(at)?;
        newest = newest.max(revision);
        let mut kv = key_value(value)?;
        if !kv.key.starts_with(ROOT.as_bytes()) {
            return Ok(());
        }
        found = true;
        let revision = Revision(revision);
        kv.mod_revision = revision;
        writer.write(&if at.len() == TOMBSTONE { Frame::Delete { key: kv.key, revision } } else { Frame::Put(kv) })
    })?;
    if !found {
        return Err(damaged(format!("no key in it begins with {ROOT}")));
    }
    if let Some(leases) = bolt.bucket(b"lease")? {
        bolt.each(&leases, |_, value| {
            let (mut lease, mut ttl, mut left) = (0, 0, 0);
            fields(value, |number, field| match (number, field) {
                (1, Field::Number(id)) => lease = id,
                (2, Field::Number(seconds)) => ttl = seconds,
                (3, Field::Number(seconds)) => left = seconds,
                _ => {}
            })?;
            let seconds = if left > 0 { left } else { ttl };
            writer.write(&Frame::Lease { lease: LeaseId(lease.cast_signed()), seconds })
        })?;
    }
    writer.finish(Revision(newest)).map(drop)
}

/// Verifies the checksum at the end. A copy of a stopped member's database has none.
fn verify(file: &mut File) -> io::Result<()> {
    let len = file.metadata()?.len();
    if len % 512 != CHECKSUM {
        return Ok(());
    }
    file.rewind()?;
    let mut sum = Sha256::new();
    let mut rest = len - CHECKSUM;
    let mut buffer = vec![0; 1 << 20];
    while rest > 0 {
        let part = buffer.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        file.read_exact(&mut buffer[..part])?;
        sum.update(&buffer[..part]);
        rest -= part as u64;
    }
    let mut stored = [0; CHECKSUM as usize];
    file.read_exact(&mut stored)?;
    if sum.finalize().as_slice() == stored {
        Ok(())
    } else {
        Err(damaged("the checksum of the snapshot does not match"))
    }
}

/// Parses the revision at the start of the bytes: 8 bytes, big endian.
fn revision(bytes: &[u8]) -> io::Result<u64> {
    let bytes = bytes.first_chunk::<8>().ok_or_else(|| damaged("a revision is cut off"))?;
    Ok(u64::from_be_bytes(*bytes))
}

fn key_value(bytes: &[u8]) -> io::Result<KeyValue> {
    let mut kv = KeyValue {
        key: Bytes::new(),
        value: Bytes::new(),
        create_revision: Revision(0),
        mod_revision: Revision(0),
        lease: None,
    };
    fields(bytes, |number, field| match (number, field) {
        (1, Field::Bytes(key)) => kv.key = Bytes::copy_from_slice(key),
        (2, Field::Number(revision)) => kv.create_revision = Revision(revision),
        (5, Field::Bytes(value)) => kv.value = Bytes::copy_from_slice(value),
        (6, Field::Number(lease)) => kv.lease = (lease != 0).then(|| LeaseId(lease.cast_signed())),
        _ => {}
    })?;
    Ok(kv)
}

/// A field of a protobuf message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Passes each field of a message; messages of etcd have only numbers and bytes.
fn fields<'a>(mut bytes: &'a [u8], mut each: impl FnMut(u64, Field<'a>)) -> io::Result<()> {
    let cut = || damaged("a value of etcd's own cannot be read");
    while !bytes.is_empty() {
        let tag = varint(&mut bytes).ok_or_else(cut)?;
        let number = varint(&mut bytes).ok_or_else(cut)?;
        let field = match tag & 7 {
            0 => Field::Number(number),
            2 => {
                let len = usize::try_from(number).ok().filter(|len| *len <= bytes.len()).ok_or_else(cut)?;
                let (field, rest) = bytes.split_at(len);
                bytes = rest;
                Field::Bytes(field)
            }
            _ => return Err(cut()),
        };
        each(tag >> 3, field);
    }
    Ok(())
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
