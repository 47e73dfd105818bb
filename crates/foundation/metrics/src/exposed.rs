//! Applies the metric options of the command line: disables families, shows hidden families, and limits labels to
//! allowed values.
//!
//! The options are applied when the families are gathered, so they do not slow down counting.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};

use crate::family::{MetricFamilies, pair};
use crate::native::Native;

/// Replaces a label value that is not allowed.
const UNEXPECTED: &str = "unexpected";

/// Families hidden since the release that deprecated them: the old name, the release, the help, and the family that has
/// the same values.
const HIDDEN: [(&str, &str, &str, &str); 6] = [
    (
        "apiserver_flowcontrol_request_concurrency_in_use",
        "1.31.0",
        "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) \
         requests in the API Priority and Fairness subsystem",
        "apiserver_flowcontrol_current_executing_seats",
    ),
    (
        "apiserver_flowcontrol_request_concurrency_limit",
        "1.30.0",
        "Nominal number of execution seats configured for each priority level",
        "apiserver_flowcontrol_nominal_limit_seats",
    ),
    (
        "apiserver_request_slo_duration_seconds",
        "1.27.0",
        "Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds \
         for each verb, group, version, resource, subresource, scope and component.",
        "apiserver_request_sli_duration_seconds",
    ),
    (
        "etcd_bookmark_counts",
        "1.36.0",
        "Number of etcd bookmarks (progress notify events) split by kind.",
        "etcd_bookmark_total",
    ),
    (
        "kube_apiserver_pod_logs_pods_logs_backend_tls_failure_total",
        "1.27.0",
        "Total number of requests for pods/logs that failed due to kubelet server TLS verification",
        "kube_apiserver_pod_logs_backend_tls_failure_total",
    ),
    (
        "kube_apiserver_pod_logs_pods_logs_insecure_backend_total",
        "1.27.0",
        "Total number of requests for pods/logs sliced by usage type: enforce_tls, skip_tls_allowed, skip_tls_denied",
        "kube_apiserver_pod_logs_insecure_backend_total",
    ),
];

/// The options of [`ExposedMetrics`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExposedOptions {
    /// Names of disabled families.
    pub disabled: HashSet<String>,
    /// True to expose hidden families.
    pub show_hidden: bool,
    /// The allowed label values, by family and label.
    pub allowed: HashMap<String, HashMap<String, HashSet<String>>>,
}

/// Gathers metric families and applies the options.
#[derive(Default)]
pub struct ExposedMetrics {
    options: ExposedOptions,
    unexpected: Mutex<UnexpectedValues>,
    /// True after a reset, which clears the counts of metrics.
    reset: AtomicBool,
}

/// The number of observations with a label value that is not allowed.
#[derive(Default)]
struct UnexpectedValues {
    /// As of the last gathering, by family.
    since_reset: HashMap<String, u64>,
    /// As of the last reset.
    before_reset: u64,
}

