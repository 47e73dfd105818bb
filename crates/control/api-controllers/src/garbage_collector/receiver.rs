//! The changes of all resources, as the graph of the garbage collector receives them.

use std::sync::{Arc, Weak};

use binnacle_registry::Resource;
use binnacle_watchcache::Entry;

use super::GarbageCollector;
use super::graph::ObjectKey;
use super::meta::MetaReader;
use crate::changes::Receiver;
use crate::monitors::Receivers;

/// Passes the changes of one resource to the graph.
struct GraphReceiver {
    collector: Weak<GarbageCollector>,
    resource: Arc<Resource>,
    reader: Arc<MetaReader>,
}

impl Receivers for Arc<GarbageCollector> {
    fn receiver(&self, resource: &Arc<Resource>) -> Option<Arc<dyn Receiver>> {
        // Events have no owners, and are many.
        if resource.description.plural == "events" {
            return None;
        }
        let reader = Arc::new(MetaReader::new(&resource.collection));
        self.readers.lock().insert(resource.collection.prefix.clone(), reader.clone());
        Some(Arc::new(GraphReceiver { collector: Arc::downgrade(self), resource: resource.clone(), reader }))
    }

    fn ended(&self, resource: &Resource) {
        self.readers.lock().remove(&resource.collection.prefix);
        self.retain(resource, &|_| false);
    }
}

impl Receiver for GraphReceiver {
    fn changed(&self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let Some(collector) = self.collector.upgrade() else { return };
        let collection = &self.resource.collection;
        let Some(entry) = new else {
            if let Some(meta) = old.and_then(|entry| self.reader.read(collection, entry)) {
                collector.removed(&meta.uid);
            }
            return;
        };
        let Some(meta) = self.reader.read(collection, entry) else { return };
        let (namespace, name) = (entry.namespace().into(), entry.name().into());
        collector.put(ObjectKey { resource: self.resource.clone(), namespace, name }, meta);
    }

    fn listed(&self, exists: &dyn Fn(&str) -> bool) {
        if let Some(collector) = self.collector.upgrade() {
            collector.retain(&self.resource, exists);
        }
    }
}
