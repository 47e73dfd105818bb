//! Files in memory that outlive their users. Unsynced changes are lost, page by page and name by name, when the power
//! fails. Any single operation can be made to fail, and the thread that rewrites segments can be held at each of its
//! operations.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::sync::Arc;

use binnacle_store_embedded::files::{Files, LogFile};
use parking_lot::Mutex;

use super::turnstile::{Operation, Turnstile};
use super::work::Rng;

#[derive(Clone, Default)]
pub(crate) struct SimFiles {
    inner: Arc<Mutex<Inner>>,
    /// Passed by the thread that rewrites segments before each modifying operation.
    pub(crate) mover: Arc<Turnstile>,
}

#[derive(Clone, Default)]
struct Inner {
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    /// Changes of names since the last sync of the directory.
    changes: Vec<Change>,
    files: HashMap<u64, File>,
    next_file: u64,
    /// The number of modifying operations so far.
    operations: u64,
    bytes_read: u64,
    plan: Option<(u64, Fault)>,
    dead: bool,
    /// The maximum bytes of all files.
    space: Option<u64>,
    /// The kind of operation that fails: renames, syncs of files or syncs of the directory.
    refused: Option<Operation>,
    /// Files with a failed operation, and the name of a segment that was written to after its failure.
    failed: BTreeSet<u64>,
    written_after_failure: Option<String>,
}

#[derive(Clone)]
enum Change {
    Create(String, u64),
    Rename(String, String, u64),
    Remove(String),
}

#[derive(Clone, Default)]
struct File {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// Pages of `now` that may or may not have reached the disk.
    dirty: BTreeSet<usize>,
}

/// The fault of the chosen operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails with this error number, once.
    Refused(i32),
    /// It and all later ones fail with this error number.
    RefusedFromNowOn(i32),
    /// A write is partially executed and fails.
    Short,
    /// A sync fails, and its bytes never become durable, although they can be read.
    Dropped,
    /// The power fails before it; every later operation fails.
    CutBefore,
    /// The power fails after it, before the caller gets a result.
    CutAfter,
}

pub(crate) const EIO: i32 = 5;
pub(crate) const EMFILE: i32 = 24;
pub(crate) const ENOSPC: i32 = 28;

/// The unsynced changes that survive until a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SurvivingBytes {
    /// The process was killed: all changes survive.
    Everything,
    /// The power failed: none survive.
    Synced,
    /// The power failed: some pages and some names survive, selected by this seed.
    Some(u64),
}

const PAGE: usize = 4096;

struct Handle {
    files: SimFiles,
    id: u64,
}

// === impl SimFiles ===

impl SimFiles {
    /// Sets the fault of operation number `at` (from 0).
    pub(crate) fn plan(&self, at: u64, fault: Fault) {
        self.inner.lock().plan = Some((at, fault));
    }

    pub(crate) fn operations(&self) -> u64 {
        self.inner.lock().operations
    }

    pub(crate) fn bytes_read(&self) -> u64 {
        self.inner.lock().bytes_read
    }

    pub(crate) fn limit_space(&self, space: Option<u64>) {
        self.inner.lock().space = space;
    }

    /// Returns a segment that was written to after one of its writes or syncs had failed.
    pub(crate) fn written_after_failure(&self) -> Option<String> {
        self.inner.lock().written_after_failure.clone()
    }

    /// Makes all renames fail, or all syncs of files or of the directory, or none.
    pub(crate) fn refuse(&self, refused: Option<Operation>) {
        self.inner.lock().refused = refused;
    }

    pub(crate) fn used(&self) -> u64 {
        self.inner.lock().used()
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.inner.lock().names.keys().cloned().collect()
    }

    /// Returns the files as the next process finds them.
    pub(crate) fn restarted(&self, survives: SurvivingBytes) -> Self {
        let mut inner = self.inner.lock().clone();
        (inner.operations, inner.plan, inner.dead) = (0, None, false);
        (inner.failed, inner.written_after_failure) = (BTreeSet::new(), None);
        if survives != SurvivingBytes::Everything {
            let mut rng = match survives {
                SurvivingBytes::Some(seed) => Some(Rng::new(seed)),
                _ => None,
            };
            let mut coin = || rng.as_mut().is_some_and(|rng| rng.below(2) == 0);
            for change in std::mem::take(&mut inner.changes) {
                if coin() {
                    change.apply(&mut inner.durable_names);
                }
            }
            inner.names = inner.durable_names.clone();
            let mut ids: Vec<_> = inner.files.keys().copied().collect();
            ids.sort_unstable();
            for id in ids {
                inner.file(id).lose_power(&mut coin);
            }
        }
        Self { inner: Arc::new(Mutex::new(inner)), mover: Arc::default() }
    }

