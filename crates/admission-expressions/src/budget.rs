//! What the expressions for one request may cost together, beside the limit of each.

use std::fmt;

/// What all validations of a policy may cost for one request and parameter object.
pub const BUDGET: u64 = 10_000_000;

/// What all match conditions of a policy or webhook may cost for one request.
pub const MATCH_CONDITIONS_BUDGET: u64 = 2_500_000;

/// What is left to spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(u64);

/// The expressions have cost more than they may together. None of them counts then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBudget;

impl Budget {
    pub const fn new(cost: u64) -> Self {
        Self(cost)
    }

    pub(crate) fn spend(&mut self, cost: u64) -> Result<(), OutOfBudget> {
        self.0 = self.0.checked_sub(cost).ok_or(OutOfBudget)?;
        Ok(())
    }
}

impl fmt::Display for OutOfBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("validation failed due to running out of cost budget, no further validation rules will be run")
    }
}

impl std::error::Error for OutOfBudget {}
