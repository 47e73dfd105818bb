//! The `apiserver_admission_match_condition_*` families.

use std::time::Duration;

use binnacle_meta::Text;
use binnacle_metrics::{HistogramVec, Registry, keep};
use binnacle_registry::admission::Operation;
use prometheus::{HistogramOpts, IntCounterVec, Opts};

/// The metric families of match conditions.
#[derive(Clone, Debug)]
pub struct MatchConditionMetrics {
    errors: IntCounterVec,
    exclusions: IntCounterVec,
    seconds: HistogramVec,
}

/// The owner of match conditions, as metrics call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The name of the webhook or policy.
    pub name: Text,
    /// `webhook` or `policy`
    pub kind: &'static str,
    /// `admit`, `validating` or `validate`
    pub step: &'static str,
}

impl MatchConditionMetrics {
    /// # Errors
    /// If the registry has the families already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        const LABELS: [&str; 4] = ["name", "kind", "type", "operation"];
        let name = |name: &str| format!("apiserver_admission_match_condition_{name}");
        let counter = |family: &str, what: &str| {
            let help = format!(
                "[ALPHA] Admission match condition evaluation {what} count, identified by name of resource containing the \
                 match condition and broken out for each kind containing matchConditions (webhook or policy), operation \
                 and admission type (validate or admit)."
            );
            IntCounterVec::new(Opts::new(name(family), help), &LABELS)
        };
        let seconds = HistogramOpts::new(
            name("evaluation_seconds"),
            "[ALPHA] Admission match condition evaluation time in seconds, identified by name and broken out for each \
             kind containing matchConditions (webhook or policy), operation and type (validate or admit).",
        );
        let buckets = vec![0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];
        Ok(Self {
            errors: keep(registry, counter("evaluation_errors_total", "errors")?)?,
            exclusions: keep(registry, counter("exclusions_total", "exclusions")?)?,
            seconds: keep(registry, HistogramVec::new(seconds.buckets(buckets), &LABELS)?)?,
        })
    }

    pub(crate) fn failed(&self, subject: &Subject, operation: Operation, errors: usize) {
        if errors > 0 {
            self.errors.with_label_values(&subject.labels(operation)).inc_by(errors as u64);
        }
    }

    pub(crate) fn excluded(&self, subject: &Subject, operation: Operation) {
        self.exclusions.with_label_values(&subject.labels(operation)).inc();
    }

    pub(crate) fn took(&self, subject: &Subject, operation: Operation, elapsed: Duration) {
        self.seconds.with_label_values(&subject.labels(operation)).observe(elapsed.as_secs_f64());
    }
}

impl Subject {
    fn labels(&self, operation: Operation) -> [&str; 4] {
        [self.name.as_str(), self.kind, self.step, operation.as_str()]
    }
}
