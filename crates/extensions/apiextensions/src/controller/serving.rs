//! The custom resources that definitions add to the catalog.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use crate::{Definition, SchemaOrigin, Schemas, StructuralRules, Version, types};
use binnacle_meta::{GroupResource, Status, Text};
use binnacle_registry::hooks::Hooks;
use binnacle_registry::{Catalog, Context, Installer, Resource, object};
use binnacle_request::BoxFuture;
use binnacle_schema::{Value, json};
use binnacle_scheme::{Kinds, Shared};
use binnacle_webhook::ServiceResolver;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::conversion::{ConversionMetrics, ConversionWebhook};
use super::publishing::{Change, ChangeCounts, publish, publish_groups};
use crate::definition_types::DefinitionTypes;
use crate::registrar::VersionRegistrar;
use crate::schemas::Fingerprint;

/// The rules whose violations are written to conditions of definitions.
#[derive(Clone, Copy)]
pub struct DefinitionRules {
    /// Finds the errors of a non-structural schema.
    pub structure: StructuralRules,
    /// Returns true for a base64 CA bundle that is not valid for conversion webhooks.
    pub invalid_bundle: fn(&str) -> bool,
}

/// The custom resources of all served definitions.
pub struct CustomResources {
    pub(super) rules: DefinitionRules,
    catalog: Catalog,
    installer: Arc<Installer>,
    /// The built-in kinds.
    kinds: Shared<dyn Kinds>,
    schemas: Schemas,
    /// Resolves the services of conversion webhooks.
    resolver: Arc<dyn ServiceResolver>,
    metrics: ConversionMetrics,
    served: Mutex<ServedGroups>,
}

/// By group, then by name of the definition.
type ServedGroups = BTreeMap<Text, BTreeMap<Text, ServedDefinition>>;

struct ServedDefinition {
    /// The hash of everything from which the resources are built, except for the schemas.
    fingerprint: Fingerprint,
    /// The origin of the schemas.
    origin: Arc<SchemaOrigin>,
    terminating: Arc<AtomicBool>,
    resources: Vec<Arc<Resource>>,
    /// Kept for other clusters with the same definition.
    _types: Arc<DefinitionTypes>,
}

/// Definitions whose resources exist, but are not in the catalog yet.
#[derive(Default)]
pub(super) struct PendingDefinitions {
    /// The names of the definitions.
    names: BTreeSet<Text>,
    /// By group.
    groups: BTreeMap<Text, Swap>,
}

/// The resources before and after a change.
#[derive(Default)]
struct Swap {
    before: Vec<Arc<Resource>>,
    after: Vec<Arc<Resource>>,
}

impl fmt::Debug for CustomResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomResources").field("groups", &self.served.lock().len()).finish_non_exhaustive()
    }
}

impl CustomResources {
    pub fn new(
        catalog: Catalog,
        installer: Arc<Installer>,
        kinds: Shared<dyn Kinds>,
        resolver: Arc<dyn ServiceResolver>,
        metrics: ConversionMetrics,
        rules: DefinitionRules,
        schemas: Schemas,
    ) -> Self {
        Self { catalog, installer, kinds, rules, schemas, resolver, metrics, served: Mutex::default() }
    }

    /// Serves a new or changed definition. While it is terminating, no objects can be created; watches continue, and
    /// report the deletions.
    pub(super) fn serve(
        &self,
        definition: &Definition,
        terminating: bool,
        registrar: &dyn VersionRegistrar,
    ) -> ChangeCounts {
        let group = &definition.group;
        let mut served = self.served.lock();
        let Some(Swap { before, after }) = self.change(&mut served, definition, terminating) else {
            return ChangeCounts::default();
        };
        self.publish(group, &Change { before: &before, after: &after, terminating }, registrar)
    }

    /// As [`CustomResources::serve`], but the catalog does not change before [`CustomResources::publish_pending`]: one
    /// change for many definitions costs less.
    pub(super) fn serve_later(
        &self,
        definition: &Definition,
        pending: &mut PendingDefinitions,
        registrar: &dyn VersionRegistrar,
    ) {
        if pending.names.contains(&definition.name) {
            self.publish_pending(pending, registrar);
        }
        let Some(swap) = self.change(&mut self.served.lock(), definition, false) else { return };
        pending.names.insert(definition.name.clone());
        let group = pending.groups.entry(definition.group.clone()).or_default();
        group.before.extend(swap.before);
        group.after.extend(swap.after);
    }

