//! Reads of single objects.

use std::sync::Arc;

use binnacle_meta::{Status, StatusReason};
use binnacle_request::waiting;
use binnacle_schema::Value;
use binnacle_watchcache::Entry;

use crate::cache_waits::deadline;
use crate::context::Context;
use crate::list::Match;
use crate::resource::Resource;
use crate::stored::StoredObject;

impl Resource {
    /// Returns one object from the cache.
    pub async fn get(&self, context: &Context, name: &str, version: Match) -> Result<Arc<Entry>, Status> {
        // The store is read while an unreadable object or slow conversions prevent the initialization of the cache;
        // with `Match::Any` only if an unreadable object has done so for a long time. The cache keeps a converted
        // object until the next write, but the webhook may convert it differently now: like kube-apiserver, a
        // consistent read converts it again.
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
                // The cache has become unreadable in the meantime.
                Err(_) if cache.is_unreadable() => return self.get_stored(context, name, version).await,
                Err(error) => return Err(failed(error)),
            },
            Match::Any => {
                waiting(cache.ready(deadline())).await?.map_err(failed)?;
                cache.get(&path)
            }
            Match::NotOlderThan(revision) | Match::Reached(revision) | Match::Exact(revision) => {
                self.collection.not_older_than(revision).await?.get(&path).cloned()
            }
        };
        found.ok_or_else(|| Status::not_found(&self.group_resource(), name))
    }

    /// Returns an object that another object or a claim names; `None` if there is none, or if it is no name at all.
    pub async fn find(&self, context: &Context, name: &str, version: Match) -> Result<Option<Arc<Entry>>, Status> {
        if self.collection.check_namespace_and_name(&context.namespace, Some(name)).is_err() {
            return Ok(None);
        }
        match self.get(context, name, version).await {
            Ok(entry) => Ok(Some(entry)),
            Err(status) if status.is(StatusReason::NotFound) => Ok(None),
            Err(status) => Err(status),
        }
    }

    /// Like [`Resource::find`], and decodes the object, in the stored version.
    pub async fn find_object(&self, context: &Context, name: &str, version: Match) -> Result<Option<Value>, Status> {
        let found = self.find(context, name, version).await?;
        found.map(|entry| self.collection.decode_entry(&entry)).transpose()
    }

    /// Returns one object from the store, at the newest version.
    async fn get_stored(&self, context: &Context, name: &str, version: Match) -> Result<Arc<Entry>, Status> {
        let collection = &self.collection;
        let key = collection.key(&context.namespace, name)?;
        let unread = |error| collection.lookup_failure(error);
        let (found, current) = collection.store.get(key, None).await.map_err(unread)?;
        version.check_reached(current)?;
        let kv = found.ok_or_else(|| Status::not_found(&self.group_resource(), name))?;
        // The cache only decodes the parts for selectors.
        collection.open(&kv).and_then(|_| collection.cache.entry(&kv)).map_err(unread)
    }

    /// Returns one decoded object, in the stored version.
    pub async fn get_object(&self, context: &Context, name: &str, version: Match) -> Result<StoredObject, Status> {
        let entry = self.get(context, name, version).await?;
        let object = self.collection.decode_entry(&entry)?;
        Ok(StoredObject::new(object, entry.revision()))
    }
}
