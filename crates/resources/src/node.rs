//! `node.k8s.io`: the container runtimes that nodes offer.

use crate::description::{GroupDescription, VersionDescription, cluster};

pub(crate) static GROUP: GroupDescription = GroupDescription {
    name: NAME,
    priority: 16300,
    versions: &[VersionDescription {
        version: "v1",
        priority: 15,
        served_by_default: true,
        resources: &[cluster!(NAME, "v1", "runtimeclasses", "runtimeclass", "RuntimeClass")
            .create_on_update()
            .only_conditional_update()
            .since(20)],
    }],
};

const NAME: &str = "node.k8s.io";
