//! Ordered writes, many of them in flight at a time.
//!
//! etcd executes concurrent requests in any order, and may execute requests without a response later. Therefore the
//! writes of a sequence have turns, and a counter: a key whose version (the number of its writes) is all that matters.
//!
//! Batches of a few hundred writes are executed in two steps. First, their values are staged: they are put under their
//! keys, many in one transaction, in any order, while the counter is before the first of them. Then they take their
//! turns. Such a request contains the next two dozen writes, and executes the one whose turn it is: it writes the key
//! again with its current value, and advances the counter. The order in which these requests arrive therefore does not
//! matter, and each write has its own revision. A request that is late, repeated, or from an earlier sequence (whose
//! counter was created earlier) has no turn and changes nothing.

mod pipeline;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_store::{Expect, Op, Revision, Store, StoreError, Txn, TxnResponse};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

use self::pipeline::{Outcome, Pipeline, Transport, Write};
use crate::api::{self, Compare, CompareTarget, PutRequest, RequestUnion, ResponseOp, ResponseUnion, TxnRequest};
use crate::cluster::Member;
use crate::error::Failure;
use crate::store::{EtcdStore, TXN, request_op, signed, write_of};
use crate::stream::unsigned;

/// A sequence of writes. If it is dropped, the state of writes that were not [flushed](Sequence::flush) is unknown.
pub struct Sequence {
    pipeline: Pipeline<EtcdTransport>,
}

// === impl Sequence ===

impl Sequence {
    /// Starts a sequence with its counter under a key, and ends all other sequences with that key: their writes in
    /// flight are no longer executed. Requests without a response are retried for up to `timeout`.
    ///
    /// Returns [`StoreError::Unavailable`] if etcd does not respond, or if another sequence starts at the same time. It
    /// is safe to start again.
    pub async fn begin(store: Arc<EtcdStore>, counter: Bytes, timeout: Duration) -> Result<Self, StoreError> {
        let txn = |expect, op| Txn { key: counter.clone(), expect, op };
        store.txn(txn(Expect::Anything, Op::Delete)).await?;
        let created_counter = store.txn(txn(Expect::Absent, Op::Put { value: Bytes::new(), lease: None })).await?;
        let TxnResponse::Done { revision, .. } = created_counter else {
            return Err(StoreError::Unavailable("another sequence of writes begins at the same time".to_owned()));
        };
        let member = Arc::clone(store.hub.cluster.pick());
        let transport = EtcdTransport { store, counter, created: signed(revision.0), member };
        Ok(Self { pipeline: Pipeline::new(transport, revision, timeout) })
    }

    /// Adds a write, which is executed before the next [`flush`](Self::flush) returns. After an error the sequence can
    /// no longer be used.
    ///
    /// A put with an expired lease deletes its key, as the expiry would have.
    pub async fn write(&mut self, key: Bytes, op: Op) -> Result<(), StoreError> {
        self.pipeline.add(Write { key, op }).await
    }

    /// Waits until all writes have been executed.
    pub async fn flush(&mut self) -> Result<(), StoreError> {
        self.pipeline.flush().await
    }

    /// Returns a revision that etcd has reached.
    pub fn revision(&self) -> Revision {
        self.pipeline.revision()
    }

    /// Returns the number of writes that have not been executed yet. Each of them will have its own revision.
    pub fn waiting(&self) -> usize {
        self.pipeline.waiting()
    }
}

/// Sends writes to a member.
struct EtcdTransport {
    store: Arc<EtcdStore>,
    counter: Bytes,
    /// The counter's create revision, which is unique to this sequence.
    created: i64,
    member: Arc<Member>,
}

