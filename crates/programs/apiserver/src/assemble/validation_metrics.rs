//! The families of kube-apiserver's declarative validation. There it stands beside handwritten rules, and differences
//! are counted; here each rule stands once, so that nothing can differ.

use binnacle_metrics::{IntCounter, families};

families! {
    /// Registered for queries that take a missing family for a server that does not answer.
    pub(super) struct ValidationMetrics {
        mismatches: IntCounter = "apiserver_validation_declarative_validation_mismatch_total",
            "[BETA] Number of times declarative validation results differed from handwritten validation results for core \
             types.";
        panics: IntCounter = "apiserver_validation_declarative_validation_panic_total",
            "[BETA] Number of times declarative validation has panicked during validation.";
        duplicates: IntCounter = "apiserver_validation_duplicate_validation_error_total",
            "[INTERNAL] Number of duplicate validation errors during validation.";
    }
}
