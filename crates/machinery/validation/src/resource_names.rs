//! Names of resources (`cpu`, `example.com/gpu`) in containers and quotas.

use binnacle_fields::of_named_type;
use binnacle_meta::{FieldError, FieldErrors, Location, Quantity};

use crate::names;
use crate::numbers::non_negative_quantity;

const HUGE_PAGES: &str = "hugepages-";

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

/// Resources with integer quantities.
const INTEGERS: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Validates the quantity of a resource.
pub fn amount(path: &dyn Location, name: &str, text: &str, errors: &mut FieldErrors) {
    non_negative_quantity(path, text, errors);
    let fraction = || Quantity::parse(text).is_ok_and(|quantity| quantity.milli_value() % 1000 != 0);
    if is_integer(name) && fraction() {
        errors.push(FieldError::invalid(path, text, "must be an integer"));
    }
}

/// Validates a quantity of huge pages: a multiple of their size.
pub fn huge_pages(path: &dyn Location, name: &str, text: &str, errors: &mut FieldErrors) {
    let Some(size) = name.strip_prefix(HUGE_PAGES) else { return };
    let Ok(amount) = Quantity::parse(text) else { return };
    let size = Quantity::parse(size).ok().filter(|size| size.sign() > 0 && size.milli_value() % 1000 == 0);
    if size.is_none_or(|size| amount.value() % size.value() != 0) {
        let detail = format!("{text} is not positive integer multiple of {name}");
        errors.push(FieldError::invalid(path, text, detail));
    }
}

/// Validates the name of any resource.
pub fn any(path: &dyn Location, name: &str, errors: &mut FieldErrors) {
    let messages = names::label_key(name);
    errors.extend(messages.iter().map(|m| FieldError::invalid(path, of_named_type(name), m)));
    if messages.is_empty() && !name.contains('/') && !is_standard(name) {
        errors.push(FieldError::invalid(
            path,
            of_named_type(name),
            "must be a standard resource type or fully qualified",
        ));
    }
}

/// Validates the name of a container's resource.
pub fn of_containers(path: &dyn Location, name: &str, errors: &mut FieldErrors) {
    any(path, name, errors);
    if !name.contains('/') {
        if !is_standard_for_containers(name) {
            errors.push(FieldError::invalid(path, of_named_type(name), "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(FieldError::invalid(path, of_named_type(name), "doesn't follow extended resource name standard"));
    }
}

/// Validates the name of a resource in a quota.
pub fn of_quotas(path: &dyn Location, name: &str, errors: &mut FieldErrors) {
    any(path, name, errors);
    if !name.contains('/') && !is_standard_for_quotas(name) {
        errors.push(FieldError::invalid(path, of_named_type(name), "must be a standard resource for quota"));
    }
}

pub fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge_pages(name) || name.starts_with("requests.hugepages-")
}

pub fn is_standard_for_containers(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_pages(name)
}

/// Returns true for standard resources other than `storage`, which claims request.
pub fn is_standard_for_quotas(name: &str) -> bool {
    is_standard(name) && name != "storage"
}

/// Returns true for names without a domain or with a domain of Kubernetes.
pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Returns true for names with another domain that are valid in quotas.
pub fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::label_key(&format!("requests.{name}")).is_empty()
}

/// Returns true for resources with integer quantities: objects and extended resources.
pub fn is_integer(name: &str) -> bool {
    INTEGERS.contains(&name) || is_extended(name)
}

pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_meta::FieldPath;

    #[test]
    fn validates_resource_names() {
        type Rule = fn(&dyn Location, &str, &mut FieldErrors);
        for (rule, value, want) in [
            (of_containers as Rule, "cpu", vec![]),
            (of_containers, "hugepages-2Mi", vec![]),
            (of_containers, "example.com/gpu", vec![]),
            (of_containers, "pods", vec!["must be a standard resource for containers"]),
            (
                of_containers,
                "gpu",
                vec![
                    "must be a standard resource type or fully qualified",
                    "must be a standard resource for containers",
                ],
            ),
            (of_containers, "requests.example.com/gpu", vec!["doesn't follow extended resource name standard"]),
            (|p, v, e| amount(p, "example.com/gpu", v, e), "1500m", vec!["must be an integer"]),
            (|p, v, e| amount(p, "cpu", v, e), "1500m", vec![]),
            (|p, v, e| amount(p, "cpu", v, e), "-1", vec!["must be greater than or equal to 0"]),
            (|p, v, e| huge_pages(p, "hugepages-2Mi", v, e), "4Mi", vec![]),
            (
                |p, v, e| huge_pages(p, "hugepages-2Mi", v, e),
                "3Mi",
                vec!["3Mi is not positive integer multiple of hugepages-2Mi"],
            ),
        ] {
            let mut errors = FieldErrors::new();
            rule(&FieldPath::new("x"), value, &mut errors);
            let got: Vec<&str> =
                errors.iter().map(|e| e.body().split_once("\": ").map_or("", |(_, detail)| detail)).collect();
            assert_eq!(got, want, "{value}");
        }
    }
}
