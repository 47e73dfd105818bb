//! The engine as a [`Store`].

use std::io;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use binnacle_store::{
    KeyValue, LeaseId, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse, Watch,
};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::committer::{self, Command, Reply};
use crate::disk::{Disk, LogStats, MemoryDisk};
use crate::error::OpenError;
use crate::files::{Files, RealFiles};
use crate::index::{self, At, DiskIndex, Index};
use crate::lock::DirLock;
use crate::log::LogDisk;
use crate::offline::{OLD_FORM, remove_leftovers};
use crate::options::{EmbeddedOptions, WatchOptions};
use crate::recovery::{self, Recovered, Unusable};
use crate::salvage::report_mark;
use crate::shared::{Shared, State, read_failed};
use crate::{compaction, history, watch};

/// A durable store in a directory, or one in memory. Its futures need a tokio runtime.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    committer: Mutex<Option<JoinHandle<()>>>,
}

/// The number of keys that a range read examines before writers get a turn.
const CHUNK_KEYS: usize = 1024;

// === impl EmbeddedStore ===

impl EmbeddedStore {
    /// Opens or creates the store in `options.dir`. Reads the whole store, and blocks until that is done.
    pub fn open(options: EmbeddedOptions) -> Result<Self, OpenError> {
        let dir = options.dir.clone();
        let lock = DirLock::acquire(&dir)?;
        remove_leftovers(&dir);
        report_mark(&dir);
        Self::open_locked(&options, lock).map_err(|unusable| unusable.of(dir))
    }

    pub(crate) fn open_locked(options: &EmbeddedOptions, lock: DirLock) -> Result<Self, Unusable> {
        if options.dir.join(OLD_FORM).is_dir() {
            // The database of an engine from before the first release.
            return Err(Unusable::Format(1));
        }
        let place = options.dir.join("index");
        let index = match options.lean {
            true => Index::Disk(DiskIndex::make(place)?),
            false => {
                // A tool that was killed has left its index.
                index::remove(&place)?;
                Index::default()
            }
        };
        let disk = LogDisk::open(Arc::new(RealFiles::new(&options.dir, lock)?), options.log)?;
        Self::start(Arc::new(disk), index, options)
    }

    /// Creates a store in memory, for tests and temporary servers.
    ///
    /// # Panics
    /// When the operating system cannot start a thread.
    pub fn ephemeral() -> Self {
        match Self::start(Arc::new(MemoryDisk::default()), Index::default(), &EmbeddedOptions::new("")) {
            Ok(store) => store,
            Err(unusable) => panic!("an empty store in memory cannot be started: {unusable:?}"),
        }
    }

    /// Opens a store on the caller's disk, for example one that fails on demand in a test.
    pub fn open_on(disk: Arc<dyn Disk>, watch: WatchOptions) -> Result<Self, OpenError> {
        let options = EmbeddedOptions { watch, ..EmbeddedOptions::new("") };
        Self::start(disk, Index::default(), &options).map_err(|unusable| unusable.of(options.dir.clone()))
    }

    /// Opens a store in the caller's files.
    pub fn open_in(files: Arc<dyn Files>, options: &EmbeddedOptions) -> Result<Self, OpenError> {
        let opened = LogDisk::open(files, options.log).map_err(Unusable::from);
        let started = opened.and_then(|disk| Self::start(Arc::new(disk), Index::default(), options));
        started.map_err(|unusable| unusable.of(options.dir.clone()))
    }

    /// Returns the statistics of the disk.
    pub fn stats(&self) -> LogStats {
        self.shared.disk().map_or_else(|_| LogStats::default(), |disk| disk.stats())
    }

    fn start(disk: Arc<dyn Disk>, index: Index, options: &EmbeddedOptions) -> Result<Self, Unusable> {
        let Recovered { state, leftover } = recovery::load(&*disk, index, options)?;
        let shared = Arc::new(Shared::new(disk.clone(), state, options));
        compaction::resume(&shared, leftover).map_err(Unusable::Io)?;
        let committer = committer::spawn(shared.clone(), disk).map_err(Unusable::Io)?;
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

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.shared.submit(command(reply))?;
        match answer.await {
            Ok(result) => result,
            Err(_) => Err(self.shared.writable().err().unwrap_or(StoreError::Closed)),
        }
    }

    async fn get_at(&self, key: Bytes, revision: Option<Revision>) -> Result<(Option<KeyValue>, Revision), StoreError> {
        let (key, modified, current, revision) = {
            let state = self.shared.state.read();
            let revision = wanted(revision).unwrap_or(state.revision);
            state.readable(revision)?;
            let current = Revision(state.revision);
            match state.index.at(&key, revision).map_err(|error| read_failed(&error))? {
                None | Some((_, At::Absent)) => return Ok((None, current)),
                Some((key, At::Value(live, value))) => return Ok((Some(live.key_value(key, value)), current)),
                Some((key, At::Recorded(modified))) => (key, modified, current, revision),
            }
        };
        let mut values = history::values(&self.shared, revision, vec![(key, modified)]).await?;
        Ok((values.pop(), current))
    }

