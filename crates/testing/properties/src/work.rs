//! The work that inputs cause, which is charged before it is done.

use std::time::Duration;

use binnacle_work::{WorkBudget, WorkLimits};
use rustix::time::{ClockId, clock_gettime};

/// A hundredth of a request.
const LIMITS: WorkLimits = WorkLimits { steps: 3_000_000, memory: 8 << 20 };

/// The processor time of work that is not charged, such as the comparisons of a property.
const UNCHARGED: Duration = Duration::from_millis(200);
/// The most processor time of a charged step: ten times what it usually takes.
const STEP: Duration = Duration::from_nanos(100);

/// Runs a property within a budget, so that the work ends at the limit for any input.
pub(crate) fn bounded(property: impl FnOnce()) {
    WorkBudget::new(LIMITS).enter(property);
}

/// Runs a property within the budget of a request.
///
/// # Panics
/// If it takes much more processor time than it charges: then a loop does not charge. Only in optimized builds, whose
/// times say something.
pub fn charged(property: fn(&[u8]), data: &[u8]) {
    let budget = WorkBudget::new(WorkLimits::REQUEST);
    let began = processor_time();
    budget.enter(|| property(data));
    let used = processor_time().saturating_sub(began);
    let steps = budget.steps();
    let allowed = UNCHARGED + STEP * u32::try_from(steps).unwrap_or(u32::MAX);
    assert!(cfg!(debug_assertions) || used <= allowed, "{used:?} of a processor for {steps} steps");
}

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_the_work_of_a_property() {
        bounded(|| while binnacle_work::charge(100).is_ok() {});
        charged(|data| assert!(binnacle_work::charge(data.len() as u64).is_ok()), b"input");
    }
}
