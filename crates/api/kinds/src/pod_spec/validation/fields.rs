//! Validation of references to fields of the pod and to resources of its containers (the downward API).

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
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
pub(super) fn field(selector: &Value, supported: &[&str], path: &FieldPath, errors: &mut FieldErrors) {
    let (version, given) = (selector.str_at(&["apiVersion"]), selector.str_at(&["fieldPath"]));
    if version.is_empty() {
        return errors.push(FieldError::required(&path.child("apiVersion"), ""));
    }
    let at = path.child("fieldPath");
    if given.is_empty() {
        return errors.push(FieldError::required(&at, ""));
    }
    let mut cannot = |why: &str, subject: &str| {
        let why = format!("error converting fieldPath: {why}: {subject}");
        errors.push(FieldError::invalid(&at, given, why));
    };
    if version != "v1" {
        return cannot("unsupported pod version", version);
    }
    if let Some((field, subscript)) = subscripted(given) {
        return match field {
            "metadata.annotations" => checks::qualified_name(path, &subscript.to_lowercase(), errors),
            "metadata.labels" => checks::qualified_name(path, subscript, errors),
            _ => cannot("field label does not support subscript", given),
        };
    }
    // The name of the field before v1.
    let name = if given == "spec.host" { "spec.nodeName" } else { given };
    if !KNOWN.contains(&name) {
        return cannot("field label not supported", given);
    }
    checks::one_of(&at, name, supported, errors);
}

/// Validates a `resourceFieldRef`; in a volume it must name its container.
pub(super) fn resource(selector: &Value, in_volume: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let resource = selector.str_at(&["resource"]);
    let huge_pages = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if in_volume && selector.str_at(&["containerName"]).is_empty() {
        errors.push(FieldError::required(&path.child("containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(&path.child("resource"), ""));
    } else if !huge_pages {
        checks::one_of(&path.child("resource"), resource, &RESOURCES, errors);
    }
    let divisor = selector.get("divisor").and_then(quantity);
    let Some(divisor) = divisor.filter(|divisor| !divisor.is_zero()).map(|divisor| divisor.to_string()) else { return };
    let (supported, of) = match resource {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"][..], "cpu"),
        "limits.memory" | "requests.memory" => (&BYTES[..], "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => (&BYTES[..], "local ephemeral storage"),
        _ if huge_pages => (&BYTES[..], "hugepages"),
        _ => return,
    };
    if !supported.contains(&divisor.as_str()) {
        let list = if of == "cpu" { "1m and 1".to_owned() } else { supported.join(", ") };
        let why = format!("only divisor's values {list} are supported with the {of} resource");
        errors.push(FieldError::invalid(&path.child("divisor"), resource, why));
    }
}

/// Splits `field['subscript']` into its parts.
fn subscripted(path: &str) -> Option<(&str, &str)> {
    path.strip_suffix("']")?.split_once("['").filter(|(field, _)| !field.is_empty())
}
