//! Fields of disabled feature gates, which are dropped unless the old object has them.

use std::collections::HashSet;

use binnacle_schema::{Object, Value};

use crate::Features;
use crate::gated_names::{Gated, drop_disabled, in_use};
use crate::tree_names::{is_nil, struct_mut, structs_mut, text};

/// The gated fields of a pod's spec.
const SPEC: &[Gated] = &[
    Gated { feature: "UserNamespacesSupport", fields: &[&["hostUsers"]] },
    Gated { feature: "SupplementalGroupsPolicy", fields: &[&["securityContext", "supplementalGroupsPolicy"]] },
    Gated { feature: "PodLevelResources", fields: &[&["resources"]] },
    // A pod with claims in its containers has claims itself.
    Gated {
        feature: "DynamicResourceAllocation",
        fields: &[
            &["resourceClaims"],
            &["containers", "*", "resources", "claims"],
            &["initContainers", "*", "resources", "claims"],
            &["ephemeralContainers", "*", "resources", "claims"],
        ],
    },
    Gated { feature: "SELinuxChangePolicy", fields: &[&["securityContext", "seLinuxChangePolicy"]] },
    Gated {
        feature: "MatchLabelKeysInPodTopologySpread",
        fields: &[&["topologySpreadConstraints", "*", "matchLabelKeys"]],
    },
    Gated {
        feature: "ClusterTrustBundleProjection",
        fields: &[&["volumes", "*", "projected", "sources", "*", "clusterTrustBundle"]],
    },
    Gated {
        feature: "PodCertificateRequest",
        fields: &[&["volumes", "*", "projected", "sources", "*", "podCertificate"]],
    },
    Gated { feature: "GenericWorkload", fields: &[&["schedulingGroup"]] },
    Gated { feature: "HostnameOverride", fields: &[&["hostnameOverride"]] },
    Gated {
        feature: "EnvFiles",
        fields: &[
            &["containers", "*", "env", "*", "valueFrom", "fileKeyRef"],
            &["initContainers", "*", "env", "*", "valueFrom", "fileKeyRef"],
            &["ephemeralContainers", "*", "env", "*", "valueFrom", "fileKeyRef"],
        ],
    },
];

/// The gated fields of a pod's status.
const STATUS: &[Gated] = &[
    Gated {
        feature: "PodObservedGenerationTracking",
        fields: &[&["observedGeneration"], &["conditions", "*", "observedGeneration"]],
    },
    Gated { feature: "InPlacePodLevelResourcesVerticalScaling", fields: &[&["resources"], &["allocatedResources"]] },
    Gated { feature: "DRAExtendedResource", fields: &[&["extendedResourceClaimStatus"]] },
    Gated {
        feature: "ResourceHealthStatus",
        fields: &[
            &["containerStatuses", "*", "allocatedResourcesStatus"],
            &["initContainerStatuses", "*", "allocatedResourcesStatus"],
            &["ephemeralContainerStatuses", "*", "allocatedResourcesStatus"],
        ],
    },
    Gated {
        feature: "ResourceHealthStatusMessage",
        fields: &[
            &["containerStatuses", "*", "allocatedResourcesStatus", "*", "resources", "*", "message"],
            &["initContainerStatuses", "*", "allocatedResourcesStatus", "*", "resources", "*", "message"],
            &["ephemeralContainerStatuses", "*", "allocatedResourcesStatus", "*", "resources", "*", "message"],
        ],
    },
    Gated {
        feature: "ImageVolumeWithDigest",
        fields: &[
            &["containerStatuses", "*", "volumeMounts", "*", "volumeStatus"],
            &["initContainerStatuses", "*", "volumeMounts", "*", "volumeStatus"],
            &["ephemeralContainerStatuses", "*", "volumeMounts", "*", "volumeStatus"],
        ],
    },
    Gated { feature: "DRANodeAllocatableResources", fields: &[&["nodeAllocatableResourceClaimStatuses"]] },
];

pub(super) const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];

/// Drops disabled fields from a pod's spec; `old` is the spec before the update.
pub(crate) fn drop_disabled_spec_fields(features: &Features, spec: &mut Value, old: Option<&Value>) {
    drop_disabled(features, spec, old, SPEC);
    let Some(spec) = spec.as_object_mut() else { return };
    if !features.enabled("ContainerRestartRules") && !has_restart_rules(old) {
        drop_restart_rules(spec);
    }
    if !features.enabled("ImageVolume") && !old.is_some_and(|old| in_use(old, &["volumes", "*", "image"])) {
        drop_image_volumes(spec);
    }
    if !features.enabled("ContainerStopSignals") && !has_stop_signal(old) {
        for list in CONTAINERS {
            structs_mut(spec, list).for_each(drop_stop_signal);
        }
    }
}

/// Drops disabled fields from a pod's status; `old` is the status before the update.
pub(crate) fn drop_disabled_status_fields(features: &Features, status: &mut Value, old: Option<&Value>) {
    drop_disabled(features, status, old, STATUS);
}

/// Returns true if a container has restart rules or a restart policy, except for sidecars, which had a policy before
/// this feature.
pub(super) fn has_restart_rules(spec: Option<&Value>) -> bool {
    let Some(spec) = spec else { return false };
    CONTAINERS.iter().any(|list| {
        spec.list_at(&[list]).iter().any(|container| {
            let policy = container.str_at(&["restartPolicy"]);
            let sidecar = *list == "initContainers" && policy == "Always";
            (!policy.is_empty() && !sidecar) || !container.list_at(&["restartPolicyRules"]).is_empty()
        })
    })
}

fn drop_restart_rules(spec: &mut Object) {
    for list in CONTAINERS {
        for container in structs_mut(spec, list) {
            container.remove("restartPolicyRules");
            if list != "initContainers" || text(container, "restartPolicy") != "Always" {
                container.remove("restartPolicy");
            }
        }
    }
}

/// Drops image volumes and their mounts.
fn drop_image_volumes(spec: &mut Object) {
    let Some(volumes) = spec.get_mut("volumes").and_then(Value::as_list_mut) else { return };
    let is_image = |volume: &Value| volume.get("image").is_some_and(|image| !image.is_null());
    let names: HashSet<String> =
        volumes.iter().filter(|v| is_image(v)).map(|v| v.str_at(&["name"]).to_owned()).collect();
    volumes.retain(|volume| !is_image(volume));
    for container in CONTAINERS.iter().filter(|_| !names.is_empty()) {
        for container in structs_mut(spec, container) {
            if let Some(mounts) = container.get_mut("volumeMounts").and_then(Value::as_list_mut) {
                mounts.retain(|mount| !names.contains(mount.str_at(&["name"])));
            }
        }
    }
}

fn has_stop_signal(spec: Option<&Value>) -> bool {
    let signals = CONTAINERS.map(|list| [list, "*", "lifecycle", "stopSignal"]);
    spec.is_some_and(|spec| signals.iter().any(|path| in_use(spec, path)))
}

/// Drops the stop signal, and the lifecycle if it has no other member.
fn drop_stop_signal(container: &mut Object) {
    let Some(lifecycle) = struct_mut(container, "lifecycle") else { return };
    if lifecycle.remove("stopSignal").is_some_and(|signal| !signal.is_null())
        && is_nil(lifecycle, "postStart")
        && is_nil(lifecycle, "preStop")
    {
        container.remove("lifecycle");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_features::{Gates, Version};
    use binnacle_schema::value;

    #[test]
    fn what_is_off_stays_only_where_it_was() {
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
    fn each_server_has_gates_of_its_own() {
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
