//! The limits of the total cost of a request's expressions, in addition to the limit of each expression.

use std::fmt;

/// The cost limit of all validations of a policy for a request and parameter object.
pub const BUDGET: u64 = 10_000_000;

/// The cost limit of all match conditions of a policy or webhook for a request.
pub const MATCH_CONDITIONS_BUDGET: u64 = 2_500_000;

/// The remaining cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget(u64);

/// The error of expressions that exceed their common budget, whose results are all discarded.
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
