//! Fields of disabled feature gates, which are dropped unless the old object has them.

use std::collections::HashSet;

use binnacle_fields::core::v1::{
    Container, ContainerStatus, EnvVar, EnvVarSource, EphemeralContainer, Lifecycle, PodCondition, PodSecurityContext,
    PodSpec, PodStatus, ProjectedVolumeSource, ResourceHealth, ResourceRequirements, ResourceStatus,
    TopologySpreadConstraint, Volume, VolumeMount, VolumeMountStatus, VolumeProjection,
};
use binnacle_fields::{FieldMut, FieldRef, Route, route};
use binnacle_schema::Value;

use super::containers::{for_each_container, is_sidecar};
use crate::Features;
use crate::gated::{GatedFields, drop_disabled, in_use};

/// The routes to a field of all containers.
macro_rules! in_containers {
    ($field:ident $(, $rest:expr)*) => {
        &[
            route![PodSpec::CONTAINERS, Container::$field $(, $rest)*],
            route![PodSpec::INIT_CONTAINERS, Container::$field $(, $rest)*],
            route![PodSpec::EPHEMERAL_CONTAINERS, EphemeralContainer::$field $(, $rest)*],
        ]
    };
}

/// The routes to a field of the statuses of all containers.
macro_rules! in_statuses {
    ($($rest:expr),*) => {
        &[
            route![PodStatus::CONTAINER_STATUSES, $($rest),*],
            route![PodStatus::INIT_CONTAINER_STATUSES, $($rest),*],
            route![PodStatus::EPHEMERAL_CONTAINER_STATUSES, $($rest),*],
        ]
    };
}

pub(super) const FILE_KEYS: &[Route<PodSpec>] = in_containers![ENV, EnvVar::VALUE_FROM, EnvVarSource::FILE_KEY_REF];
const STOP_SIGNALS: &[Route<PodSpec>] = in_containers![LIFECYCLE, Lifecycle::STOP_SIGNAL];

/// The gated fields of a pod's spec.
const SPEC: &[GatedFields<PodSpec>] = &[
    GatedFields { feature: "UserNamespacesSupport", fields: &[route![PodSpec::HOST_USERS]] },
    GatedFields {
        feature: "SupplementalGroupsPolicy",
        fields: &[route![PodSpec::SECURITY_CONTEXT, PodSecurityContext::SUPPLEMENTAL_GROUPS_POLICY]],
    },
    GatedFields { feature: "PodLevelResources", fields: &[route![PodSpec::RESOURCES]] },
    // A pod with claims in its containers has claims itself.
    GatedFields {
        feature: "DynamicResourceAllocation",
        fields: &[
            route![PodSpec::RESOURCE_CLAIMS],
            route![PodSpec::CONTAINERS, Container::RESOURCES, ResourceRequirements::CLAIMS],
            route![PodSpec::INIT_CONTAINERS, Container::RESOURCES, ResourceRequirements::CLAIMS],
            route![PodSpec::EPHEMERAL_CONTAINERS, EphemeralContainer::RESOURCES, ResourceRequirements::CLAIMS],
        ],
    },
    GatedFields {
        feature: "SELinuxChangePolicy",
        fields: &[route![PodSpec::SECURITY_CONTEXT, PodSecurityContext::SE_LINUX_CHANGE_POLICY]],
    },
    GatedFields {
        feature: "MatchLabelKeysInPodTopologySpread",
        fields: &[route![PodSpec::TOPOLOGY_SPREAD_CONSTRAINTS, TopologySpreadConstraint::MATCH_LABEL_KEYS]],
    },
    GatedFields {
        feature: "ClusterTrustBundleProjection",
        fields: &[route![
            PodSpec::VOLUMES,
            Volume::PROJECTED,
            ProjectedVolumeSource::SOURCES,
            VolumeProjection::CLUSTER_TRUST_BUNDLE
        ]],
    },
    GatedFields {
        feature: "PodCertificateRequest",
        fields: &[route![
            PodSpec::VOLUMES,
            Volume::PROJECTED,
            ProjectedVolumeSource::SOURCES,
            VolumeProjection::POD_CERTIFICATE
        ]],
    },
    GatedFields { feature: "GenericWorkload", fields: &[route![PodSpec::SCHEDULING_GROUP]] },
    GatedFields { feature: "HostnameOverride", fields: &[route![PodSpec::HOSTNAME_OVERRIDE]] },
    GatedFields { feature: "EnvFiles", fields: FILE_KEYS },
];

