//! Classic histograms, which also have native buckets if the registry has native histograms.

use std::sync::Arc;
use std::time::SystemTime;

use parking_lot::Mutex;
use prometheus::proto::{self, Bucket, Metric, MetricType};

use crate::description::Description;
use crate::native::{Native, Sparse};
use crate::value::Value;

/// One histogram of a family.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Inner>);

/// One lock makes all counts consistent for every reader.
#[derive(Debug)]
struct Inner {
    family: Arc<Description>,
    counts: Mutex<Counts>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    count: u64,
    sum: f64,
    /// Observations by bucket. Allocated at the first one.
    buckets: Box<[u64]>,
    native: Option<Box<Native>>,
}

impl Histogram {
    pub fn observe(&self, value: f64) {
        let bounds = self.0.family.bounds();
        let bucket = bounds.iter().position(|bound| value <= *bound);
        let mut counts = self.0.counts.lock();
        counts.count += 1;
        counts.sum += value;
        if let Some(bucket) = bucket {
            if counts.buckets.is_empty() {
                counts.buckets = vec![0; bounds.len()].into();
            }
            counts.buckets[bucket] += 1;
        }
        if let Some(native) = &mut counts.native {
            native.sparse.observe(value);
        }
    }

    pub fn get_sample_count(&self) -> u64 {
        self.0.counts.lock().count
    }

    pub fn get_sample_sum(&self) -> f64 {
        self.0.counts.lock().sum
    }
}

impl Value for Histogram {
    const KIND: MetricType = MetricType::HISTOGRAM;

    fn new(family: &Arc<Description>, native: bool) -> Self {
        let native = native.then(|| Box::new(Native { sparse: Sparse::default(), created: SystemTime::now() }));
        let counts = Mutex::new(Counts { native, ..Counts::default() });
        Self(Arc::new(Inner { family: Arc::clone(family), counts }))
    }

    fn read(&self, metric: &mut Metric) -> Option<Native> {
        let counts = self.0.counts.lock().clone();
        metric.set_histogram(counts.classic(self.0.family.bounds()));
        counts.native.map(|native| *native)
    }
}

impl Counts {
    fn classic(&self, bounds: &[f64]) -> proto::Histogram {
        let mut histogram = proto::Histogram::default();
        histogram.set_sample_count(self.count);
        histogram.set_sample_sum(self.sum);
        let mut sum = 0;
        let counts = self.buckets.iter().copied().chain(std::iter::repeat(0));
        let buckets = bounds.iter().zip(counts).map(|(bound, count)| {
            sum += count;
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound);
            bucket.set_cumulative_count(sum);
            bucket
        });
        histogram.set_bucket(buckets.collect());
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HistogramVec, LoneHistogram, Registry, register_family, text};

    fn counted(registry: &Registry) -> (HistogramVec, LoneHistogram) {
        let describe = |name: &str, labels: &[&str]| {
            Description::with_buckets(name, "Help.", labels, vec![0.5, 1.0, f64::INFINITY]).unwrap()
        };
        let vec = register_family(registry, HistogramVec::new(describe("a", &["y", "b"]))).unwrap();
        let lone = register_family(registry, LoneHistogram::new(describe("c", &[]))).unwrap();
        for (labels, value) in [(["2", "1"], 0.5), (["1", "2"], 0.75), (["1", "2"], 9.0)] {
            vec.with_label_values(&labels).observe(value);
        }
        lone.observe(0.25);
        (vec, lone)
    }

    #[test]
    fn classic_and_native_registries_have_the_same_text() {
        let (classic, native) = (Registry::new(), Registry::with_native_histograms());
        let (_, (family, _)) = (counted(&classic), counted(&native));
        let exposed = text(&classic.gather());
        assert_eq!(exposed, text(&native.gather()));
        let lines: Vec<_> =
            exposed.lines().filter(|line| line.starts_with("a_") && line.contains(r#"b="2""#)).collect();
        let buckets = [r#"le="0.5"} 0"#, r#"le="1"} 1"#, r#"le="+Inf"} 2"#];
        assert!(lines.iter().zip(buckets).all(|(line, bucket)| line.ends_with(bucket)), "{lines:?}");
        assert_eq!(lines[3..], [r#"a_sum{b="2",y="1"} 9.75"#, r#"a_count{b="2",y="1"} 2"#]);
        assert!(classic.gather_all().natives.is_empty());
        let gathered = native.gather_all();
        let natives = &gathered.natives["a"];
        // In the same order as the metrics.
        let counts = |native: &Native| native.sparse.positive.values().sum::<u64>();
        assert_eq!(natives.iter().map(counts).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(gathered.natives["c"][0].sparse.positive, [(-16, 1)].into());
        let found = family.with_label_values(&["1", "2"]);
        assert_eq!((found.get_sample_count(), found.get_sample_sum()), (2, 9.75));
    }

    #[test]
    fn resets_only_families_with_labels() {
        for registry in [Registry::new(), Registry::with_native_histograms()] {
            let (_family, _lone) = counted(&registry);
            registry.reset();
            let names: Vec<_> = registry.gather().iter().map(|family| family.name().to_owned()).collect();
            assert_eq!(names, ["c"]);
        }
    }

    #[test]
    fn values_that_count_already_stay_classic() {
        let registries = [Registry::new(), Registry::with_native_histograms()];
        let (vec, lone) = counted(&registries[0]);
        register_family(&registries[1], vec.clone()).unwrap();
        register_family(&registries[1], lone).unwrap();
        vec.with_label_values(&["1", "2"]).observe(1.0);
        let gathered = registries[1].gather_all();
        assert_eq!(gathered.natives.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(gathered.families.len(), 2);
    }
}
