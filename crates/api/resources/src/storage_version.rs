//! The version in which the objects of a resource are written to the store: one that a server of the previous release
//! can also read, so that an upgrade can be rolled back (KEP-4330).

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_scheme::{Lifecycle, Release, ResourceDescription};

use crate::find_group;

/// Resources, by group and plural name, that are written in the same version for every emulated release: their storage
/// version is not the newest, and is changed manually between releases.
const FIXED: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("certificates.k8s.io", "clustertrustbundles"),
    ("certificates.k8s.io", "podcertificaterequests"),
    ("coordination.k8s.io", "leasecandidates"),
    ("resource.k8s.io", "devicetaintrules"),
    ("resource.k8s.io", "resourcepoolstatusrequests"),
    ("scheduling.k8s.io", "podgroups"),
    ("scheduling.k8s.io", "workloads"),
];

/// Returns the version in which a server that emulates `emulated` writes, if servers of `compatible` must be able to
/// read. `None` for resources that are not stored.
pub fn storage_version(description: &ResourceDescription, emulated: Release, compatible: Release) -> Option<Text> {
    let storage = description.storage.as_ref()?;
    if FIXED.contains(&(storage.group.as_str(), description.plural.as_str())) {
        return Some(storage.version.clone());
    }
    let group = find_group(&storage.group)?;
    let versions =
        || group.versions.iter().filter_map(|version| Some((version.version, version.kind(&storage.kind)?.lifecycle)));
    let known = |release: Release| {
        move |(_, lifecycle): &(_, Lifecycle)| lifecycle.introduced.is_none_or(|since| since <= release)
    };
    // Alpha versions need not support rollback.
    let compatible_version = versions().filter(|(version, _)| !version.contains("alpha")).find(known(compatible));
    let found = compatible_version.or_else(|| versions().find(known(emulated)));
    Some(found.map_or(storage.version.clone(), |(version, _)| Text::new_static(version)))
}

/// Returns the description with the version whose hash discovery shows under this emulation.
pub fn announced(
    description: &Arc<ResourceDescription>,
    emulated: Release,
    compatible: Release,
) -> Arc<ResourceDescription> {
    let Some(storage) = &description.storage else { return description.clone() };
    if storage.announced_version != storage.version {
        return description.clone();
    }
    match storage_version(description, emulated, compatible) {
        Some(version) if version != storage.announced_version => {
            Arc::new(ResourceDescription::clone(description).announced_as(version))
        }
        _ => description.clone(),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_scheme::Release;

    use super::storage_version;
    use crate::{find, groups};

    fn release(minor: u16) -> [Release; 2] {
        [Release { major: 1, minor }, Release { major: 1, minor: minor - 1 }]
    }

    #[test]
    fn storage_versions_depend_on_emulated_release() {
        for (group, version, plural, written) in [
            ("resource.k8s.io", "v1", "resourceclaims", ["v1beta1", "v1beta2", "v1", "v1"]),
            ("resource.k8s.io", "v1beta2", "devicetaintrules", ["v1alpha3"; 4]),
            ("networking.k8s.io", "v1", "servicecidrs", ["v1beta1", "v1", "v1", "v1"]),
            ("storage.k8s.io", "v1", "volumeattributesclasses", ["v1beta1", "v1beta1", "v1", "v1"]),
            ("admissionregistration.k8s.io", "v1", "mutatingadmissionpolicies", ["v1beta1"; 4]),
            ("autoscaling", "v1", "horizontalpodautoscalers", ["v2"; 4]),
            ("events.k8s.io", "v1", "events", ["v1"; 4]),
            ("storagemigration.k8s.io", "v1beta1", "storageversionmigrations", ["v1beta1"; 4]),
            ("", "v1", "pods", ["v1"; 4]),
        ] {
            let described = find(group, version, plural).expect("a resource");
            let got = [33, 34, 35, 36]
                .map(release)
                .map(|[emulated, compatible]| storage_version(described, emulated, compatible).expect("it is stored"));
            assert_eq!(got, written, "{group} {plural}");
        }
    }

    /// The storage versions of the descriptions are those that this release writes without emulation.
    #[test]
    fn described_storage_versions_are_those_of_this_release() {
        let [emulated, compatible] = release(36);
        for version in groups().iter().flat_map(|group| &group.versions) {
            for resource in &version.resources {
                let stored = resource.storage.as_ref().map(|storage| storage.version.clone());
                assert_eq!(storage_version(resource, emulated, compatible), stored, "{:?}", resource.plural);
            }
        }
    }
}
