//! `apps`: workloads that consist of pods.

use binnacle_fields::apps::v1::{ReplicaSet, ReplicaSetStatus};
use binnacle_scheme::fields::{FieldLabels, NAME as METADATA_NAME, NAMESPACE, SelectableField, int};
use binnacle_scheme::{
    GarbageCollection, GroupDescription, ResourceDescription, SubresourceDescription, VersionDescription, namespaced,
    shared,
};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 17800,
        versions: vec![VersionDescription {
            version: "v1",
            priority: 15,
            served_by_default: true,
            resources: shared![
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
                    .subresources(scaled()),
                workload(namespaced!(NAME, "v1", "statefulsets", "statefulset", "StatefulSet"))
                    .short(&["sts"])
                    .subresources(scaled()),
            ],
        }],
    }
}

const NAME: &str = "apps";

fn scaled() -> Vec<SubresourceDescription> {
    vec![SubresourceDescription::scale(), SubresourceDescription::status(&["spec"])]
}

/// `status.replicas` is computed, but has no field label in `apps/v1`.
const REPLICA_SET_FIELDS: &[SelectableField] =
    &[METADATA_NAME, NAMESPACE, int("status.replicas", path![ReplicaSet::STATUS, ReplicaSetStatus::REPLICAS])];

fn workload(resource: ResourceDescription) -> ResourceDescription {
    resource.categories(&["all"]).garbage_collection(GarbageCollection::DeleteDependents).resets(&["status"]).since(9)
}
