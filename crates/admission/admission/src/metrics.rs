//! The `apiserver_admission_*` families.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use binnacle_metrics::{Family, Held, Histogram, HistogramVec, Native, Registry, Summary, SummaryVec, families, keep};
use binnacle_registry::admission::Operation;
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, Metric, MetricFamily};

use crate::operations::Registered;
use crate::plugin::Stage;
use crate::plugins::PodSecurityMetrics;

const STAGES: [Stage; 2] = [Stage::Mutate, Stage::Validate];
const OPERATIONS: [Operation; 4] = [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];
/// The number of pairs of stage and operation.
const PLACES: usize = STAGES.len() * OPERATIONS.len();

const BUCKETS: [f64; 6] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5];

families! {
    struct PluginFamilies {
        durations: HistogramVec = "apiserver_admission_controller_admission_duration_seconds"
            by ["name", "operation", "rejected", "type"] buckets BUCKETS,
            "[STABLE] Admission controller latency histogram in seconds, identified by name and broken out for each \
             operation and API resource and type (validate or admit).";
    }
}

families! {
    #[derive(Clone)]
    struct StepFamilies {
        durations: HistogramVec = "apiserver_admission_step_admission_duration_seconds"
            by ["operation", "rejected", "type"] buckets BUCKETS,
            "[STABLE] Admission sub-step latency histogram in seconds, broken out for each operation and API resource and \
             step type (validate or admit).";
        summary: SummaryVec = "apiserver_admission_step_admission_duration_seconds_summary"
            by ["operation", "rejected", "type"],
            "[ALPHA] Admission sub-step latency summary in seconds, broken out for each operation and API resource and \
             step type (validate or admit).";
    }
}

/// All families of this crate.
#[derive(Clone)]
pub struct Metrics {
    plugins: PluginFamily,
    steps: StepFamilies,
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
struct Cells<T>([Held<T>; PLACES * 2]);

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
    families: StepFamilies,
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
        let PluginFamilies { durations } = PluginFamilies::build()?;
        Ok(Self {
            plugins: keep(registry, PluginFamily { measured: durations, passed: Arc::default() })?,
            steps: StepFamilies::register(registry)?,
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
        StepMetrics { families: self.steps.clone(), cells: Cells::default() }
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

impl Family for PluginFamily {
    fn reset(&self) {
        self.measured.reset();
        for (_, passed) in self.passed.lock().iter() {
            passed.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        }
    }

    fn become_native(&self) {
        self.measured.become_native();
    }

    fn gather_native(&self) -> Option<(MetricFamily, Vec<Native>)> {
        let passed = self.passed();
        let (mut family, mut natives) = self.measured.gather_native()?;
        for (metric, native) in family.mut_metric().iter_mut().zip(&mut natives) {
            native.sparse.add_zeros(add_passed(metric, &passed));
        }
        Some((family, natives))
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
            add_passed(metric, &passed);
        }
        families
    }
}

/// Adds the requests that a plugin did not handle to its metric, and returns how many there are.
fn add_passed(metric: &mut Metric, passed: &BTreeMap<[&'static str; 3], u64>) -> u64 {
    let label = |name: &str| metric.get_label().iter().find(|label| label.name() == name).map_or("", |l| l.value());
    if label("rejected") == "true" {
        return 0;
    }
    let count = passed.get(&["name", "operation", "type"].map(label)).copied().unwrap_or_default();
    if count > 0 {
        let told = with_instants(metric.get_histogram(), count);
        metric.set_histogram(told);
    }
    count
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
    fn of(&self, part: Part) -> &Held<T> {
        &self.0[part.place() * 2 + usize::from(part.rejected)]
    }
}

impl PluginMetrics {
    pub(crate) fn observe(&self, part: Part, took: Duration) {
        let find = || {
            let [operation, rejected, stage] = part.labels();
            self.family.with_label_values(&[self.name, operation, rejected, stage])
        };
        self.cells.of(part).with(find, |histogram| histogram.observe(took.as_secs_f64()));
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
        let find = || {
            let labels = part.labels();
            let StepFamilies { durations, summary } = &self.families;
            (durations.with_label_values(&labels), summary.with_label_values(&labels))
        };
        self.cells.of(part).with(find, |(histogram, summary)| {
            histogram.observe(took.as_secs_f64());
            summary.observe(took, now);
        });
    }
}

#[cfg(test)]
impl Metrics {
    pub(crate) fn fresh() -> Self {
        Self::register(&Registry::new()).unwrap()
    }
}
