//! `/apis` with the groups of this server and of others.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use binnacle_discovery::{Discovery, merge_peers};
use binnacle_scheme::{Resources, Served, ServedVersion};

use crate::aggregator::Inner;
use crate::peers::Peers;

/// The discovery documents of one generation.
pub(crate) struct Merged {
    /// This server's own resources.
    own: Arc<Served>,
    /// The generations of other servers' resources: those of APIServices, and those of peers.
    generation: [u64; 2],
    discovery: Arc<Discovery>,
}

impl Inner {
    /// Returns the discovery documents of this server and others, which are kept until their resources change.
    pub(crate) fn discovery(&self) -> Arc<Discovery> {
        // Read first, so that a concurrent change is noticed the next time.
        let peers = self.peers.get();
        let generation = [self.generation.load(Ordering::Acquire), peers.map_or(0, Peers::generation)];
        let own = self.catalog.snapshot().served().clone();
        if let Some(known) = &*self.merged.load()
            && known.generation == generation
            && Arc::ptr_eq(&known.own, &own)
        {
            return known.discovery.clone();
        }
        let registry = self.registry.load_full();
        let mut served = own.clone();
        for (name, document) in self.documents.all() {
            let Some(registered) = registry.by_name.get(&name).filter(|registered| registered.remote.is_some()) else {
                continue;
            };
            let version = ServedVersion {
                version: registered.version.clone(),
                group_priority: registered.group_priority,
                version_priority: registered.version_priority,
                resources: Resources::Remote(document.resources),
                stale: document.is_stale,
            };
            Arc::make_mut(&mut served).insert(registered.group.clone(), version);
        }
        let listed = registry.listed(&own);
        let mut discovery = Discovery::new(served, self.addresses.clone()).listing(listed);
        if let Some(peers) = peers {
            let all = merge_peers(peers.name(), discovery.discovered(), &peers.groups());
            discovery = discovery.with_peers(all);
        }
        let discovery = Arc::new(discovery.counted(self.discovery_metrics.clone()));
        self.merged.store(Some(Arc::new(Merged { own, generation, discovery: discovery.clone() })));
        discovery
    }
}