impl Transport for EtcdTransport {
    fn stage(&self, first: u64, writes: &[&Write]) -> BoxFuture<'static, Outcome> {
        let values = writes.iter().map(|write| request_op(write_of(write.key.clone(), write.op.clone(), false)));
        self.send(TxnRequest {
            compare: vec![self.is_mine(), self.is_turn(first)],
            success: values.collect(),
            failure: vec![self.read_counter()],
        })
    }

    fn take_turn(&self, first: u64, writes: &[&Write]) -> BoxFuture<'static, Outcome> {
        let mut fallback = self.read_counter();
        for (at, write) in writes.iter().enumerate().rev() {
            let write = match &write.op {
                Op::Put { .. } => {
                    let key = write.key.clone();
                    RequestUnion::Put(PutRequest { key, ignore_value: true, ignore_lease: true, ..Default::default() })
                }
                Op::Delete => write_of(write.key.clone(), Op::Delete, false),
            };
            let count = write_of(self.counter.clone(), Op::Put { value: Bytes::new(), lease: None }, true);
            let this = TxnRequest {
                compare: vec![self.is_turn(first + at as u64)],
                success: vec![request_op(write), request_op(count)],
                failure: vec![fallback],
            };
            fallback = request_op(RequestUnion::Txn(this));
        }
        self.send(TxnRequest {
            compare: vec![self.is_mine()],
            success: vec![fallback],
            failure: vec![self.read_counter()],
        })
    }

    fn switch_member(&mut self) {
        self.member = Arc::clone(self.store.hub.cluster.pick());
    }
}

impl EtcdTransport {
    fn is_mine(&self) -> Compare {
        Compare::equal(self.counter.clone(), CompareTarget::CreateRevision(self.created))
    }

    fn is_turn(&self, turn: u64) -> Compare {
        Compare::equal(self.counter.clone(), CompareTarget::Version(signed(turn)))
    }

    /// Reads the counter.
    fn read_counter(&self) -> api::RequestOp {
        request_op(RequestUnion::Range(api::RangeRequest { key: self.counter.clone(), ..Default::default() }))
    }

    fn send(&self, request: TxnRequest) -> BoxFuture<'static, Outcome> {
        let (store, member) = (Arc::clone(&self.store), Arc::clone(&self.member));
        let (counter, created) = (self.counter.clone(), self.created);
        async move {
            let started = Instant::now();
            let answer = member.call::<_, api::TxnResponse>(TXN, request).await;
            store.metrics.request("update", &counter, started, answer.is_err());
            if let Err(Failure::NotDone(_) | Failure::Unknown(_)) = &answer {
                store.hub.cluster.avoid(&member);
            }
            outcome_of(created, answer)
        }
        .boxed()
    }
}

/// Returns the outcome of a response, derived from its counter.
fn outcome_of(created: i64, answer: Result<api::TxnResponse, Failure>) -> Outcome {
    let answer = match answer {
        Ok(answer) => answer,
        Err(Failure::NotDone(reason) | Failure::Unknown(reason)) => return Outcome::Lost(reason),
        Err(Failure::Answered(StoreError::LeaseNotFound)) => return Outcome::LeaseExpired,
        Err(Failure::Answered(StoreError::Unavailable(reason))) if reason.ends_with("key not found") => {
            return Outcome::KeyDeleted;
        }
        Err(failure) => return Outcome::Refused(failure.into_store_error()),
    };
    let revision = Revision(answer.header.map_or(0, |header| unsigned(header.revision)));
    match counter_state(answer.responses) {
        CounterState::NotRead => Outcome::Staged(revision),
        CounterState::At(counter) if counter.create_revision == created => {
            Outcome::NextTurn { turn: unsigned(counter.version), revision }
        }
        CounterState::MovedFrom(counter) => Outcome::NextTurn { turn: unsigned(counter.version) + 1, revision },
        CounterState::At(_) | CounterState::Missing => {
            Outcome::Refused(StoreError::Unavailable("another sequence of writes has taken over".to_owned()))
        }
    }
}

/// The state of the counter in a response.
enum CounterState {
    /// The values were staged; the counter was not read.
    NotRead,
    At(api::KeyValue),
    MovedFrom(api::KeyValue),
    Missing,
}

fn counter_state(responses: Vec<ResponseOp>) -> CounterState {
    for response in responses.into_iter().filter_map(|op| op.response) {
        match response {
            ResponseUnion::Range(range) => {
                return range.kvs.into_iter().next().map_or(CounterState::Missing, CounterState::At);
            }
            ResponseUnion::Put(api::PutResponse { prev_kv: Some(before), .. }) => {
                return CounterState::MovedFrom(before);
            }
            ResponseUnion::Txn(inner) => return counter_state(inner.responses),
            ResponseUnion::Put(_) | ResponseUnion::Delete(_) => {}
        }
    }
    CounterState::NotRead
}
