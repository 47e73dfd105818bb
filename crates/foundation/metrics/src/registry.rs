//! The families of one server, and how their series are forgotten.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::{Atomic, Collector, GenericCounter, GenericGauge, MetricVec, MetricVecBuilder};
use prometheus::proto::MetricFamily;

use crate::cached_series;
use crate::histogram::Native;
use crate::resettable::ResettableCollector;

/// A registry of families. Clones are the same registry.
#[derive(Clone, Default)]
pub struct Registry(Arc<Inner>);

#[derive(Default)]
struct Inner {
    families: prometheus::Registry,
    native: bool,
    registered: Mutex<Vec<Box<dyn ErasedFamily>>>,
}

/// A family of metrics.
pub trait Family: Collector + Clone + 'static {
    /// Forgets all series. Families without labels keep what they counted, and those that are read from elsewhere have
    /// nothing to forget.
    fn reset(&self) {}

    /// Counts in native buckets, too, if it is a family of histograms.
    fn become_native(&self) {}

    /// Returns the family with its native histograms, one for each metric, if it has any.
    fn gather_native(&self) -> Option<(MetricFamily, Vec<Native>)> {
        None
    }
}

/// Families as they were at one time, sorted by name.
#[derive(Clone, Debug, Default)]
pub struct MetricFamilies {
    pub families: Vec<MetricFamily>,
    /// The native histograms of families that have them, one for each metric in their order.
    pub natives: HashMap<String, Vec<Native>>,
}

/// Registers a family and returns it; clones share the metrics.
///
/// Fails if the registry already has a family with this name.
pub fn register_family<F: Family>(registry: &Registry, family: F) -> Result<F, prometheus::Error> {
    let Inner { families, native, registered } = &*registry.0;
    if *native {
        family.become_native();
    }
    families.register(Box::new(family.clone()))?;
    registered.lock().push(Box::new(family.clone()));
    Ok(family)
}

impl Registry {
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a registry whose histograms are native ones, too.
    pub fn with_native_histograms() -> Self {
        Self(Arc::new(Inner { native: true, ..Inner::default() }))
    }

    /// Registers what is read from elsewhere and has nothing to forget.
    pub fn register(&self, collector: impl Collector + 'static) -> Result<(), prometheus::Error> {
        self.0.families.register(Box::new(collector))
    }

    /// Registers what reads counts from elsewhere, of which a reset forgets those with labels.
    pub fn register_counting(&self, collector: impl Collector + 'static) -> Result<(), prometheus::Error> {
        register_family(self, ResettableCollector::new(collector)).map(drop)
    }

    /// Returns true if histograms are native ones, too.
    pub fn has_native_histograms(&self) -> bool {
        self.0.native
    }

    pub fn gather(&self) -> Vec<MetricFamily> {
        self.0.families.gather()
    }

    /// Returns the families with their native histograms.
    pub fn gather_all(&self) -> MetricFamilies {
        let mut gathered = MetricFamilies::from(self.gather());
        if self.0.native {
            let registered = self.0.registered.lock();
            let mut both: HashMap<String, _> = registered
                .iter()
                .filter_map(|family| family.gather_native())
                .map(|(family, natives)| (family.name().to_owned(), (family, natives)))
                .collect();
            drop(registered);
            for family in &mut gathered.families {
                if let Some((gathered_again, natives)) = both.remove(family.name()) {
                    gathered.natives.insert(family.name().to_owned(), natives);
                    *family = gathered_again;
                }
            }
        }
        gathered
    }

    /// Forgets the series of all families that have labels.
    pub fn reset(&self) {
        self.0.registered.lock().iter().for_each(|family| family.reset());
        cached_series::count_reset();
    }
}

impl From<Vec<MetricFamily>> for MetricFamilies {
    fn from(families: Vec<MetricFamily>) -> Self {
        Self { families, natives: HashMap::new() }
    }
}

/// A family, whatever it is.
trait ErasedFamily: Send + Sync {
    fn reset(&self);
    fn gather_native(&self) -> Option<(MetricFamily, Vec<Native>)>;
}

impl<F: Family> ErasedFamily for F {
    fn reset(&self) {
        Family::reset(self);
    }

    fn gather_native(&self) -> Option<(MetricFamily, Vec<Native>)> {
        Family::gather_native(self)
    }
}

impl<B: MetricVecBuilder + 'static> Family for MetricVec<B> {
    fn reset(&self) {
        MetricVec::reset(self);
    }
}

impl<P: Atomic + 'static> Family for GenericCounter<P> {}

impl<P: Atomic + 'static> Family for GenericGauge<P> {}