impl ExposedMetrics {
    pub fn new(options: ExposedOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Handles a reset of all series with labels.
    pub fn reset(&self) {
        self.reset.store(true, Ordering::Relaxed);
        let mut unexpected = self.unexpected.lock();
        unexpected.before_reset += std::mem::take(&mut unexpected.since_reset).values().sum::<u64>();
    }

    /// Returns the families sorted by name, including those that count what the options changed.
    pub fn families(&self, gathered: MetricFamilies) -> MetricFamilies {
        let MetricFamilies { families, mut natives } = gathered;
        let mut families: BTreeMap<String, MetricFamily> =
            families.into_iter().map(|family| (family.name().to_owned(), family)).collect();
        if self.options.show_hidden {
            for (name, since, help, same) in HIDDEN {
                if let Some(family) = families.get(same) {
                    families.insert(name.to_owned(), renamed(family, name, since, help));
                }
                if let Some(same) = natives.get(same) {
                    natives.insert(name.to_owned(), same.clone());
                }
            }
        }
        self.limit(&mut families, &mut natives);
        families.retain(|name, _| !self.options.disabled.contains(name));
        for family in self.meta_families(&families) {
            families.insert(family.name().to_owned(), family);
        }
        families.retain(|name, _| !self.options.disabled.contains(name));
        MetricFamilies { families: families.into_values().collect(), natives }
    }

    /// Returns the enabled families, for an endpoint that does not count what the options changed.
    pub fn enabled(&self, mut gathered: MetricFamilies) -> MetricFamilies {
        gathered.families.retain(|family| !self.options.disabled.contains(family.name()));
        gathered
    }

    /// Merges the metrics whose label values are not allowed.
    fn limit(&self, families: &mut BTreeMap<String, MetricFamily>, natives: &mut HashMap<String, Vec<Native>>) {
        for (name, labels) in &self.options.allowed {
            let Some(family) = families.get_mut(name) else { continue };
            let kind = family.get_field_type();
            let mut counted = 0;
            let mut kept: Vec<Metric> = Vec::new();
            let mut kept_natives: Vec<Native> = Vec::new();
            let mut at: HashMap<Vec<String>, usize> = HashMap::new();
            let mut of_metrics = natives.remove(name).unwrap_or_default().into_iter();
            for mut metric in family.take_metric() {
                let native = of_metrics.next();
                let mut unexpected = 0;
                for label in metric.mut_label() {
                    if labels.get(label.name()).is_some_and(|values| !values.contains(label.value())) {
                        label.set_value(UNEXPECTED.to_owned());
                        unexpected += 1;
                    }
                }
                counted += unexpected * observations(&metric, kind);
                let values = metric.get_label().iter().map(|label| label.value().to_owned()).collect();
                match at.get(&values) {
                    Some(index) => {
                        add(&mut kept[*index], &metric, kind);
                        if let (Some(sum), Some(native)) = (kept_natives.get_mut(*index), &native) {
                            sum.add(native);
                        }
                    }
                    None => {
                        at.insert(values, kept.len());
                        kept.push(metric);
                        kept_natives.extend(native);
                    }
                }
            }
            family.set_metric(kept);
            if !kept_natives.is_empty() {
                natives.insert(name.clone(), kept_natives);
            }
            self.unexpected.lock().since_reset.insert(name.clone(), counted);
        }
    }

    /// Returns the families that describe other families.
    fn meta_families(&self, families: &BTreeMap<String, MetricFamily>) -> Vec<MetricFamily> {
        let unexpected = {
            let unexpected = self.unexpected.lock();
            unexpected.before_reset + unexpected.since_reset.values().sum::<u64>()
        };
        let hidden = if self.options.show_hidden { 0 } else { HIDDEN.len() };
        let mut by_kind: BTreeMap<(String, String), usize> = BTreeMap::new();
        for family in families.values() {
            if let Some(kind) = kind_of(family.help()) {
                *by_kind.entry(kind).or_default() += 1;
            }
        }
        let registered = by_kind
            .into_iter()
            .map(|((stability, deprecated), count)| {
                counted(
                    vec![pair("deprecated_version", &deprecated), pair("stability_level", &stability)],
                    count as f64,
                )
            })
            .collect();
        let mut families = vec![
            counter(
                "cardinality_enforcement_unexpected_categorizations_total",
                "[ALPHA] The count of unexpected categorizations during cardinality enforcement.",
                vec![counted(Vec::new(), unexpected as f64)],
            ),
            counter(
                "disabled_metrics_total",
                "[BETA] The count of disabled metrics.",
                vec![counted(Vec::new(), self.options.disabled.len() as f64)],
            ),
            counter(
                "hidden_metrics_total",
                "[BETA] The count of hidden metrics.",
                vec![counted(Vec::new(), hidden as f64)],
            ),
        ];
        if !self.reset.load(Ordering::Relaxed) {
            let help = "[BETA] The count of registered metrics broken by stability level and deprecation version.";
            families.push(counter("registered_metrics_total", help, registered));
        }
        families
    }
}

/// Parses the stability level and the deprecating release at the beginning of a family's help.
fn kind_of(help: &str) -> Option<(String, String)> {
    let help = help.strip_prefix("EXPERIMENTAL: ").unwrap_or(help);
    let (stability, rest) = help.strip_prefix('[')?.split_once("] ")?;
    let deprecated =
        rest.strip_prefix("(Deprecated since ").and_then(|rest| rest.split_once(')')).map_or("", |it| it.0);
    Some((stability.to_owned(), deprecated.to_owned()))
}

fn renamed(family: &MetricFamily, name: &str, since: &str, help: &str) -> MetricFamily {
    let mut renamed = family.clone();
    renamed.set_name(name.to_owned());
    renamed.set_help(format!("[ALPHA] (Deprecated since {since}) {help}"));
    renamed
}

fn counter(name: &str, help: &str, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(MetricType::COUNTER);
    family.set_metric(metrics);
    family
}

fn counted(labels: Vec<LabelPair>, value: f64) -> Metric {
    let mut metric = Metric::from_label(labels);
    let mut counter = Counter::default();
    counter.set_value(value);
    metric.set_counter(counter);
    metric
}

/// Returns the number of observations; 0 for a gauge.
fn observations(metric: &Metric, kind: MetricType) -> u64 {
    match kind {
        MetricType::COUNTER => metric.get_counter().get_value() as u64,
        MetricType::HISTOGRAM => metric.get_histogram().get_sample_count(),
        MetricType::SUMMARY => metric.get_summary().sample_count(),
        MetricType::GAUGE | MetricType::UNTYPED => 0,
    }
}

fn add(to: &mut Metric, more: &Metric, kind: MetricType) {
    match kind {
        MetricType::COUNTER => {
            let mut counter = Counter::default();
            counter.set_value(to.get_counter().get_value() + more.get_counter().get_value());
            to.set_counter(counter);
        }
        MetricType::GAUGE => {
            let mut gauge = Gauge::default();
            gauge.set_value(to.get_gauge().get_value() + more.get_gauge().get_value());
            to.set_gauge(gauge);
        }
        MetricType::HISTOGRAM => {
            let (one, other) = (to.get_histogram(), more.get_histogram());
            let mut sum = Histogram::default();
            sum.set_sample_count(one.get_sample_count() + other.get_sample_count());
            sum.set_sample_sum(one.get_sample_sum() + other.get_sample_sum());
            let buckets = one.get_bucket().iter().zip(other.get_bucket()).map(|(one, other)| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(one.upper_bound());
                bucket.set_cumulative_count(one.cumulative_count() + other.cumulative_count());
                bucket
            });
            sum.set_bucket(buckets.collect());
            to.set_histogram(sum);
        }
        // Quantiles cannot be added, so the first metric's are kept.
        MetricType::SUMMARY | MetricType::UNTYPED => {}
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::{Description, HistogramVec, IntCounterVec, Registry, register_family};

    fn shown(options: ExposedOptions) -> String {
        text(&ExposedMetrics::new(options), Registry::new())
    }

    fn text(exposed: &ExposedMetrics, registry: Registry) -> String {
        crate::text(&families(exposed, registry).families)
    }

    fn families(exposed: &ExposedMetrics, registry: Registry) -> MetricFamilies {
        let requests = register_family(
            &registry,
            IntCounterVec::new(Description::new("requests", "[BETA] Requests.", &["verb", "code"]).unwrap()),
        );
        let requests = requests.unwrap();
        for (verb, code, times) in [("GET", "200", 5), ("LIST", "200", 3), ("PUT", "200", 2), ("PUT", "409", 1)] {
            requests.with_label_values(&[verb, code]).inc_by(times);
        }
        let name = "apiserver_request_sli_duration_seconds";
        let sli = Description::with_buckets(name, "[ALPHA] Latency.", &["verb"], vec![1.0]).unwrap();
        let sli = register_family(&registry, HistogramVec::new(sli)).unwrap();
        for (verb, seconds) in [("GET", 0.5), ("PUT", 0.25), ("POST", 2.0)] {
            sli.with_label_values(&[verb]).observe(seconds);
        }
        exposed.families(registry.gather_all())
    }

    fn has(text: &str, line: &str) {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }

    #[test]
    fn exposes_all_but_hidden_families_by_default() {
        let text = shown(ExposedOptions::default());
        has(&text, "requests{code=\"409\",verb=\"PUT\"} 1");
        has(&text, "registered_metrics_total{deprecated_version=\"\",stability_level=\"BETA\"} 1");
        has(&text, "registered_metrics_total{deprecated_version=\"\",stability_level=\"ALPHA\"} 1");
        has(&text, "disabled_metrics_total 0");
        assert!(!text.contains("slo_duration"));
    }

    #[test]
    fn merges_label_values_that_are_not_allowed() {
        let values = |values: &[&str]| values.iter().map(ToString::to_string).collect::<HashSet<_>>();
        let verbs = HashMap::from([("verb".to_owned(), values(&["GET"]))]);
        let allowed = HashMap::from([
            ("requests".to_owned(), verbs.clone()),
            ("apiserver_request_sli_duration_seconds".to_owned(), verbs),
        ]);
        let exposed = ExposedMetrics::new(ExposedOptions { allowed, ..ExposedOptions::default() });
        let text = text(&exposed, Registry::new());
        for line in [
            "requests{code=\"200\",verb=\"GET\"} 5",
            "requests{code=\"200\",verb=\"unexpected\"} 5",
            "requests{code=\"409\",verb=\"unexpected\"} 1",
            "apiserver_request_sli_duration_seconds_bucket{verb=\"unexpected\",le=\"1\"} 1",
            "apiserver_request_sli_duration_seconds_count{verb=\"unexpected\"} 2",
            "apiserver_request_sli_duration_seconds_sum{verb=\"unexpected\"} 2.25",
            "cardinality_enforcement_unexpected_categorizations_total 8",
        ] {
            has(&text, line);
        }
        exposed.reset();
        let gathered = families(&exposed, Registry::with_native_histograms());
        let natives = gathered.natives["apiserver_request_sli_duration_seconds"].iter();
        let counts: Vec<_> = natives.map(|native| native.sparse.positive.values().sum::<u64>()).collect();
        assert_eq!(counts, [1, 2]);
        let text = crate::text(&gathered.families);
        has(&text, "cardinality_enforcement_unexpected_categorizations_total 16");
        assert!(!text.contains("registered_metrics_total"));
    }

    #[test]
    fn disabling_takes_precedence_over_showing_hidden_families() {
        let text = shown(ExposedOptions { show_hidden: true, ..ExposedOptions::default() });
        has(&text, "apiserver_request_slo_duration_seconds_count{verb=\"GET\"} 1");
        has(&text, "registered_metrics_total{deprecated_version=\"1.27.0\",stability_level=\"ALPHA\"} 1");
        let disabled = ["apiserver_request_slo_duration_seconds", "requests", "nothing"];
        let disabled = disabled.into_iter().map(str::to_owned).collect();
        let text = shown(ExposedOptions { show_hidden: true, disabled, ..ExposedOptions::default() });
        assert!(!text.contains("slo_duration") && !text.contains("\nrequests"));
        has(&text, "disabled_metrics_total 3");
    }
}
