//! Ordered writes, many of them in flight at a time.
//!
//! etcd carries out concurrent requests in any order, and unanswered ones perhaps later. So the writes of a sequence
//! have turns, and a counter: a key of which only the version (the number of its writes) matters.
//!
//! Batches of some hundred writes are carried out in two steps. First their values are laid out: put under their keys,
//! many in one transaction, in any order, while the counter is before the first of them. Then they take their turns. A
//! request for that holds the next two dozen writes, and carries out the one whose turn it is: it writes the key again
//! with its present value, and advances the counter. So the order in which these requests arrive does not matter, and
//! each write has a revision of its own. A request that is late, repeated, or from an earlier sequence, whose counter
//! was created earlier, has no turn and changes nothing.

mod flight;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_store::{Expect, Op, Revision, Store, StoreError, Txn, TxnResponse};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

use self::flight::{Attempt, Carrier, Flight, Write};
use crate::api::{self, Compare, Compared, PutRequest, RequestUnion, ResponseOp, ResponseUnion, TxnRequest};
use crate::cluster::Member;
use crate::error::Failure;
use crate::store::{EtcdStore, TXN, request_op, signed, write_of};
use crate::stream::unsigned;

/// A sequence of writes. If it is dropped, writes that were not [flushed](Sequence::flush) are in an unknown state.
pub struct Sequence {
    flight: Flight<Courier>,
}

// === impl Sequence ===

impl Sequence {
    /// Begins a sequence with its counter under a key, and ends all others with that key: their writes in flight are
    /// not carried out any more. Unanswered requests are repeated for as long as `patience`.
    ///
    /// Returns [`StoreError::Unavailable`] if etcd does not answer, or if another sequence begins at the same time; it
    /// is safe to begin again.
    pub async fn begin(store: Arc<EtcdStore>, counter: Bytes, patience: Duration) -> Result<Self, StoreError> {
        let txn = |expect, op| Txn { key: counter.clone(), expect, op };
        store.txn(txn(Expect::Anything, Op::Delete)).await?;
        let made = store.txn(txn(Expect::Absent, Op::Put { value: Bytes::new(), lease: None })).await?;
        let TxnResponse::Done { revision, .. } = made else {
            return Err(StoreError::Unavailable("another sequence of writes begins at the same time".to_owned()));
        };
        let member = Arc::clone(store.hub.cluster.pick());
        let courier = Courier { store, counter, created: signed(revision.0), member };
        Ok(Self { flight: Flight::new(courier, revision, patience) })
    }

    /// Adds a write, which is carried out before the next [`flush`](Self::flush) returns. After an error the sequence
    /// cannot be used any more.
    ///
    /// A put with an expired lease deletes its key, as the expiry would have.
    pub async fn write(&mut self, key: Bytes, op: Op) -> Result<(), StoreError> {
        self.flight.add(Write { key, op }).await
    }

    /// Waits until all writes have been carried out.
    pub async fn flush(&mut self) -> Result<(), StoreError> {
        self.flight.flush().await
    }

    /// Returns a revision that etcd has reached.
    pub fn revision(&self) -> Revision {
        self.flight.revision()
    }

    /// Returns the number of writes that are not yet carried out. Each of them will have a revision of its own.
    pub fn waiting(&self) -> usize {
        self.flight.waiting()
    }
}

/// Sends writes to a member.
struct Courier {
    store: Arc<EtcdStore>,
    counter: Bytes,
    /// The counter's create revision, which is unique to this sequence.
    created: i64,
    member: Arc<Member>,
}

impl Carrier for Courier {
    fn lay_out(&self, first: u64, writes: &[&Write]) -> BoxFuture<'static, Attempt> {
        let values = writes.iter().map(|write| request_op(write_of(write.key.clone(), write.op.clone(), false)));
        self.send(TxnRequest {
            compare: vec![self.is_mine(), self.is_turn(first)],
            success: values.collect(),
            failure: vec![self.look()],
        })
    }

    fn take_turn(&self, first: u64, writes: &[&Write]) -> BoxFuture<'static, Attempt> {
        let mut otherwise = self.look();
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
                failure: vec![otherwise],
            };
            otherwise = request_op(RequestUnion::Txn(this));
        }
        self.send(TxnRequest { compare: vec![self.is_mine()], success: vec![otherwise], failure: vec![self.look()] })
    }

    fn turn_elsewhere(&mut self) {
        self.member = Arc::clone(self.store.hub.cluster.pick());
    }
}

impl Courier {
    fn is_mine(&self) -> Compare {
        Compare::equal(self.counter.clone(), Compared::CreateRevision(self.created))
    }

    fn is_turn(&self, turn: u64) -> Compare {
        Compare::equal(self.counter.clone(), Compared::Version(signed(turn)))
    }

    /// Reads the counter.
    fn look(&self) -> api::RequestOp {
        request_op(RequestUnion::Range(api::RangeRequest { key: self.counter.clone(), ..Default::default() }))
    }

    fn send(&self, request: TxnRequest) -> BoxFuture<'static, Attempt> {
        let (store, member) = (Arc::clone(&self.store), Arc::clone(&self.member));
        let (counter, created) = (self.counter.clone(), self.created);
        async move {
            let begun = Instant::now();
            let answer = member.call::<_, api::TxnResponse>(TXN, request).await;
            store.metrics.request("update", &counter, begun, answer.is_err());
            if let Err(Failure::NotDone(_) | Failure::Unknown(_)) = &answer {
                store.hub.cluster.avoid(&member);
            }
            outcome(created, answer)
        }
        .boxed()
    }
}

/// Returns the outcome of an answer, by its counter.
fn outcome(created: i64, answer: Result<api::TxnResponse, Failure>) -> Attempt {
    let answer = match answer {
        Ok(answer) => answer,
        Err(Failure::NotDone(reason) | Failure::Unknown(reason)) => return Attempt::Lost(reason),
        Err(Failure::Answered(StoreError::LeaseNotFound)) => return Attempt::LeaseEnded,
        Err(Failure::Answered(StoreError::Unavailable(reason))) if reason.ends_with("key not found") => {
            return Attempt::KeyGone;
        }
        Err(failure) => return Attempt::Refused(failure.into_store_error()),
    };
    let revision = Revision(answer.header.map_or(0, |header| unsigned(header.revision)));
    match standing(answer.responses) {
        Standing::Unsaid => Attempt::LaidOut(revision),
        Standing::At(counter) if counter.create_revision == created => {
            Attempt::Reached { turn: unsigned(counter.version), revision }
        }
        Standing::MovedFrom(counter) => Attempt::Reached { turn: unsigned(counter.version) + 1, revision },
        Standing::At(_) | Standing::Missing => {
            Attempt::Refused(StoreError::Unavailable("another sequence of writes has taken over".to_owned()))
        }
    }
}

/// The counter in an answer.
enum Standing {
    /// The values were laid out; the counter was not read.
    Unsaid,
    At(api::KeyValue),
    MovedFrom(api::KeyValue),
    Missing,
}

fn standing(responses: Vec<ResponseOp>) -> Standing {
    for response in responses.into_iter().filter_map(|op| op.response) {
        match response {
            ResponseUnion::Range(range) => return range.kvs.into_iter().next().map_or(Standing::Missing, Standing::At),
            ResponseUnion::Put(api::PutResponse { prev_kv: Some(before), .. }) => return Standing::MovedFrom(before),
            ResponseUnion::Txn(inner) => return standing(inner.responses),
            ResponseUnion::Put(_) | ResponseUnion::Delete(_) => {}
        }
    }
    Standing::Unsaid
}
