//! Descriptions of resources: names, scope, verbs, subresources, storage, selectable fields, deletion. Those of
//! built-in resources and of custom ones are the same values, made at start or at run time.

use std::sync::Arc;

use binnacle_meta::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, Text};

use crate::fields::{FieldLabels, METADATA, METADATA_NAME, SelectableField};
use crate::lifecycle::Lifecycle;
use crate::published::Published;
use crate::verbs::{VerbOrder, Verbs};

/// An API group with all versions the release knows, served or not.
#[derive(Debug)]
pub struct GroupDescription {
    /// Empty for the core group.
    pub name: &'static str,
    /// `groupPriorityMinimum` of the group's APIServices: groups with a higher one come first in discovery.
    pub priority: i32,
    /// In order of preference.
    pub versions: Vec<VersionDescription>,
}

/// One version of a group.
#[derive(Debug)]
pub struct VersionDescription {
    pub version: &'static str,
    /// `versionPriority` of its APIService.
    pub priority: i32,
    /// True when it is served without `--runtime-config`.
    pub served_by_default: bool,
    /// In order of their plural names.
    pub resources: Vec<Arc<ResourceDescription>>,
}

/// One resource in one version.
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
    /// In order of their names.
    pub subresources: Vec<SubresourceDescription>,
    /// The storage of its objects; `None` for reviews, bindings and component statuses, which are never stored.
    pub storage: Option<Storage>,
    /// Fields that can be selected by, computed from an object in its storage version.
    pub selectable_fields: Vec<SelectableField>,
    /// The names under which this version's clients may ask for them.
    pub field_labels: FieldLabels,
    pub lifecycle: Lifecycle,
    /// The warning for requests of it, where its own author deprecates it.
    pub deprecation: Option<Text>,
    /// Served only while this feature gate is on.
    pub feature_gate: Option<&'static str>,
    /// A completed delete answers with the object instead of a Status.
    pub returns_deleted_object: bool,
    /// A PUT of an absent name creates the object.
    pub create_on_update: bool,
    /// An update without a resourceVersion overwrites any object.
    pub unconditional_update: bool,
    pub deletion: Deletion,
    pub garbage_collection: GarbageCollection,
    /// Fields (dotted paths) that a write through the main path leaves as they are: an update restores the stored
    /// values, a create drops them.
    pub puts_back: Vec<Text>,
    /// Fields that managed fields never assign to a writer of the main path. The same but for a few kinds.
    pub resets: Vec<Text>,
    /// Its definitions in documents of OpenAPI; `None` where the field tables have its kind.
    pub published: Option<Arc<dyn Published>>,
}

/// A path below an object.
#[derive(Clone, Debug)]
pub struct SubresourceDescription {
    pub name: Text,
    pub role: SubresourceRole,
    /// The kind it reads and writes.
    pub kind: SubresourceKind,
    pub verbs: Verbs,
    /// Fields (dotted paths) that an update through this path puts back as they are stored; `metadata` stands for
    /// labels, annotations, finalizers, owner references, generation and deletion timestamp.
    pub puts_back: Vec<Text>,
    /// Fields that managed fields never assign to a writer of this path. The same but for a few kinds.
    pub resets: Vec<Text>,
    /// The fields that an update through this path changes at most, where not empty (`*` stands for any list item).
    pub changes_only: Vec<Text>,
}

/// The kind that a subresource speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SubresourceKind {
    /// The kind of the resource itself.
    Resource,
    /// Another kind of the resource's own group and version.
    Sibling(Text),
    /// A kind from elsewhere: group, version, kind.
    Foreign(Text, Text, Text),
}

/// The role of a subresource for its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubresourceRole {
    /// Reads the whole object, writes its status.
    Status,
    /// Reads and writes the number of replicas.
    Scale,
    /// Writes one aspect of the object (`approval`, `finalize`, `ephemeralcontainers`, `resize`).
    Update,
    /// Takes an object of another kind as an order (`binding`, `eviction`, `token`).
    Create,
    /// Streams text (`log`).
    Log,
    /// Hands the connection on (`attach`, `exec`, `portforward`, `proxy`).
    Connect,
}

/// The storage of a resource's objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The path below `/registry/`, without slashes at its ends.
    pub key_prefix: Text,
    /// The group, version and kind of stored objects; the other versions are converted from and to it.
    pub group: Text,
    pub version: Text,
    pub kind: Text,
    /// The version whose hash discovery shows. It differs where kube-apiserver writes objects in a version that is not
    /// served any more (definitions of custom resources in v1beta1): it reads both, and so must every server that
    /// shares its store.
    pub announced_version: Text,
    /// Objects vanish after `--event-ttl`.
    pub expires: bool,
    /// Lists and watches come from a watch cache.
    pub watch_cache: bool,
}

/// The course of a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// At once, as soon as there are no finalizers.
    Immediate,
    /// A pod gets `terminationGracePeriodSeconds` unless it was never scheduled or is finished.
    PodGraceful,
    /// A namespace terminates until `spec.finalizers` are gone.
    Namespace,
    /// A definition terminates until its custom resources are gone.
    CustomResourceDefinition,
}

