//! Equivalent resources: the same objects in other versions or groups.

use binnacle_meta::{GroupVersionKind, GroupVersionResource, Text};
use binnacle_registry::Snapshot;
use binnacle_registry::admission::Attributes;
use binnacle_scheme::{ResourceDescription, Resources, SubresourceKind};

use crate::matched_resource::MatchedResource;

/// Returns the resources that are equivalent to that of a request and have its subresource. Equivalent resources share
/// their storage: built-in ones across groups, e.g. events; custom ones within their group.
pub(crate) fn of(attributes: &Attributes, snapshot: &Snapshot) -> Vec<MatchedResource> {
    let requested = &attributes.resource;
    let Some(own) = snapshot.served().find(&requested.group, &requested.version, &requested.resource) else {
        return Vec::new();
    };
    let served = snapshot.served();
    let built_in = served
        .version(&requested.group, &requested.version)
        .is_some_and(|version| matches!(version.resources, Resources::BuiltIn(_)));
    let groups = if built_in { served.groups() } else { served.group(&requested.group).into_iter().collect() };
    let mut found = Vec::new();
    for version in groups.iter().flat_map(|group| &group.versions) {
        let same_kind = matches!(version.resources, Resources::BuiltIn(_)) == built_in;
        for other in version.resources.own().iter().filter(|_| same_kind) {
            let is_own = other.group == own.group && other.version == own.version && other.plural == own.plural;
            if is_own || storage_prefix(other) != storage_prefix(own) {
                continue;
            }
            if let Some(kind) = kind_of(other, &attributes.subresource) {
                found.push(MatchedResource { resource: resource_of(other), kind });
            }
        }
    }
    found
}

/// Returns the storage prefix of a resource.
fn storage_prefix(description: &ResourceDescription) -> &str {
    description.storage.as_ref().map_or(&description.plural, |storage| &storage.key_prefix)
}

fn resource_of(description: &ResourceDescription) -> GroupVersionResource {
    description.group_version_resource()
}

/// Returns the kind of a resource or one of its subresources; `None` if it has no such subresource.
fn kind_of(description: &ResourceDescription, subresource: &Text) -> Option<GroupVersionKind> {
    if subresource.is_empty() {
        return Some(description.group_version_kind());
    }
    let own = description.group_version_kind();
    Some(match &description.subresource(subresource)?.kind {
        SubresourceKind::Resource => own,
        SubresourceKind::Sibling(kind) => GroupVersionKind { kind: kind.clone(), ..own },
        SubresourceKind::Foreign(group, version, kind) => {
            GroupVersionKind { group: group.clone(), version: version.clone(), kind: kind.clone() }
        }
    })
}
