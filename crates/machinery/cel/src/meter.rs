//! The limits on the cost and work of an evaluation.

use std::cell::Cell;

use crate::error::Error;
use crate::value::Val;

/// Counts the cost of an evaluation as kube-apiserver does. The actual work is charged to the work budget: comparing
/// values with shared parts can take far more steps than its cost.
#[derive(Debug)]
pub(crate) struct Meter {
    cost: Cell<u64>,
    limit: u64,
}

/// The memory of an entry of a map.
const ENTRY: usize = 160;

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

    /// Charges the work and memory of a list of this length.
    #[inline]
    pub(crate) fn list(&self, len: usize) -> Result<(), Error> {
        binnacle_work::charge(1 + len as u64)?;
        Ok(binnacle_work::allocate(len.saturating_mul(size_of::<Val<'_>>()))?)
    }

    /// Charges the look-up of a key.
    #[inline]
    pub(crate) fn key(&self, key: &Val<'_>) -> Result<(), Error> {
        // The key is copied and hashed.
        Ok(binnacle_work::charge(2 + key.bytes() as u64 / 4)?)
    }

    /// Charges one more entry of a map.
    #[inline]
    pub(crate) fn entry(&self, key: &Val<'_>) -> Result<(), Error> {
        self.key(key)?;
        Ok(binnacle_work::allocate(ENTRY + key.bytes())?)
    }

    /// Returns the remaining cost.
    pub(crate) fn remaining(&self) -> u64 {
        self.limit.saturating_sub(self.cost.get())
    }

    pub(crate) fn cost(&self) -> u64 {
        self.cost.get()
    }
}
