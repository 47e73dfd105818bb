//! The limits on the cost and work of an evaluation.

use std::cell::Cell;

use crate::error::Error;

/// Counts the cost of an evaluation as kube-apiserver does, and its actual work: comparing values with shared parts can
/// take far more steps than its cost.
#[derive(Debug)]
pub(crate) struct Meter {
    cost: Cell<u64>,
    limit: u64,
    work: Cell<u64>,
}

/// The limit on elements that functions visit in one evaluation.
const MAX_WORK: u64 = 20_000_000;

impl Meter {
    pub(crate) fn new(limit: u64) -> Self {
        Self { cost: Cell::new(0), limit, work: Cell::new(MAX_WORK) }
    }

    #[inline]
    pub(crate) fn charge(&self, cost: u64) -> Result<(), Error> {
        let total = self.cost.get().saturating_add(cost);
        self.cost.set(total);
        if total > self.limit { Err(Error::cost_limit()) } else { Ok(()) }
    }

    #[inline]
    pub(crate) fn work(&self, steps: u64) -> Result<(), Error> {
        match self.work.get().checked_sub(steps) {
            Some(left) => {
                self.work.set(left);
                Ok(())
            }
            None => Err(Error::cost_limit()),
        }
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost.get()
    }
}
