//! Writes in flight, which take effect in the order of the calls.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;

use binnacle_store::{Expect, Op, Revision, Store, StoreError, Txn, TxnResponse};
use binnacle_store_etcd::{EtcdStore, Sequence};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::poll;

use crate::Error;
use crate::retry::{RETRY_TIMEOUT, retry};

/// Ordered writes, in the way that the engine requires.
pub(super) enum Writes {
    Embedded(OrderedWrites),
    Etcd(Box<SequencedWrites>),
}

/// Writes to an embedded store, which runs them in the order of the calls.
pub(super) struct OrderedWrites {
    store: Arc<dyn Store>,
    pending: VecDeque<BoxFuture<'static, Result<TxnResponse, StoreError>>>,
    /// A lower bound of the store's revision once all pending writes are done.
    reached: u64,
}

/// Writes to etcd, which has no such order: a counter key determines when each write takes effect.
pub(super) struct SequencedWrites {
    store: Arc<EtcdStore>,
    counter: Bytes,
    /// Created by the first write: before it, nothing is written to a store that may not be ours to fill.
    sequence: Option<Sequence>,
    /// Bytes written since the last compaction.
    bytes: usize,
}

/// The number of writes to an embedded store in flight at once.
const WINDOW: usize = 256;
/// The bytes after which etcd is compacted: a sequence writes each value twice, and etcd keeps both until then.
const BYTES_PER_COMPACTION: usize = 64 << 20;

// === impl Writes ===

impl Writes {
    pub(super) fn embedded(store: Arc<dyn Store>) -> Self {
        Self::Embedded(OrderedWrites { store, pending: VecDeque::new(), reached: 0 })
    }

    pub(super) fn etcd(store: Arc<EtcdStore>, root: &str) -> Self {
        let counter = Bytes::from(format!("binnacle_counter{root}"));
        Self::Etcd(Box::new(SequencedWrites { store, counter, sequence: None, bytes: 0 }))
    }

    /// Adds a write. Returns when there is room for the next one.
    pub(super) async fn write(&mut self, key: Bytes, op: Op) -> Result<(), Error> {
        let written = match self {
            Self::Embedded(writes) => writes.write(key, op).await,
            Self::Etcd(writes) => writes.write(key, op).await,
        };
        written.map_err(failed)
    }

    /// Waits until all writes are durable. Returns a revision of the store after that.
    pub(super) async fn flush(&mut self) -> Result<Revision, Error> {
        match self {
            Self::Embedded(writes) => writes.flush().await.map_err(failed)?,
            Self::Etcd(writes) => {
                if let Some(sequence) = &mut writes.sequence {
                    sequence.flush().await.map_err(failed)?;
                }
            }
        }
        Ok(Revision(self.reached()))
    }

    /// Returns a lower bound of the store's revision once all writes in flight are done.
    pub(super) fn reached(&self) -> u64 {
        match self {
            Self::Embedded(writes) => writes.reached,
            Self::Etcd(writes) => {
                writes.sequence.as_ref().map_or(0, |sequence| sequence.revision().0 + sequence.waiting() as u64)
            }
        }
    }

    /// Writes an empty value, in order to increase the revision. Returns a revision of the store after that. May be
    /// called again before it returns.
    pub(super) async fn put_nothing(&self, key: Bytes) -> Result<Revision, StoreError> {
        match self {
            Self::Embedded(writes) => {
                let op = Op::Put { value: Bytes::new(), lease: None };
                let txn = Txn { key, expect: Expect::Anything, op };
                let (TxnResponse::Done { revision, .. } | TxnResponse::Unmet { revision, .. }) =
                    writes.store.txn(txn).await?;
                Ok(revision)
            }
            Self::Etcd(writes) => retry(|| writes.store.put_nothing(key.clone())).await,
        }
    }

    /// Deletes the counter key from `store`, which must be the target.
    pub(super) async fn end(&mut self, store: &dyn Store) -> Result<(), Error> {
        let Self::Etcd(writes) = self else { return Ok(()) };
        writes.sequence = None;
        let txn = Txn { key: writes.counter.clone(), expect: Expect::Anything, op: Op::Delete };
        store.txn(txn).await.map(drop).map_err(failed)
    }
}

fn failed(error: StoreError) -> Error {
    Error::context("writing to the target", error)
}

// === impl OrderedWrites ===

impl OrderedWrites {
    async fn write(&mut self, key: Bytes, op: Op) -> Result<(), StoreError> {
        let store = Arc::clone(&self.store);
        let txn = Txn { key, expect: Expect::Anything, op };
        let mut write: BoxFuture<'static, _> = Box::pin(async move { store.txn(txn).await });
        // The store gets the writes in the order in which they are first polled.
        if let Poll::Ready(answer) = poll!(&mut write) {
            self.flush().await?;
            return self.done(answer);
        }
        self.pending.push_back(write);
        while self.pending.len() >= WINDOW {
            let Some(first) = self.pending.pop_front() else { break };
            let answer = first.await;
            self.done(answer)?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), StoreError> {
        while let Some(first) = self.pending.pop_front() {
            let answer = first.await;
            self.done(answer)?;
        }
        Ok(())
    }

    fn done(&mut self, answer: Result<TxnResponse, StoreError>) -> Result<(), StoreError> {
        let (TxnResponse::Done { revision, .. } | TxnResponse::Unmet { revision, .. }) = answer?;
        self.reached = self.reached.max(revision.0);
        Ok(())
    }
}

// === impl SequencedWrites ===

impl SequencedWrites {
    async fn write(&mut self, key: Bytes, op: Op) -> Result<(), StoreError> {
        let sequence = match &mut self.sequence {
            Some(sequence) => sequence,
            none => {
                let begin = || Sequence::begin(Arc::clone(&self.store), self.counter.clone(), RETRY_TIMEOUT);
                none.insert(retry(begin).await?)
            }
        };
        if let Op::Put { value, .. } = &op {
            self.bytes += value.len();
        }
        sequence.write(key, op).await?;
        if self.bytes >= BYTES_PER_COMPACTION {
            self.bytes = 0;
            let (store, now) = (&self.store, sequence.revision());
            match retry(|| store.compact(now)).await {
                Ok(()) | Err(StoreError::Compacted { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
