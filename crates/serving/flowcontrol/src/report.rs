//! The reported state of the levels.

use binnacle_meta::Text;

use crate::FlowControl;

/// The state of a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelReport {
    pub name: Text,
    /// True if requests are exempt from limits and never wait.
    pub exempt: bool,
    /// Seats in use, current limit of seats, and nominal seats.
    pub seats: usize,
    pub limit: u32,
    pub nominal: u32,
    pub executing: usize,
    pub waiting: usize,
    /// Queues with waiting requests, and all queues.
    pub active_queues: usize,
    pub queues: usize,
    /// Counts of requests since the start.
    pub dispatched: u64,
    pub rejected: u64,
    pub timed_out: u64,
}

impl FlowControl {
    /// Returns the state of each level, by name.
    pub fn report(&self) -> Vec<LevelReport> {
        let report = |level: std::sync::Arc<crate::level::Level>| {
            level.with(|state| {
                let queues = &state.queues;
                LevelReport {
                    name: level.name.clone(),
                    exempt: state.spec.exempt,
                    seats: queues.seats,
                    limit: state.limits.current,
                    nominal: state.limits.nominal,
                    executing: queues.running,
                    waiting: queues.waiting,
                    active_queues: queues.queues.iter().filter(|queue| !queue.waiting.is_empty()).count(),
                    queues: queues.queues.len(),
                    dispatched: queues.totals.dispatched,
                    rejected: queues.totals.rejected,
                    timed_out: queues.totals.timed_out,
                }
            })
        };
        self.levels().into_iter().map(report).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_metrics::Registry;

    use super::*;

    #[test]
    fn reports_mandatory_levels() {
        let limits = crate::RequestLimits { read_only: 10, mutating: 0 };
        let control = FlowControl::new(limits, Arc::new(|_| None), Arc::new(|_| None), &Registry::new()).unwrap();
        let levels: Vec<_> =
            control.report().into_iter().map(|level| (level.name, level.exempt, level.waiting)).collect();
        assert_eq!(levels, [("catch-all".into(), false, 0), ("exempt".into(), true, 0)]);
    }
}
