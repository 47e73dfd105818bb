//! `rbac.authorization.k8s.io`: roles and their bindings.

use binnacle_scheme::{GroupDescription, VersionDescription, cluster, namespaced, shared};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 17000,
        versions: vec![VersionDescription {
            version: "v1",
            priority: 15,
            served_by_default: true,
            resources: shared![
                cluster!(NAME, "v1", "clusterrolebindings", "clusterrolebinding", "ClusterRoleBinding")
                    .create_on_update()
                    .since(8),
                cluster!(NAME, "v1", "clusterroles", "clusterrole", "ClusterRole").create_on_update().since(8),
                namespaced!(NAME, "v1", "rolebindings", "rolebinding", "RoleBinding").create_on_update().since(8),
                namespaced!(NAME, "v1", "roles", "role", "Role").create_on_update().since(8),
            ],
        }],
    }
}

const NAME: &str = "rbac.authorization.k8s.io";
