//! The time of requests in filters that may wait for other servers.

use std::time::{Duration, Instant, SystemTime};

use binnacle_metrics::{CachedSeries, Histogram, HistogramVec, Registry, families};
use binnacle_request::Record;

use crate::traces;

const BUCKETS: [f64; 13] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0];

/// A filter with a measured duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    Authentication,
    Audit,
    Impersonation,
    ConstrainedImpersonation,
    PriorityAndFairness,
    Authorization,
}

impl Filter {
    const COUNT: usize = 6;

    fn as_str(self) -> &'static str {
        match self {
            Self::Authentication => "authentication",
            Self::Audit => "audit",
            Self::Impersonation => "impersonation",
            Self::ConstrainedImpersonation => "constrainedimpersonation",
            Self::PriorityAndFairness => "priorityandfairness",
            Self::Authorization => "authorization",
        }
    }
}

families! {
    struct Families {
        durations: HistogramVec = "apiserver_request_filter_duration_seconds" by ["filter"] buckets BUCKETS,
            "[ALPHA] Request filter latency distribution in seconds, for each filter type";
    }
}

/// The durations of each filter.
pub(crate) struct FilterMetrics {
    families: Families,
    /// A filter without requests has no series.
    filters: [CachedSeries<Histogram>; Filter::COUNT],
}

impl FilterMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self { families: Families::register(registry)?, filters: Default::default() })
    }

    fn observe(&self, filter: Filter, took: Duration) {
        let find = || self.families.durations.with_label_values(&[filter.as_str()]);
        self.filters[filter as usize].with(find, |histogram| histogram.observe(took.as_secs_f64()));
    }
}

/// Measures the time of one request in each filter.
pub(crate) struct FilterTimings<'a> {
    metrics: &'a FilterMetrics,
    record: &'a Record,
    began: Instant,
}

impl<'a> FilterTimings<'a> {
    pub(crate) fn begin(metrics: &'a FilterMetrics, record: &'a Record) -> Self {
        Self { metrics, record, began: Instant::now() }
    }

    /// Records that the request has passed a filter and enters the next one.
    pub(crate) fn passed(&mut self, filter: Filter) {
        let now = Instant::now();
        let took = now - self.began;
        self.metrics.observe(filter, took);
        // The trace starts after authentication, which has its own span.
        if filter != Filter::Authentication && self.record.trace().is_some_and(|trace| trace.is_sampled()) {
            traces::enter_filter(self.record, filter.as_str(), SystemTime::now() - took);
        }
        self.began = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observes_only_passed_filters() {
        let registry = Registry::new();
        let metrics = FilterMetrics::register(&registry).unwrap();
        let record = Record::open(http::Method::GET, "/".into(), None, None);
        let mut timings = FilterTimings::begin(&metrics, &record);
        timings.passed(Filter::Authentication);
        timings.passed(Filter::Authorization);
        FilterTimings::begin(&metrics, &record).passed(Filter::Authorization);
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let counts: Vec<&str> = text.lines().filter(|line| line.contains("_count{")).collect();
        let count = |filter: &str, times| {
            format!("apiserver_request_filter_duration_seconds_count{{filter=\"{filter}\"}} {times}")
        };
        assert_eq!(counts, [count("authentication", 1), count("authorization", 2)]);
    }
}
