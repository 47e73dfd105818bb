//! The words in which a built-in resource is described; the entries themselves stand in one file per API group.
//!
//! Everything is constant data: describing a resource costs nothing at start.

use binnacle_meta::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, Text};

use crate::fields::{FieldLabels, METADATA, METADATA_NAME, SelectableField};
use crate::lifecycle::Lifecycle;
use crate::verbs::Verbs;

/// An API group with all versions the release knows, served or not.
#[derive(Debug)]
pub struct GroupDescription {
    /// Empty for the core group.
    pub name: &'static str,
    /// `groupPriorityMinimum` of the group's APIServices: groups with a higher one come first in discovery.
    pub priority: i32,
    /// In order of preference.
    pub versions: &'static [VersionDescription],
}

/// One version of a group.
#[derive(Debug)]
pub struct VersionDescription {
    pub version: &'static str,
    /// `versionPriority` of its APIService.
    pub priority: i32,
    /// Whether it is served without `--runtime-config`.
    pub served_by_default: bool,
    /// In order of their plural names.
    pub resources: &'static [ResourceDescription],
}

/// One resource in one version.
#[derive(Clone, Debug)]
pub struct ResourceDescription {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub singular: &'static str,
    pub kind: &'static str,
    pub list_kind: &'static str,
    pub namespaced: bool,
    pub short_names: &'static [&'static str],
    pub categories: &'static [&'static str],
    pub verbs: Verbs,
    /// In order of their names.
    pub subresources: &'static [SubresourceDescription],
    /// Where objects are kept; `None` for reviews, bindings and component statuses, which are never stored.
    pub storage: Option<Storage>,
    /// Fields that can be selected by, computed from an object in its storage version.
    pub selectable_fields: &'static [SelectableField],
    /// The names under which this version's clients may ask for them.
    pub field_labels: FieldLabels,
    pub lifecycle: Lifecycle,
    /// Served only while this feature gate is on.
    pub feature_gate: Option<&'static str>,
    /// A completed delete answers with the object instead of a Status.
    pub returns_deleted_object: bool,
    /// A PUT of an absent name creates the object.
    pub create_on_update: bool,
    /// An update without a resourceVersion overwrites whatever is there.
    pub unconditional_update: bool,
    pub deletion: Deletion,
    pub garbage_collection: GarbageCollection,
    /// Fields (dotted paths) that a write through the main path leaves as they are: an update puts back what is stored,
    /// a create drops them.
    pub puts_back: &'static [&'static str],
    /// Fields that managed fields never assign to a writer of the main path. The same but for a few kinds.
    pub resets: &'static [&'static str],
}

/// A path below an object.
#[derive(Clone, Debug)]
pub struct SubresourceDescription {
    pub name: &'static str,
    pub role: SubresourceRole,
    /// The kind it reads and writes.
    pub kind: SubresourceKind,
    pub verbs: Verbs,
    /// Fields (dotted paths) that an update through this path puts back as they are stored; `metadata` stands for
    /// labels, annotations, finalizers, owner references, generation and deletion timestamp.
    pub puts_back: &'static [&'static str],
    /// Fields that managed fields never assign to a writer of this path. The same but for a few kinds.
    pub resets: &'static [&'static str],
    /// Where not empty: an update through this path changes nothing but these (`*` stands for any list item).
    pub changes_only: &'static [&'static str],
}

/// The kind that a subresource speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubresourceKind {
    /// The kind of the resource itself.
    Resource,
    /// Another kind of the resource's own group and version.
    Sibling(&'static str),
    /// A kind from elsewhere: group, version, kind.
    Foreign(&'static str, &'static str, &'static str),
}

/// What a subresource does with its object.
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

/// Where and as what the objects of a resource are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage {
    /// The path below `/registry/`, without slashes at its ends.
    pub key_prefix: &'static str,
    /// The group, version and kind of stored objects; the other versions are converted from and to it.
    pub group: &'static str,
    pub version: &'static str,
    pub kind: &'static str,
    /// The version whose hash discovery shows. It differs where the reference writes objects in a version that nobody
    /// serves any more (definitions of custom resources in v1beta1): it reads both, and so must whoever shares its store.
    pub announced_version: &'static str,
    /// Objects vanish after `--event-ttl`.
    pub expires: bool,
    /// Lists and watches come from a watch cache.
    pub watch_cache: bool,
}

/// How a delete proceeds.
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

/// What becomes of dependents when a delete does not say.
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
macro_rules! namespaced {
    ($group:expr, $version:expr, $plural:expr, $singular:expr, $kind:literal) => {
        $crate::description::ResourceDescription::new(
            [$group, $version, $plural, $singular, $kind, concat!($kind, "List")],
            true,
        )
    };
}

