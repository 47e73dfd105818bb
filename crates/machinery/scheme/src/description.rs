//! Descriptions of resources: names, scope, verbs, subresources, storage, selectable fields, deletion. Built-in and
//! custom resources use the same types; the former are described at startup, the latter at run time.

use std::sync::Arc;

use binnacle_meta::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, Text};

use crate::fields::{FieldLabels, METADATA, METADATA_NAME, SelectableField};
use crate::lifecycle::Lifecycle;
use crate::published::OpenApiDefinitions;
use crate::verbs::{VerbOrder, Verbs};

/// An API group with all versions of the release, served or not; a [`ServedGroup`](crate::ServedGroup) has those that a
/// server serves.
#[derive(Debug)]
pub struct GroupDescription {
    /// Empty for the core group.
    pub name: &'static str,
    /// `groupPriorityMinimum` of the group's APIServices: groups with a higher one come first in discovery.
    pub priority: i32,
    /// In order of preference.
    pub versions: Vec<VersionDescription>,
}

/// One version of a [`GroupDescription`], with a [`ResourceDescription`] of each resource, served or not; a
/// [`ServedVersion`](crate::ServedVersion) has those that a server serves.
#[derive(Debug)]
pub struct VersionDescription {
    pub version: &'static str,
    /// `versionPriority` of its APIService.
    pub priority: i32,
    /// True if it is served without `--runtime-config`.
    pub served_by_default: bool,
    /// Sorted by plural name.
    pub resources: Vec<Arc<ResourceDescription>>,
}

/// One resource in one version, as clients see it: the data for discovery, routing and warnings. It has a [`Storage`]
/// if its objects are stored; a [`ResourceType`](crate::ResourceType) adds how they are read and written.
#[derive(Clone, Debug)]
pub struct ResourceDescription {
    pub group: Text,
    pub version: Text,
    pub plural: Text,
    pub singular: Text,
    pub kind: Text,
    pub list_kind: Text,
    pub namespaced: bool,
    pub short_names: Vec<Text>,
    pub categories: Vec<Text>,
    pub verbs: Verbs,
    /// Verbs that discovery does not list although they are served.
    pub unlisted: Verbs,
    /// The order in which discovery lists the verbs.
    pub verb_order: VerbOrder,
    /// Sorted by name.
    pub subresources: Vec<SubresourceDescription>,
    /// The storage of its objects; `None` for reviews, bindings and component statuses, which are never stored.
    pub storage: Option<Storage>,
    /// The fields for field selectors, computed from an object in its storage version.
    pub selectable_fields: Vec<SelectableField>,
    /// The field labels of this version's field selectors.
    pub field_labels: FieldLabels,
    pub lifecycle: Lifecycle,
    /// The warning for requests, if the author of the definition deprecates the version.
    pub deprecation: Option<Text>,
    /// Served only while this feature gate is on.
    pub feature_gate: Option<&'static str>,
    /// True if a completed delete returns the object instead of a Status.
    pub returns_deleted_object: bool,
    /// True if a PUT of an absent name creates the object.
    pub create_on_update: bool,
    /// True if an update without a resourceVersion overwrites the object.
    pub unconditional_update: bool,
    pub deletion: Deletion,
    pub garbage_collection: GarbageCollection,
    /// Fields (dotted paths) that writes to the main endpoint cannot set: an update restores the stored values, a
    /// create drops the fields.
    pub puts_back: Vec<Text>,
    /// Fields that are never assigned to a field manager writing to the main endpoint. Mostly equal to `puts_back`.
    pub resets: Vec<Text>,
    /// OpenAPI definitions; `None` if the field tables have the kind.
    pub published: Option<Arc<dyn OpenApiDefinitions>>,
}

/// A subresource of a resource.
#[derive(Clone, Debug)]
pub struct SubresourceDescription {
    pub name: Text,
    pub role: SubresourceRole,
    /// The kind of its requests and responses.
    pub kind: SubresourceKind,
    pub verbs: Verbs,
    /// Fields (dotted paths) whose stored values an update through this subresource restores; `metadata` means labels,
    /// annotations, finalizers, owner references, generation and deletion timestamp.
    pub puts_back: Vec<Text>,
    /// Fields that are never assigned to a field manager writing to this subresource. Mostly equal to `puts_back`.
    pub resets: Vec<Text>,
    /// The only fields that an update through this subresource may change, unless empty (`*` matches any list item).
    pub changes_only: Vec<Text>,
    /// True if responses can be tables.
    pub has_table: bool,
}

/// The kind of a subresource's requests and responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubresourceKind {
    /// The kind of the resource itself.
    Resource,
    /// Another kind of the resource's own group and version.
    Sibling(Text),
    /// A kind of any group and version: group, version, kind.
    Foreign(Text, Text, Text),
}

