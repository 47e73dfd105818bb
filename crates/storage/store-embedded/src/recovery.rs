//! Rebuilds the state in memory from disk, and verifies everything that can be verified.

use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64;

use crate::digests::Digests;
use crate::disk::{Batch, Disk};
use crate::error::OpenError;
use crate::hub::Hub;
use crate::index::{Index, IndexBuilder, LiveVersion, VersionDigest};
use crate::lease::Leases;
use crate::log::open::UnknownFormat;
use crate::marker::{MARKER_KEY, Marker};
use crate::options::{EmbeddedOptions, OnReading};
use crate::record::{self, FIRST_REVISION, Record};
use crate::shared::State;

pub(crate) use crate::log::format::FORMAT;

/// The maximum size of a chunk of records between the reading and the indexing thread.
const CHUNK_BYTES: usize = 512 << 10;
const CHUNK_RECORDS: usize = 1024;
/// Records by revision, and their total bytes.
type Chunk = (Vec<(u64, Record)>, usize);

const FORMAT_KEY: &[u8] = b"format";
const LEASE_PREFIX: &[u8] = b"lease/";

/// The error of a disk whose contents are not usable.
#[derive(Debug)]
pub(crate) enum OpenFailure {
    Damaged(String),
    Format(u32),
    Io(io::Error),
}

pub(crate) struct RecoveredState {
    pub(crate) state: State,
    /// Records of an interrupted compaction that still have to be erased.
    pub(crate) leftover: Vec<u64>,
}

/// Returns the fact of an existing lease, or of a removed one if there is no TTL.
pub(crate) fn lease_fact(lease: i64, ttl_seconds: Option<u64>) -> (Bytes, Option<Bytes>) {
    let mut key = BytesMut::from(LEASE_PREFIX);
    key.put_i64(lease);
    let key = key.freeze();
    let value = ttl_seconds.map(|ttl| {
        let mut value = BytesMut::with_capacity(16);
        value.put_u64_le(ttl);
        value.put_u64_le(lease_checksum(&key, ttl));
        value.freeze()
    });
    (key, value)
}

/// Fills an empty index.
pub(crate) fn load(disk: &dyn Disk, index: Index, options: &EmbeddedOptions) -> Result<RecoveredState, OpenFailure> {
    let first_revision = options.first_revision;
    let mut facts = Facts::read(disk)?;
    let is_new = !facts.has_format;
    if is_new && first_revision > FIRST_REVISION {
        facts.marker = Marker { revision: first_revision, ..Marker::default() };
    }
    let mut loader = Loader { index: index.into_builder(), reached: 0, compacted: facts.marker.revision };
    loader.read(disk, options.on_reading.as_ref())?;
    let newest = loader.reached.max(FIRST_REVISION).max(facts.marker.revision);
    let acknowledged = disk.acknowledged()?;
    if newest < acknowledged {
        return Err(OpenFailure::Damaged(format!(
            "the log ends at revision {newest}, but revision {acknowledged} had been acknowledged"
        )));
    }
    let mut index = loader.index.finish();
    let leftover = finish_compaction(&mut index, facts.marker)?;
    let leases = facts.leases(&index)?;
    // All checks have passed. From here on the disk may be changed.
    disk.start()?;
    if is_new {
        let marker = (facts.marker != Marker::default()).then(|| facts.marker.fact());
        let meta = std::iter::once(format_fact()).chain(marker).collect();
        disk.commit(&Batch { meta, records: Vec::new() })?;
    }
    let state = State {
        index,
        leases,
        hub: Hub::default(),
        digests: Digests::default(),
        revision: newest,
        compacted: facts.marker.revision,
        closed: false,
    };
    Ok(RecoveredState { state, leftover })
}

