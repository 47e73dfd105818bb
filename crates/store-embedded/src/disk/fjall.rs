//! The log on disk, in a `fjall` database: one keyspace for the records, one for the facts beside them, and a small file
//! with the newest acknowledged revision.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

use super::{Batch, Disk, Visit, journal};
use crate::lock::{DirLock, sync_dir};
use crate::options::Options;

/// The log in a directory.
pub struct FjallDisk {
    database: Database,
    records: Keyspace,
    meta: Keyspace,
    head: Mutex<Head>,
    dir: PathBuf,
    /// Let go of last.
    _lock: DirLock,
}

/// Two slots written in turn, so that a torn write leaves the other one. It is not synced: it survives the process, and
/// after a power cut it is at worst older than the log, which proves nothing and harms nothing.
struct Head {
    file: File,
    revision: u64,
    turn: u64,
}

const SLOT: u64 = 16;

// === impl FjallDisk ===

impl FjallDisk {
    /// Opens the database in `dir`, which the lock is for.
    pub(crate) fn open(dir: &Path, options: &Options, lock: DirLock) -> io::Result<Self> {
        let (log, creating) = (dir.join("log"), dir.join("creating"));
        // A creation that was interrupted left something that is neither there nor not there. Nothing can have been
        // acknowledged before it was finished, so it begins again.
        if creating.try_exists()? && log.try_exists()? {
            fs::remove_dir_all(&log)?;
        }
        let fresh = !log.try_exists()?;
        if fresh {
            File::create(&creating)?.sync_all()?;
            sync_dir(dir)?;
        }
        journal::mend(&log)?;
        let disk = Self::open_database(dir, log, options, lock)?;
        if fresh {
            sync_dir(dir)?;
            fs::remove_file(&creating)?;
            sync_dir(dir)?;
        }
        Ok(disk)
    }

    fn open_database(dir: &Path, log: PathBuf, options: &Options, lock: DirLock) -> io::Result<Self> {
        let database = Database::builder(log)
            .cache_size(options.cache_bytes)
            .max_journaling_size(64 << 20)
            .max_cached_files(Some(64))
            .manual_journal_persist(true)
            // Of several workers the first one does not merge: it takes the request for a merge and gives it back, over and
            // over, until another one has time for it, which took a tenth of the processor time of writes. One does both
            // as fast as they are asked for: what is written has ascending keys, so that merges are short.
            .worker_threads(1)
            .open()
            .map_err(to_io)?;
        let keyspace = |name: &str, memtable: u64, block: u32| {
            database.keyspace(name, || {
                KeyspaceCreateOptions::default()
                    .max_memtable_size(memtable)
                    .data_block_size_policy(fjall::config::BlockSizePolicy::all(block))
                    .expect_point_read_hits(true)
                    .manual_journal_persist(true)
            })
        };
        let records = keyspace("records", options.memtable_bytes, 16 << 10).map_err(to_io)?;
        let meta = keyspace("meta", 1 << 20, 4 << 10).map_err(to_io)?;
        let head = Mutex::new(Head::open(&dir.join("head"))?);
        Ok(Self { database, records, meta, head, dir: dir.to_owned(), _lock: lock })
    }

    /// `fjall` does not say which earlier write failed, nor why; a full disk is worth a look.
    fn explain(&self, error: fjall::Error) -> io::Error {
        if !matches!(error, fjall::Error::Poisoned) {
            return to_io(error);
        }
        let free = rustix::fs::statvfs(&self.dir).map(|stat| stat.f_bavail * stat.f_frsize);
        let free = free.map_or_else(|_| String::new(), |free| format!(", {} KiB are free", free >> 10));
        io::Error::other(format!("an earlier write to {} failed{free}", self.dir.display()))
    }
}

