//! Fields of features that are off in this version: dropped unless the old object has them already.

use binnacle_schema::{Object, Value};

use crate::tree::{is_nil, struct_mut, structs_mut};

const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
const STATUSES: [&str; 3] = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];

/// Projections of feature gates `ClusterTrustBundleProjection` and `PodCertificateRequest`.
const PROJECTIONS: [&str; 2] = ["clusterTrustBundle", "podCertificate"];

/// Drops from a pod's spec what is off; `old` is the spec before the update.
pub(crate) fn drop_disabled_spec_fields(spec: &mut Object, old: Option<&Value>) {
    for projection in PROJECTIONS {
        if !projects(old, projection) {
            for volume in structs_mut(spec, "volumes") {
                let sources = struct_mut(volume, "projected").into_iter().flat_map(|p| structs_mut(p, "sources"));
                sources.for_each(|source| {
                    source.remove(projection);
                });
            }
        }
    }
    // Feature gate `GenericWorkload`.
    if old.is_none_or(|old| old.get("schedulingGroup").is_none_or(Value::is_null)) {
        spec.remove("schedulingGroup");
    }
    // Feature gate `ContainerStopSignals`.
    if !has_stop_signal(old) {
        for list in CONTAINERS {
            structs_mut(spec, list).for_each(drop_stop_signal);
        }
    }
}

/// Drops from a pod's status what is off; `old` is the status before the update.
pub(crate) fn drop_disabled_status_fields(status: &mut Object, old: Option<&Value>) {
    // Feature gate `ImageVolumeWithDigest`.
    if !has_volume_status(old) {
        for list in STATUSES {
            for mount in structs_mut(status, list).flat_map(|status| structs_mut(status, "volumeMounts")) {
                mount.remove("volumeStatus");
            }
        }
    }
    // Feature gate `DRANodeAllocatableResources`.
    if old.is_none_or(|old| old.list_at(&["nodeAllocatableResourceClaimStatuses"]).is_empty()) {
        status.remove("nodeAllocatableResourceClaimStatuses");
    }
}

fn projects(spec: Option<&Value>, projection: &str) -> bool {
    let volumes = spec.map_or(&[][..], |spec| spec.list_at(&["volumes"]));
    volumes
        .iter()
        .flat_map(|volume| volume.list_at(&["projected", "sources"]))
        .any(|source| source.get(projection).is_some_and(|p| !p.is_null()))
}

fn has_stop_signal(spec: Option<&Value>) -> bool {
    CONTAINERS
        .iter()
        .flat_map(|list| spec.map_or(&[][..], |spec| spec.list_at(&[list])))
        .any(|container| container.object_at(&["lifecycle"]).is_some_and(|lifecycle| !is_nil(lifecycle, "stopSignal")))
}

/// A lifecycle that said nothing else goes with the signal.
fn drop_stop_signal(container: &mut Object) {
    let Some(lifecycle) = struct_mut(container, "lifecycle") else { return };
    if lifecycle.remove("stopSignal").is_some_and(|signal| !signal.is_null())
        && is_nil(lifecycle, "postStart")
        && is_nil(lifecycle, "preStop")
    {
        container.remove("lifecycle");
    }
}

fn has_volume_status(status: Option<&Value>) -> bool {
    STATUSES
        .iter()
        .flat_map(|list| status.map_or(&[][..], |status| status.list_at(&[list])))
        .flat_map(|status| status.list_at(&["volumeMounts"]))
        .any(|mount| mount.get("volumeStatus").is_some_and(|status| !status.is_null()))
}

#[cfg(test)]
mod tests {
    use super::*;
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
            drop_disabled_spec_fields(spec.make_object(), old);
            assert_eq!(&spec, want);
        }
    }
}
