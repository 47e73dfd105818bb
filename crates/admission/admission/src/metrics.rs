//! The `apiserver_admission_*` families.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use binnacle_metrics::{
    CachedSeries, Family, Histogram, HistogramVec, Native, Registry, Summary, SummaryVec, families, register_family,
};
use binnacle_registry::admission::Operation;
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, Metric, MetricFamily};

use crate::operations::RegisteredOperations;
use crate::plugin::Stage;
use crate::plugins::PodSecurityMetrics;

const STAGES: [Stage; 2] = [Stage::Mutate, Stage::Validate];
const OPERATIONS: [Operation; 4] = [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];
/// The number of combinations of stage and operation.
const SLOTS: usize = STAGES.len() * OPERATIONS.len();

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

/// The metric families of this crate.
#[derive(Clone)]
pub struct Metrics {
    plugins: PluginFamily,
    steps: StepFamilies,
    /// The metrics of the plugin PodSecurity.
    pub pod_security: PodSecurityMetrics,
}

/// The family of the individual plugins. kube-apiserver records each request for which a plugin is registered. Here
/// most plugins skip requests based on their attributes. Skipped requests are only counted, and added as durations of
/// zero when the family is collected.
#[derive(Clone)]
struct PluginFamily {
    measured: HistogramVec,
    skipped: Arc<Mutex<SkipCountsByName>>,
}

/// The numbers of requests that a plugin skipped, by stage and operation.
type SkipCounts = [AtomicU64; SLOTS];
type SkipCountsByName = Vec<(&'static str, Arc<SkipCounts>)>;

/// The series for each stage, operation and outcome, which are created on first use.
struct Cells<T>([CachedSeries<T>; SLOTS * 2]);

/// The metrics of a plugin.
pub(crate) struct PluginMetrics {
    name: &'static str,
    registered: RegisteredOperations,
    skipped: Arc<SkipCounts>,
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
pub(crate) struct MetricKey {
    pub(crate) stage: Stage,
    pub(crate) operation: Operation,
    pub(crate) rejected: bool,
}

impl Metrics {
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let PluginFamilies { durations } = PluginFamilies::build()?;
        Ok(Self {
            plugins: register_family(registry, PluginFamily { measured: durations, skipped: Arc::default() })?,
            steps: StepFamilies::register(registry)?,
            pod_security: PodSecurityMetrics::register(registry)?,
        })
    }

    pub(crate) fn of_plugin(&self, name: &'static str) -> PluginMetrics {
        let skipped: Arc<SkipCounts> = Arc::default();
        self.plugins.skipped.lock().push((name, Arc::clone(&skipped)));
        let family = self.plugins.measured.clone();
        PluginMetrics { name, registered: RegisteredOperations::of(name), skipped, family, cells: Cells::default() }
    }

    pub(crate) fn of_steps(&self) -> StepMetrics {
        StepMetrics { families: self.steps.clone(), cells: Cells::default() }
    }
}

impl PluginFamily {
    /// Returns the numbers of requests that plugins skipped, by name, operation and type.
    fn skipped(&self) -> BTreeMap<[&'static str; 3], u64> {
        let mut counts = BTreeMap::new();
        for (name, skipped) in self.skipped.lock().iter() {
            for key in keys() {
                let count = skipped[key.index()].load(Ordering::Relaxed);
                if count > 0 {
                    let [operation, rejected, stage] = key.labels();
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
        for (_, skipped) in self.skipped.lock().iter() {
            skipped.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        }
    }

    fn become_native(&self) {
        self.measured.become_native();
    }

    fn gather_native(&self) -> Option<(MetricFamily, Vec<Native>)> {
        let skipped = self.skipped();
        let (mut family, mut natives) = self.measured.gather_native()?;
        for (metric, native) in family.mut_metric().iter_mut().zip(&mut natives) {
            native.sparse.add_zeros(add_skipped(metric, &skipped));
        }
        Some((family, natives))
    }
}

impl Collector for PluginFamily {
    fn desc(&self) -> Vec<&Desc> {
        self.measured.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let skipped = self.skipped();
        let mut families = self.measured.collect();
        for metric in families.iter_mut().flat_map(|family| family.mut_metric()) {
            add_skipped(metric, &skipped);
        }
        families
    }
}

/// Adds the requests that a plugin skipped to its metric, and returns their number.
fn add_skipped(metric: &mut Metric, skipped: &BTreeMap<[&'static str; 3], u64>) -> u64 {
    let label = |name: &str| metric.get_label().iter().find(|label| label.name() == name).map_or("", |l| l.value());
    if label("rejected") == "true" {
        return 0;
    }
    let count = skipped.get(&["name", "operation", "type"].map(label)).copied().unwrap_or_default();
    if count > 0 {
        let updated = with_zero_durations(metric.get_histogram(), count);
        metric.set_histogram(updated);
    }
    count
}

/// Returns the histogram with `count` more durations of zero.
fn with_zero_durations(histogram: &proto::Histogram, count: u64) -> proto::Histogram {
    let mut updated = histogram.clone();
    let mut buckets = histogram.get_bucket().to_vec();
    buckets.iter_mut().for_each(|bucket| bucket.set_cumulative_count(bucket.cumulative_count() + count));
    updated.set_bucket(buckets);
    updated.set_sample_count(histogram.get_sample_count() + count);
    updated
}

/// Iterates over all combinations of stage and operation.
fn keys() -> impl Iterator<Item = MetricKey> {
    let key = |stage| OPERATIONS.map(|operation| MetricKey { stage, operation, rejected: false });
    STAGES.into_iter().flat_map(key)
}

impl MetricKey {
    /// Returns the labels: operation, rejected, type.
    fn labels(self) -> [&'static str; 3] {
        let operation = self.operation.as_str();
        let stage = match self.stage {
            Stage::Mutate => "admit",
            Stage::Validate => "validate",
        };
        [operation, if self.rejected { "true" } else { "false" }, stage]
    }

    fn index(self) -> usize {
        self.stage as usize * OPERATIONS.len() + self.operation as usize
    }
}

impl<T> Default for Cells<T> {
    fn default() -> Self {
        Self(Default::default())
    }
}

impl<T> Cells<T> {
    fn of(&self, key: MetricKey) -> &CachedSeries<T> {
        &self.0[key.index() * 2 + usize::from(key.rejected)]
    }
}

impl PluginMetrics {
    pub(crate) fn observe(&self, key: MetricKey, took: Duration) {
        let find = || {
            let [operation, rejected, stage] = key.labels();
            self.family.with_label_values(&[self.name, operation, rejected, stage])
        };
        self.cells.of(key).with(find, |histogram| histogram.observe(took.as_secs_f64()));
    }

    /// Counts a request that the plugin skips.
    pub(crate) fn count_skipped(&self, stage: Stage, operation: Operation) {
        if self.registered.includes(stage, operation) {
            self.skipped[MetricKey { stage, operation, rejected: false }.index()].fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl StepMetrics {
    pub(crate) fn observe(&self, key: MetricKey, took: Duration, now: Instant) {
        let find = || {
            let labels = key.labels();
            let StepFamilies { durations, summary } = &self.families;
            (durations.with_label_values(&labels), summary.with_label_values(&labels))
        };
        self.cells.of(key).with(find, |(histogram, summary)| {
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
