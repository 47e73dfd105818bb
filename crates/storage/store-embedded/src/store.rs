//! The engine as a [`Store`].

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use binnacle_store::{
    Count, KeyValue, LeaseId, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse, Watch,
};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::command::{Command, Reply};
use crate::committer;
use crate::directory::{OLD_FORMAT_DIR, remove_leftovers};
use crate::disk::{Disk, LogStats, MemoryDisk};
use crate::error::{OpenError, read_error};
use crate::files::{Files, RealFiles};
use crate::hub::Wakers;
use crate::index::{self, DiskIndex, Index, VersionLookup};
use crate::lock::DirLock;
use crate::log::LogDisk;
use crate::options::{EmbeddedOptions, WatchOptions};
use crate::recovery::{self, OpenFailure, RecoveredState};
use crate::salvage_mark::report_mark;
use crate::shared::{Shared, State};
use crate::{compaction, history, watch};

/// A durable store in a directory, or a store in memory. Its futures need a tokio runtime.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

/// The number of keys that a range read examines before the lock is released for writers.
const CHUNK_KEYS: usize = 1024;

// === impl EmbeddedStore ===

impl EmbeddedStore {
    /// Opens or creates the store in `options.dir`. Reads the whole store, and blocks until that is done.
    pub fn open(options: EmbeddedOptions) -> Result<Self, OpenError> {
        let dir = options.dir.clone();
        let lock = DirLock::acquire(&dir)?;
        remove_leftovers(&dir);
        report_mark(&dir);
        Self::open_locked(&options, lock).map_err(|open_failure| open_failure.of(dir))
    }

    pub(crate) fn open_locked(options: &EmbeddedOptions, lock: DirLock) -> Result<Self, OpenFailure> {
        if options.dir.join(OLD_FORMAT_DIR).is_dir() {
            // The database of an engine from before the first release.
            return Err(OpenFailure::Format(1));
        }
        let index_dir = options.dir.join("index");
        let index = match options.lean {
            true => Index::Disk(DiskIndex::create(index_dir)?),
            false => {
                // A killed tool has left its index.
                index::remove(&index_dir)?;
                Index::default()
            }
        };
        let disk = LogDisk::open(Arc::new(RealFiles::new(&options.dir, lock)?), options.log)?;
        Self::start(Arc::new(disk), index, options)
    }

    /// Creates a store in memory, for tests and temporary servers.
    ///
    /// # Panics
    ///
    /// If the operating system cannot start a thread.
    pub fn ephemeral() -> Self {
        match Self::start(Arc::new(MemoryDisk::default()), Index::default(), &EmbeddedOptions::new("")) {
            Ok(store) => store,
            Err(open_failure) => panic!("an empty store in memory cannot be started: {open_failure:?}"),
        }
    }

    /// Opens a store on the caller's disk, for example one that fails on demand in a test.
    pub fn open_on(disk: Arc<dyn Disk>, watch: WatchOptions) -> Result<Self, OpenError> {
        let options = EmbeddedOptions { watch, ..EmbeddedOptions::new("") };
        Self::start(disk, Index::default(), &options).map_err(|open_failure| open_failure.of(options.dir.clone()))
    }

    /// Opens a store in the caller's files.
    pub fn open_in(files: Arc<dyn Files>, options: &EmbeddedOptions) -> Result<Self, OpenError> {
        let opened = LogDisk::open(files, options.log).map_err(OpenFailure::from);
        let started = opened.and_then(|disk| Self::start(Arc::new(disk), Index::default(), options));
        started.map_err(|open_failure| open_failure.of(options.dir.clone()))
    }

    /// Returns the statistics of the disk.
    pub fn stats(&self) -> LogStats {
        self.shared.disk().map_or_else(|_| LogStats::default(), |disk| disk.stats())
    }

    fn start(disk: Arc<dyn Disk>, index: Index, options: &EmbeddedOptions) -> Result<Self, OpenFailure> {
        let RecoveredState { state, leftover } = recovery::load(&*disk, index, options)?;
        let shared = Arc::new(Shared::new(disk.clone(), state, options));
        compaction::resume(&shared, leftover).map_err(OpenFailure::Io)?;
        let committer = committer::spawn(shared.clone(), disk).map_err(OpenFailure::Io)?;
        Ok(Self { shared, committer: Mutex::new(Some(committer)) })
    }

