//! The limits on the cost and work of an evaluation.

use std::cell::Cell;

use crate::error::Error;

/// Counts the cost of an evaluation as kube-apiserver does. The actual work is charged to the work budget: comparing
/// values with shared parts can take far more steps than its cost.
#[derive(Debug)]
pub(crate) struct Meter {
    cost: Cell<u64>,
    limit: u64,
}

impl Meter {
    pub(crate) fn new(limit: u64) -> Self {
        Self { cost: Cell::new(0), limit }
    }

    #[inline]
    pub(crate) fn charge(&self, cost: u64) -> Result<(), Error> {
        let total = self.cost.get().saturating_add(cost);
        self.cost.set(total);
        if total > self.limit { Err(Error::cost_limit()) } else { Ok(()) }
    }

    /// Charges steps of work in advance.
    #[inline]
    pub(crate) fn work(&self, steps: u64) -> Result<(), Error> {
        Ok(binnacle_work::charge(steps)?)
    }

    /// Charges the work of copying bytes and the memory for them.
    #[inline]
    pub(crate) fn copy(&self, bytes: usize) -> Result<(), Error> {
        binnacle_work::charge_bytes(bytes)?;
        Ok(binnacle_work::allocate(bytes)?)
    }

    /// Returns the remaining cost.
    pub(crate) fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.cost.get())
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost.get()
    }
}