/// Describes a cluster-scoped resource from literals: group, version, plural, singular, kind.
macro_rules! cluster {
    ($group:expr, $version:expr, $plural:expr, $singular:expr, $kind:literal) => {
        $crate::description::ResourceDescription::new(
            [$group, $version, $plural, $singular, $kind, concat!($kind, "List")],
            false,
        )
    };
}

pub(crate) use {cluster, namespaced};

impl ResourceDescription {
    /// A stored resource with all verbs, kept under its plural name in its own version; what differs is said by the
    /// methods below. Names are group, version, plural, singular, kind and list kind.
    pub(crate) const fn new(names: [&'static str; 6], namespaced: bool) -> Self {
        let [group, version, plural, singular, kind, list_kind] = names;
        Self {
            group,
            version,
            plural,
            singular,
            kind,
            list_kind,
            namespaced,
            short_names: &[],
            categories: &[],
            verbs: Verbs::STORED,
            subresources: &[],
            storage: Some(Storage {
                key_prefix: plural,
                group,
                version,
                kind,
                announced_version: version,
                expires: false,
                watch_cache: true,
            }),
            selectable_fields: if namespaced { METADATA } else { METADATA_NAME },
            field_labels: FieldLabels::METADATA,
            lifecycle: Lifecycle::STABLE,
            feature_gate: None,
            returns_deleted_object: false,
            create_on_update: false,
            unconditional_update: true,
            deletion: Deletion::Immediate,
            garbage_collection: GarbageCollection::Default,
            puts_back: &[],
            resets: &[],
        }
    }

    pub(crate) const fn short(self, short_names: &'static [&'static str]) -> Self {
        Self { short_names, ..self }
    }

    pub(crate) const fn categories(self, categories: &'static [&'static str]) -> Self {
        Self { categories, ..self }
    }

    pub(crate) const fn verbs(self, verbs: Verbs) -> Self {
        Self { verbs, ..self }
    }

    /// Nothing is stored and only these verbs exist.
    pub(crate) const fn unstored(self, verbs: Verbs) -> Self {
        Self { verbs, storage: None, ..self }
    }

    pub(crate) const fn subresources(self, subresources: &'static [SubresourceDescription]) -> Self {
        Self { subresources, ..self }
    }

    /// Kept below `/registry/` + `key_prefix` instead of the plural.
    pub(crate) const fn key_prefix(self, key_prefix: &'static str) -> Self {
        match self.storage {
            Some(storage) => Self { storage: Some(Storage { key_prefix, ..storage }), ..self },
            None => self,
        }
    }

    /// Stored in another version of its group than the one described.
    pub(crate) const fn stored_in(self, version: &'static str) -> Self {
        match self.storage {
            Some(storage) => Self { storage: Some(Storage { version, announced_version: version, ..storage }), ..self },
            None => self,
        }
    }

    /// Announces another version than the one objects are stored in.
    pub(crate) const fn announced_as(self, announced_version: &'static str) -> Self {
        match self.storage {
            Some(storage) => Self { storage: Some(Storage { announced_version, ..storage }), ..self },
            None => self,
        }
    }

    pub(crate) const fn stored_as(self, storage: Storage) -> Self {
        Self { storage: Some(storage), ..self }
    }

    pub(crate) const fn selectable(self, fields: &'static [SelectableField], labels: FieldLabels) -> Self {
        Self { selectable_fields: fields, field_labels: labels, ..self }
    }

    /// Introduced in `1.minor`.
    pub(crate) const fn since(self, minor: u16) -> Self {
        Self { lifecycle: self.lifecycle.introduced(minor), ..self }
    }

    /// Deprecated from `1.minor` on.
    pub(crate) const fn deprecated(self, minor: u16) -> Self {
        Self { lifecycle: self.lifecycle.deprecated(minor), ..self }
    }

    /// No longer served from `1.minor` on.
    pub(crate) const fn removed(self, minor: u16) -> Self {
        Self { lifecycle: self.lifecycle.removed(minor), ..self }
    }

    /// Group, version and kind to use instead.
    pub(crate) const fn replaced_by(self, kind: [&'static str; 3]) -> Self {
        Self { lifecycle: self.lifecycle.replaced_by(kind), ..self }
    }

    pub(crate) const fn gated_by(self, feature_gate: &'static str) -> Self {
        Self { feature_gate: Some(feature_gate), ..self }
    }

    pub(crate) const fn returns_deleted_object(self) -> Self {
        Self { returns_deleted_object: true, ..self }
    }

    pub(crate) const fn create_on_update(self) -> Self {
        Self { create_on_update: true, ..self }
    }

    pub(crate) const fn only_conditional_update(self) -> Self {
        Self { unconditional_update: false, ..self }
    }

    pub(crate) const fn deletion(self, deletion: Deletion) -> Self {
        Self { deletion, ..self }
    }

    pub(crate) const fn garbage_collection(self, garbage_collection: GarbageCollection) -> Self {
        Self { garbage_collection, ..self }
    }

    /// Fields that are put back and that managed fields do not track.
    pub(crate) const fn resets(self, resets: &'static [&'static str]) -> Self {
        Self { puts_back: resets, resets, ..self }
    }

    /// Fields that are put back although managed fields track them.
    pub(crate) const fn only_puts_back(self, puts_back: &'static [&'static str]) -> Self {
        Self { puts_back, ..self }
    }
}