    /// Executes the pending writes, ends all watches and drops the disk. Later calls fail with [`StoreError::Closed`].
    pub async fn close(&self) {
        if let Some(committer) = self.begin_close() {
            let shared = self.shared.clone();
            let finished = tokio::task::spawn_blocking(move || finish_close(&shared, committer)).await;
            if finished.is_err() {
                tracing::error!("closing the store was interrupted");
            }
        }
    }

    fn begin_close(&self) -> Option<JoinHandle<()>> {
        let committer = self.committer.lock().take()?;
        self.shared.queue.close();
        Some(committer)
    }

    async fn submit<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, StoreError> {
        let (reply, response) = oneshot::channel();
        self.shared.submit(command(reply))?;
        match response.await {
            Ok(result) => result,
            Err(_) => Err(self.shared.check_writable().err().unwrap_or(StoreError::Closed)),
        }
    }

    async fn get_at(&self, key: Bytes, revision: Option<Revision>) -> Result<(Option<KeyValue>, Revision), StoreError> {
        let (key, modified, current, revision) = {
            let state = self.shared.state.read();
            let revision = nonzero_revision(revision).unwrap_or(state.revision);
            state.check_readable(revision)?;
            let current = Revision(state.revision);
            match state.index.at(&key, revision).map_err(|error| read_error(&error))? {
                None | Some((_, VersionLookup::Absent)) => return Ok((None, current)),
                Some((key, VersionLookup::Value(live, value))) => {
                    return Ok((Some(live.key_value(key, value)), current));
                }
                Some((key, VersionLookup::Recorded(modified))) => (key, modified, current, revision),
            }
        };
        let mut values = history::values(&self.shared, revision, vec![(key, modified)]).await?;
        Ok((values.pop(), current))
    }

    async fn range_at(&self, request: RangeRequest) -> Result<RangeResponse, StoreError> {
        let nonzero_revision = nonzero_revision(request.revision);
        match self.range_in_chunks(&request, nonzero_revision, CHUNK_KEYS).await {
            // A read of the current state was overtaken by a compaction: repeat it without chunks.
            Err(StoreError::Compacted { .. }) if nonzero_revision.is_none() => {
                self.range_in_chunks(&request, None, usize::MAX).await
            }
            response => response,
        }
    }

    async fn range_in_chunks(
        &self,
        request: &RangeRequest,
        nonzero_revision: Option<u64>,
        chunk: usize,
    ) -> Result<RangeResponse, StoreError> {
        let mut scan = Scan { kvs: Vec::new(), past: Vec::new(), count: 0, last_key: None };
        let (revision, current) = {
            let state = self.shared.state.read();
            (nonzero_revision.unwrap_or(state.revision), state.revision)
        };
        let mut revision = revision;
        let mut current = current;
        loop {
            let more = {
                let state = self.shared.state.read();
                if chunk == usize::MAX && nonzero_revision.is_none() {
                    (revision, current) = (state.revision, state.revision);
                }
                state.check_readable(revision)?;
                scan.add(&state, request, revision, chunk).map_err(|error| read_error(&error))?
            };
            if !more {
                break;
            }
            tokio::task::yield_now().await;
        }
        if !scan.past.is_empty() {
            let places: Vec<_> = scan.past.iter().map(|(at, _)| *at).collect();
            let revisions = scan.past.into_iter().map(|(at, modified)| (scan.kvs[at].key.clone(), modified)).collect();
            let values = history::values(&self.shared, revision, revisions).await?;
            for (at, kv) in places.into_iter().zip(values) {
                scan.kvs[at] = kv;
            }
        }
        let more = request.count != Count::Only && scan.count > scan.kvs.len();
        Ok(RangeResponse { kvs: scan.kvs, more, count: scan.count, revision: Revision(current) })
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        if let Some(committer) = self.begin_close() {
            finish_close(&self.shared, committer);
        }
    }
}

