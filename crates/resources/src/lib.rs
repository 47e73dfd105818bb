//! The built-in resources: each described in one place, from which discovery, routing, storage, selectors, deletion
//! and warnings derive.
//!
//! Knows nothing of requests, of the store or of how objects are validated.

mod description;
mod fields;
mod lifecycle;
mod verbs;

pub use description::{
    Deletion, GarbageCollection, GroupDescription, ResourceDescription, Storage, SubresourceDescription,
    SubresourceRole, VersionDescription,
};
pub use fields::{FieldLabels, FieldValue, SelectableField, UnknownLabel};
pub use lifecycle::{Lifecycle, Release};
pub use verbs::{Verb, Verbs};

/// Every built-in group, in the order of discovery.
pub fn groups() -> &'static [&'static GroupDescription] {
    GROUPS
}

/// The resource that a path names.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static ResourceDescription> {
    find_version(group, version)?.resource(plural)
}

/// The resource whose objects are of this kind.
pub fn find_kind(group: &str, version: &str, kind: &str) -> Option<&'static ResourceDescription> {
    find_version(group, version)?.kind(kind)
}

/// A group by its name, empty for the core group.
pub fn find_group(group: &str) -> Option<&'static GroupDescription> {
    groups().iter().copied().find(|described| described.name == group)
}

/// One version of a group.
pub fn find_version(group: &str, version: &str) -> Option<&'static VersionDescription> {
    find_group(group)?.version(version)
}

const GROUPS: &[&GroupDescription] = &[];