    /// Changes a file without the store, durably.
    pub(crate) fn tamper(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut inner = self.inner.lock();
        let id = inner.names[name];
        let file = inner.files.get_mut(&id).expect("a file");
        change(&mut file.now);
        file.durable = file.now.clone();
    }

    /// Passes the contents of a file to `show`, as a process reads it.
    pub(crate) fn show(&self, name: &str, show: impl FnOnce(&[u8])) {
        let inner = self.inner.lock();
        show(&inner.files[&inner.names[name]].now);
    }

    /// Passes the contents of a file that another thread may have removed to `show`.
    pub(crate) fn try_show(&self, name: &str, show: impl FnOnce(&[u8])) {
        let inner = self.inner.lock();
        if let Some(id) = inner.names.get(name) {
            show(&inner.files[id].now);
        }
    }

    pub(crate) fn lose(&self, name: &str) {
        let mut inner = self.inner.lock();
        inner.names.remove(name);
        inner.durable_names.remove(name);
    }

    fn change_names(
        &self,
        operation: Operation,
        change: impl FnOnce(&mut Inner) -> io::Result<Change>,
    ) -> io::Result<()> {
        self.mover.pass(operation);
        let mut inner = self.inner.lock();
        let fault = inner.begin()?;
        let change = change(&mut inner)?;
        change.apply(&mut inner.names);
        inner.changes.push(change);
        inner.end(fault)
    }
}

