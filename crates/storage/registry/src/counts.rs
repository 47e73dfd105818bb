//! Statistics of lists and leases, for metrics.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use binnacle_meta::Text;
use binnacle_watchcache::Distribution;
use parking_lot::Mutex;

/// kube-apiserver's buckets for the number of objects of a lease.
const LEASE_OBJECTS: [f64; 7] = [10.0, 50.0, 100.0, 500.0, 1000.0, 2500.0, 5000.0];

/// The statistics of one resource store.
#[derive(Debug)]
pub struct Counts {
    cached: Mutex<BTreeMap<Text, CachedLists>>,
    stored: [AtomicU64; 4],
    consistent: [AtomicU64; 2],
    undecodable: AtomicU64,
    /// The numbers of objects per lease.
    pub leases: Distribution,
}

/// Lists served by the cache with one index, or without an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CachedLists {
    pub lists: u64,
    /// The number of visited objects.
    pub fetched: u64,
    pub returned: u64,
}

/// Lists served by the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredLists {
    pub lists: u64,
    /// The number of objects read.
    pub fetched: u64,
    /// The number of objects for which selectors were evaluated.
    pub evaluated: u64,
    pub returned: u64,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            cached: Mutex::default(),
            stored: Default::default(),
            consistent: Default::default(),
            undecodable: AtomicU64::new(0),
            leases: Distribution::new(&LEASE_OBJECTS),
        }
    }
}

impl Counts {
    /// Counts a list served by the cache.
    pub(crate) fn add_cached(&self, index: &Text, fetched: usize, returned: usize) {
        let mut cached = self.cached.lock();
        let counted = match cached.get_mut(index) {
            Some(counted) => counted,
            None => cached.entry(index.clone()).or_default(),
        };
        counted.lists += 1;
        counted.fetched += fetched as u64;
        counted.returned += returned as u64;
    }

    /// Counts a list served by the store.
    pub(crate) fn add_stored(&self, fetched: usize, evaluated: usize, returned: usize) {
        for (counter, count) in self.stored.iter().zip([1, fetched, evaluated, returned]) {
            counter.fetch_add(count as u64, Ordering::Relaxed);
        }
    }

    /// Counts a consistent list from the cache.
    pub(crate) fn add_consistent(&self, served: bool) {
        self.consistent[usize::from(served)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a value that is not a valid object.
    pub(crate) fn add_undecodable(&self) {
        self.undecodable.fetch_add(1, Ordering::Relaxed);
    }

    pub fn undecodable(&self) -> u64 {
        self.undecodable.load(Ordering::Relaxed)
    }

    /// Returns the lists served by the cache, by index.
    pub fn cached(&self) -> Vec<(Text, CachedLists)> {
        self.cached.lock().iter().map(|(index, lists)| (index.clone(), *lists)).collect()
    }

    pub fn stored(&self) -> StoredLists {
        let [lists, fetched, evaluated, returned] = [0, 1, 2, 3].map(|at| self.stored[at].load(Ordering::Relaxed));
        StoredLists { lists, fetched, evaluated, returned }
    }

    /// Returns the numbers of failed and of successful consistent lists from the cache.
    pub fn consistent(&self) -> (u64, u64) {
        (self.consistent[0].load(Ordering::Relaxed), self.consistent[1].load(Ordering::Relaxed))
    }
}
