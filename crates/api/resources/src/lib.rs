//! The built-in resources: each is described in one place, from which discovery, routing, storage, selectors, deletion
//! and warnings are derived.
//!
//! Independent of requests, of the store and of validation.

/// Returns the names on a path of fields, which must lead through their messages: `path![Pod::SPEC, PodSpec::NODE_NAME]`.
macro_rules! path {
    ($($field:expr),+ $(,)?) => {{
        const PATH: &[&str] = {
            let _ = binnacle_fields::route![$($field),+];
            &[$($field.name()),+]
        };
        PATH
    }};
}

mod default_served;
mod emulation;
mod runtime_config;
mod storage_version;

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

use std::sync::{Arc, LazyLock};

use binnacle_meta::{GroupResource, Text};
use binnacle_scheme::{GroupDescription, ResourceDescription, VersionDescription};

pub use default_served::default_served;
pub use emulation::{Emulation, EmulationError, ServedResources};
pub use runtime_config::{RuntimeConfig, RuntimeConfigError};
pub use storage_version::{announced, storage_version};

/// Returns all built-in groups, in the order of discovery.
pub fn groups() -> &'static [GroupDescription] {
    &GROUPS
}

/// Iterates over all built-in resources in all versions, in the order of discovery.
pub fn all() -> impl Iterator<Item = &'static Arc<ResourceDescription>> {
    groups().iter().flat_map(|group| &group.versions).flat_map(|version| &version.resources)
}

/// Iterates over the key prefixes of stored resources, without the root, once for each version.
pub fn key_prefixes() -> impl Iterator<Item = (Text, GroupResource)> {
    all().filter_map(|description| {
        let storage = description.storage.as_ref()?;
        Some((storage.key_prefix.clone(), GroupResource::new(storage.group.clone(), description.plural.clone())))
    })
}

/// Finds the resource that a path names.
pub fn find(group: &str, version: &str, plural: &str) -> Option<&'static Arc<ResourceDescription>> {
    find_version(group, version)?.resource(plural)
}

/// Finds the resource whose objects have this kind.
pub fn find_kind(group: &str, version: &str, kind: &str) -> Option<&'static Arc<ResourceDescription>> {
    find_version(group, version)?.kind(kind)
}

/// Finds a group by name, which is empty for the core group.
pub fn find_group(group: &str) -> Option<&'static GroupDescription> {
    groups().iter().find(|described| described.name == group)
}

/// Finds one version of a group.
pub fn find_version(group: &str, version: &str) -> Option<&'static VersionDescription> {
    find_group(group)?.version(version)
}

/// The core group first, then by descending priority, then by name.
static GROUPS: LazyLock<Vec<GroupDescription>> = LazyLock::new(|| {
    vec![
        core::group(),
        apiregistration::group(),
        apps::group(),
        events::group(),
        authentication::group(),
        authorization::group(),
        autoscaling::group(),
        batch::group(),
        certificates::group(),
        networking::group(),
        policy::group(),
        rbac::group(),
        storage::group(),
        admissionregistration::group(),
        apiextensions::group(),
        scheduling::group(),
        coordination::group(),
        node::group(),
        discovery::group(),
        resource::group(),
        flowcontrol::group(),
        apiserverinternal::group(),
        storagemigration::group(),
    ]
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_field_labels() {
        for (group, version, plural, label, expected) in [
            ("", "v1", "pods", "spec.host", Ok("spec.nodeName")),
            ("", "v1", "pods", "status.podIPs", Ok("status.podIPs")),
            ("", "v1", "pods", "spec.hostname", Err("field label not supported: spec.hostname")),
            ("", "v1", "events", "involvedObject.uid", Ok("involvedObject.uid")),
            ("events.k8s.io", "v1", "events", "regarding.uid", Ok("involvedObject.uid")),
            ("events.k8s.io", "v1", "events", "reportingController", Ok("reportingComponent")),
            (
                "events.k8s.io",
                "v1",
                "events",
                "involvedObject.uid",
                Err("field label not supported: involvedObject.uid"),
            ),
            ("", "v1", "nodes", "metadata.namespace", Err("field label not supported: metadata.namespace")),
            ("", "v1", "persistentvolumes", "metadata.namespace", Ok("metadata.namespace")),
            ("batch", "v1", "jobs", "status.failed", Err("field label \"status.failed\" not supported for Job")),
            (
                "resource.k8s.io",
                "v1beta2",
                "resourceslices",
                "spec.x",
                Err("field label not supported for resource.k8s.io/v1beta2, Kind=ResourceSlice: spec.x"),
            ),
            (
                "apps",
                "v1",
                "replicasets",
                "status.replicas",
                Err(
                    "\"status.replicas\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                ),
            ),
        ] {
            let found = find(group, version, plural).map(|resource| resource.field_labels.resolve(label));
            assert_eq!(found, Some(expected.map_err(str::to_owned)), "{group}/{version} {plural} {label}");
        }
    }

    #[test]
    fn uses_storage_prefixes_of_kube_apiserver() {
        for (group, version, plural, key_prefix, stored) in [
            ("", "v1", "pods", "pods", ["", "v1"]),
            ("", "v1", "nodes", "minions", ["", "v1"]),
            ("", "v1", "endpoints", "services/endpoints", ["", "v1"]),
            ("", "v1", "services", "services/specs", ["", "v1"]),
            ("", "v1", "replicationcontrollers", "controllers", ["", "v1"]),
            ("events.k8s.io", "v1", "events", "events", ["", "v1"]),
            ("networking.k8s.io", "v1", "ingresses", "ingress", ["networking.k8s.io", "v1"]),
            ("autoscaling", "v1", "horizontalpodautoscalers", "horizontalpodautoscalers", ["autoscaling", "v2"]),
            ("resource.k8s.io", "v1beta2", "devicetaintrules", "devicetaintrules", ["resource.k8s.io", "v1alpha3"]),
            (
                "admissionregistration.k8s.io",
                "v1",
                "mutatingadmissionpolicies",
                "mutatingadmissionpolicies",
                ["admissionregistration.k8s.io", "v1beta1"],
            ),
            (
                "apiregistration.k8s.io",
                "v1",
                "apiservices",
                "apiregistration.k8s.io/apiservices",
                ["apiregistration.k8s.io", "v1"],
            ),
        ] {
            let storage = find(group, version, plural).and_then(|resource| resource.storage.clone());
            let found = storage.map(|storage| (storage.key_prefix, [storage.group, storage.version]));
            assert_eq!(found, Some((key_prefix.into(), stored.map(Text::from))), "{group}/{version} {plural}");
        }
        assert!(find_kind("", "v1", "Binding").is_some_and(|bindings| bindings.storage.is_none()));
        assert!(find("", "v2", "pods").is_none());
    }
}
