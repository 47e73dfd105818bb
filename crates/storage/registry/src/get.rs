//! Get.

use std::sync::Arc;

use binnacle_meta::Status;
use binnacle_request::waiting;
use binnacle_watchcache::Entry;

use crate::cache_waits::deadline;
use crate::context::Context;
use crate::list::Match;
use crate::resource::Resource;
use crate::stored::StoredObject;

impl Resource {
    /// Returns one object from the cache.
    pub async fn get(&self, context: &Context, name: &str, version: Match) -> Result<Arc<Entry>, Status> {
        // The store is read while an unreadable object or slow conversions keep the cache from being filled; with
        // `Match::Any` only if an unreadable object has done so for long. The cache keeps conversions until the object is
        // written, and a webhook may convert it otherwise by now: like kube-apiserver, a consistent read asks again.
        let from_store = !self.collection.cached
            || version == Match::Consistent && self.collection.has_conversion_webhook()
            || version != Match::Any && self.collection.waits_for_conversions()
            || self.collection.is_unreadable().await?
                && (version != Match::Any || self.collection.cache.is_unavailable());
        if from_store {
            return self.get_stored(context, name, version).await;
        }
        self.collection.check_namespace_and_name(&context.namespace, Some(name))?;
        let cache = &self.collection.cache;
        let failed = |error| self.collection.cache_failure(error);
        let path = self.collection.path(&context.namespace, name);
        let found = match version {
            Match::Consistent => match waiting(cache.get_consistent(&path, deadline())).await? {
                Ok((found, _)) => found,
                // The cache has become unreadable meanwhile.
                Err(_) if cache.is_unreadable() => return self.get_stored(context, name, version).await,
                Err(error) => return Err(failed(error)),
            },
            Match::Any => {
                waiting(cache.ready(deadline())).await?.map_err(failed)?;
                cache.get(&path)
            }
            Match::NotOlderThan(revision) | Match::Exact(revision) => {
                self.collection.not_older_than(revision).await?.get(&path).cloned()
            }
        };
        found.ok_or_else(|| Status::not_found(&self.group_resource(), name))
    }

    /// Returns one object from the store, at the newest version.
    async fn get_stored(&self, context: &Context, name: &str, version: Match) -> Result<Arc<Entry>, Status> {
        let collection = &self.collection;
        let key = collection.key(&context.namespace, name)?;
        let unread = |error| collection.lookup_failure(error);
        let (found, current) = collection.store.get(key, None).await.map_err(unread)?;
        version.check_reached(current)?;
        let kv = found.ok_or_else(|| Status::not_found(&self.group_resource(), name))?;
        // The cache decodes only the parts for selectors.
        collection.open(&kv).and_then(|_| collection.cache.entry(&kv)).map_err(unread)
    }

    /// Returns one object, decoded, in the stored version.
    pub async fn get_object(&self, context: &Context, name: &str, version: Match) -> Result<StoredObject, Status> {
        let entry = self.get(context, name, version).await?;
        let object = self.collection.decode_entry(&entry)?;
        Ok(StoredObject::new(object, entry.revision()))
    }
}
