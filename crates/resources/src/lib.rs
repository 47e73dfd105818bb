//! The built-in resources: each described in one place, from which discovery, routing, storage, selectors, deletion
//! and warnings derive.
//!
//! Knows nothing of requests, of the store or of how objects are validated.

mod description;
mod fields;
mod lifecycle;
mod verbs;

mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apiserverinternal;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod certificates;
mod coordination;
mod core;
mod discovery;
mod events;
mod flowcontrol;
mod networking;
mod node;
mod policy;
mod rbac;
mod resource;
mod scheduling;
mod storage;
mod storagemigration;

pub use description::{
    Deletion, GarbageCollection, GroupDescription, ResourceDescription, Storage, SubresourceDescription,
    SubresourceKind, SubresourceRole, VersionDescription,
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

/// The core group, then by falling priority, then by name.
static GROUPS: &[&GroupDescription] = &[
    &core::GROUP,
    &apiregistration::GROUP,
    &apps::GROUP,
    &events::GROUP,
    &authentication::GROUP,
    &authorization::GROUP,
    &autoscaling::GROUP,
    &batch::GROUP,
    &certificates::GROUP,
    &networking::GROUP,
    &policy::GROUP,
    &rbac::GROUP,
    &storage::GROUP,
    &admissionregistration::GROUP,
    &apiextensions::GROUP,
    &scheduling::GROUP,
    &coordination::GROUP,
    &node::GROUP,
    &discovery::GROUP,
    &resource::GROUP,
    &flowcontrol::GROUP,
    &apiserverinternal::GROUP,
    &storagemigration::GROUP,
];