/// The gated fields of a pod's status.
const STATUS: &[GatedFields<PodStatus>] = &[
    GatedFields {
        feature: "PodObservedGenerationTracking",
        fields: &[
            route![PodStatus::OBSERVED_GENERATION],
            route![PodStatus::CONDITIONS, PodCondition::OBSERVED_GENERATION],
        ],
    },
    GatedFields {
        feature: "InPlacePodLevelResourcesVerticalScaling",
        fields: &[route![PodStatus::RESOURCES], route![PodStatus::ALLOCATED_RESOURCES]],
    },
    GatedFields { feature: "DRAExtendedResource", fields: &[route![PodStatus::EXTENDED_RESOURCE_CLAIM_STATUS]] },
    GatedFields { feature: "ResourceHealthStatus", fields: in_statuses![ContainerStatus::ALLOCATED_RESOURCES_STATUS] },
    GatedFields {
        feature: "ResourceHealthStatusMessage",
        fields: in_statuses![
            ContainerStatus::ALLOCATED_RESOURCES_STATUS,
            ResourceStatus::RESOURCES,
            ResourceHealth::MESSAGE
        ],
    },
    GatedFields {
        feature: "ImageVolumeWithDigest",
        fields: in_statuses![ContainerStatus::VOLUME_MOUNTS, VolumeMountStatus::VOLUME_STATUS],
    },
    GatedFields {
        feature: "DRANodeAllocatableResources",
        fields: &[route![PodStatus::NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUSES]],
    },
];

/// Drops disabled fields from a pod's spec; `old` is the spec before the update.
pub(crate) fn drop_disabled_spec_fields(features: &Features, spec: &mut Value, old: Option<&Value>) {
    let (mut spec, old) = (FieldMut::root(spec), old.map(FieldRef::<PodSpec>::root));
    let is_unused = |routes: &[Route<PodSpec>]| !old.is_some_and(|old| routes.iter().any(|route| in_use(old, *route)));
    drop_disabled(features, &mut spec, old, SPEC);
    if !features.enabled("ContainerRestartRules") && !has_restart_rules(old) {
        drop_restart_rules(&mut spec);
    }
    if !features.enabled("ImageVolume") && is_unused(&[route![PodSpec::VOLUMES, Volume::IMAGE]]) {
        drop_image_volumes(&mut spec);
    }
    if !features.enabled("ContainerStopSignals") && is_unused(STOP_SIGNALS) {
        for_each_container(&mut spec, drop_stop_signal);
    }
}

/// Drops disabled fields from a pod's status; `old` is the status before the update.
pub(crate) fn drop_disabled_status_fields(features: &Features, status: &mut Value, old: Option<&Value>) {
    drop_disabled(features, &mut FieldMut::root(status), old.map(FieldRef::root), STATUS);
}

/// Returns true if a container has restart rules or a restart policy, except for sidecars, which had a policy before
/// this feature.
pub(super) fn has_restart_rules(spec: Option<FieldRef<PodSpec>>) -> bool {
    let Some(spec) = spec else { return false };
    let has_rules = |container: FieldRef<Container>| !container.at(Container::RESTART_POLICY_RULES).is_empty();
    let has_policy = |container: FieldRef<Container>| !container.at(Container::RESTART_POLICY).is_empty();
    let init = spec.at(PodSpec::INIT_CONTAINERS);
    // Ephemeral containers have all fields of the others.
    let others = [spec.at(PodSpec::CONTAINERS), spec.at(PodSpec::EPHEMERAL_CONTAINERS).cast()];
    init.items().any(|c| has_rules(c) || (has_policy(c) && !is_sidecar(c.value())))
        || others.iter().any(|list| list.items().any(|c| has_rules(c) || has_policy(c)))
}

