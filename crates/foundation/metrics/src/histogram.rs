//! Classic histograms, which also have native buckets if the registry has native histograms.

use std::collections::HashMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use parking_lot::{Mutex, RwLock};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, Bucket, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{HistogramOpts, HistogramVec as ClassicVec};

use crate::family::{Family, pair};
use crate::native::{Native, Sparse};

/// A family of histograms, one per combination of label values. Clones share them.
#[derive(Clone)]
pub struct HistogramVec(Arc<Shared>);

struct Shared {
    classic: ClassicVec,
    bounds: Vec<f64>,
    labels: Vec<String>,
    /// Set if a registry with native histograms has the family.
    native: OnceLock<RwLock<HashMap<Vec<String>, Arc<DualHistogram>>>>,
}

/// One histogram of a family.
#[derive(Clone, Debug)]
pub struct Histogram(Kind);

#[derive(Clone, Debug)]
enum Kind {
    Classic(prometheus::Histogram),
    Dual(Arc<DualHistogram>),
}

/// A family without labels, which is a single histogram. A reset does not affect it.
#[derive(Clone, Debug)]
pub struct LoneHistogram {
    family: HistogramVec,
    found: Arc<OnceLock<Histogram>>,
}

/// A histogram with classic and native buckets. One lock makes both consistent for every reader.
#[derive(Debug)]
struct DualHistogram {
    created: SystemTime,
    bounds: Vec<f64>,
    counts: Mutex<Counts>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    count: u64,
    sum: f64,
    buckets: Vec<u64>,
    sparse: Sparse,
}

// === impl HistogramVec ===

impl fmt::Debug for HistogramVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HistogramVec").field("labels", &self.0.labels).finish_non_exhaustive()
    }
}

impl HistogramVec {
    pub fn new(opts: HistogramOpts, labels: &[&str]) -> Result<Self, prometheus::Error> {
        let mut bounds = opts.buckets.clone();
        // The last bucket counts all observations, so it is implicit.
        bounds.pop_if(|bound| *bound == f64::INFINITY);
        // The library checks the bounds only when it creates the first series, and panics.
        if !bounds.is_sorted_by(|lower, upper| lower < upper) {
            let name = &opts.common_opts.name;
            return Err(prometheus::Error::Msg(format!("the buckets of {name} are not in ascending order")));
        }
        Ok(Self(Arc::new(Shared {
            classic: ClassicVec::new(opts, labels)?,
            bounds,
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            native: OnceLock::new(),
        })))
    }

    /// Returns the histogram with these label values, in the order of the labels.
    pub fn with_label_values(&self, values: &[&str]) -> Histogram {
        let Some(all) = self.0.native.get() else {
            return Histogram(Kind::Classic(self.0.classic.with_label_values(values)));
        };
        assert_eq!(values.len(), self.0.labels.len(), "one value for each label");
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        if let Some(found) = all.read().get(&values) {
            return Histogram(Kind::Dual(Arc::clone(found)));
        }
        let mut all = all.write();
        let histogram = all.entry(values).or_insert_with(|| Arc::new(DualHistogram::new(&self.0.bounds)));
        Histogram(Kind::Dual(Arc::clone(histogram)))
    }

    fn gather_dual(&self) -> Option<(MetricFamily, Vec<Native>)> {
        let all: Vec<_> = {
            let all = self.0.native.get()?.read();
            all.iter().map(|(values, histogram)| (values.clone(), Arc::clone(histogram))).collect()
        };
        let desc = self.desc();
        let desc = desc.first()?;
        let mut metrics: Vec<(Metric, Native)> = all
            .into_iter()
            .map(|(values, histogram)| {
                let pairs = self.0.labels.iter().zip(&values).map(|(name, value)| pair(name, value));
                let mut pairs: Vec<LabelPair> = desc.const_label_pairs.iter().cloned().chain(pairs).collect();
                pairs.sort_by(|one, other| one.name().cmp(other.name()));
                let mut metric = Metric::from_label(pairs);
                let counts = histogram.counts.lock().clone();
                metric.set_histogram(counts.classic(&histogram.bounds));
                (metric, Native { sparse: counts.sparse, created: histogram.created })
            })
            .collect();
        // Registries sort in this order.
        metrics.sort_by(|(one, _), (other, _)| {
            let values = |metric: &Metric| metric.get_label().iter().map(|l| l.value().to_owned()).collect::<Vec<_>>();
            values(one).cmp(&values(other))
        });
        let (metrics, natives) = metrics.into_iter().unzip();
        let mut family = MetricFamily::default();
        family.set_name(desc.fq_name.clone());
        family.set_help(desc.help.clone());
        family.set_field_type(MetricType::HISTOGRAM);
        family.set_metric(metrics);
        Some((family, natives))
    }
}

