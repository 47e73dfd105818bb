//! `autoscaling`: horizontal pod autoscalers, one object read through two versions.

use crate::description::{
    GroupDescription, ResourceDescription, SubresourceDescription, VersionDescription, namespaced,
};

pub(crate) static GROUP: GroupDescription = GroupDescription {
    name: NAME,
    priority: 17500,
    versions: &[
        VersionDescription {
            version: "v2",
            priority: 30,
            served_by_default: true,
            resources: &[horizontal_pod_autoscalers("v2").since(23)],
        },
        VersionDescription {
            version: "v1",
            priority: 15,
            served_by_default: true,
            resources: &[horizontal_pod_autoscalers("v1").since(2)],
        },
    ],
};

const NAME: &str = "autoscaling";

const STATUS: &[SubresourceDescription] = &[SubresourceDescription::status(&["spec"])];

const fn horizontal_pod_autoscalers(version: &'static str) -> ResourceDescription {
    namespaced!(NAME, version, "horizontalpodautoscalers", "horizontalpodautoscaler", "HorizontalPodAutoscaler")
        .short(&["hpa"])
        .categories(&["all"])
        .stored_in("v2")
        .resets(&["status"])
        .subresources(STATUS)
}
