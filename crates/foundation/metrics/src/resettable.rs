//! Collectors that read counters from another source, which cannot be reset: after a reset the values at that time are
//! subtracted.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Counter, Histogram, Metric, MetricFamily, MetricType};

use crate::family::Family;

/// A collector whose counters and histograms with labels can be reset. Gauges are unchanged.
pub(crate) struct ResettableCollector<C> {
    inner: Arc<C>,
    baselines: Arc<Mutex<HashMap<String, Baselines>>>,
}

/// The metrics of each family at the last reset, by label values.
type Baselines = HashMap<Vec<String>, Metric>;

impl<C> ResettableCollector<C> {
    pub(crate) fn new(inner: C) -> Self {
        Self { inner: Arc::new(inner), baselines: Arc::default() }
    }
}

impl<C> Clone for ResettableCollector<C> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), baselines: Arc::clone(&self.baselines) }
    }
}

impl<C: Collector + 'static> Collector for ResettableCollector<C> {
    fn desc(&self) -> Vec<&Desc> {
        self.inner.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = self.inner.collect();
        let baselines = self.baselines.lock();
        if baselines.is_empty() {
            return families;
        }
        for family in &mut families {
            if let Some(baselines) = baselines.get(family.name()) {
                let kind = family.get_field_type();
                let metrics = family.take_metric().into_iter();
                family.set_metric(metrics.filter_map(|metric| since(metric, baselines, kind)).collect());
            }
        }
        families.retain(|family| !family.get_metric().is_empty());
        families
    }
}

impl<C: Collector + 'static> Family for ResettableCollector<C> {
    fn reset(&self) {
        let counted = self.inner.collect().into_iter().filter(|family| {
            let kind = family.get_field_type();
            matches!(kind, MetricType::COUNTER | MetricType::HISTOGRAM)
        });
        let baselines = counted.map(|mut family| {
            let metrics = family.take_metric().into_iter().filter(|metric| !metric.get_label().is_empty());
            (family.name().to_owned(), metrics.map(|metric| (values(&metric), metric)).collect())
        });
        let baselines = baselines.collect();
        *self.baselines.lock() = baselines;
    }
}

fn values(metric: &Metric) -> Vec<String> {
    metric.get_label().iter().map(|label| label.value().to_owned()).collect()
}

/// Returns the difference from the base, or `None` if it is zero.
fn since(mut metric: Metric, baselines: &Baselines, kind: MetricType) -> Option<Metric> {
    let Some(baseline) = baselines.get(&values(&metric)) else { return Some(metric) };
    if kind == MetricType::COUNTER {
        let more = metric.get_counter().get_value() - baseline.get_counter().get_value();
        let mut counter = Counter::default();
        counter.set_value(more);
        metric.set_counter(counter);
        return (more > 0.0).then_some(metric);
    }
    let (all, before) = (metric.get_histogram(), baseline.get_histogram());
    let count = all.get_sample_count().saturating_sub(before.get_sample_count());
    let mut histogram = Histogram::default();
    histogram.set_sample_count(count);
    histogram.set_sample_sum(all.get_sample_sum() - before.get_sample_sum());
    let buckets = all.get_bucket().iter().zip(before.get_bucket()).map(|(all, before)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(all.upper_bound());
        bucket.set_cumulative_count(all.cumulative_count().saturating_sub(before.cumulative_count()));
        bucket
    });
    histogram.set_bucket(buckets.collect());
    metric.set_histogram(histogram);
    (count > 0).then_some(metric)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Description, HistogramVec, IntCounterVec, IntGauge, Registry, text};

    struct ExternalCollector {
        counters: IntCounterVec,
        took: HistogramVec,
        level: IntGauge,
    }

    impl Collector for ExternalCollector {
        fn desc(&self) -> Vec<&Desc> {
            [self.counters.desc(), self.took.desc(), self.level.desc()].concat()
        }

        fn collect(&self) -> Vec<MetricFamily> {
            [self.counters.collect(), self.took.collect(), self.level.collect()].concat()
        }
    }

    #[test]
    fn subtracts_counts_before_the_reset() {
        let counters = IntCounterVec::new(Description::new("a", "A.", &["l"]).unwrap());
        let took = HistogramVec::new(Description::with_buckets("b", "B.", &["l"], vec![1.0]).unwrap());
        let level = IntGauge::new(Description::new("c", "C.", &[]).unwrap());
        let registry = Registry::new();
        let external = ExternalCollector { counters: counters.clone(), took: took.clone(), level: level.clone() };
        registry.register_counting(external).unwrap();
        let exposed = || {
            let text = text(&registry.gather());
            text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
        };
        let count = || {
            counters.with_label_values(&["x"]).inc_by(2);
            took.with_label_values(&["x"]).observe(0.5);
            level.set(7);
        };
        count();
        let once = exposed();
        assert_eq!(once[0], "a{l=\"x\"} 2");
        registry.reset();
        assert_eq!(exposed(), ["c 7"]);
        count();
        assert_eq!(exposed(), once);
    }
}