impl Collector for HistogramVec {
    fn desc(&self) -> Vec<&Desc> {
        self.0.classic.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.gather_dual().map_or_else(|| self.0.classic.collect(), |(family, _)| vec![family])
    }
}

impl Family for HistogramVec {
    fn become_native(&self) {
        self.0.native.get_or_init(RwLock::default);
    }

    fn reset(&self) {
        self.0.classic.reset();
        if let Some(all) = self.0.native.get() {
            all.write().clear();
        }
    }

    fn gather_native(&self) -> Option<(MetricFamily, Vec<Native>)> {
        self.gather_dual()
    }
}

// === impl Histogram ===

impl Histogram {
    pub fn observe(&self, value: f64) {
        match &self.0 {
            Kind::Classic(histogram) => histogram.observe(value),
            Kind::Dual(dual) => dual.observe(value),
        }
    }

    pub fn get_sample_count(&self) -> u64 {
        match &self.0 {
            Kind::Classic(histogram) => histogram.get_sample_count(),
            Kind::Dual(dual) => dual.counts.lock().count,
        }
    }

    pub fn get_sample_sum(&self) -> f64 {
        match &self.0 {
            Kind::Classic(histogram) => histogram.get_sample_sum(),
            Kind::Dual(dual) => dual.counts.lock().sum,
        }
    }
}

// === impl LoneHistogram ===

impl LoneHistogram {
    pub fn with_opts(opts: HistogramOpts) -> Result<Self, prometheus::Error> {
        Ok(Self { family: HistogramVec::new(opts, &[])?, found: Arc::default() })
    }
}

/// The histogram is created on first use or on registration, whichever comes first.
impl Deref for LoneHistogram {
    type Target = Histogram;

    fn deref(&self) -> &Histogram {
        self.found.get_or_init(|| self.family.with_label_values(&[]))
    }
}

impl Collector for LoneHistogram {
    fn desc(&self) -> Vec<&Desc> {
        self.family.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let _: &Histogram = self;
        self.family.collect()
    }
}

impl Family for LoneHistogram {
    fn become_native(&self) {
        // If it already records observations for another server of the process, leave it as it is.
        if self.found.get().is_none() {
            self.family.become_native();
        }
    }

    fn gather_native(&self) -> Option<(MetricFamily, Vec<Native>)> {
        let _: &Histogram = self;
        self.family.gather_native()
    }
}

// === impl DualHistogram ===

impl DualHistogram {
    fn new(bounds: &[f64]) -> Self {
        let counts = Counts { buckets: vec![0; bounds.len()], ..Counts::default() };
        Self { created: SystemTime::now(), bounds: bounds.to_vec(), counts: Mutex::new(counts) }
    }

    fn observe(&self, value: f64) {
        let at = self.bounds.iter().position(|bound| value <= *bound);
        let mut counts = self.counts.lock();
        counts.count += 1;
        counts.sum += value;
        if let Some(bucket) = at.and_then(|at| counts.buckets.get_mut(at)) {
            *bucket += 1;
        }
        counts.sparse.observe(value);
    }
}

impl Counts {
    fn classic(&self, bounds: &[f64]) -> proto::Histogram {
        let mut histogram = proto::Histogram::default();
        histogram.set_sample_count(self.count);
        histogram.set_sample_sum(self.sum);
        let mut sum = 0;
        let buckets = bounds.iter().zip(&self.buckets).map(|(bound, count)| {
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
    use crate::{Registry, register_family, text};

    fn counted(registry: &Registry) -> (HistogramVec, LoneHistogram) {
        let opts = |name: &str| HistogramOpts::new(name, "Help.").buckets(vec![0.5, 1.0, f64::INFINITY]);
        let vec = register_family(registry, HistogramVec::new(opts("a").const_label("z", "0"), &["y", "b"]).unwrap())
            .unwrap();
        let lone = register_family(registry, LoneHistogram::with_opts(opts("c")).unwrap()).unwrap();
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
        assert_eq!(text(&classic.gather()), text(&native.gather()));
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
}
