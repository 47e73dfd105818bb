//! The `apiserver_admission_*` families.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use binnacle_metrics::{Summary, SummaryVec, keep};
use binnacle_registry::admission::Operation;
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, MetricFamily};
use prometheus::{Histogram, HistogramOpts, HistogramVec, Registry};

use crate::operations::Registered;
use crate::plugin::Stage;
use crate::plugins::PodSecurityMetrics;

const STAGES: [Stage; 2] = [Stage::Mutate, Stage::Validate];
const OPERATIONS: [Operation; 4] = [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];
/// The number of pairs of stage and operation.
const PLACES: usize = STAGES.len() * OPERATIONS.len();

/// All families of this crate.
#[derive(Clone)]
pub struct Metrics {
    plugins: PluginFamily,
    steps: HistogramVec,
    steps_summary: SummaryVec,
    pub(crate) pod_security: PodSecurityMetrics,
}

/// The family of the single plugins. Go counts each request for which a plugin may be called. Here most plugins see
/// from the attributes that they do not handle it: they are only counted, and added as durations of zero when the
/// family is read.
#[derive(Clone)]
struct PluginFamily {
    measured: HistogramVec,
    passed: Arc<Mutex<PassedByName>>,
}

/// Numbers of requests that a plugin did not handle, by stage and operation.
type Passed = [AtomicU64; PLACES];
type PassedByName = Vec<(&'static str, Arc<Passed>)>;

/// One value for each stage, operation and outcome, created on first use.
struct Cells<T>([OnceLock<T>; PLACES * 2]);

/// The metrics of one plugin.
pub(crate) struct PluginMetrics {
    name: &'static str,
    registered: Registered,
    passed: Arc<Passed>,
    family: HistogramVec,
    cells: Cells<Histogram>,
}

/// The metrics of a whole admission step.
pub(crate) struct StepMetrics {
    family: HistogramVec,
    summary: SummaryVec,
    cells: Cells<(Histogram, Arc<Summary>)>,
}

/// The stage and operation of an admission, and its outcome.
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
            HistogramVec::new(options.buckets(vec![0.005, 0.025, 0.1, 0.5, 1.0, 2.5]), labels)
        };
        let measured = histograms(
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
            plugins: keep(registry, PluginFamily { measured, passed: Arc::default() })?,
            steps: keep(registry, steps)?,
            steps_summary: keep(registry, steps_summary)?,
            pod_security: PodSecurityMetrics::register(registry)?,
        })
    }

    pub(crate) fn of_plugin(&self, name: &'static str) -> PluginMetrics {
        let passed: Arc<Passed> = Arc::default();
        self.plugins.passed.lock().push((name, Arc::clone(&passed)));
        let family = self.plugins.measured.clone();
        PluginMetrics { name, registered: Registered::of(name), passed, family, cells: Cells::default() }
    }

    pub(crate) fn of_steps(&self) -> StepMetrics {
        StepMetrics { family: self.steps.clone(), summary: self.steps_summary.clone(), cells: Cells::default() }
    }
}

impl PluginFamily {
    /// Returns the numbers of requests that plugins did not handle, by name, operation and type.
    fn passed(&self) -> BTreeMap<[&'static str; 3], u64> {
        let mut counts = BTreeMap::new();
        for (name, passed) in self.passed.lock().iter() {
            for part in parts() {
                let count = passed[part.place()].load(Ordering::Relaxed);
                if count > 0 {
                    let [operation, rejected, stage] = part.labels();
                    self.measured.with_label_values(&[*name, operation, rejected, stage]);
                    *counts.entry([*name, operation, stage]).or_default() += count;
                }
            }
        }
        counts
    }
}

impl Collector for PluginFamily {
    fn desc(&self) -> Vec<&Desc> {
        self.measured.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let passed = self.passed();
        let mut families = self.measured.collect();
        for metric in families.iter_mut().flat_map(|family| family.mut_metric()) {
            let label =
                |name: &str| metric.get_label().iter().find(|label| label.name() == name).map_or("", |l| l.value());
            if label("rejected") == "true" {
                continue;
            }
            if let Some(count) = passed.get(&["name", "operation", "type"].map(label)) {
                let told = with_instants(metric.get_histogram(), *count);
                metric.set_histogram(told);
            }
        }
        families
    }
}

/// Returns the histogram with `count` more durations of zero.
fn with_instants(histogram: &proto::Histogram, count: u64) -> proto::Histogram {
    let mut told = histogram.clone();
    let mut buckets = histogram.get_bucket().to_vec();
    buckets.iter_mut().for_each(|bucket| bucket.set_cumulative_count(bucket.cumulative_count() + count));
    told.set_bucket(buckets);
    told.set_sample_count(histogram.get_sample_count() + count);
    told
}

/// Iterates over all pairs of stage and operation.
fn parts() -> impl Iterator<Item = Part> {
    let part = |stage| OPERATIONS.map(|operation| Part { stage, operation, rejected: false });
    STAGES.into_iter().flat_map(part)
}

impl Part {
    /// Returns the labels: operation, rejected, type.
    fn labels(self) -> [&'static str; 3] {
        let operation = self.operation.as_str();
        let stage = match self.stage {
            Stage::Mutate => "admit",
            Stage::Validate => "validate",
        };
        [operation, if self.rejected { "true" } else { "false" }, stage]
    }

    fn place(self) -> usize {
        self.stage as usize * OPERATIONS.len() + self.operation as usize
    }
}

impl<T> Default for Cells<T> {
    fn default() -> Self {
        Self(Default::default())
    }
}

impl<T> Cells<T> {
    fn get(&self, part: Part, make: impl FnOnce() -> T) -> &T {
        self.0[part.place() * 2 + usize::from(part.rejected)].get_or_init(make)
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

    /// Counts a request that the plugin does not handle.
    pub(crate) fn pass(&self, stage: Stage, operation: Operation) {
        if self.registered.asks(stage, operation) {
            self.passed[Part { stage, operation, rejected: false }.place()].fetch_add(1, Ordering::Relaxed);
        }
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