/// Removes the versions that the last compaction dropped, and checks that all kept versions exist.
pub(crate) fn finish_compaction(index: &mut Index, marker: Marker) -> Result<Vec<u64>, OpenFailure> {
    let (kept, mut leftover) = index.compact(marker.revision)?;
    if let Some(detail) = kept_mismatch(marker, kept) {
        return Err(OpenFailure::Damaged(detail));
    }
    leftover.sort_unstable();
    leftover.dedup();
    Ok(leftover)
}

/// Describes the difference between the versions that a compaction kept and those that were found, if there is one.
pub(crate) fn kept_mismatch(marker: Marker, kept: VersionDigest) -> Option<String> {
    (kept != marker.kept).then(|| {
        format!(
            "of the {} versions that the compaction at revision {} kept, {} are in the log",
            marker.kept.count, marker.revision, kept.count
        )
    })
}

struct Loader {
    index: IndexBuilder,
    reached: u64,
    compacted: u64,
}

#[derive(Default)]
pub(crate) struct Facts {
    has_format: bool,
    pub(crate) marker: Marker,
    leases: BTreeMap<i64, u64>,
}

// === impl Loader ===

impl Loader {
    /// Reads and checks records in one thread, and indexes them in another.
    fn read(&mut self, disk: &dyn Disk, on_reading: Option<&OnReading>) -> Result<(), OpenFailure> {
        let (mut bytes, all) = (0, disk.stored_bytes());
        std::thread::scope(|scope| {
            let (sender, chunks) = mpsc::sync_channel(4);
            let reader = scope.spawn(move || decode_all(disk, &sender));
            let mut added = Ok(());
            for (chunk, size) in &chunks {
                bytes += size as u64;
                if let Some(report) = on_reading {
                    report(bytes.min(all), all);
                }
                added = chunk.into_iter().try_for_each(|(revision, record)| self.add(revision, record));
                if added.is_err() {
                    break;
                }
            }
            // Dropping the receiver stops the reader.
            drop(chunks);
            if let (Ok(()), Some(report)) = (&added, on_reading) {
                report(all, all);
            }
            let reader_stopped = || Err(io::Error::other("reading the log stopped unexpectedly").into());
            let read = reader.join().unwrap_or_else(|_| reader_stopped());
            added.and(read)
        })
    }

    fn add(&mut self, revision: u64, record: Record) -> Result<(), OpenFailure> {
        // Up to the compaction revision there are gaps. After it every revision has a record.
        let expected = self.reached.max(self.compacted).max(FIRST_REVISION) + 1;
        if revision > self.compacted && revision != expected {
            return Err(OpenFailure::Damaged(format!(
                "the log lacks revision {expected} (the next one found is {revision})"
            )));
        }
        match record {
            Record::Put(put) => {
                // Copied, so that a live value does not retain a whole block of the log.
                let value = (!self.index.is_on_disk()).then(|| Bytes::copy_from_slice(&put.value));
                let live = LiveVersion { value, modified: revision, created: put.created, lease: put.lease };
                self.index.put(&put.key, live)?;
            }
            Record::Delete(deletions) => {
                for deletion in deletions {
                    self.index.delete(&deletion.key, revision)?;
                }
            }
        }
        self.reached = revision;
        Ok(())
    }
}

/// Reads all records up to the first damaged one, or until the receiver is dropped.
fn decode_all(disk: &dyn Disk, sender: &mpsc::SyncSender<Chunk>) -> Result<(), OpenFailure> {
    let (mut chunk, mut bytes) = (Vec::new(), 0);
    let mut damaged = Ok(());
    let loaded = disk.load(&mut |revision, record| {
        bytes += record.len();
        match record::decode(revision, &record) {
            Ok(record) => chunk.push((revision, record)),
            Err(detail) => {
                damaged = Err(OpenFailure::Damaged(detail));
                return ControlFlow::Break(());
            }
        }
        if bytes < CHUNK_BYTES && chunk.len() < CHUNK_RECORDS {
            return ControlFlow::Continue(());
        }
        match sender.send((std::mem::take(&mut chunk), std::mem::take(&mut bytes))) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    });
    // The receiver is dropped if a problem has been found.
    let _ = sender.send((chunk, bytes));
    loaded?;
    damaged
}

