//! `apps`: workloads made of pods.

use crate::description::{
    GarbageCollection, GroupDescription, ResourceDescription, SubresourceDescription, VersionDescription, namespaced,
};
use crate::fields::{FieldLabels, NAME as METADATA_NAME, NAMESPACE, SelectableField, int};

pub(crate) static GROUP: GroupDescription = GroupDescription {
    name: NAME,
    priority: 17800,
    versions: &[VersionDescription {
        version: "v1",
        priority: 15,
        served_by_default: true,
        resources: &[
            namespaced!(NAME, "v1", "controllerrevisions", "controllerrevision", "ControllerRevision").since(9),
            workload(namespaced!(NAME, "v1", "daemonsets", "daemonset", "DaemonSet"))
                .short(&["ds"])
                .subresources(&[SubresourceDescription::status(&["spec"])]),
            workload(namespaced!(NAME, "v1", "deployments", "deployment", "Deployment"))
                .short(&["deploy"])
                .subresources(&[
                    SubresourceDescription::scale(),
                    SubresourceDescription::status(&["metadata.labels", "spec"]),
                ]),
            workload(namespaced!(NAME, "v1", "replicasets", "replicaset", "ReplicaSet"))
                .short(&["rs"])
                .selectable(REPLICA_SET_FIELDS, FieldLabels::METADATA)
                .subresources(SCALED),
            workload(namespaced!(NAME, "v1", "statefulsets", "statefulset", "StatefulSet"))
                .short(&["sts"])
                .subresources(SCALED),
        ],
    }],
};

const NAME: &str = "apps";

const SCALED: &[SubresourceDescription] = &[SubresourceDescription::scale(), SubresourceDescription::status(&["spec"])];

/// `status.replicas` is computed, but no label of `apps/v1` leads to it.
const REPLICA_SET_FIELDS: &[SelectableField] =
    &[METADATA_NAME, NAMESPACE, int("status.replicas", &["status", "replicas"])];

const fn workload(resource: ResourceDescription) -> ResourceDescription {
    resource.categories(&["all"]).garbage_collection(GarbageCollection::DeleteDependents).resets(&["status"]).since(9)
}