impl Files for SimFiles {
    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let mut made = 0;
        self.change_names(Operation::Create, |inner| {
            if inner.names.contains_key(name) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            made = inner.next_file;
            inner.next_file += 1;
            inner.files.insert(made, File::default());
            Ok(Change::Create(name.to_owned(), made))
        })?;
        Ok(Arc::new(Handle { files: self.clone(), id: made }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let inner = self.inner.lock();
        inner.alive()?;
        let id = *inner.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(Handle { files: self.clone(), id }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        if self.inner.lock().names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.replace(from, to)
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        self.change_names(Operation::Rename, |inner| {
            let id = *inner.names.get(from).ok_or(io::ErrorKind::NotFound)?;
            inner.refuse(Operation::Rename)?;
            Ok(Change::Rename(from.to_owned(), to.to_owned(), id))
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change_names(Operation::Remove, |inner| {
            inner.names.get(name).ok_or(io::ErrorKind::NotFound)?;
            Ok(Change::Remove(name.to_owned()))
        })
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.lock().alive()?;
        Ok(self.names())
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.mover.pass(Operation::SyncDir);
        let mut inner = self.inner.lock();
        let fault = inner.begin()?;
        inner.refuse(Operation::SyncDir)?;
        // File systems keep names in a journal, which does not lose changes that it failed to write.
        if fault != Some(Fault::Dropped) {
            for change in std::mem::take(&mut inner.changes) {
                change.apply(&mut inner.durable_names);
            }
        }
        inner.end(fault)
    }

    fn free_bytes(&self) -> Option<u64> {
        let inner = self.inner.lock();
        Some(inner.space?.saturating_sub(inner.used()))
    }
}

// === impl Handle ===

impl Handle {
    fn change<T>(
        &self,
        operation: Operation,
        change: impl FnOnce(&mut Inner, Option<Fault>) -> io::Result<T>,
    ) -> io::Result<T> {
        self.files.mover.pass(operation);
        let mut inner = self.files.inner.lock();
        let done = inner.begin().and_then(|fault| {
            let changed = change(&mut inner, fault)?;
            inner.end(fault).map(|()| changed)
        });
        if done.is_err() {
            inner.failed.insert(self.id);
        }
        done
    }
}

impl LogFile for Handle {
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let mut inner = self.files.inner.lock();
        inner.alive()?;
        let bytes = inner.files[&self.id].now.get(at as usize..).unwrap_or_default();
        let len = bytes.len().min(buf.len());
        buf[..len].copy_from_slice(&bytes[..len]);
        inner.bytes_read += len as u64;
        Ok(len)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        self.change(Operation::Write, |inner, fault| {
            let bytes = if fault == Some(Fault::Short) { &bytes[..bytes.len() / 2] } else { bytes };
            let (at, end) = (at as usize, at as usize + bytes.len());
            if inner.failed.contains(&self.id) {
                let name = inner.names.iter().find(|(name, id)| **id == self.id && name.starts_with("log-"));
                inner.written_after_failure = name.map(|(name, _)| name.clone());
            }
            inner.grow(self.id, end)?;
            let file = inner.file(self.id);
            file.now[at..end].copy_from_slice(bytes);
            file.dirty.extend(at / PAGE..end.div_ceil(PAGE));
            Ok(bytes.len())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.change(Operation::Sync, |inner, fault| {
            inner.refuse(Operation::Sync)?;
            let file = inner.file(self.id);
            if fault != Some(Fault::Dropped) {
                let len = file.now.len();
                file.durable.resize(len, 0);
                for page in std::mem::take(&mut file.dirty) {
                    let (from, to) = ((page * PAGE).min(len), ((page + 1) * PAGE).min(len));
                    file.durable[from..to].copy_from_slice(&file.now[from..to]);
                }
            }
            file.dirty.clear();
            Ok(())
        })
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.change(Operation::Resize, |inner, _| inner.grow(self.id, len as usize))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(Operation::Resize, |inner, _| {
            let file = inner.file(self.id);
            file.now.resize(len as usize, 0);
            Ok(())
        })
    }

    fn size(&self) -> io::Result<u64> {
        let inner = self.files.inner.lock();
        inner.alive()?;
        Ok(inner.files[&self.id].now.len() as u64)
    }
}

// === impl Inner ===

impl Inner {
    /// Returns the fault of this operation, or fails if the operation is not executed at all.
    fn begin(&mut self) -> io::Result<Option<Fault>> {
        self.alive()?;
        let number = self.operations;
        self.operations += 1;
        let Some((at, fault)) = self.plan else { return Ok(None) };
        match fault {
            Fault::RefusedFromNowOn(error) if number >= at => Err(io::Error::from_raw_os_error(error)),
            _ if number != at => Ok(None),
            Fault::Refused(error) => Err(io::Error::from_raw_os_error(error)),
            Fault::CutBefore => {
                self.dead = true;
                Err(power_off())
            }
            fault => Ok(Some(fault)),
        }
    }

    fn end(&mut self, fault: Option<Fault>) -> io::Result<()> {
        match fault {
            Some(Fault::CutAfter) => {
                self.dead = true;
                Err(power_off())
            }
            Some(_) => Err(io::Error::from_raw_os_error(EIO)),
            None => Ok(()),
        }
    }

    fn refuse(&self, operation: Operation) -> io::Result<()> {
        if self.refused == Some(operation) { Err(io::Error::from_raw_os_error(EIO)) } else { Ok(()) }
    }

    fn alive(&self) -> io::Result<()> {
        if self.dead { Err(power_off()) } else { Ok(()) }
    }

    fn file(&mut self, id: u64) -> &mut File {
        self.files.get_mut(&id).expect("a file")
    }

    fn used(&self) -> u64 {
        self.names.values().map(|id| self.files[id].now.len() as u64).sum()
    }

    fn grow(&mut self, id: u64, len: usize) -> io::Result<()> {
        let more = len.saturating_sub(self.files[&id].now.len());
        if more > 0 && self.space.is_some_and(|space| self.used() + more as u64 > space) {
            return Err(io::Error::from_raw_os_error(ENOSPC));
        }
        let file = self.file(id);
        let len = file.now.len().max(len);
        file.now.resize(len, 0);
        Ok(())
    }
}

fn power_off() -> io::Error {
    io::Error::other("the power is off")
}

// === impl Change ===

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        match self {
            Self::Create(name, id) => drop(names.insert(name.clone(), *id)),
            Self::Rename(from, to, id) => {
                if names.get(from) == Some(id) {
                    names.remove(from);
                }
                names.insert(to.clone(), *id);
            }
            Self::Remove(name) => drop(names.remove(name)),
        }
    }
}

// === impl File ===

impl File {
    fn lose_power(&mut self, coin: &mut impl FnMut() -> bool) {
        // The length of a file reaches the disk independently of its pages.
        if coin() {
            self.durable.resize(self.now.len(), 0);
        }
        for page in std::mem::take(&mut self.dirty) {
            let end = ((page + 1) * PAGE).min(self.now.len()).min(self.durable.len());
            if coin() && page * PAGE < end {
                let range = page * PAGE..end;
                self.durable[range.clone()].copy_from_slice(&self.now[range]);
            }
        }
        self.now = self.durable.clone();
    }
}