    /// Adds the resources of pending definitions to the catalog.
    pub(super) fn publish_pending(&self, pending: &mut PendingDefinitions, registrar: &dyn VersionRegistrar) {
        let PendingDefinitions { groups, .. } = std::mem::take(pending);
        if groups.is_empty() {
            return;
        }
        let changes: Vec<(&Text, Change<'_>)> = groups
            .iter()
            .map(|(group, Swap { before, after })| (group, Change { before, after, terminating: false }))
            .collect();
        publish_groups(&self.catalog, registrar, changes.iter().map(|(group, change)| (*group, change)));
        changes.iter().for_each(|(_, change)| retire_replaced(change));
    }

    /// Replaces the origin of the schemas of a served definition by another one with the same schemas.
    pub(super) fn renew(&self, group: &str, name: &str, origin: &SchemaOrigin) {
        if let Some(known) = self.served.lock().get(group).and_then(|by_name| by_name.get(name)) {
            known.origin.renew(origin);
        }
    }

    /// Builds the resources of a new or changed definition; returns the resources before and after the change, or
    /// `None` if nothing changes.
    fn change(&self, served: &mut ServedGroups, definition: &Definition, terminating: bool) -> Option<Swap> {
        let fingerprint = fingerprint(definition);
        let by_name = served.entry(definition.group.clone()).or_default();
        if let Some(known) = by_name.get(&definition.name)
            && known.fingerprint == fingerprint
            && has_schemas_of(definition, &known.origin)
        {
            // Releases the previous value of the definition.
            known.origin.renew(&definition.origin);
            let is_same = known.terminating.swap(terminating, Ordering::Relaxed) == terminating;
            return (!is_same).then(|| Swap { before: known.resources.clone(), after: known.resources.clone() });
        }
        let converter = ConversionWebhook::of(definition, &self.resolver, &self.metrics);
        let build = || types(definition, &self.schemas, &self.kinds, converter.as_ref());
        // A conversion webhook is called through a client of this cluster.
        let types = match &converter {
            Some(_) => Arc::new(build()),
            None => self.schemas.types_of(definition, fingerprint, build),
        };
        let mut valid = Vec::new();
        for built in types.iter() {
            match built {
                Ok(kind) => valid.push(kind),
                Err((version, why)) => {
                    tracing::error!(definition = %definition.name, %version, why, "failed to build OpenAPI schema of CustomResourceDefinition");
                }
            }
        }
        let flag = Arc::new(AtomicBool::new(terminating));
        let resource = GroupResource::new(definition.group.clone(), definition.accepted.plural.clone());
        let hooks_of_definition =
            Arc::new(DefinitionHooks { resource, terminating: flag.clone(), converted: OnceLock::new() });
        let hooks: Arc<dyn Hooks> = hooks_of_definition.clone();
        let resources = self.installer.install_with(valid, &hooks);
        if converter.is_some() {
            let converted = ConvertedVersions {
                versions: resources.iter().map(Arc::downgrade).collect(),
                is_filled: AtomicBool::new(false),
            };
            hooks_of_definition.converted.get_or_init(|| converted);
        }
        let origin = definition.origin.clone();
        let served_definition =
            ServedDefinition { fingerprint, origin, terminating: flag, resources: resources.clone(), _types: types };
        let before = by_name.insert(definition.name.clone(), served_definition).map(|before| before.resources);
        Some(Swap { before: before.unwrap_or_default(), after: resources })
    }

    /// Removes a definition's resources from the catalog.
    pub(super) fn stop(&self, group: &Text, name: &str, registrar: &dyn VersionRegistrar) -> ChangeCounts {
        let mut served = self.served.lock();
        let Some(by_name) = served.get_mut(group) else { return ChangeCounts::default() };
        let Some(removed) = by_name.remove(name) else { return ChangeCounts::default() };
        if by_name.is_empty() {
            served.remove(group);
        }
        self.publish(group, &Change { before: &removed.resources, ..Change::default() }, registrar)
    }

    /// Returns the resource of the storage version, or of any served version.
    pub(super) fn storage_resource(&self, definition: &Definition) -> Option<Arc<Resource>> {
        let served = self.served.lock();
        let resources = &served.get(&definition.group)?.get(&definition.name)?.resources;
        let stored = definition.storage_version().map(|version| &version.name);
        let found = resources.iter().find(|resource| Some(&resource.description.version) == stored);
        found.or(resources.first()).cloned()
    }

    /// Updates the catalog for a changed definition.
    fn publish(&self, group: &Text, change: &Change<'_>, registrar: &dyn VersionRegistrar) -> ChangeCounts {
        let counts = publish(&self.catalog, registrar, group, change);
        retire_replaced(change);
        counts
    }

    #[cfg(test)]
    pub(super) fn resources_of(&self, definition: &Definition) -> Vec<Arc<Resource>> {
        let served = self.served.lock();
        let found = served.get(&definition.group).and_then(|by_name| by_name.get(&definition.name));
        found.map(|served_definition| served_definition.resources.clone()).unwrap_or_default()
    }
}

/// Ends the caches of resources that are not served any more: watchers reconnect, and get the new resource.
fn retire_replaced(change: &Change<'_>) {
    let replaced = change.before.iter().filter(|old| !change.after.iter().any(|new| Arc::ptr_eq(old, new)));
    replaced.for_each(|resource| resource.collection.cache.retire());
}

/// Returns true if the schemas of a definition equal those of `origin`, version by version.
fn has_schemas_of(definition: &Definition, origin: &Arc<SchemaOrigin>) -> bool {
    let versions = definition.versions.iter().enumerate().filter(|(_, version)| version.schema.is_some());
    Arc::ptr_eq(&definition.origin, origin)
        || versions.into_iter().all(|(n, _)| definition.origin.schema(n) == origin.schema(n))
}

/// Returns the hash of the parts of a definition from which its resources are built, without the schemas.
fn fingerprint(definition: &Definition) -> Fingerprint {
    let Definition { uid, accepted, versions, namespaced, preserve_unknown, webhook, .. } = definition;
    let mut hash = Sha256::new();
    let mut add = |text: String| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    };
    add(format!("{uid} {accepted:?} {namespaced} {preserve_unknown}"));
    add(webhook.as_ref().map(json::to_string).unwrap_or_default());
    for version in versions {
        let Version { name, served, storage, status, deprecation, scale, selectable, columns, schema } = version;
        add(format!("{name} {served} {storage} {status} {deprecation:?} {scale:?} {selectable:?} {}", columns.len()));
        columns.iter().for_each(|column| add(json::to_string(column)));
        add(format!("{}", schema.is_some()));
    }
    hash.finalize().into()
}

