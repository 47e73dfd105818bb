//! Names of resources (`cpu`, `example.com/gpu`), as containers and quotas use them.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};

use crate::names;

const STANDARD: [&str; 20] = [
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "storage",
];

/// The rules for the name of any resource.
pub fn any(path: &FieldPath, name: &str, errors: &mut FieldErrors) {
    let messages = names::label_key(name);
    errors.extend(messages.iter().map(|m| FieldError::invalid(path, name, m)));
    if messages.is_empty() && !name.contains('/') && !is_standard(name) {
        errors.push(FieldError::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
}

/// The rules for the name of a resource that containers have.
pub fn of_containers(path: &FieldPath, name: &str, errors: &mut FieldErrors) {
    any(path, name, errors);
    if !name.contains('/') {
        if !is_standard_for_containers(name) {
            errors.push(FieldError::invalid(path, name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(FieldError::invalid(path, name, "doesn't follow extended resource name standard"));
    }
}

pub fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || name.starts_with("hugepages-") || name.starts_with("requests.hugepages-")
}

pub fn is_standard_for_containers(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// Without a domain, or with one of Kubernetes itself.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// With a domain of its own, and fit for quotas.
pub fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::label_key(&format!("requests.{name}")).is_empty()
}