/// The function of a subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubresourceRole {
    /// Reads the whole object, writes its status.
    Status,
    /// Reads and writes the number of replicas.
    Scale,
    /// Writes a part of the object (`approval`, `finalize`, `ephemeralcontainers`, `resize`).
    Update,
    /// Accepts an object of another kind as a command (`binding`, `eviction`, `token`).
    Create,
    /// Streams text (`log`).
    Log,
    /// Upgrades or proxies the connection (`attach`, `exec`, `portforward`, `proxy`).
    Connect,
}

/// Where a resource's objects are stored, and in which version: the part of a [`ResourceDescription`] that all versions
/// share. A [`StoredType`](crate::StoredType) adds how the objects are handled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The path below `/registry/`, without leading or trailing slash.
    pub key_prefix: Text,
    /// The group, version and kind of stored objects; other versions are converted from and to it.
    pub group: Text,
    pub version: Text,
    pub kind: Text,
    /// The version whose hash discovery shows. It differs where kube-apiserver writes objects in a version that is no
    /// longer served (CustomResourceDefinition in v1beta1): it reads both versions, as must every server with the same
    /// store.
    pub announced_version: Text,
    /// True if discovery shows the hash of that version.
    pub is_announced: bool,
    /// True if objects expire after `--event-ttl`.
    pub expires: bool,
    /// True if lists and watches are served from a watch cache.
    pub watch_cache: bool,
}

/// The deletion procedure of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// Immediate, once there are no finalizers.
    Immediate,
    /// Graceful: a pod gets `terminationGracePeriodSeconds` unless it was never scheduled or has finished.
    PodGraceful,
    /// A namespace terminates until `spec.finalizers` are gone.
    Namespace,
    /// A definition terminates until its custom resources are gone.
    CustomResourceDefinition,
}

/// The treatment of dependents if a delete has no propagation policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GarbageCollection {
    /// No strategy of its own: the garbage collector deletes dependents in the background.
    Default,
    /// As the default, but explicit in the strategy.
    DeleteDependents,
    /// Dependents lose their owner reference: the resource gets the `orphan` finalizer.
    OrphanDependents,
    /// Objects cannot have dependents: no finalizer is ever added.
    Unsupported,
}

// === impl ResourceDescription: construction ===

/// Describes a namespaced resource from literals: group, version, plural, singular, kind.
#[macro_export]
macro_rules! namespaced {
    ($group:expr, $version:expr, $plural:expr, $singular:expr, $kind:literal) => {
        $crate::ResourceDescription::from_static(
            [$group, $version, $plural, $singular, $kind, concat!($kind, "List")],
            true,
        )
    };
}

/// Describes a cluster-scoped resource from literals: group, version, plural, singular, kind.
#[macro_export]
macro_rules! cluster {
    ($group:expr, $version:expr, $plural:expr, $singular:expr, $kind:literal) => {
        $crate::ResourceDescription::from_static(
            [$group, $version, $plural, $singular, $kind, concat!($kind, "List")],
            false,
        )
    };
}

/// A vector of shared values.
#[macro_export]
macro_rules! shared {
    ($($value:expr),* $(,)?) => { vec![$(std::sync::Arc::new($value)),*] };
}

