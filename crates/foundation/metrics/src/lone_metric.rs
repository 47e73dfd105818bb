//! Families without labels, which have a single value.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use crate::description::Description;
use crate::family::Family;
use crate::native::Native;
use crate::value::Value;

/// A family without labels, which is a single value. A reset does not affect it. Clones share the value.
#[derive(Debug)]
pub struct LoneMetric<M>(Arc<Inner<M>>);

#[derive(Debug)]
struct Inner<M> {
    description: Arc<Description>,
    /// True if the value becomes one with native buckets.
    native: AtomicBool,
    /// Created on first use or at the first scrape.
    value: OnceLock<M>,
}

impl<M> Clone for LoneMetric<M> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<M: Value> LoneMetric<M> {
    pub fn new(description: Arc<Description>) -> Self {
        Self(Arc::new(Inner { description, native: AtomicBool::new(false), value: OnceLock::new() }))
    }

    fn gather(&self) -> (MetricFamily, Option<Native>) {
        let mut metric = self.0.description.metric(&[]);
        let native = self.read(&mut metric);
        (self.0.description.family(M::KIND, vec![metric]), native)
    }
}

impl<M: Value> Deref for LoneMetric<M> {
    type Target = M;

    fn deref(&self) -> &M {
        let Inner { description, native, value } = &*self.0;
        value.get_or_init(|| M::new(description, native.load(Ordering::Relaxed)))
    }
}

impl<M: Value> Collector for LoneMetric<M> {
    fn desc(&self) -> Vec<&Desc> {
        vec![self.0.description.desc()]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        vec![self.gather().0]
    }
}

impl<M: Value> Family for LoneMetric<M> {
    /// Has no effect on a value that already counts for another server of the process.
    fn become_native(&self) {
        self.0.native.store(true, Ordering::Relaxed);
    }

    fn gather_native(&self) -> Option<(MetricFamily, Vec<Native>)> {
        let (family, native) = self.gather();
        native.map(|native| (family, vec![native]))
    }
}
