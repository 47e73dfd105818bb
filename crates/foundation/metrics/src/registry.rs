//! The metric families of one server, and their reset.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::{Atomic, Collector, GenericCounter, GenericGauge, MetricVec, MetricVecBuilder};
use prometheus::proto::MetricFamily;

use crate::cached_series;
use crate::family::{Family, MetricFamilies};
use crate::native::Native;
use crate::resettable::ResettableCollector;

/// A registry of families. Clones share it.
#[derive(Clone, Default)]
pub struct Registry(Arc<Inner>);

#[derive(Default)]
struct Inner {
    families: prometheus::Registry,
    native: bool,
    registered: Mutex<Vec<Box<dyn ErasedFamily>>>,
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

    /// Returns a registry with native histograms.
    pub fn with_native_histograms() -> Self {
        Self(Arc::new(Inner { native: true, ..Inner::default() }))
    }

    /// Registers a collector whose values are computed; a reset does not affect it.
    pub fn register(&self, collector: impl Collector + 'static) -> Result<(), prometheus::Error> {
        self.0.families.register(Box::new(collector))
    }

    /// Registers a collector that reads counters from another source. A reset affects those with labels.
    pub fn register_counting(&self, collector: impl Collector + 'static) -> Result<(), prometheus::Error> {
        register_family(self, ResettableCollector::new(collector)).map(drop)
    }

    /// Returns true if the registry has native histograms.
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

    /// Deletes the series of all families that have labels.
    pub fn reset(&self) {
        self.0.registered.lock().iter().for_each(|family| family.reset());
        cached_series::count_reset();
    }
}

/// Wraps any collector as a family.
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