// === impl Facts ===

impl Facts {
    pub(crate) fn read(disk: &dyn Disk) -> Result<Self, OpenFailure> {
        let mut facts = Self::default();
        for (key, value) in disk.meta()? {
            facts.add(&key, &value)?;
        }
        Ok(facts)
    }

    pub(crate) fn has_lease(&self, lease: i64) -> bool {
        self.leases.contains_key(&lease)
    }

    /// Returns the TTL of a lease in seconds.
    pub(crate) fn lease(&self, lease: i64) -> Option<u64> {
        self.leases.get(&lease).copied()
    }

    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), OpenFailure> {
        let damaged = || OpenFailure::Damaged(format!("the note {:?} is damaged", String::from_utf8_lossy(key)));
        if key == MARKER_KEY {
            self.marker = Marker::parse(value).ok_or_else(damaged)?;
        } else if key == FORMAT_KEY {
            let found = u32::from_le_bytes(value.try_into().map_err(|_| damaged())?);
            if found != FORMAT {
                return Err(OpenFailure::Format(found));
            }
            self.has_format = true;
        } else if let Some(id) = key.strip_prefix(LEASE_PREFIX) {
            let id = i64::from_be_bytes(id.try_into().map_err(|_| damaged())?);
            let (ttl, checksum) = value.split_at_checked(8).ok_or_else(damaged)?;
            let ttl = u64::from_le_bytes(ttl.try_into().map_err(|_| damaged())?);
            if lease_checksum(key, ttl).to_le_bytes() != checksum {
                return Err(damaged());
            }
            self.leases.insert(id, ttl);
        } else {
            return Err(OpenFailure::Damaged(format!("there is an unknown note {:?}", String::from_utf8_lossy(key))));
        }
        Ok(())
    }

    /// Returns the leases, each with its full TTL again, as in etcd: better late than early.
    pub(crate) fn leases(&self, index: &Index) -> Result<Leases, OpenFailure> {
        let mut leases = Leases::default();
        let now = Instant::now();
        for (&id, &ttl) in &self.leases {
            leases.grant(id, ttl, now);
        }
        let mut unknown = None;
        index.after(None, &mut |key, entry| {
            match entry.lease() {
                0 => {}
                lease if !leases.contains(lease) => {
                    unknown = Some(lease);
                    return ControlFlow::Break(());
                }
                _ if index.is_on_disk() => {}
                lease => leases.attach(lease, key.clone()),
            }
            ControlFlow::Continue(())
        })?;
        if let Some(lease) = unknown {
            return Err(OpenFailure::Damaged(format!("a key belongs to the lease {lease}, which is not there")));
        }
        Ok(leases)
    }
}

// === impl OpenFailure ===

impl OpenFailure {
    pub(crate) fn of(self, dir: PathBuf) -> OpenError {
        match self {
            Self::Damaged(detail) => OpenError::Damaged { dir, detail },
            Self::Format(found) => OpenError::Format { dir, found, known: FORMAT },
            Self::Io(source) => OpenError::Io { dir, source },
        }
    }
}

impl From<io::Error> for OpenFailure {
    fn from(error: io::Error) -> Self {
        if let Some(unknown) = error.get_ref().and_then(|inner| inner.downcast_ref::<UnknownFormat>()) {
            return Self::Format(unknown.0);
        }
        match error.kind() {
            io::ErrorKind::InvalidData => Self::Damaged(error.to_string()),
            _ => Self::Io(error),
        }
    }
}

fn format_fact() -> (Bytes, Option<Bytes>) {
    (Bytes::from_static(FORMAT_KEY), Some(Bytes::copy_from_slice(&FORMAT.to_le_bytes())))
}

fn lease_checksum(key: &[u8], ttl: u64) -> u64 {
    let mut bytes = key.to_vec();
    bytes.extend(ttl.to_le_bytes());
    xxh3_64(&bytes)
}
