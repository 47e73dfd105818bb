//! Metrics of updates, which all servers of a process share.

use std::sync::LazyLock;
use std::time::Duration;

use binnacle_patch::apply::Compared;
use prometheus::{Histogram, HistogramOpts, HistogramVec, Registry};

const BUCKETS: [f64; 10] = [0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0];

static COMPARISONS: LazyLock<HistogramVec> = LazyLock::new(|| {
    let opts = HistogramOpts::new(
        "apiserver_request_timestamp_comparison_time",
        "[ALPHA] Time taken for comparison of old vs new objects in UPDATE or PATCH requests",
    );
    // Name, help, label and bounds are valid constants.
    HistogramVec::new(opts.buckets(BUCKETS.to_vec()), &["code_path"])
        .unwrap_or_else(|error| panic!("a metric without fault: {error}"))
});

static BY_PATH: [LazyLock<Histogram>; 3] = [
    LazyLock::new(|| COMPARISONS.with_label_values(&["unequal_objects_fast"])),
    LazyLock::new(|| COMPARISONS.with_label_values(&["unequal_objects_slow"])),
    LazyLock::new(|| COMPARISONS.with_label_values(&["equal_objects"])),
];

/// Registers these families.
pub fn register_metrics(registry: &Registry) -> Result<(), prometheus::Error> {
    registry.register(Box::new(COMPARISONS.clone()))
}

/// Records a comparison of an object with the stored one.
pub(crate) fn compared(outcome: Compared, took: Duration) {
    let [fast, slow, equal] = &BY_PATH;
    let histogram = match outcome {
        Compared::UnequalFast => fast,
        Compared::UnequalSlow => slow,
        Compared::Equal => equal,
    };
    histogram.observe(took.as_secs_f64());
}
