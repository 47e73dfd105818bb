//! The `apiserver_admission_*` families, and what plugins count.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use binnacle_metrics::{Summary, SummaryVec, keep};
use binnacle_registry::admission::Operation;
use prometheus::{Histogram, HistogramOpts, HistogramVec, Registry};

use crate::plugin::Stage;
use crate::plugins::PodSecurityMetrics;

const OPERATIONS: usize = 4;

/// All families of this crate.
#[derive(Clone)]
pub struct Metrics {
    plugins: HistogramVec,
    steps: HistogramVec,
    steps_summary: SummaryVec,
    pub(crate) pod_security: PodSecurityMetrics,
}

/// One value for each stage, operation and outcome, made when it is first asked for.
struct Cells<T>([OnceLock<T>; 2 * OPERATIONS * 2]);

/// What is counted of one plugin.
pub(crate) struct PluginMetrics {
    name: &'static str,
    family: HistogramVec,
    cells: Cells<Histogram>,
}

/// What is counted of all plugins together.
pub(crate) struct StepMetrics {
    family: HistogramVec,
    summary: SummaryVec,
    cells: Cells<(Histogram, Arc<Summary>)>,
}

/// Which part of a request was admitted, and how it ended.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) stage: Stage,
    pub(crate) operation: Operation,
    pub(crate) rejected: bool,
}

impl Metrics {
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let histograms = |name: &str, help: &str, labels: &[&str]| {
            let options = HistogramOpts::new(format!("apiserver_admission_{name}_admission_duration_seconds"), help);
            keep(registry, HistogramVec::new(options.buckets(vec![0.005, 0.025, 0.1, 0.5, 1.0, 2.5]), labels)?)
        };
        let plugins = histograms(
            "controller",
            "[STABLE] Admission controller latency histogram in seconds, identified by name and broken out for each \
             operation and API resource and type (validate or admit).",
            &["name", "operation", "rejected", "type"],
        )?;
        let steps = histograms(
            "step",
            "[STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource and \
             step type (validate or admit).",
            &["operation", "rejected", "type"],
        )?;
        let steps_summary = SummaryVec::new(
            "apiserver_admission_step_admission_duration_seconds_summary",
            "[ALPHA] Admission sub-step latency summary in seconds, broken out for each operation and API resource and \
             step type (validate or admit).",
            &["operation", "rejected", "type"],
        )?;
        Ok(Self {
            plugins,
            steps,
            steps_summary: keep(registry, steps_summary)?,
            pod_security: PodSecurityMetrics::register(registry)?,
        })
    }

    pub(crate) fn of_plugin(&self, name: &'static str) -> PluginMetrics {
        PluginMetrics { name, family: self.plugins.clone(), cells: Cells::default() }
    }

    pub(crate) fn of_steps(&self) -> StepMetrics {
        StepMetrics { family: self.steps.clone(), summary: self.steps_summary.clone(), cells: Cells::default() }
    }
}

impl Part {
    /// Operation, whether it was rejected, type.
    fn labels(self) -> [&'static str; 3] {
        let operation = match self.operation {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        };
        let stage = match self.stage {
            Stage::Mutate => "admit",
            Stage::Validate => "validate",
        };
        [operation, if self.rejected { "true" } else { "false" }, stage]
    }
}

impl<T> Default for Cells<T> {
    fn default() -> Self {
        Self(Default::default())
    }
}

impl<T> Cells<T> {
    fn get(&self, part: Part, make: impl FnOnce() -> T) -> &T {
        let place = (part.stage as usize * OPERATIONS + part.operation as usize) * 2 + usize::from(part.rejected);
        self.0[place].get_or_init(make)
    }
}

impl PluginMetrics {
    pub(crate) fn observe(&self, part: Part, took: Duration) {
        let histogram = self.cells.get(part, || {
            let [operation, rejected, stage] = part.labels();
            self.family.with_label_values(&[self.name, operation, rejected, stage])
        });
        histogram.observe(took.as_secs_f64());
    }
}

impl StepMetrics {
    pub(crate) fn observe(&self, part: Part, took: Duration, now: Instant) {
        let (histogram, summary) = self.cells.get(part, || {
            let labels = part.labels();
            (self.family.with_label_values(&labels), self.summary.with_label_values(&labels))
        });
        histogram.observe(took.as_secs_f64());
        summary.observe(took, now);
    }
}

#[cfg(test)]
impl Metrics {
    pub(crate) fn fresh() -> Self {
        Self::register(&Registry::new()).unwrap()
    }
}
