//! The part of an object's metadata that the garbage collector needs.

use std::sync::Arc;

use binnacle_fields::meta::v1::{ObjectMeta, OwnerReference, PartialObjectMetadata as AnyKind};
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{GroupVersion, Text};
use binnacle_registry::object::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use binnacle_registry::{Resource, ResourceStore, Snapshot};
use binnacle_schema::{Message, Value};
use binnacle_watchcache::Entry;

/// The metadata of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) uid: Text,
    pub(super) resource_version: Text,
    pub(super) owners: Vec<Owner>,
    pub(super) deleting: bool,
    /// Whether it has the finalizer that keeps it until its dependents are deleted.
    pub(super) foreground: bool,
    /// Whether it has the finalizer that keeps it until it is removed from its dependents.
    pub(super) orphan: bool,
}

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) api_version: Text,
    pub(super) kind: Text,
    pub(super) name: Text,
    pub(super) uid: Text,
    /// Whether the owner must wait for this object in a foreground deletion.
    pub(super) blocks: bool,
}

impl Meta {
    pub(super) fn of(object: &Value) -> Self {
        let metadata = metadata(object);
        let has = |finalizer: &str| metadata.at(ObjectMeta::FINALIZERS).strs().any(|one| one == finalizer);
        Self {
            uid: metadata.at(ObjectMeta::UID).str().into(),
            resource_version: metadata.at(ObjectMeta::RESOURCE_VERSION).str().into(),
            owners: metadata.at(ObjectMeta::OWNER_REFERENCES).list().iter().map(Owner::of).collect(),
            deleting: metadata.at(ObjectMeta::DELETION_TIMESTAMP).is_set(),
            foreground: has(FINALIZER_FOREGROUND),
            orphan: has(FINALIZER_ORPHAN),
        }
    }

    /// Returns true for an object in deletion that waits for the deletion of its dependents.
    pub(super) fn waits_for_dependents(&self) -> bool {
        self.deleting && self.foreground
    }
}

impl Owner {
    fn of(reference: &Value) -> Self {
        let reference = FieldRef::<OwnerReference>::root(reference);
        Self {
            api_version: reference.at(OwnerReference::API_VERSION).str().into(),
            kind: reference.at(OwnerReference::KIND).str().into(),
            name: reference.at(OwnerReference::NAME).str().into(),
            uid: reference.at(OwnerReference::UID).str().into(),
            blocks: reference.at(OwnerReference::BLOCK_OWNER_DELETION).bool(),
        }
    }

    /// Returns the resource of the owner, if its kind is served.
    pub(super) fn resource<'a>(&self, served: &'a Snapshot) -> Option<&'a Arc<Resource>> {
        let version = GroupVersion::parse(&self.api_version)?;
        served.find_kind(&version.group, &version.version, &self.kind)
    }
}

/// Reads the metadata of the objects of one resource, without decoding the rest.
pub(super) struct MetaReader(Message);

impl MetaReader {
    pub(super) fn new(collection: &ResourceStore) -> Self {
        let metadata = AnyKind::METADATA.name();
        let fields = [
            ObjectMeta::UID.name(),
            ObjectMeta::OWNER_REFERENCES.name(),
            ObjectMeta::FINALIZERS.name(),
            ObjectMeta::DELETION_TIMESTAMP.name(),
        ];
        let paths = fields.map(|field| [metadata, field]);
        let paths: Vec<&[&str]> = paths.iter().map(|path| &path[..]).collect();
        Self(collection.narrowed(&paths))
    }

    /// Reads the metadata of an object; `None` if it cannot be decoded, which is logged.
    pub(super) fn read(&self, collection: &ResourceStore, entry: &Entry) -> Option<Meta> {
        let object = collection.part(&self.0, &entry.value(), entry.revision()).ok()?;
        Some(Meta { resource_version: entry.revision().0.to_string().into(), ..Meta::of(&object) })
    }
}
