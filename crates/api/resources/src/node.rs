//! `node.k8s.io`: the container runtimes of nodes.

use binnacle_scheme::{GroupDescription, VersionDescription, cluster, shared};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 16300,
        versions: vec![VersionDescription {
            version: "v1",
            priority: 15,
            served_by_default: true,
            resources: shared![
                cluster!(NAME, "v1", "runtimeclasses", "runtimeclass", "RuntimeClass")
                    .create_on_update()
                    .only_conditional_update()
                    .since(20)
            ],
        }],
    }
}

const NAME: &str = "node.k8s.io";
