//! Validation of references to fields of the pod and to resources of its containers (the downward API).

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{ObjectFieldSelector, ResourceFieldSelector};
use binnacle_meta::FieldErrors;
use binnacle_validation::checks;

use binnacle_validation::pod_resources::quantity;

/// All fields that `v1` has a name for.
const KNOWN: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const BYTES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Validates a `fieldRef`: one of the supported fields, or one label or annotation.
pub(super) fn field(selector: FieldRef<ObjectFieldSelector>, supported: &[&str], errors: &mut FieldErrors) {
    let version = selector.at(ObjectFieldSelector::API_VERSION);
    if version.is_empty() {
        return errors.push(version.required(""));
    }
    let path = selector.at(ObjectFieldSelector::FIELD_PATH);
    let given = path.str();
    if given.is_empty() {
        return errors.push(path.required(""));
    }
    let mut cannot = |why: &str, subject: &str| {
        errors.push(path.invalid(format!("error converting fieldPath: {why}: {subject}")));
    };
    if version.str() != "v1" {
        return cannot("unsupported pod version", version.str());
    }
    if let Some((field, subscript)) = subscripted(given) {
        return match field {
            "metadata.annotations" => checks::qualified_name(&selector, &subscript.to_lowercase(), errors),
            "metadata.labels" => checks::qualified_name(&selector, subscript, errors),
            _ => cannot("field label does not support subscript", given),
        };
    }
    // The name of the field before v1.
    let name = if given == "spec.host" { "spec.nodeName" } else { given };
    if !KNOWN.contains(&name) {
        return cannot("field label not supported", given);
    }
    checks::string_one_of(&path, name, supported, errors);
}

/// Validates a `resourceFieldRef`; in a volume it must name its container.
pub(super) fn resource(selector: FieldRef<ResourceFieldSelector>, in_volume: bool, errors: &mut FieldErrors) {
    let (container, resource) =
        (selector.at(ResourceFieldSelector::CONTAINER_NAME), selector.at(ResourceFieldSelector::RESOURCE));
    let name = resource.str();
    let huge_pages = name.starts_with("limits.hugepages-") || name.starts_with("requests.hugepages-");
    if in_volume && container.is_empty() {
        errors.push(container.required(""));
    } else if name.is_empty() {
        errors.push(resource.required(""));
    } else if !huge_pages {
        checks::string_one_of(&resource, name, &RESOURCES, errors);
    }
    let divisor = selector.at(ResourceFieldSelector::DIVISOR);
    let Some(given) = quantity(divisor.value()).filter(|amount| !amount.is_zero()) else { return };
    let (supported, of) = match name {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"][..], "cpu"),
        "limits.memory" | "requests.memory" => (&BYTES[..], "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (&BYTES[..], "local ephemeral storage"),
        _ if huge_pages => (&BYTES[..], "hugepages"),
        _ => return,
    };
    if !supported.contains(&given.to_string().as_str()) {
        let list = if of == "cpu" { "1m and 1".to_owned() } else { supported.join(", ") };
        let why = format!("only divisor's values {list} are supported with the {of} resource");
        errors.push(divisor.invalid_as(name, why));
    }
}

/// Splits `field['subscript']` into its parts.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(field, _)| !field.is_empty())
}