fn drop_restart_rules(spec: &mut FieldMut<PodSpec>) {
    for_each_container(spec, |mut container| drop(container.remove(Container::RESTART_POLICY_RULES)));
    for mut container in spec.items(PodSpec::CONTAINERS) {
        container.remove(Container::RESTART_POLICY);
    }
    for mut container in spec.items(PodSpec::EPHEMERAL_CONTAINERS) {
        container.remove(EphemeralContainer::RESTART_POLICY);
    }
    for mut container in spec.items(PodSpec::INIT_CONTAINERS).filter(|c| !is_sidecar(c.read().value())) {
        container.remove(Container::RESTART_POLICY);
    }
}

/// Drops image volumes and their mounts.
fn drop_image_volumes(spec: &mut FieldMut<PodSpec>) {
    let Some(volumes) = spec.get_mut(PodSpec::VOLUMES).and_then(Value::as_list_mut) else { return };
    let is_image = |volume: &Value| FieldRef::root(volume).at(Volume::IMAGE).is_set();
    let name = |volume: &Value| FieldRef::root(volume).at(Volume::NAME).str().to_owned();
    let names: HashSet<String> = volumes.iter().filter(|volume| is_image(volume)).map(name).collect();
    volumes.retain(|volume| !is_image(volume));
    if names.is_empty() {
        return;
    }
    for_each_container(spec, |mut container| {
        if let Some(mounts) = container.get_mut(Container::VOLUME_MOUNTS).and_then(Value::as_list_mut) {
            mounts.retain(|mount| !names.contains(FieldRef::root(mount).at(VolumeMount::NAME).str()));
        }
    });
}

/// Drops the stop signal, and the lifecycle if it has no other member.
fn drop_stop_signal(mut container: FieldMut<Container>) {
    let Some(mut lifecycle) = container.structure(Container::LIFECYCLE) else { return };
    if lifecycle.remove(Lifecycle::STOP_SIGNAL).is_some_and(|signal| !signal.is_null())
        && lifecycle.is_nil(Lifecycle::POST_START)
        && lifecycle.is_nil(Lifecycle::PRE_STOP)
    {
        container.remove(Container::LIFECYCLE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_features::{Gates, Version};
    use binnacle_schema::value;

    #[test]
    fn keeps_disabled_fields_only_if_in_use() {
        let given = value!({
            "schedulingGroup": {"podGroupName": "g"},
            "containers": [{"name": "a", "lifecycle": {"stopSignal": "SIGUSR1"}}, {"name": "b", "lifecycle": {"preStop": {}, "stopSignal": "SIGUSR1"}}],
            "volumes": [{"name": "v", "projected": {"sources": [{"clusterTrustBundle": {"path": "x"}}]}}]
        });
        let dropped = value!({
            "containers": [{"name": "a"}, {"name": "b", "lifecycle": {"preStop": {}}}],
            "volumes": [{"name": "v", "projected": {"sources": [{}]}}]
        });
        for (old, want) in [(None, &dropped), (Some(&dropped), &dropped), (Some(&given), &given)] {
            let mut spec = given.clone();
            drop_disabled_spec_fields(&Features::default(), &mut spec, old);
            assert_eq!(&spec, want);
        }
    }

    #[test]
    fn uses_the_feature_gates_of_each_server() {
        let given = value!({"schedulingGroup": {"podGroupName": "g"}, "containers": []});
        let gates = Gates::parse(&["GenericWorkload=true"], Version::BINARY, Version::BINARY.previous())
            .expect("an alpha gate");
        let on = Features { gates, ..Features::default() };
        for (features, keeps) in [(&on, true), (&Features::default(), false), (&on, true)] {
            let mut spec = given.clone();
            drop_disabled_spec_fields(features, &mut spec, None);
            assert_eq!(spec.get("schedulingGroup").is_some(), keeps);
        }
    }
}