/// The treatment of dependents when a delete names no propagation policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GarbageCollection {
    /// No strategy of its own: the garbage collector deletes dependents in the background.
    Default,
    /// As the default, said explicitly by the strategy.
    DeleteDependents,
    /// Dependents lose their owner reference: the resource gets the `orphan` finalizer.
    OrphanDependents,
    /// Nothing can depend on these objects: no finalizer is ever added.
    Unsupported,
}

// === impl ResourceDescription: a short way to write an entry ===

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

/// A list of shared values.
#[macro_export]
macro_rules! shared {
    ($($value:expr),* $(,)?) => { vec![$(std::sync::Arc::new($value)),*] };
}

impl ResourceDescription {
    /// [`ResourceDescription::new`] of names that are literals.
    pub fn from_static(names: [&'static str; 6], namespaced: bool) -> Self {
        Self::new(names.map(Text::new_static), namespaced)
    }

    /// A stored resource with all verbs, kept under its plural name in its own version; the methods below change the
    /// rest. Names are group, version, plural, singular, kind and list kind.
    pub fn new(names: [Text; 6], namespaced: bool) -> Self {
        let [group, version, plural, singular, kind, list_kind] = names;
        Self {
            storage: Some(Storage {
                key_prefix: plural.clone(),
                group: group.clone(),
                version: version.clone(),
                kind: kind.clone(),
                announced_version: version.clone(),
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

    /// Nothing is stored and only these verbs exist.
    #[must_use]
    pub fn unstored(self, verbs: Verbs) -> Self {
        Self { verbs, storage: None, ..self }
    }

    #[must_use]
    pub fn subresources(self, subresources: impl Into<Vec<SubresourceDescription>>) -> Self {
        Self { subresources: subresources.into(), ..self }
    }

    /// Kept below `/registry/` + `key_prefix` instead of the plural.
    #[must_use]
    pub fn key_prefix(self, key_prefix: &'static str) -> Self {
        self.with_storage(|storage| storage.key_prefix = Text::new_static(key_prefix))
    }

    /// Stored in another version of its group than the one described.
    #[must_use]
    pub fn stored_in(self, version: &'static str) -> Self {
        self.with_storage(|storage| {
            storage.version = Text::new_static(version);
            storage.announced_version = Text::new_static(version);
        })
    }

    /// Announces another version than the one objects are stored in.
    #[must_use]
    pub fn announced_as(self, announced_version: impl Into<Text>) -> Self {
        self.with_storage(|storage| storage.announced_version = announced_version.into())
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

    /// Introduced in `1.minor`.
    #[must_use]
    pub fn since(self, minor: u16) -> Self {
        Self { lifecycle: self.lifecycle.introduced(minor), ..self }
    }

    /// Deprecated from `1.minor` on.
    #[must_use]
    pub fn deprecated(self, minor: u16) -> Self {
        Self { lifecycle: self.lifecycle.deprecated(minor), ..self }
    }

    /// No longer served from `1.minor` on.
    #[must_use]
    pub fn removed(self, minor: u16) -> Self {
        Self { lifecycle: self.lifecycle.removed(minor), ..self }
    }

    /// Group, version and kind to use instead.
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

    /// Fields that are put back and that managed fields do not track.
    #[must_use]
    pub fn resets(self, resets: &[&'static str]) -> Self {
        Self { puts_back: texts(resets), resets: texts(resets), ..self }
    }

    /// Fields that are put back although managed fields track them.
    #[must_use]
    pub fn only_puts_back(self, puts_back: &[&'static str]) -> Self {
        Self { puts_back: texts(puts_back), ..self }
    }
}

fn texts(literals: &[&'static str]) -> Vec<Text> {
    literals.iter().map(|text| Text::new_static(text)).collect()
}

// === impl ResourceDescription: questions ===

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

    /// True when there is a `/status` that the main resource's writes leave alone.
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
        let name = name.into();
        Self { name, role, kind, verbs, puts_back: Vec::new(), resets: Vec::new(), changes_only: Vec::new() }
    }

    /// `/status`, whose updates put back everything in `resets`.
    pub fn status(resets: &[&'static str]) -> Self {
        let role = SubresourceRole::Status;
        Self::new("status", role, SubresourceKind::Resource, Verbs::READ_WRITE).resets(resets)
    }

    /// `/scale` in the form of `autoscaling/v1`.
    pub fn scale() -> Self {
        let scale = SubresourceKind::foreign("autoscaling", "v1", "Scale");
        Self::new("scale", SubresourceRole::Scale, scale, Verbs::READ_WRITE)
    }

    /// Fields that are put back and that managed fields do not track.
    #[must_use]
    pub fn resets(self, resets: &[&'static str]) -> Self {
        Self { puts_back: texts(resets), resets: texts(resets), ..self }
    }

    /// Sets the fields that are put back, where they differ from those that managed fields do not track.
    #[must_use]
    pub fn but_puts_back(self, puts_back: &[&'static str]) -> Self {
        Self { puts_back: texts(puts_back), ..self }
    }

    #[must_use]
    pub fn changes_only(self, changes_only: &[&'static str]) -> Self {
        Self { changes_only: texts(changes_only), ..self }
    }

    /// The kind of this subresource below `parent`.
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
    /// A kind from elsewhere, of literals: group, version, kind.
    pub const fn foreign(group: &'static str, version: &'static str, kind: &'static str) -> Self {
        Self::Foreign(Text::new_static(group), Text::new_static(version), Text::new_static(kind))
    }

    /// Another kind of the same group and version, of a literal.
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
