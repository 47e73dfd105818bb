//! `/apis` with the groups of all servers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use binnacle_discovery::Discovery;
use binnacle_scheme::{Resources, Served, ServedVersion};

use crate::aggregator::Inner;

/// The documents of one state of things.
pub(crate) struct Merged {
    /// What this server serves itself.
    own: Arc<Served>,
    generation: u64,
    discovery: Arc<Discovery>,
}

impl Inner {
    /// The documents of what is served here and elsewhere, which are kept until that changes.
    pub(crate) fn discovery(&self) -> Arc<Discovery> {
        // Read first: what changes meanwhile is looked at the next time.
        let generation = self.generation.load(Ordering::Acquire);
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
        let discovery = Arc::new(Discovery::new(served, self.addresses.clone()).listing(listed));
        self.merged.store(Some(Arc::new(Merged { own, generation, discovery: discovery.clone() })));
        discovery
    }
}
