//! `rbac.authorization.k8s.io`: roles and their bindings.

mod binding;
mod role;

use crate::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[
    ("ClusterRole", &role::ClusterRole),
    ("ClusterRoleBinding", &binding::ClusterRoleBinding),
    ("Role", &role::Role),
    ("RoleBinding", &binding::RoleBinding),
];

/// Accepts any path segment as the name of a role or binding (`system:node`), and as its prefix.
fn validate_name(name: &str) -> Vec<String> {
    binnacle_validation::names::path_segment(name, false)
}
