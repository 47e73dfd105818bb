//! Families whose metrics a collector computes at each scrape.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{Gauge, Histogram, Metric, MetricFamily, MetricType};

use crate::{Description, Family, HistogramVec};

/// A family of gauges that a collector computes.
#[derive(Clone, Debug)]
pub struct ComputedGauge(Arc<Description>);

/// A family of histograms that a collector computes.
#[derive(Clone, Debug)]
pub struct ComputedHistogram(Arc<Description>);

impl ComputedGauge {
    pub(crate) fn new(description: Arc<Description>) -> Self {
        Self(description)
    }

    /// Returns a metric of the family; `values` has one value per label.
    pub fn metric(&self, values: &[&str], value: f64) -> Metric {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        let mut metric = self.0.metric(values);
        metric.set_gauge(gauge);
        metric
    }

    /// Returns the family with these metrics.
    pub fn with(&self, metrics: Vec<Metric>) -> MetricFamily {
        self.0.family(MetricType::GAUGE, metrics)
    }
}

impl ComputedHistogram {
    pub(crate) fn new(description: Arc<Description>) -> Self {
        Self(description)
    }

    /// Returns a metric of the family; `values` has one value per label.
    pub fn metric(&self, values: &[&str], histogram: Histogram) -> Metric {
        let mut metric = self.0.metric(values);
        metric.set_histogram(histogram);
        metric
    }

    /// Returns the family with these metrics.
    pub fn with(&self, metrics: Vec<Metric>) -> MetricFamily {
        self.0.family(MetricType::HISTOGRAM, metrics)
    }

    /// Returns a family with the same name, help and labels that records observations itself, in native buckets as well
    /// if its registry has native histograms.
    pub fn counting(&self, bounds: &[f64]) -> Result<HistogramVec, prometheus::Error> {
        let desc = self.0.desc();
        let labels: Vec<&str> = desc.variable_labels.iter().map(String::as_str).collect();
        Description::with_buckets(&desc.fq_name, &desc.help, &labels, bounds.to_vec()).map(HistogramVec::new)
    }
}

/// Computed by the collector, so there is nothing to collect here.
impl Collector for ComputedGauge {
    fn desc(&self) -> Vec<&Desc> {
        vec![self.0.desc()]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        Vec::new()
    }
}

/// Computed by the collector, so there is nothing to collect here.
impl Collector for ComputedHistogram {
    fn desc(&self) -> Vec<&Desc> {
        vec![self.0.desc()]
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
        let gauge = ComputedGauge::new(Description::new("load", "Of now.", &["zone", "level"]).unwrap());
        let histogram = ComputedHistogram::new(Description::new("loads", "Until now.", &["level"]).unwrap());
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