// === impl ResourceDescription: questions ===

impl ResourceDescription {
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(Text::new_static(self.group), Text::new_static(self.version))
    }

    pub fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::new(Text::new_static(self.group), Text::new_static(self.version), Text::new_static(self.kind))
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(Text::new_static(self.group), Text::new_static(self.kind))
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource::new(Text::new_static(self.group), Text::new_static(self.plural))
    }

    pub fn subresource(&self, name: &str) -> Option<&'static SubresourceDescription> {
        self.subresources.iter().find(|subresource| subresource.name == name)
    }

    /// Whether there is a `/status` that the main resource's writes leave alone.
    pub fn has_status_subresource(&self) -> bool {
        self.subresource("status").is_some()
    }

    pub fn selectable_field(&self, name: &str) -> Option<&'static SelectableField> {
        self.selectable_fields.iter().find(|field| field.name == name)
    }
}

// === impl SubresourceDescription ===

impl SubresourceDescription {
    pub(crate) const fn new(name: &'static str, role: SubresourceRole, kind: SubresourceKind, verbs: Verbs) -> Self {
        Self { name, role, kind, verbs, puts_back: &[], resets: &[], changes_only: &[] }
    }

    /// `/status`, whose updates put back everything in `resets`.
    pub(crate) const fn status(resets: &'static [&'static str]) -> Self {
        let role = SubresourceRole::Status;
        Self::new("status", role, SubresourceKind::Resource, Verbs::READ_WRITE).resets(resets)
    }

    /// `/scale` in the form of `autoscaling/v1`.
    pub(crate) const fn scale() -> Self {
        let scale = SubresourceKind::Foreign("autoscaling", "v1", "Scale");
        Self::new("scale", SubresourceRole::Scale, scale, Verbs::READ_WRITE)
    }

    /// Fields that are put back and that managed fields do not track.
    pub(crate) const fn resets(self, resets: &'static [&'static str]) -> Self {
        Self { puts_back: resets, resets, ..self }
    }

    /// Fields that are put back, where that differs from what managed fields do not track.
    pub(crate) const fn but_puts_back(self, puts_back: &'static [&'static str]) -> Self {
        Self { puts_back, ..self }
    }

    pub(crate) const fn changes_only(self, changes_only: &'static [&'static str]) -> Self {
        Self { changes_only, ..self }
    }

    /// The kind of this subresource below `parent`.
    pub fn group_version_kind(&self, parent: &ResourceDescription) -> GroupVersionKind {
        let [group, version, kind] = match self.kind {
            SubresourceKind::Resource => [parent.group, parent.version, parent.kind],
            SubresourceKind::Sibling(kind) => [parent.group, parent.version, kind],
            SubresourceKind::Foreign(group, version, kind) => [group, version, kind],
        };
        GroupVersionKind::new(Text::new_static(group), Text::new_static(version), Text::new_static(kind))
    }
}

// === impl Storage ===

impl Storage {
    pub fn group_version(&self) -> GroupVersion {
        GroupVersion::new(Text::new_static(self.group), Text::new_static(self.version))
    }

    pub fn group_version_kind(&self) -> GroupVersionKind {
        GroupVersionKind::new(Text::new_static(self.group), Text::new_static(self.version), Text::new_static(self.kind))
    }
}

// === impl VersionDescription ===

impl VersionDescription {
    pub fn resource(&self, plural: &str) -> Option<&'static ResourceDescription> {
        self.resources.iter().find(|resource| resource.plural == plural)
    }

    pub fn kind(&self, kind: &str) -> Option<&'static ResourceDescription> {
        self.resources.iter().find(|resource| resource.kind == kind)
    }
}

// === impl GroupDescription ===

impl GroupDescription {
    pub fn version(&self, version: &str) -> Option<&'static VersionDescription> {
        self.versions.iter().find(|described| described.version == version)
    }
}
