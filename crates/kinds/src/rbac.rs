//! `rbac.authorization.k8s.io`: roles and their bindings.

mod binding;
mod role;

use crate::all::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[
    ("ClusterRole", &role::ClusterRole),
    ("ClusterRoleBinding", &binding::ClusterRoleBinding),
    ("Role", &role::Role),
    ("RoleBinding", &binding::RoleBinding),
];

/// Names of roles and bindings may hold whatever a path segment may (`system:node`).
fn validate_name(name: &str, prefix: bool) -> Vec<String> {
    binnacle_validation::names::path_segment(name, prefix)
}
