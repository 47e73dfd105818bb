//! Metrics of updates, which all servers of a process share.

use std::sync::LazyLock;
use std::time::Duration;

use binnacle_metrics::{CachedSeries, Histogram, HistogramVec, Registry, families};
use binnacle_patch::apply::TimestampComparison;

const BUCKETS: [f64; 10] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0];

families! {
    struct Families {
        comparisons: HistogramVec = "apiserver_request_timestamp_comparison_time" by ["code_path"] buckets BUCKETS,
            "[ALPHA] Time taken for comparison of old vs new objects in UPDATE or PATCH requests";
    }
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    // The label and the buckets are valid constants.
    Families::build().unwrap_or_else(|error| panic!("a metric without fault: {error}"))
});

static BY_PATH: LazyLock<[CachedSeries<Histogram>; 3]> = LazyLock::new(Default::default);

/// Registers these metrics.
pub fn register_metrics(registry: &Registry) -> Result<(), prometheus::Error> {
    FAMILIES.register_in(registry)
}

/// Records a comparison of an object with the stored one.
pub(crate) fn record_comparison(outcome: TimestampComparison, took: Duration) {
    let [fast, slow, equal] = &*BY_PATH;
    let (held, path) = match outcome {
        TimestampComparison::UnequalFast => (fast, "unequal_objects_fast"),
        TimestampComparison::UnequalSlow => (slow, "unequal_objects_slow"),
        TimestampComparison::Equal => (equal, "equal_objects"),
    };
    held.with(|| FAMILIES.comparisons.with_label_values(&[path]), |histogram| histogram.observe(took.as_secs_f64()));
}