impl Store for EmbeddedStore {
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        let state = self.shared.state.read();
        ready(state.check_open().map(|()| Revision(state.revision))).boxed()
    }

    fn get(
        &self,
        key: Bytes,
        revision: Option<Revision>,
    ) -> BoxFuture<'_, Result<(Option<KeyValue>, Revision), StoreError>> {
        self.get_at(key, revision).boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, StoreError>> {
        self.range_at(request).boxed()
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse, StoreError>> {
        self.submit(|reply| Command::Txn { txn, reply }).boxed()
    }

    fn delete_range(&self, range: Range<Bytes>) -> BoxFuture<'_, Result<u64, StoreError>> {
        async move {
            let mut deleted = 0;
            loop {
                let range = range.clone();
                let batch = self.submit(|reply| Command::DeleteRange { range, reply }).await?;
                deleted += batch.deleted;
                if !batch.more {
                    return Ok(deleted);
                }
            }
        }
        .boxed()
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> BoxFuture<'_, Result<Watch, StoreError>> {
        ready(watch::watch(&self.shared, range, after.0)).boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { compaction::compact(&self.shared, revision.0).await }.boxed()
    }

    fn compacted_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        let state = self.shared.state.read();
        ready(state.check_open().map(|()| Revision(state.compacted))).boxed()
    }

    fn grant_lease(&self, ttl_seconds: u64) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        self.submit(move |reply| Command::Grant { ttl_seconds, reply }).boxed()
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.submit(move |reply| Command::Revoke { lease: lease.0, reply }).boxed()
    }

    fn lease_remaining(&self, lease: LeaseId) -> BoxFuture<'_, Result<Duration, StoreError>> {
        let state = self.shared.state.read();
        let left = state.leases.remaining(lease.0, Instant::now()).ok_or(StoreError::LeaseNotFound);
        ready(state.check_open().and(left)).boxed()
    }

    fn health(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(self.shared.check_health()).boxed()
    }

    fn readiness(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(self.shared.check_readiness()).boxed()
    }

    fn release(&self, key: &[u8], revision: Revision) {
        // If the records are in memory, the value is a part of one.
        if self.shared.disk().is_ok_and(|disk| !disk.is_in_memory()) {
            self.shared.state.write().index.release(key, revision.0);
        }
    }
}

/// A range read in progress.
struct Scan {
    kvs: Vec<KeyValue>,
    /// Indexes in `kvs` whose value must still be read from the record of a revision.
    past: Vec<(usize, u64)>,
    count: usize,
    last_key: Option<Bytes>,
}

// === impl Scan ===

impl Scan {
    /// Adds the next keys. Returns true if there may be more.
    fn add(&mut self, state: &State, request: &RangeRequest, revision: u64, chunk: usize) -> io::Result<bool> {
        let mut examined = 0;
        let mut more = false;
        let after = self.last_key.take();
        let enough = request.count == Count::Returned && request.limit > 0;
        state.index.range(&request.range, after.as_ref(), &mut |key, entry| {
            examined += 1;
            self.take(key, entry.at(revision), request);
            if enough && self.count > request.limit {
                return ControlFlow::Break(());
            }
            if examined < chunk {
                return ControlFlow::Continue(());
            }
            self.last_key = Some(key.clone());
            more = true;
            ControlFlow::Break(())
        })?;
        Ok(more)
    }

    fn take(&mut self, key: &Bytes, at: VersionLookup<'_>, request: &RangeRequest) {
        if matches!(at, VersionLookup::Absent) {
            return;
        }
        self.count += 1;
        if request.count == Count::Only || (request.limit > 0 && self.kvs.len() >= request.limit) {
            return;
        }
        match at {
            VersionLookup::Value(live, value) => self.kvs.push(live.key_value(key.clone(), value)),
            VersionLookup::Recorded(modified) => {
                self.past.push((self.kvs.len(), modified));
                self.kvs.push(placeholder(key));
            }
            VersionLookup::Absent => {}
        }
    }
}

fn placeholder(key: &Bytes) -> KeyValue {
    KeyValue {
        key: key.clone(),
        value: Bytes::new(),
        create_revision: Revision(0),
        mod_revision: Revision(0),
        lease: None,
    }
}

/// Returns the requested revision. 0 means "none", as in etcd.
fn nonzero_revision(revision: Option<Revision>) -> Option<u64> {
    revision.map(|revision| revision.0).filter(|&revision| revision != 0)
}

fn finish_close(shared: &Shared, committer: JoinHandle<()>) {
    // A panic of the committer was handled where it happened.
    let _ = committer.join();
    let mut wakers = Wakers::default();
    let mut state = shared.state.write();
    state.closed = true;
    state.hub.close(&mut wakers);
    let index = std::mem::take(&mut state.index);
    drop(state);
    index.discard(shared.ends_with_process);
    wakers.wake();
    shared.drop_disk();
}
