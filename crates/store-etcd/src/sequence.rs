//! Writes that are carried out in the order in which they were given, with many of them under way at once.
//!
//! etcd carries out what it is asked at the same time in any order, and what it gave no answer to perhaps later. So the
//! writes of a sequence have turns, and a counter: a key of which only the version (how often it was written) matters.
//!
//! Some hundred writes at a time are brought over in two steps. First their values are laid out: put under their keys,
//! many in one transaction, in any order, while the counter stands before the first of them. Then they take their turns.
//! A request for that holds the next two dozen of them, and carries out the one whose turn it is: it writes the key once
//! more with the value that it has, and moves the counter on. So it does not matter in which order such requests arrive,
//! and each write has a revision of its own. Whatever comes late, a second time, or from a sequence before this one,
//! whose counter was created earlier, finds no turn and changes nothing.

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

/// A sequence of writes. Dropping it leaves those that were not [flushed](Sequence::flush) in any state.
pub struct Sequence {
    flight: Flight<Courier>,
}

// === impl Sequence ===

impl Sequence {
    /// Begins a sequence that counts its turns under a key, and ends all others that do: what they have under way is not
    /// carried out any more. What etcd does not answer to is repeated for as long as `patience`.
    ///
    /// Fails with [`StoreError::Unavailable`] when etcd does not answer, or when another sequence begins at this moment;
    /// beginning again is safe.
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

    /// Adds a write, which is carried out some time before the next [`flush`](Self::flush) returns. After an error the
    /// sequence is of no further use.
    ///
    /// A put with a lease that has ended deletes its key, as the lease's end would have.
    pub async fn write(&mut self, key: Bytes, op: Op) -> Result<(), StoreError> {
        self.flight.add(Write { key, op }).await
    }

    /// Waits until all writes have been carried out.
    pub async fn flush(&mut self) -> Result<(), StoreError> {
        self.flight.flush().await
    }

    /// etcd has at least this revision.
    pub fn revision(&self) -> Revision {
        self.flight.revision()
    }

    /// Returns the number of writes that have not been carried out yet. Each of them will have a revision of its own.
    pub fn waiting(&self) -> usize {
        self.flight.waiting()
    }
}

/// Takes writes to a member.
struct Courier {
    store: Arc<EtcdStore>,
    counter: Bytes,
    /// The counter's create revision, which no other sequence's has.
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

    /// Asks where the counter stands.
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

/// Reads the turn from an answer.
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

/// The counter, as an answer shows it.
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