impl Disk for FjallDisk {
    fn commit(&self, batch: &Batch) -> io::Result<()> {
        let mut write = self.database.batch().durability(Some(PersistMode::SyncData));
        for (revision, record) in &batch.records {
            write.insert(&self.records, revision.to_be_bytes(), record.clone());
        }
        for (key, value) in &batch.meta {
            match value {
                Some(value) => write.insert(&self.meta, key.clone(), value.clone()),
                None => write.remove(&self.meta, key.clone()),
            }
        }
        write.commit().map_err(|error| self.explain(error))?;
        match batch.records.last() {
            Some((revision, _)) => self.head.lock().advance(*revision),
            None => Ok(()),
        }
    }

    fn erase(&self, revisions: &[u64]) -> io::Result<()> {
        // Nobody waits for this to be durable, but `journal` relies on no batch being begun before the last is synced.
        let mut write = self.database.batch().durability(Some(PersistMode::SyncData));
        for revision in revisions {
            write.remove_weak(&self.records, revision.to_be_bytes());
        }
        write.commit().map_err(|error| self.explain(error))
    }

    fn read(&self, revision: u64) -> io::Result<Option<Bytes>> {
        // A block of the sorted files holds several records: copied, so that one record does not keep its neighbours.
        let found = self.records.get(revision.to_be_bytes()).map_err(to_io)?;
        Ok(found.map(|bytes| Bytes::copy_from_slice(&bytes)))
    }

    fn scan(&self, first: u64, last: u64, visit: &mut Visit<'_>) -> io::Result<()> {
        for guard in self.records.range(first.to_be_bytes()..=last.to_be_bytes()) {
            let (key, value) = guard.into_inner().map_err(to_io)?;
            let key = <[u8; 8]>::try_from(&key[..])
                .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a record's key is not a revision"))?;
            if visit(u64::from_be_bytes(key), value.into()).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn meta(&self) -> io::Result<Vec<(Bytes, Bytes)>> {
        let pairs = self.meta.iter().map(|guard| guard.into_inner().map(|(key, value)| (key.into(), value.into())));
        pairs.collect::<fjall::Result<_>>().map_err(to_io)
    }

    fn acknowledged(&self) -> io::Result<u64> {
        Ok(self.head.lock().revision)
    }
}

// === impl Head ===

impl Head {
    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let len = file.metadata()?.len();
        if len < 2 * SLOT {
            // Both slots exist from the start, so that advancing never needs space on a full disk.
            file.write_all_at(&[0; 2 * SLOT as usize], 0)?;
            file.sync_all()?;
        }
        let mut bytes = [0; 2 * SLOT as usize];
        file.read_exact_at(&mut bytes, 0)?;
        let slots = [slot(&bytes[..16]), slot(&bytes[16..])];
        if slots == [None, None] && bytes != [0; 32] {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file \"head\" is damaged"));
        }
        let revision = slots.into_iter().flatten().max().unwrap_or(0);
        let turn = if slots[0] == Some(revision) { 1 } else { 0 };
        Ok(Self { file, revision, turn })
    }

    fn advance(&mut self, revision: u64) -> io::Result<()> {
        let mut bytes = [0; SLOT as usize];
        bytes[..8].copy_from_slice(&revision.to_le_bytes());
        bytes[8..].copy_from_slice(&xxh3_64(&revision.to_le_bytes()).to_le_bytes());
        self.file.write_all_at(&bytes, self.turn * SLOT)?;
        self.turn = 1 - self.turn;
        self.revision = revision;
        Ok(())
    }
}

fn slot(bytes: &[u8]) -> Option<u64> {
    let revision: [u8; 8] = bytes[..8].try_into().ok()?;
    (xxh3_64(&revision).to_le_bytes() == bytes[8..]).then(|| u64::from_le_bytes(revision))
}

/// Damage is told from failures of the system.
pub(crate) fn to_io(error: fjall::Error) -> io::Error {
    match error {
        fjall::Error::Io(error) => error,
        fjall::Error::Storage(fjall::LsmError::Io(error)) => error,
        other => io::Error::new(io::ErrorKind::InvalidData, format!("{other:?}")),
    }
}
