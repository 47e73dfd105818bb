//! The durations of rules and comparisons of custom resources, for the whole process.

use std::sync::LazyLock;
use std::time::Duration;

use binnacle_metrics::{LoneHistogram, Registry, keep};
use prometheus::{DEFAULT_BUCKETS, HistogramOpts};

static COMPILATION: LazyLock<LoneHistogram> = LazyLock::new(|| {
    let help = "[BETA] CEL compilation time in seconds.";
    histogram("apiserver_cel_compilation_duration_seconds", help, DEFAULT_BUCKETS.to_vec())
});

static EVALUATION: LazyLock<LoneHistogram> = LazyLock::new(|| {
    let help = "[BETA] CEL evaluation time in seconds.";
    histogram("apiserver_cel_evaluation_duration_seconds", help, DEFAULT_BUCKETS.to_vec())
});

static RATCHETING: LazyLock<LoneHistogram> = LazyLock::new(|| {
    let help = "[ALPHA] Time for comparison of old to new for the purposes of CRDValidationRatcheting during an UPDATE in \
                seconds.";
    let buckets = (0..10).map(|step| 0.000_01 * 4_f64.powi(step)).collect();
    histogram("apiextensions_apiserver_validation_ratcheting_seconds", help, buckets)
});

/// Registers these families, which all servers of a process share.
pub fn register_metrics(registry: &Registry) -> Result<(), prometheus::Error> {
    for family in [&COMPILATION, &EVALUATION, &RATCHETING] {
        keep(registry, LoneHistogram::clone(family))?;
    }
    Ok(())
}

/// Records the compilation of a schema's rules.
pub(crate) fn compiled(took: Duration) {
    COMPILATION.observe(took.as_secs_f64());
}

/// Records the evaluation of a schema's rules for an object.
pub(crate) fn evaluated(took: Duration) {
    EVALUATION.observe(took.as_secs_f64());
}

/// Records the comparison of an object with its old version.
pub(crate) fn compared(took: Duration) {
    RATCHETING.observe(took.as_secs_f64());
}

fn histogram(name: &str, help: &str, buckets: Vec<f64>) -> LoneHistogram {
    // Name, help and buckets are valid constants.
    LoneHistogram::with_opts(HistogramOpts::new(name, help).buckets(buckets))
        .unwrap_or_else(|error| panic!("a metric without fault: {error}"))
}
