//! `autoscaling`: horizontal pod autoscalers, one object read through two versions.

use binnacle_scheme::{
    GroupDescription, ResourceDescription, SubresourceDescription, VersionDescription, namespaced, shared,
};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 17500,
        versions: vec![
            VersionDescription {
                version: "v2",
                priority: 30,
                served_by_default: true,
                resources: shared![horizontal_pod_autoscalers("v2").since(23)],
            },
            VersionDescription {
                version: "v1",
                priority: 15,
                served_by_default: true,
                resources: shared![horizontal_pod_autoscalers("v1").since(2)],
            },
        ],
    }
}

const NAME: &str = "autoscaling";

fn status() -> Vec<SubresourceDescription> {
    vec![SubresourceDescription::status(&["spec"])]
}

fn horizontal_pod_autoscalers(version: &'static str) -> ResourceDescription {
    namespaced!(NAME, version, "horizontalpodautoscalers", "horizontalpodautoscaler", "HorizontalPodAutoscaler")
        .short(&["hpa"])
        .categories(&["all"])
        .stored_in("v2")
        .resets(&["status"])
        .subresources(status())
}
