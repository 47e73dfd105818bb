//! The durations of rules and comparisons of custom resources, for the whole process.

use std::sync::LazyLock;
use std::time::Duration;

use binnacle_metrics::{LoneHistogram, Registry, families};
use prometheus::{DEFAULT_BUCKETS, exponential_buckets};

families! {
    struct Families {
        compilation: LoneHistogram = "apiserver_cel_compilation_duration_seconds" buckets DEFAULT_BUCKETS,
            "[BETA] CEL compilation time in seconds.";
        evaluation: LoneHistogram = "apiserver_cel_evaluation_duration_seconds" buckets DEFAULT_BUCKETS,
            "[BETA] CEL evaluation time in seconds.";
        ratcheting: LoneHistogram = "apiextensions_apiserver_validation_ratcheting_seconds"
            buckets exponential_buckets(0.000_01, 4.0, 10)?,
            "[ALPHA] Time for comparison of old to new for the purposes of CRDValidationRatcheting during an UPDATE in \
             seconds.";
    }
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    // Labels and buckets are valid constants.
    Families::build().unwrap_or_else(|error| panic!("a metric without fault: {error}"))
});

/// Registers these families, which all servers of a process share.
pub fn register_metrics(registry: &Registry) -> Result<(), prometheus::Error> {
    FAMILIES.register_in(registry)
}

/// Records the compilation of a schema's rules.
pub(crate) fn compiled(took: Duration) {
    FAMILIES.compilation.observe(took.as_secs_f64());
}

/// Records the evaluation of a schema's rules for an object.
pub(crate) fn evaluated(took: Duration) {
    FAMILIES.evaluation.observe(took.as_secs_f64());
}

/// Records the comparison of an object with its old version.
pub(crate) fn compared(took: Duration) {
    FAMILIES.ratcheting.observe(took.as_secs_f64());
}
