//! The families of kube-apiserver's declarative validation. There it stands beside handwritten rules, and differences
//! are counted; here each rule stands once, so that nothing can differ.

use binnacle_metrics::{Registry, keep};
use prometheus::IntCounter;

/// The short names and helps of the families.
const FAMILIES: [(&str, &str); 3] = [
    (
        "declarative_validation_mismatch_total",
        "[BETA] Number of times declarative validation results differed from handwritten validation results for core types.",
    ),
    (
        "declarative_validation_panic_total",
        "[BETA] Number of times declarative validation has panicked during validation.",
    ),
    ("duplicate_validation_error_total", "[INTERNAL] Number of duplicate validation errors during validation."),
];

/// Registers the families, for queries that take a missing family for a server that does not answer.
pub(super) fn register(registry: &Registry) -> Result<(), prometheus::Error> {
    for (name, help) in FAMILIES {
        keep(registry, IntCounter::new(format!("apiserver_validation_{name}"), help)?)?;
    }
    Ok(())
}
