//! All built-in resources over one store: what is described, bound to its schemas, rules, hooks and cache.

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_kinds::tables;
use binnacle_meta::{GroupResource, GroupVersionKind, Text};
use binnacle_resources::{ResourceDescription, Storage, all};
use binnacle_watchcache::{Backlog, Cache, FormBudget, WindowLimits};
use bytes::Bytes;

use crate::admission::Admission;
use crate::counts::Counts;
use crate::hooks::{Hooks, NoHooks};
use crate::index::ResourceIndexer;
use crate::request_store::RequestStore;
use crate::resource::{Collection, Conversion, Resource, Written};
use crate::storage::StorageOptions;

/// What all built-in resources share.
pub struct BuiltIn {
    pub storage: StorageOptions,
    pub admission: Arc<dyn Admission>,
    /// By group and kind of the stored version.
    pub hooks: HashMap<(&'static str, &'static str), Arc<dyn Hooks>>,
    /// How many bytes of wire forms are kept.
    pub form_budget: usize,
}

impl BuiltIn {
    /// Binds every stored resource of the versions that `served` picks. Nothing is read from the store yet.
    pub fn open(&self, served: impl Fn(&ResourceDescription) -> bool) -> Vec<Arc<Resource>> {
        let budget = FormBudget::new(self.form_budget);
        let backlog = Backlog::with_default_limit();
        let mut collections: HashMap<&'static str, (Arc<Collection>, usize)> = HashMap::new();
        let mut resources = Vec::new();
        for description in all().filter(|d| served(d)) {
            let Some(storage) = &description.storage else { continue };
            let Some(message) = tables::kind(description.group, description.version, description.kind) else {
                continue;
            };
            let Some(stored_message) = tables::kind(storage.group, storage.version, storage.kind) else { continue };
            let (collection, versions) = collections.entry(storage.key_prefix).or_insert_with(|| {
                let collection = self.collection(description, storage, stored_message, &budget, &backlog);
                (Arc::new(collection), 0)
            });
            let same = (storage.group, storage.version, storage.kind)
                == (description.group, description.version, description.kind);
            let conversion =
                if same { None } else { conversion(description.group, description.version, description.kind) };
            // A version that cannot be converted is not served rather than served wrongly.
            if !same && conversion.is_none() {
                tracing::warn!(
                    group = description.group,
                    version = description.version,
                    resource = description.plural,
                    "no conversion to the stored version: not served"
                );
                continue;
            }
            resources.push(Arc::new(Resource::new(description, message, collection.clone(), conversion, *versions)));
            *versions += 1;
        }
        resources
    }

    fn collection(
        &self,
        description: &'static ResourceDescription,
        storage: &Storage,
        message: &'static binnacle_schema::Message,
        budget: &Arc<FormBudget>,
        backlog: &Arc<Backlog>,
    ) -> Collection {
        let prefix = format!("{}{}/", self.storage.root, storage.key_prefix);
        let resource = GroupResource::new(storage.group, description.plural);
        let store = self.storage.store_of(&resource);
        let api_version = GroupVersionKind::new(storage.group, storage.version, storage.kind).api_version();
        let indexer = Arc::new(ResourceIndexer::new(*storage, &api_version, message, description));
        let hooks = self.hooks.get(&(storage.group, storage.kind)).cloned().unwrap_or_else(|| Arc::new(NoHooks));
        let counts = Arc::new(Counts::default());
        Collection {
            storage: *storage,
            message,
            namespaced: description.namespaced,
            description,
            strategy: binnacle_kinds::strategy(storage.group, storage.kind),
            hooks,
            admission: self.admission.clone(),
            ttl: storage.expires.then(|| Arc::new(self.storage.leases(store.clone(), counts.clone()))),
            counts,
            store: RequestStore::new(store.clone()),
            cached: !self.storage.uncached.has(&resource),
            media_type: self.storage.media_type,
            delete_workers: self.storage.delete_workers,
            unsafe_deletion: self.storage.unsafe_deletion,
            root: Text::from(self.storage.root.as_str()),
            cache: Arc::new(Cache::with_backlog(store, &prefix, indexer, WindowLimits::default(), backlog.clone())),
            budget: budget.clone(),
            prefix: Bytes::from(prefix),
            api_version,
            written: self.written(description, storage),
        }
    }

    /// `None` where objects are written as they are handled.
    fn written(&self, description: &ResourceDescription, storage: &Storage) -> Option<Written> {
        let [emulated, compatible] = self.storage.releases;
        let version =
            description.written_version(emulated, compatible).filter(|version| *version != storage.version)?;
        let message = tables::kind(storage.group, version, storage.kind);
        let (Some(message), Some(conversion)) = (message, conversion(storage.group, version, storage.kind)) else {
            tracing::error!(
                group = storage.group,
                version,
                kind = storage.kind,
                "no conversion to the written version"
            );
            return None;
        };
        let api_version = GroupVersionKind::new(storage.group, version, storage.kind).api_version();
        Some(Written { version, api_version, message, convert: conversion.from_stored })
    }
}

/// How objects of a version get to the stored version of their kind and back.
pub fn conversion(group: &str, version: &str, kind: &str) -> Option<Conversion> {
    binnacle_kinds::conversion(group, version, kind)
        .map(|(to_stored, from_stored)| Conversion { to_stored, from_stored })
}
