//! The `apiserver_flowcontrol_*` families.

use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_metrics::{
    Gauge, GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec, Registry, Series, families, register_family,
};

use crate::current_requests::{CurrentRequests, Phase, RequestKind, RequestLimits};
use crate::demand::DemandStats;
use crate::limits::Limits;
use crate::ratios::{LevelRatios, Ratios};

const DURATIONS: [f64; 13] = [0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const FLOW: [&str; 2] = ["priority_level", "flow_schema"];
const LEVEL: [&str; 1] = ["priority_level"];

families! {
    struct Families {
        rejected: IntCounterVec = "apiserver_flowcontrol_rejected_requests_total"
            by ["priority_level", "flow_schema", "reason"],
            "[BETA] Number of requests rejected by API Priority and Fairness subsystem";
        dispatched: IntCounterVec = "apiserver_flowcontrol_dispatched_requests_total" by FLOW,
            "[BETA] Number of requests executed by API Priority and Fairness subsystem";
        waiting: IntGaugeVec = "apiserver_flowcontrol_current_inqueue_requests" by FLOW,
            "[BETA] Number of requests currently pending in queues of the API Priority and Fairness subsystem";
        waiting_seats: IntGaugeVec = "apiserver_flowcontrol_current_inqueue_seats" by FLOW,
            "[ALPHA] Number of seats currently pending in queues of the API Priority and Fairness subsystem";
        running: IntGaugeVec = "apiserver_flowcontrol_current_executing_requests" by FLOW,
            "[BETA] Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API \
             Priority and Fairness subsystem";
        running_seats: IntGaugeVec = "apiserver_flowcontrol_current_executing_seats" by FLOW,
            "[BETA] Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any \
             stage otherwise) requests in the API Priority and Fairness subsystem";
        waited: HistogramVec = "apiserver_flowcontrol_request_wait_duration_seconds"
            by ["priority_level", "flow_schema", "execute"] buckets DURATIONS,
            "[BETA] Length of time a request spent waiting in its queue";
        served: HistogramVec = "apiserver_flowcontrol_request_execution_seconds"
            by ["priority_level", "flow_schema", "type"] buckets DURATIONS,
            "[ALPHA] Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API \
             Priority and Fairness subsystem";
        estimated: HistogramVec = "apiserver_flowcontrol_work_estimated_seats" by FLOW
            buckets [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0],
            "[ALPHA] Number of estimated seats (maximum of initial and final seats) associated with requests in API \
             Priority and Fairness";
        queue_lengths: HistogramVec = "apiserver_flowcontrol_request_queue_length_after_enqueue" by FLOW
            buckets [0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0],
            "[ALPHA] Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is \
             enqueued";
        nominal: GaugeVec = "apiserver_flowcontrol_nominal_limit_seats" by LEVEL,
            "[BETA] Nominal number of execution seats configured for each priority level";
        lower: GaugeVec = "apiserver_flowcontrol_lower_limit_seats" by LEVEL,
            "[ALPHA] Configured lower bound on number of execution seats available to each priority level";
        upper: GaugeVec = "apiserver_flowcontrol_upper_limit_seats" by LEVEL,
            "[ALPHA] Configured upper bound on number of execution seats available to each priority level";
        current: GaugeVec = "apiserver_flowcontrol_current_limit_seats" by LEVEL,
            "[ALPHA] current derived number of execution seats available to each priority level";
        highest: GaugeVec = "apiserver_flowcontrol_demand_seats_high_watermark" by LEVEL,
            "[ALPHA] High watermark, over last adjustment period, of demand_seats";
        average: GaugeVec = "apiserver_flowcontrol_demand_seats_average" by LEVEL,
            "[ALPHA] Time-weighted average, over last adjustment period, of demand_seats";
        deviation: GaugeVec = "apiserver_flowcontrol_demand_seats_stdev" by LEVEL,
            "[ALPHA] Time-weighted standard deviation, over last adjustment period, of demand_seats";
        smoothed: GaugeVec = "apiserver_flowcontrol_demand_seats_smoothed" by LEVEL, "[ALPHA] Smoothed seat demands";
        target: GaugeVec = "apiserver_flowcontrol_target_seats" by LEVEL, "[ALPHA] Seat allocation targets";
        fair: Gauge = "apiserver_flowcontrol_seat_fair_frac",
            "[ALPHA] Fair fraction of server's concurrency to allocate to each priority level that can use it";
        current_r: GaugeVec = "apiserver_flowcontrol_current_r" by LEVEL, "[ALPHA] R(time of last change)";
        watchers: HistogramVec = "apiserver_flowcontrol_watch_count_samples" by FLOW
            buckets [0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0],
            "[ALPHA] count of watchers for mutating requests in API Priority and Fairness";
    }
}

pub(crate) struct Metrics {
    families: Families,
    ratios: Ratios,
    by_kind: CurrentRequests,
}

/// The metrics of one level.
pub(crate) struct LevelMetrics {
    nominal: Series<GaugeVec>,
    lower: Series<GaugeVec>,
    upper: Series<GaugeVec>,
    current: Series<GaugeVec>,
    highest: Series<GaugeVec>,
    average: Series<GaugeVec>,
    deviation: Series<GaugeVec>,
    smoothed: Series<GaugeVec>,
    target: Series<GaugeVec>,
    current_r: Series<GaugeVec>,
    pub(crate) ratios: Arc<LevelRatios>,
}

/// The metrics of one schema in its level.
pub(crate) struct FlowMetrics {
    /// By reason.
    rejected: [(&'static str, Series<IntCounterVec>); 3],
    dispatched: Series<IntCounterVec>,
    waiting: Series<IntGaugeVec>,
    waiting_seats: Series<IntGaugeVec>,
    running: Series<IntGaugeVec>,
    running_seats: Series<IntGaugeVec>,
    waited: [Series<HistogramVec>; 2],
    served: Series<HistogramVec>,
    estimated: Series<HistogramVec>,
    watchers: Series<HistogramVec>,
    queue_length: Series<HistogramVec>,
    by_kind: CurrentRequests,
}

impl Metrics {
    pub(crate) fn register(registry: &Registry, limits: RequestLimits) -> Result<Self, prometheus::Error> {
        Ok(Self {
            families: Families::register(registry)?,
            ratios: register_family(registry, Ratios::new()?)?,
            by_kind: register_family(registry, CurrentRequests::new(limits)?)?,
        })
    }

    pub(crate) fn level(&self, level: &str) -> LevelMetrics {
        let families = &self.families;
        let of = |family: &GaugeVec| Series::new(family, &[level]);
        LevelMetrics {
            nominal: of(&families.nominal),
            lower: of(&families.lower),
            upper: of(&families.upper),
            current: of(&families.current),
            highest: of(&families.highest),
            average: of(&families.average),
            deviation: of(&families.deviation),
            smoothed: of(&families.smoothed),
            target: of(&families.target),
            current_r: of(&families.current_r),
            ratios: self.ratios.level(level),
        }
    }

    pub(crate) fn flow(&self, schema: &str, level: &str) -> FlowMetrics {
        let families = &self.families;
        let labels = [level, schema];
        let rejected = |reason| (reason, Series::new(&families.rejected, &[level, schema, reason]));
        FlowMetrics {
            rejected: ["concurrency-limit", "queue-full", "time-out"].map(rejected),
            dispatched: Series::new(&families.dispatched, &labels),
            waiting: Series::new(&families.waiting, &labels),
            waiting_seats: Series::new(&families.waiting_seats, &labels),
            running: Series::new(&families.running, &labels),
            running_seats: Series::new(&families.running_seats, &labels),
            waited: ["false", "true"].map(|execute| Series::new(&families.waited, &[level, schema, execute])),
            served: Series::new(&families.served, &[level, schema, "regular"]),
            estimated: Series::new(&families.estimated, &labels),
            watchers: Series::new(&families.watchers, &labels),
            queue_length: Series::new(&families.queue_lengths, &labels),
            by_kind: self.by_kind.clone(),
        }
    }

    pub(crate) fn set_fair_fraction(&self, fraction: f64) {
        self.families.fair.set(fraction);
    }
}

impl LevelMetrics {
    pub(crate) fn set_limits(&self, limits: &Limits) {
        self.nominal.with(|gauge| gauge.set(limits.nominal.into()));
        self.lower.with(|gauge| gauge.set(limits.lower.into()));
        self.upper.with(|gauge| gauge.set(limits.upper.into()));
        self.current.with(|gauge| gauge.set(limits.current.into()));
    }

    pub(crate) fn set_demand(&self, stats: &DemandStats, smoothed: f64) {
        self.highest.with(|gauge| gauge.set(stats.highest));
        self.average.with(|gauge| gauge.set(stats.average));
        self.deviation.with(|gauge| gauge.set(stats.deviation));
        self.smoothed.with(|gauge| gauge.set(smoothed));
    }

    /// Records the virtual time of the level's queues.
    pub(crate) fn set_virtual_time(&self, r: f64) {
        self.current_r.with(|gauge| gauge.set(r));
    }

    pub(crate) fn set_target(&self, target: f64) {
        self.target.with(|gauge| gauge.set(target));
    }
}

impl FlowMetrics {
    pub(crate) fn count_rejection(&self, reason: &str) {
        if let Some((_, counter)) = self.rejected.iter().find(|(known, _)| *known == reason) {
            counter.with(|counter| counter.inc());
        }
    }

    pub(crate) fn add_queued(&self, now: Instant, requests: i64, seats: usize, kind: RequestKind) {
        self.by_kind.add(now, kind, Phase::Waiting, requests);
        self.waiting.with(|gauge| gauge.add(requests));
        self.waiting_seats.with(|gauge| gauge.add(requests * seats as i64));
    }

    /// Records a queued request, and the new length of the queue.
    pub(crate) fn observe_queue_length(&self, length: usize) {
        self.queue_length.with(|histogram| histogram.observe(length as f64));
    }

    pub(crate) fn observe_wait(&self, time: Duration, served: bool) {
        self.waited[usize::from(served)].with(|histogram| histogram.observe(time.as_secs_f64()));
    }

    pub(crate) fn record_start(&self, now: Instant, seats: usize, kind: RequestKind) {
        self.by_kind.add(now, kind, Phase::Executing, 1);
        self.dispatched.with(|counter| counter.inc());
        self.running.with(|gauge| gauge.inc());
        self.running_seats.with(|gauge| gauge.add(seats as i64));
    }

    pub(crate) fn record_end(&self, now: Instant, seats: usize, took: Duration, kind: RequestKind) {
        self.by_kind.add(now, kind, Phase::Executing, -1);
        self.running.with(|gauge| gauge.dec());
        self.running_seats.with(|gauge| gauge.sub(seats as i64));
        self.served.with(|histogram| histogram.observe(took.as_secs_f64()));
    }

    /// Records the number of watchers that a write will send an event to.
    pub(crate) fn observe_watchers(&self, watchers: usize) {
        self.watchers.with(|histogram| histogram.observe(watchers as f64));
    }

    pub(crate) fn observe_estimated_seats(&self, seats: usize) {
        self.estimated.with(|histogram| histogram.observe(seats as f64));
    }
}