    async fn range_at(&self, request: RangeRequest) -> Result<RangeResponse, StoreError> {
        let wanted = wanted(request.revision);
        match self.range_in_chunks(&request, wanted, CHUNK_KEYS).await {
            // A read of the current state was overtaken by a compaction: repeat it without chunks.
            Err(StoreError::Compacted { .. }) if wanted.is_none() => {
                self.range_in_chunks(&request, None, usize::MAX).await
            }
            answer => answer,
        }
    }

    async fn range_in_chunks(
        &self,
        request: &RangeRequest,
        wanted: Option<u64>,
        chunk: usize,
    ) -> Result<RangeResponse, StoreError> {
        let mut scan = Scan { kvs: Vec::new(), past: Vec::new(), count: 0, last_key: None };
        let (revision, current) = {
            let state = self.shared.state.read();
            (wanted.unwrap_or(state.revision), state.revision)
        };
        let mut revision = revision;
        let mut current = current;
        loop {
            let more = {
                let state = self.shared.state.read();
                if chunk == usize::MAX && wanted.is_none() {
                    (revision, current) = (state.revision, state.revision);
                }
                state.readable(revision)?;
                scan.add(&state, request, revision, chunk).map_err(|error| read_failed(&error))?
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
        let more = !request.count_only && scan.count > scan.kvs.len();
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
        ready(state.open().map(|()| Revision(state.revision))).boxed()
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
        self.ask(|reply| Command::Txn { txn, reply }).boxed()
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> BoxFuture<'_, Result<Watch, StoreError>> {
        ready(watch::watch(&self.shared, range, after.0)).boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        async move { compaction::compact(&self.shared, revision.0).await }.boxed()
    }

    fn compacted_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        let state = self.shared.state.read();
        ready(state.open().map(|()| Revision(state.compacted))).boxed()
    }

    fn grant_lease(&self, ttl_seconds: u64) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        self.ask(move |reply| Command::Grant { ttl_seconds, reply }).boxed()
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.ask(move |reply| Command::Revoke { lease: lease.0, reply }).boxed()
    }

    fn lease_remaining(&self, lease: LeaseId) -> BoxFuture<'_, Result<Duration, StoreError>> {
        let state = self.shared.state.read();
        let left = state.leases.remaining(lease.0, Instant::now()).ok_or(StoreError::LeaseNotFound);
        ready(state.open().and(left)).boxed()
    }

    fn health(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(self.shared.healthy()).boxed()
    }

    fn readiness(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        ready(self.shared.ready()).boxed()
    }

    fn release(&self, key: &[u8], revision: Revision) {
        // Where the records are in memory, the value is a part of one.
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
    /// Adds the next keys; returns true if there may be more.
    fn add(&mut self, state: &State, request: &RangeRequest, revision: u64, chunk: usize) -> io::Result<bool> {
        let mut looked_at = 0;
        let mut more = false;
        let after = self.last_key.take();
        let enough = state.index.is_on_disk() && !request.count_only && request.limit > 0;
        state.index.range(&request.range, after.as_ref(), &mut |key, entry| {
            looked_at += 1;
            self.take(key, entry.at(revision), request);
            if enough && self.count > request.limit {
                return ControlFlow::Break(());
            }
            if looked_at < chunk {
                return ControlFlow::Continue(());
            }
            self.last_key = Some(key.clone());
            more = true;
            ControlFlow::Break(())
        })?;
        Ok(more)
    }

    fn take(&mut self, key: &Bytes, at: At<'_>, request: &RangeRequest) {
        if matches!(at, At::Absent) {
            return;
        }
        self.count += 1;
        if request.count_only || (request.limit > 0 && self.kvs.len() >= request.limit) {
            return;
        }
        match at {
            At::Value(live, value) => self.kvs.push(live.key_value(key.clone(), value)),
            At::Recorded(modified) => {
                self.past.push((self.kvs.len(), modified));
                self.kvs.push(placeholder(key));
            }
            At::Absent => {}
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

/// Returns the requested revision; 0 means "none", as in etcd.
fn wanted(revision: Option<Revision>) -> Option<u64> {
    revision.map(|revision| revision.0).filter(|&revision| revision != 0)
}

fn finish_close(shared: &Shared, committer: JoinHandle<()>) {
    // A panic of the committer was handled where it happened.
    let _ = committer.join();
    let mut wakers = watch::Wakers::default();
    let mut state = shared.state.write();
    state.closed = true;
    state.hub.close(&mut wakers);
    let index = std::mem::take(&mut state.index);
    drop(state);
    index.discard(shared.ends_with_process);
    wakers.wake();
    shared.drop_disk();
}
