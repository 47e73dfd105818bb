//! The waiting and executing requests by kind: `apiserver_flowcontrol_read_vs_write_current_requests`, and the highest
//! number of waiting requests in the last second: `apiserver_current_inqueue_requests`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_metrics::{ComputedGauge, ComputedHistogram, families};
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use crate::ratios::Ratio;

families! {
    #[derive(Clone)]
    struct Families {
        current: ComputedHistogram = "apiserver_flowcontrol_read_vs_write_current_requests"
            by ["phase", "request_kind"],
            "EXPERIMENTAL: [ALPHA] Observations, at the end of every nanosecond, of the number of requests (as a fraction of \
             the relevant limit) waiting or in regular stage of execution";
        waiting: ComputedGauge = "apiserver_current_inqueue_requests" by ["request_kind"],
            "[ALPHA] Maximal number of queued requests in this apiserver per request kind in last second.";
    }
}

const BOUNDS: [f64; 15] = [0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];

/// The limits of requests in flight, whose sum is divided among all levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    pub read_only: u32,
    pub mutating: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    ReadOnly,
    Mutating,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Executing,
    Waiting,
}

/// The metric families. Clones share them.
#[derive(Clone)]
pub(crate) struct CurrentRequests {
    families: Families,
    kinds: Arc<[Mutex<Kind>; 2]>,
}

/// The requests of one kind.
struct Kind {
    /// By phase.
    ratios: [Ratio; 2],
    waiting: i64,
    /// The highest number of waiting requests since `since`.
    highest: i64,
    since: Instant,
}

/// The time for which the highest number is reported.
const RECENT_PERIOD: Duration = Duration::from_secs(1);

impl CurrentRequests {
    pub(crate) fn new(limits: RequestLimits) -> Result<Self, prometheus::Error> {
        let now = Instant::now();
        let ratios = |limit: u32| {
            let ratio = || {
                let mut ratio = Ratio::new(&BOUNDS, now);
                ratio.set(now, 0.0, f64::from(limit.max(1)));
                ratio
            };
            Mutex::new(Kind { ratios: [ratio(), ratio()], waiting: 0, highest: 0, since: now })
        };
        Ok(Self { families: Families::build()?, kinds: Arc::new([ratios(limits.read_only), ratios(limits.mutating)]) })
    }

    /// Adds requests; a negative number removes them.
    pub(crate) fn add(&self, now: Instant, kind: RequestKind, phase: Phase, requests: i64) {
        let mut kind = self.kinds[kind as usize].lock();
        kind.ratios[phase as usize].add(now, requests as f64);
        if phase == Phase::Waiting {
            if now.saturating_duration_since(kind.since) >= RECENT_PERIOD {
                (kind.since, kind.highest) = (now, kind.waiting);
            }
            kind.waiting += requests;
            kind.highest = kind.highest.max(kind.waiting);
        }
    }
}

impl binnacle_metrics::Family for CurrentRequests {}

impl Collector for CurrentRequests {
    fn desc(&self) -> Vec<&Desc> {
        self.families.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (now, Families { current, waiting }) = (Instant::now(), &self.families);
        let mut metrics = Vec::new();
        for (phase, phase_name) in [(Phase::Executing, "executing"), (Phase::Waiting, "waiting")] {
            for (kind, kind_name) in [(RequestKind::Mutating, "mutating"), (RequestKind::ReadOnly, "readOnly")] {
                let mut kind = self.kinds[kind as usize].lock();
                let ratio = &mut kind.ratios[phase as usize];
                ratio.advance(now);
                metrics.push(current.metric(&[phase_name, kind_name], ratio.histogram()));
            }
        }
        let queued = [(RequestKind::Mutating, "mutating"), (RequestKind::ReadOnly, "readOnly")].map(|(kind, name)| {
            let kind = self.kinds[kind as usize].lock();
            let recent = now.saturating_duration_since(kind.since) < 2 * RECENT_PERIOD;
            waiting.metric(&[name], if recent { kind.highest } else { kind.waiting } as f64)
        });
        vec![current.with(metrics), waiting.with(queued.into())]
    }
}

#[cfg(test)]
mod tests {
    use prometheus::proto::Metric;

    use super::*;

    #[test]
    fn weights_time_by_current_requests() {
        let current = CurrentRequests::new(RequestLimits { read_only: 10, mutating: 0 }).unwrap();
        current.add(Instant::now(), RequestKind::ReadOnly, Phase::Executing, 2);
        let family = current.collect().remove(0);
        let labels = |metric: &Metric| {
            metric.get_label().iter().map(|label| label.value().to_owned()).collect::<Vec<_>>().join(",")
        };
        let all: Vec<String> = family.get_metric().iter().map(labels).collect();
        assert_eq!(all, ["executing,mutating", "executing,readOnly", "waiting,mutating", "waiting,readOnly"]);
        let histogram = family.get_metric()[1].get_histogram();
        let counted = |at: usize| histogram.get_bucket()[at].cumulative_count();
        // The ratio has been a fifth of the limit since the request started; earlier time counts as zero.
        assert!(counted(3) < counted(4) && counted(4) == histogram.get_sample_count());
        assert!(family.get_metric()[3].get_histogram().get_sample_sum() == 0.0);
        // A request that waited in the last second is counted even if it started since.
        current.add(Instant::now(), RequestKind::Mutating, Phase::Waiting, 3);
        current.add(Instant::now(), RequestKind::Mutating, Phase::Waiting, -3);
        let queued = current.collect().remove(1);
        let values: Vec<f64> = queued.get_metric().iter().map(|metric| metric.get_gauge().get_value()).collect();
        assert_eq!(values, [3.0, 0.0]);
    }
}
