//! Families of metrics, and their values at one time.

use std::cmp::Ordering;
use std::collections::HashMap;

use prometheus::core::Collector;
use prometheus::proto::{LabelPair, Metric, MetricFamily};

use crate::native::Native;

/// A family of metrics. Clones share the values.
pub trait Family: Collector + Clone + 'static {
    /// Deletes all series. Families without labels keep their values, and computed families have no series to delete.
    fn reset(&self) {}

    /// Enables native buckets if this is a family of histograms.
    fn become_native(&self) {}

    /// Returns the family with its native histograms, one per metric, if it has any.
    fn gather_native(&self) -> Option<(MetricFamily, Vec<Native>)> {
        None
    }
}

/// A snapshot of the families, sorted by name.
#[derive(Clone, Debug, Default)]
pub struct MetricFamilies {
    pub families: Vec<MetricFamily>,
    /// The native histograms by family, in the order of its metrics.
    pub natives: HashMap<String, Vec<Native>>,
}

impl From<Vec<MetricFamily>> for MetricFamilies {
    fn from(families: Vec<MetricFamily>) -> Self {
        Self { families, natives: HashMap::new() }
    }
}

/// Creates a label for a metric.
pub fn pair(name: &str, value: &str) -> LabelPair {
    let mut pair = LabelPair::default();
    pair.set_name(name.to_owned());
    pair.set_value(value.to_owned());
    pair
}

/// Compares metrics of a family, whose labels have the same order.
pub(crate) fn by_label_values(one: &Metric, other: &Metric) -> Ordering {
    let values = |metric| Metric::get_label(metric).iter().map(LabelPair::value);
    values(one).cmp(values(other))
}
