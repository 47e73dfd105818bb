//! `/apis` with the groups of this server and of remote servers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use binnacle_discovery::{Discovery, merge_peers};
use binnacle_scheme::{Resources, Served, ServedVersion};

use crate::aggregator::Inner;
use crate::aggregator::peers::Peers;

/// The discovery documents of one generation.
pub(crate) struct MergedDiscovery {
    /// This server's own resources.
    own: Arc<Served>,
    /// The generations of remote resources: of those of APIServices, and of those of peers.
    generation: [u64; 2],
    discovery: Arc<Discovery>,
}

impl Inner {
    /// Returns the generations of remote resources, and this server's own resources.
    fn sources(&self) -> ([u64; 2], Arc<Served>) {
        let generation = [self.generation.load(Ordering::Acquire), self.peers.get().map_or(0, Peers::generation)];
        (generation, self.catalog.snapshot().served().clone())
    }

    /// Returns the discovery documents if they are up to date.
    pub(crate) fn cached_discovery(&self) -> Option<Arc<Discovery>> {
        let (generation, own) = self.sources();
        let cached = self.merged.load();
        let cached = cached.as_ref().filter(|cached| cached.generation == generation && Arc::ptr_eq(&cached.own, &own));
        cached.map(|cached| cached.discovery.clone())
    }

    /// Returns the discovery documents of this server and of remote servers, which are cached until their resources
    /// change.
    pub(crate) fn discovery(&self) -> Arc<Discovery> {
        if let Some(cached) = self.cached_discovery() {
            return cached;
        }
        // Read first, so that the next call notices a concurrent change.
        let (generation, own) = self.sources();
        let peers = self.peers.get();
        let registry = self.registry.load_full();
        let mut served = own.clone();
        for (name, document) in self.documents.all() {
            let Some(entry) = registry.by_name.get(&name).filter(|entry| entry.remote.is_some()) else {
                continue;
            };
            let version = ServedVersion {
                version: entry.version.clone(),
                group_priority: entry.group_priority,
                version_priority: entry.version_priority,
                resources: Resources::Remote(document.resources),
                stale: document.is_stale,
            };
            Arc::make_mut(&mut served).insert(entry.group.clone(), version);
        }
        let groups = registry.listed_groups(&own);
        let mut discovery = Discovery::new(served, self.addresses.clone()).listing(groups);
        if let Some(peers) = peers {
            let all = merge_peers(peers.name(), discovery.discovered(), &peers.groups());
            discovery = discovery.with_peers(all);
        }
        let discovery = Arc::new(discovery.counted(self.discovery_metrics.clone()));
        self.merged.store(Some(Arc::new(MergedDiscovery { own, generation, discovery: discovery.clone() })));
        discovery
    }
}
