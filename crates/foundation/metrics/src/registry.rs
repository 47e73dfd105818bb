//! The metric families of one server, and their reset.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::RwLock;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use crate::cached_series;
use crate::family::{Family, MetricFamilies, by_label_values};
use crate::native::Native;
use crate::resettable::ResettableCollector;

/// A registry of families. Clones share it.
#[derive(Clone, Default)]
pub struct Registry(Arc<Inner>);

#[derive(Default)]
struct Inner {
    native: bool,
    registered: RwLock<Registrations>,
}

#[derive(Default)]
struct Registrations {
    families: Vec<Box<dyn AnyFamily>>,
    /// The identifiers of the families' names.
    names: HashSet<u64>,
}

/// Registers a family and returns it; clones share the metrics.
///
/// Fails if the registry already has a family with this name.
pub fn register_family<F: Family>(registry: &Registry, family: F) -> Result<F, prometheus::Error> {
    if registry.0.native {
        family.become_native();
    }
    registry.add(Box::new(family.clone()))?;
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
        self.add(Box::new(ComputedCollector(collector)))
    }

    /// Registers a collector that reads counters from another source. A reset affects those with labels.
    pub fn register_counting(&self, collector: impl Collector + 'static) -> Result<(), prometheus::Error> {
        register_family(self, ResettableCollector::new(collector)).map(drop)
    }

    /// Returns true if the registry has native histograms.
    pub fn has_native_histograms(&self) -> bool {
        self.0.native
    }

    fn add(&self, family: Box<dyn AnyFamily>) -> Result<(), prometheus::Error> {
        let mut registered = self.0.registered.write();
        let names: HashSet<u64> = family.desc().iter().map(|desc| desc.id).collect();
        if !registered.names.is_disjoint(&names) {
            return Err(prometheus::Error::AlreadyReg);
        }
        registered.names.extend(names);
        registered.families.push(family);
        Ok(())
    }

    /// Returns the families that have metrics, sorted by name; the metrics are sorted by the values of their labels.
    pub fn gather(&self) -> Vec<MetricFamily> {
        self.gather_all().families
    }

    /// Returns the families with their native histograms.
    pub fn gather_all(&self) -> MetricFamilies {
        let mut natives = HashMap::new();
        let mut families = BTreeMap::new();
        for family in &self.0.registered.read().families {
            if let Some((family, of_metrics)) = self.0.native.then(|| family.gather_native()).flatten() {
                natives.insert(family.name().to_owned(), of_metrics);
                families.insert(family.name().to_owned(), family);
            } else {
                for mut family in family.collect() {
                    family.mut_metric().sort_by(by_label_values);
                    families.insert(family.name().to_owned(), family);
                }
            }
        }
        families.retain(|_, family| !family.get_metric().is_empty());
        natives.retain(|name, _| families.contains_key(name));
        MetricFamilies { families: families.into_values().collect(), natives }
    }

    /// Deletes the series of all families that have labels.
    pub fn reset(&self) {
        self.0.registered.read().families.iter().for_each(|family| family.reset());
        cached_series::count_reset();
    }
}

/// A family of any type.
trait AnyFamily: Send + Sync {
    fn desc(&self) -> Vec<&Desc>;
    fn collect(&self) -> Vec<MetricFamily>;
    fn reset(&self);
    fn gather_native(&self) -> Option<(MetricFamily, Vec<Native>)>;
}

impl<F: Family> AnyFamily for F {
    fn desc(&self) -> Vec<&Desc> {
        Collector::desc(self)
    }

    fn collect(&self) -> Vec<MetricFamily> {
        Collector::collect(self)
    }

    fn reset(&self) {
        Family::reset(self);
    }

    fn gather_native(&self) -> Option<(MetricFamily, Vec<Native>)> {
        Family::gather_native(self)
    }
}

/// A collector whose values are computed.
struct ComputedCollector<C>(C);

impl<C: Collector> AnyFamily for ComputedCollector<C> {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.0.collect()
    }

    fn reset(&self) {}

    fn gather_native(&self) -> Option<(MetricFamily, Vec<Native>)> {
        None
    }
}
