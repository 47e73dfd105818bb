//! Families whose metrics a collector computes at each scrape.

use prometheus::HistogramOpts;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Gauge, Histogram, Metric, MetricFamily, MetricType};

use crate::{Family, HistogramVec, pair};

/// A family of gauges that a collector computes.
#[derive(Clone, Debug)]
pub struct ComputedGauge(Desc);

/// A family of histograms that a collector computes.
#[derive(Clone, Debug)]
pub struct ComputedHistogram(Desc);

impl ComputedGauge {
    pub(crate) fn new(name: &str, help: &str, labels: &[&str]) -> Result<Self, prometheus::Error> {
        described(name, help, labels).map(Self)
    }

    /// Returns a metric of the family; `values` has one value per label.
    pub fn metric(&self, values: &[&str], value: f64) -> Metric {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        let mut metric = labelled(&self.0, values);
        metric.set_gauge(gauge);
        metric
    }

    /// Returns the family with these metrics.
    pub fn with(&self, metrics: Vec<Metric>) -> MetricFamily {
        family(&self.0, MetricType::GAUGE, metrics)
    }
}

impl ComputedHistogram {
    pub(crate) fn new(name: &str, help: &str, labels: &[&str]) -> Result<Self, prometheus::Error> {
        described(name, help, labels).map(Self)
    }

    /// Returns a metric of the family; `values` has one value per label.
    pub fn metric(&self, values: &[&str], histogram: Histogram) -> Metric {
        let mut metric = labelled(&self.0, values);
        metric.set_histogram(histogram);
        metric
    }

    /// Returns the family with these metrics.
    pub fn with(&self, metrics: Vec<Metric>) -> MetricFamily {
        family(&self.0, MetricType::HISTOGRAM, metrics)
    }

    /// Returns a family with the same name, help and labels that records observations itself, in native buckets as well
    /// if its registry has native histograms.
    pub fn counting(&self, bounds: &[f64]) -> Result<HistogramVec, prometheus::Error> {
        let options = HistogramOpts::new(self.0.fq_name.clone(), self.0.help.clone()).buckets(bounds.to_vec());
        let labels: Vec<&str> = self.0.variable_labels.iter().map(String::as_str).collect();
        HistogramVec::new(options, &labels)
    }
}

fn described(name: &str, help: &str, labels: &[&str]) -> Result<Desc, prometheus::Error> {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    Desc::new(name.to_owned(), help.to_owned(), labels, Default::default())
}

/// Returns a metric without a value. Its labels are sorted by name, as in all families.
fn labelled(desc: &Desc, values: &[&str]) -> Metric {
    assert_eq!(values.len(), desc.variable_labels.len(), "one value for each label");
    let mut pairs: Vec<_> = desc.variable_labels.iter().zip(values).map(|(name, value)| pair(name, value)).collect();
    pairs.sort_by(|one, other| one.name().cmp(other.name()));
    Metric::from_label(pairs)
}

fn family(desc: &Desc, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(desc.fq_name.clone());
    family.set_help(desc.help.clone());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

/// Computed by the collector, so there is nothing to collect here.
impl Collector for ComputedGauge {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.0]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        Vec::new()
    }
}

/// Computed by the collector, so there is nothing to collect here.
impl Collector for ComputedHistogram {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.0]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        Vec::new()
    }
}

impl Family for ComputedGauge {}

impl Family for ComputedHistogram {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[test]
    fn collectors_return_computed_metrics() {
        let gauge = ComputedGauge::new("load", "Of now.", &["zone", "level"]).unwrap();
        let histogram = ComputedHistogram::new("loads", "Until now.", &["level"]).unwrap();
        let mut loads = Histogram::default();
        loads.set_sample_count(2);
        loads.set_sample_sum(0.5);
        let families = [
            gauge.with(vec![gauge.metric(&["a", "low"], 0.5)]),
            histogram.with(vec![histogram.metric(&["low"], loads)]),
        ];
        assert_eq!(
            text(&families),
            "# HELP load Of now.\n# TYPE load gauge\nload{level=\"low\",zone=\"a\"} 0.5\n\
             # HELP loads Until now.\n# TYPE loads histogram\nloads_bucket{level=\"low\",le=\"+Inf\"} 2\n\
             loads_sum{level=\"low\"} 0.5\nloads_count{level=\"low\"} 2\n"
        );
    }
}
