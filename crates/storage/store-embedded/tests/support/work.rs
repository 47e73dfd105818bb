//! Random work, selected by a seed and by the contents of the model.

use binnacle_store::{Expect, LeaseId, Op, Revision, Store, StoreError, Txn, TxnResponse};
use bytes::Bytes;

use super::model::Model;

/// A small generator (xorshift) whose sequence can be repeated with its seed.
pub(crate) struct Rng(u64);

#[derive(Clone, Debug)]
pub(crate) enum RandomOperation {
    Txn(Txn),
    Compact(u64),
    Grant,
    Revoke(i64),
}

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % limit
    }

    fn key(&mut self) -> Bytes {
        let prefix = ["/a/", "/b/", "/b/c/"][self.below(3) as usize];
        Bytes::from(format!("{prefix}{}", self.below(4)))
    }

    fn lease(&mut self, model: &Model) -> Option<i64> {
        let count = model.leases.len() as u64;
        if count == 0 { None } else { model.leases.iter().nth(self.below(count) as usize).copied() }
    }

    pub(crate) fn work(&mut self, model: &Model) -> RandomOperation {
        match self.below(100) {
            0..4 => RandomOperation::Compact(self.below(model.revision() + 2)),
            4..7 => RandomOperation::Grant,
            7..10 => RandomOperation::Revoke(self.lease(model).unwrap_or(77)),
            _ => RandomOperation::Txn(self.txn(model)),
        }
    }

    /// Returns the work of a step: mostly random, with values that fill small segments soon, and with enough
    /// compactions for segments to be rewritten.
    pub(crate) fn bulky_work(&mut self, model: &Model, step: usize) -> RandomOperation {
        match step % 9 {
            8 if model.revision() > model.compacted + 1 => RandomOperation::Compact(model.revision() - self.below(2)),
            _ => match self.work(model) {
                RandomOperation::Txn(mut txn) => {
                    if let Op::Put { value, .. } = &mut txn.op {
                        *value = Bytes::from([&value[..], &[b'-'; 600]].concat());
                    }
                    RandomOperation::Txn(txn)
                }
                work => work,
            },
        }
    }

    pub(crate) fn txn(&mut self, model: &Model) -> Txn {
        let key = self.key();
        let expect = match (self.below(4), model.live().get(&key)) {
            (0, _) => Expect::Absent,
            (1, _) => Expect::ModRevision(Revision(self.below(model.revision()) + 1)),
            (2, Some(kv)) => Expect::ModRevision(kv.mod_revision),
            _ => Expect::Anything,
        };
        let op = match self.below(4) {
            0 => Op::Delete,
            1 => Op::Put { value: self.value(), lease: self.lease(model).map(LeaseId) },
            _ => Op::Put { value: self.value(), lease: None },
        };
        Txn { key, expect, op }
    }

    fn value(&mut self) -> Bytes {
        let number = self.below(1_000_000);
        Bytes::from(format!("{number}{}", ".".repeat(self.below(200) as usize)))
    }
}

impl RandomOperation {
    /// Executes the work on both and compares the results. If the disk (or a closed store) rejects it, returns that
    /// error and leaves the model unchanged.
    pub(crate) async fn run(&self, store: &dyn Store, model: &mut Model) -> Result<(), StoreError> {
        let mut next = model.clone();
        match self {
            Self::Txn(txn) => {
                let expected = next.txn(txn);
                let answer = store.txn(txn.clone()).await;
                failed(&answer)?;
                assert_eq!(show(&answer), show(&expected), "{self:?}");
            }
            Self::Compact(revision) => {
                let answer = store.compact(Revision(*revision)).await;
                failed(&answer)?;
                if *revision > model.revision() {
                    assert!(matches!(answer, Err(StoreError::FutureRevision { .. })), "{self:?}: {answer:?}");
                } else if *revision <= model.compacted {
                    assert!(matches!(answer, Err(StoreError::Compacted { .. })), "{self:?}: {answer:?}");
                } else {
                    answer.expect("a compaction");
                    next.compacted = *revision;
                }
            }
            Self::Grant => {
                let answer = store.grant_lease(3600).await;
                failed(&answer)?;
                assert!(next.leases.insert(answer.expect("a lease").0), "no lease is given twice");
            }
            Self::Revoke(lease) => {
                let answer = store.revoke_lease(LeaseId(*lease)).await;
                failed(&answer)?;
                assert_eq!(next.revoke(*lease), answer.is_ok(), "{self:?}: {answer:?}");
            }
        }
        *model = next;
        Ok(())
    }

    /// Changes the model as this work would, with or without a response.
    pub(crate) fn apply(&self, model: &mut Model) {
        match self {
            Self::Txn(txn) => drop(model.txn(txn)),
            Self::Compact(revision) => model.compacted = *revision,
            Self::Revoke(lease) => drop(model.revoke(*lease)),
            // No client got the ID of the lease, so no key can belong to it.
            Self::Grant => {}
        }
    }
}

fn failed<T>(answer: &Result<T, StoreError>) -> Result<(), StoreError> {
    match answer {
        Err(StoreError::Io(detail)) => Err(StoreError::Io(detail.clone())),
        Err(StoreError::Closed) => Err(StoreError::Closed),
        Err(StoreError::NoSpace(detail)) => Err(StoreError::NoSpace(detail.clone())),
        Err(StoreError::Unavailable(detail)) => Err(StoreError::Unavailable(detail.clone())),
        _ => Ok(()),
    }
}

fn show(answer: &Result<TxnResponse, StoreError>) -> String {
    format!("{answer:?}")
}