impl ResourceDescription {
    /// Calls [`ResourceDescription::new`] with literal names.
    pub fn from_static(names: [&'static str; 6], namespaced: bool) -> Self {
        Self::new(names.map(Text::new_static), namespaced)
    }

    /// Describes a stored resource with all verbs, stored under its plural name in its own version; the methods below
    /// change the rest. Names are group, version, plural, singular, kind and list kind.
    pub fn new(names: [Text; 6], namespaced: bool) -> Self {
        let [group, version, plural, singular, kind, list_kind] = names;
        Self {
            storage: Some(Storage {
                key_prefix: plural.clone(),
                group: group.clone(),
                version: version.clone(),
                kind: kind.clone(),
                announced_version: version.clone(),
                is_announced: true,
                expires: false,
                watch_cache: true,
            }),
            group,
            version,
            plural,
            singular,
            kind,
            list_kind,
            namespaced,
            short_names: Vec::new(),
            categories: Vec::new(),
            verbs: Verbs::STORED,
            unlisted: Verbs::NONE,
            verb_order: VerbOrder::Alphabetical,
            subresources: Vec::new(),
            selectable_fields: if namespaced { METADATA.to_vec() } else { METADATA_NAME.to_vec() },
            field_labels: FieldLabels::METADATA,
            lifecycle: Lifecycle::STABLE,
            deprecation: None,
            feature_gate: None,
            returns_deleted_object: false,
            create_on_update: false,
            unconditional_update: true,
            deletion: Deletion::Immediate,
            garbage_collection: GarbageCollection::Default,
            puts_back: Vec::new(),
            resets: Vec::new(),
            published: None,
        }
    }

    #[must_use]
    pub fn short(self, short_names: &[&'static str]) -> Self {
        Self { short_names: texts(short_names), ..self }
    }

    #[must_use]
    pub fn categories(self, categories: &[&'static str]) -> Self {
        Self { categories: texts(categories), ..self }
    }

    #[must_use]
    pub fn verbs(self, verbs: Verbs) -> Self {
        Self { verbs, ..self }
    }

    /// Removes the storage, and sets the verbs.
    #[must_use]
    pub fn without_storage(self, verbs: Verbs) -> Self {
        Self { verbs, storage: None, ..self }
    }

    #[must_use]
    pub fn subresources(self, subresources: impl Into<Vec<SubresourceDescription>>) -> Self {
        Self { subresources: subresources.into(), ..self }
    }

    /// Stores objects below `/registry/` + `key_prefix` instead of the plural.
    #[must_use]
    pub fn key_prefix(self, key_prefix: &'static str) -> Self {
        self.with_storage(|storage| storage.key_prefix = Text::new_static(key_prefix))
    }

    /// Stores objects in another version of the group.
    #[must_use]
    pub fn stored_in(self, version: &'static str) -> Self {
        self.with_storage(|storage| {
            storage.version = Text::new_static(version);
            storage.announced_version = Text::new_static(version);
        })
    }

    /// Announces another version in discovery than the storage version.
    #[must_use]
    pub fn announced_as(self, announced_version: impl Into<Text>) -> Self {
        self.with_storage(|storage| storage.announced_version = announced_version.into())
    }

    /// Announces no storage version in discovery.
    #[must_use]
    pub fn unannounced(self) -> Self {
        self.with_storage(|storage| storage.is_announced = false)
    }

    #[must_use]
    pub fn stored_as(self, storage: Storage) -> Self {
        Self { storage: Some(storage), ..self }
    }

    fn with_storage(mut self, change: impl FnOnce(&mut Storage)) -> Self {
        if let Some(storage) = &mut self.storage {
            change(storage);
        }
        self
    }

    #[must_use]
    pub fn selectable(self, fields: &[SelectableField], labels: FieldLabels) -> Self {
        Self { selectable_fields: fields.to_vec(), field_labels: labels, ..self }
    }

    /// Sets `1.minor` as the release that introduces the version.
    #[must_use]
    pub fn since(self, minor: u16) -> Self {
        Self { lifecycle: self.lifecycle.introduced(minor), ..self }
    }

    /// Sets `1.minor` as the first release that deprecates the version.
    #[must_use]
    pub fn deprecated(self, minor: u16) -> Self {
        Self { lifecycle: self.lifecycle.deprecated(minor), ..self }
    }

    /// Sets `1.minor` as the first release that no longer serves the version.
    #[must_use]
    pub fn removed(self, minor: u16) -> Self {
        Self { lifecycle: self.lifecycle.removed(minor), ..self }
    }

    /// Sets the group, version and kind to use instead.
    #[must_use]
    pub fn replaced_by(self, kind: [&'static str; 3]) -> Self {
        Self { lifecycle: self.lifecycle.replaced_by(kind), ..self }
    }

    #[must_use]
    pub fn gated_by(self, feature_gate: &'static str) -> Self {
        Self { feature_gate: Some(feature_gate), ..self }
    }

    #[must_use]
    pub fn returns_deleted_object(self) -> Self {
        Self { returns_deleted_object: true, ..self }
    }

    #[must_use]
    pub fn create_on_update(self) -> Self {
        Self { create_on_update: true, ..self }
    }

    #[must_use]
    pub fn only_conditional_update(self) -> Self {
        Self { unconditional_update: false, ..self }
    }

    #[must_use]
    pub fn deletion(self, deletion: Deletion) -> Self {
        Self { deletion, ..self }
    }

    #[must_use]
    pub fn garbage_collection(self, garbage_collection: GarbageCollection) -> Self {
        Self { garbage_collection, ..self }
    }

    /// Sets the fields that are put back and never assigned to field managers.
    #[must_use]
    pub fn resets(self, resets: &[&'static str]) -> Self {
        Self { puts_back: texts(resets), resets: texts(resets), ..self }
    }

    /// Sets fields that are put back, but may be assigned to field managers.
    #[must_use]
    pub fn only_puts_back(self, puts_back: &[&'static str]) -> Self {
        Self { puts_back: texts(puts_back), ..self }
    }
}

fn texts(literals: &[&'static str]) -> Vec<Text> {
    literals.iter().map(|text| Text::new_static(text)).collect()
}

// === impl ResourceDescription: queries ===

impl ResourceDescription {
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.clone(), self.version.clone())
    }

    pub fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::new(self.group.clone(), self.version.clone(), self.kind.clone())
    }

    pub fn group_version_resource(&self) -> GroupVersionResource {
        GroupVersionResource::new(self.group.clone(), self.version.clone(), self.plural.clone())
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.group.clone(), self.kind.clone())
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(self.group.clone(), self.plural.clone())
    }

    pub fn subresource(&self, name: &str) -> Option<&SubresourceDescription> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Returns true if there is a `/status`, whose fields writes to the main endpoint do not change.
    pub fn has_status_subresource(&self) -> bool {
        self.subresource("status").is_some()
    }

    pub fn selectable_field(&self, name: &str) -> Option<&SelectableField> {
        self.selectable_fields.iter().find(|field| field.name == name)
    }
}

// === impl SubresourceDescription ===

impl SubresourceDescription {
    pub fn new(name: impl Into<Text>, role: SubresourceRole, kind: SubresourceKind, verbs: Verbs) -> Self {
        let has_table = matches!(role, SubresourceRole::Status | SubresourceRole::Scale);
        let (puts_back, resets, changes_only) = (Vec::new(), Vec::new(), Vec::new());
        Self { name: name.into(), role, kind, verbs, puts_back, resets, changes_only, has_table }
    }

    /// Describes `/status`, whose updates put back the fields in `resets`.
    pub fn status(resets: &[&'static str]) -> Self {
        let role = SubresourceRole::Status;
        Self::new("status", role, SubresourceKind::Resource, Verbs::READ_WRITE).resets(resets)
    }

    /// Describes `/scale` with the kind of `autoscaling/v1`.
    pub fn scale() -> Self {
        let scale = SubresourceKind::foreign("autoscaling", "v1", "Scale");
        Self::new("scale", SubresourceRole::Scale, scale, Verbs::READ_WRITE)
    }

    /// Sets the fields that are put back and never assigned to field managers.
    #[must_use]
    pub fn resets(self, resets: &[&'static str]) -> Self {
        Self { puts_back: texts(resets), resets: texts(resets), ..self }
    }

    /// Sets the fields that are put back, if they differ from those that are never assigned to field managers.
    #[must_use]
    pub fn but_puts_back(self, puts_back: &[&'static str]) -> Self {
        Self { puts_back: texts(puts_back), ..self }
    }

    /// Rejects tables: kube-apiserver has no columns for some statuses.
    #[must_use]
    pub fn without_table(self) -> Self {
        Self { has_table: false, ..self }
    }

    #[must_use]
    pub fn changes_only(self, changes_only: &[&'static str]) -> Self {
        Self { changes_only: texts(changes_only), ..self }
    }

    /// Returns the kind of this subresource of `parent`.
    pub fn group_version_kind(&self, parent: &ResourceDescription) -> GroupVersionKind {
        match &self.kind {
            SubresourceKind::Resource => parent.group_version_kind(),
            SubresourceKind::Sibling(kind) => parent.group_version().with_kind(kind.clone()),
            SubresourceKind::Foreign(group, version, kind) => {
                GroupVersionKind::new(group.clone(), version.clone(), kind.clone())
            }
        }
    }
}

impl SubresourceKind {
    /// A kind of any group and version, from literals: group, version, kind.
    pub const fn foreign(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self::Foreign(Text::new_static(group), Text::new_static(version), Text::new_static(kind))
    }

    /// Another kind of the same group and version, from a literal.
    pub const fn sibling(kind: &'static str) -> Self {
        Self::Sibling(Text::new_static(kind))
    }
}

// === impl Storage ===

impl Storage {
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group.clone(), self.version.clone())
    }

    pub fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::new(self.group.clone(), self.version.clone(), self.kind.clone())
    }
}

// === impl VersionDescription ===

impl VersionDescription {
    pub fn resource(&self, plural: &str) -> Option<&Arc<ResourceDescription>> {
        self.resources.iter().find(|resource| resource.plural == plural)
    }

    pub fn kind(&self, kind: &str) -> Option<&Arc<ResourceDescription>> {
        self.resources.iter().find(|resource| resource.kind == kind)
    }
}

// === impl GroupDescription ===

impl GroupDescription {
    pub fn version(&self, version: &str) -> Option<&VersionDescription> {
        self.versions.iter().find(|described| described.version == version)
    }
}