/// Hooks that refuse new objects while a definition is terminating. If a webhook converts objects, the first creation
/// waits for the caches of all versions.
struct DefinitionHooks {
    resource: GroupResource,
    terminating: Arc<AtomicBool>,
    converted: OnceLock<ConvertedVersions>,
}

/// The versions between which a webhook converts.
struct ConvertedVersions {
    versions: Vec<Weak<Resource>>,
    is_filled: AtomicBool,
}

/// The timeout for filling an empty cache, which is normally instantaneous.
const FILL_TIMEOUT: Duration = Duration::from_secs(1);

impl ConvertedVersions {
    /// Fills the caches of all versions while there are no objects to convert yet, as kube-apiserver does at the first
    /// request for a definition. A webhook that fails temporarily later then ends no watch.
    async fn fill_caches(&self) {
        for version in self.versions.iter().filter_map(Weak::upgrade) {
            let filled = version.collection.cache.ready(Instant::now() + FILL_TIMEOUT).await;
            if let Err(error) = filled {
                tracing::debug!(version = %version.description.version, %error, "a cache is not filled yet");
            }
        }
    }
}

impl Hooks for DefinitionHooks {
    fn begin_create<'a>(&'a self, _: &'a Context, object: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        if self.terminating.load(Ordering::Relaxed) {
            let why = "create not allowed while custom resource definition is terminating";
            let status = Status::forbidden(&self.resource, object::name(object), why);
            return Box::pin(async { Err(status) });
        }
        let first = self.converted.get().filter(|converted| !converted.is_filled.swap(true, Ordering::Relaxed));
        Box::pin(async move {
            if let Some(converted) = first {
                converted.fill_caches().await;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;

    use binnacle_schema::value;
    use binnacle_scheme::Verb;

    use super::super::testing::{custom_resources, custom_resources_with, definition, schemas, stored_definition};
    use super::*;
    use crate::registrar::NoRegistrar;

    #[test]
    fn lists_status_before_scale() {
        let (catalog, custom) = custom_resources();
        let names = || value!({"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"});
        let object = value!({
            "metadata": {"name": "as.a.test", "uid": "u"}, "status": {"acceptedNames": (names())},
            "spec": {"group": "a.test", "scope": "Namespaced", "names": (names()), "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {
                    "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}, "status": {},
                },
            }]},
        });
        custom.serve(&Definition::read(&object), false, &NoRegistrar);
        let resource = catalog.find("a.test", "v1", "as").unwrap();
        let names: Vec<&str> = resource.description.subresources.iter().map(|sub| sub.name.as_str()).collect();
        assert_eq!(names, ["status", "scale"]);
    }

    /// Returns the resource of the 0th definition, served by a cluster of its own.
    fn resource_of(definition: &Definition, schemas: &Schemas) -> (CustomResources, Arc<Resource>) {
        let (catalog, custom) = custom_resources_with(schemas.clone());
        custom.serve(definition, false, &NoRegistrar);
        let resource = catalog.find("a.test", "v1", "widgets0").unwrap();
        (custom, resource)
    }

    #[test]
    fn clusters_share_types_of_one_stored_definition() {
        let schemas = schemas();
        let (of_one, one) = resource_of(&stored_definition(0, 1, 7), &schemas);
        let (_other, other) = resource_of(&stored_definition(0, 1, 7), &schemas);
        assert!(Arc::ptr_eq(&one.collection.kind, &other.collection.kind));
        assert!(!Arc::ptr_eq(&one.collection, &other.collection));
        // After a change, or with other names, they have types of their own.
        let mut renamed = stored_definition(0, 1, 7);
        renamed.accepted.kind = "Gadget".into();
        for definition in [stored_definition(0, 2, 8), renamed, definition(0, 1)] {
            let (_custom, changed) = resource_of(&definition, &schemas);
            assert!(!Arc::ptr_eq(&one.collection.kind, &changed.collection.kind));
        }
        // The types outlive the cluster that built them.
        let kind = Arc::downgrade(&one.collection.kind);
        drop((of_one, one));
        assert!(other.message.get("spec").is_some());
        drop((_other, other));
        assert!(kind.upgrade().is_none());
    }

    /// Removing a definition frees its types, caches and schemas.
    #[tokio::test]
    async fn frees_removed_definitions() {
        let (catalog, custom) = custom_resources();
        let definitions: Vec<Definition> = (0..100).map(|n| definition(n, 1)).collect();
        for definition in &definitions {
            custom.serve(definition, false, &NoRegistrar);
        }
        assert_eq!(catalog.snapshot().resources().count(), 100);
        // A request keeps its snapshot.
        let request = catalog.snapshot();
        let known: Vec<Weak<Resource>> = request.resources().map(Arc::downgrade).collect();
        assert!(custom.schemas.is_empty(), "no schema is made before its resource is asked for");
        assert!(request.resources().all(|resource| resource.message.get("spec").is_some()), "schemas are read");
        assert_eq!(custom.schemas.len(), 100);
        // An unchanged resource is not built again.
        assert_eq!(custom.serve(&definitions[0], false, &NoRegistrar), ChangeCounts::default());
        let same = catalog.find("a.test", "v1", "widgets0").unwrap();
        assert!(Arc::ptr_eq(&same, request.find("a.test", "v1", "widgets0").unwrap()));
        same.collection.cache.start();
        drop(same);

        // While the definition is terminating, discovery shows fewer verbs, but the resource stays the same.
        custom.serve(&definitions[0], true, &NoRegistrar);
        let shown = catalog.snapshot().served().find("a.test", "v1", "widgets0").unwrap().unlisted;
        assert!(shown.contains(Verb::Create) && !shown.contains(Verb::Delete));

        for removed in &definitions {
            custom.stop(&removed.group, &removed.name, &NoRegistrar);
        }
        assert!(catalog.snapshot().served().group("a.test").is_none());
        assert!(catalog.find("a.test", "v1", "widgets0").is_none());
        assert!(known.iter().all(|resource| resource.upgrade().is_some()), "a request still works with them");
        drop(request);
        assert!(known.iter().all(|resource| resource.upgrade().is_none()));
        // A cache that is being filled is freed when its task ends.
        for _ in 0..1000 {
            if custom.schemas.is_empty() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{} schemas are left", custom.schemas.len());
    }
}
