//! Families of series with labels.
//!
//! The families of the prometheus crate hold name, help and label names in each series. A process serves thousands of
//! logical clusters with hundreds of families each, so here all of them share one [`Description`].

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use hashbrown::HashTable;
use parking_lot::RwLock;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Metric, MetricFamily};

use crate::description::Description;
use crate::family::{Family, by_label_values};
use crate::native::Native;
use crate::value::Value;

/// A family with one value per combination of label values. Clones share them.
pub struct MetricVec<M>(Arc<Inner<M>>);

struct Inner<M> {
    description: Arc<Description>,
    /// True if a registry with native histograms has the family.
    native: AtomicBool,
    series: RwLock<HashTable<Entry<M>>>,
}

struct Entry<M> {
    values: LabelValues,
    value: M,
}

/// Label values, each followed by [`SEPARATOR`].
#[derive(Clone)]
struct LabelValues(Box<[u8]>);

/// A byte that UTF-8 does not contain.
const SEPARATOR: u8 = 0xFF;

/// Clients choose some label values, so the hash has a random key.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

fn hash<'a>(values: impl Iterator<Item = &'a str>) -> u64 {
    let mut hasher = HASHER.build_hasher();
    for value in values {
        hasher.write(value.as_bytes());
        hasher.write_u8(SEPARATOR);
    }
    hasher.finish()
}

impl LabelValues {
    fn new<V: AsRef<str>>(values: &[V]) -> Self {
        let length = values.iter().map(|value| value.as_ref().len() + 1).sum();
        let mut joined = Vec::with_capacity(length);
        for value in values {
            joined.extend_from_slice(value.as_ref().as_bytes());
            joined.push(SEPARATOR);
        }
        Self(joined.into())
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        let values = self.0.split_inclusive(|byte| *byte == SEPARATOR).filter_map(<[u8]>::split_last);
        values.map(|(_, value)| std::str::from_utf8(value).unwrap_or_default())
    }

    fn matches<V: AsRef<str>>(&self, values: &[V]) -> bool {
        let mut rest = &*self.0;
        for value in values {
            let value = value.as_ref().as_bytes();
            match rest.strip_prefix(value) {
                Some([SEPARATOR, others @ ..]) => rest = others,
                _ => return false,
            }
        }
        rest.is_empty()
    }
}

impl<M> Clone for MetricVec<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M> fmt::Debug for MetricVec<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricVec").field("name", &self.0.description.desc().fq_name).finish_non_exhaustive()
    }
}

impl<M: Value> MetricVec<M> {
    pub fn new(description: Arc<Description>) -> Self {
        Self(Arc::new(Inner { description, native: AtomicBool::new(false), series: RwLock::default() }))
    }

    /// Returns the series with these label values, in the order of the labels.
    ///
    /// # Panics
    ///
    /// If there is not one value for each label.
    pub fn with_label_values<V: AsRef<str>>(&self, values: &[V]) -> M {
        let Inner { description, native, series } = &*self.0;
        description.check_values(values.len());
        let hash = hash(values.iter().map(AsRef::as_ref));
        let is_it = |entry: &Entry<M>| entry.values.matches(values);
        if let Some(entry) = series.read().find(hash, is_it) {
            return entry.value.clone();
        }
        let mut series = series.write();
        let rehash = |entry: &Entry<M>| self::hash(entry.values.iter());
        let new = || {
            let value = M::new(description, native.load(Ordering::Relaxed));
            Entry { values: LabelValues::new(values), value }
        };
        series.entry(hash, is_it, rehash).or_insert_with(new).get().value.clone()
    }

    /// Deletes the series with these label values, if there is one.
    pub fn remove_label_values<V: AsRef<str>>(&self, values: &[V]) {
        let hash = hash(values.iter().map(AsRef::as_ref));
        if let Ok(entry) = self.0.series.write().find_entry(hash, |entry| entry.values.matches(values)) {
            entry.remove();
        }
    }

    /// Deletes all series.
    pub fn reset(&self) {
        *self.0.series.write() = HashTable::new();
    }

    fn metrics(&self) -> Vec<(Metric, Option<Native>)> {
        let series: Vec<_> =
            self.0.series.read().iter().map(|entry| (entry.values.clone(), entry.value.clone())).collect();
        let metrics = series.iter().map(|(values, value)| {
            let mut metric = self.0.description.metric(&values.iter().collect::<Vec<_>>());
            let native = value.read(&mut metric);
            (metric, native)
        });
        metrics.collect()
    }
}

impl<M: Value> Collector for MetricVec<M> {
    fn desc(&self) -> Vec<&Desc> {
        vec![self.0.description.desc()]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let metrics = self.metrics().into_iter().map(|(metric, _)| metric).collect();
        vec![self.0.description.family(M::KIND, metrics)]
    }
}

impl<M: Value> Family for MetricVec<M> {
    fn reset(&self) {
        Self::reset(self);
    }

    fn become_native(&self) {
        // Series of a registry without native histograms would have no native buckets.
        if !self.0.native.swap(true, Ordering::Relaxed) {
            self.reset();
        }
    }

    fn gather_native(&self) -> Option<(MetricFamily, Vec<Native>)> {
        if !self.0.native.load(Ordering::Relaxed) {
            return None;
        }
        let metrics = self.metrics().into_iter().map(|(metric, native)| Some((metric, native?)));
        let mut metrics: Vec<_> = metrics.collect::<Option<_>>()?;
        metrics.sort_by(|(one, _), (other, _)| by_label_values(one, other));
        let (metrics, natives) = metrics.into_iter().unzip();
        Some((self.0.description.family(M::KIND, metrics), natives))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IntCounterVec, Registry, register_family, text};

    #[test]
    fn series_are_found_by_all_their_values() {
        let description = Description::new("a", "A.", &["z", "b"]).unwrap();
        let family = register_family(&Registry::new(), IntCounterVec::new(description)).unwrap();
        let values = [["", "xy"], ["x", "y"], ["xy", ""], ["x\u{ff}", "y"], ["x", "\u{ff}y"]];
        for (at, values) in values.iter().enumerate() {
            family.with_label_values(values).inc_by(at as u64);
        }
        for at in 0..1000 {
            family.with_label_values(&[&at.to_string(), ""]).inc();
        }
        for (at, values) in values.iter().enumerate() {
            assert_eq!(family.with_label_values(values).get(), at as u64);
        }
        assert_eq!(family.collect()[0].get_metric().len(), 1005);
        family.remove_label_values(&["x", "y"]);
        family.remove_label_values(&["x", "z"]);
        assert_eq!(family.collect()[0].get_metric().len(), 1004);
        assert_eq!(family.with_label_values(&["x", "y"]).get(), 0);
    }

    #[test]
    fn labels_and_series_are_sorted() {
        let registry = Registry::new();
        let description = Description::new("a", "A.", &["z", "b"]).unwrap();
        let family = register_family(&registry, IntCounterVec::new(description)).unwrap();
        for values in [["2", "1"], ["1", "2"], ["1", "1"]] {
            family.with_label_values(&values);
        }
        let text = text(&registry.gather());
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(lines, [r#"a{b="1",z="1"} 0"#, r#"a{b="1",z="2"} 0"#, r#"a{b="2",z="1"} 0"#]);
    }

    #[test]
    #[should_panic(expected = "one value for each label")]
    fn a_value_is_necessary_for_each_label() {
        IntCounterVec::new(Description::new("a", "A.", &["b"]).unwrap()).with_label_values::<&str>(&[]);
    }
}
