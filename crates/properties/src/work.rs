//! The work that inputs cause, which is charged before it is done.

use binnacle_work::{WorkBudget, WorkLimits};

/// A hundredth of a request.
const LIMITS: WorkLimits = WorkLimits { steps: 3_000_000, memory: 8 << 20 };
/// Runs a property within a budget. Whatever the input asks for, the work ends at the limit: what goes on is found by the
/// time limit of the fuzzer.
///
/// # Panics
/// If more work than the limit was done without an error.
pub(crate) fn bounded(property: impl FnOnce()) {
    let budget = WorkBudget::new(LIMITS);
    budget.enter(property);
    let steps = budget.steps();
    assert!(steps <= LIMITS.steps || budget.check().is_err(), "{steps} steps without an error");
    assert!(budget.memory() <= 2 * LIMITS.memory || budget.check().is_err(), "{} bytes", budget.memory());
}
