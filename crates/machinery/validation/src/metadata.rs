//! Validation of `metadata`, the same for every kind.

use std::collections::HashSet;

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Value, json};

use crate::names;
use crate::options::field_manager;

/// The maximum size of all annotations of an object together, in bytes.
const ANNOTATIONS_MAX: usize = 256 * 1024;
const SUBRESOURCE_MAX: usize = 256;

/// Validates `metadata` on create; `name_rule` is the kind's rule for names, called with `true` for a prefix.
pub fn validate(
    metadata: &Value,
    namespaced: bool,
    name_rule: impl Fn(&str, bool) -> Vec<String>,
    path: &FieldPath,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let generate_name = metadata.str_at(&["generateName"]);
    if !generate_name.is_empty() {
        let at = path.child("generateName");
        errors.extend(name_rule(generate_name, true).iter().map(|m| FieldError::invalid(&at, generate_name, m)));
    }
    let name = metadata.str_at(&["name"]);
    let at = path.child("name");
    if name.is_empty() {
        errors.push(FieldError::required(&at, "name or generateName is required"));
    } else {
        errors.extend(name_rule(name, false).iter().map(|m| FieldError::invalid(&at, name, m)));
    }
    common(metadata, namespaced, path, &mut errors);
    errors
}

/// Validates a change of `metadata` from `old`, in addition to [`validate`].
pub fn validate_update(new: &Value, old: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if old.get("deletionTimestamp").is_some_and(|t| !t.is_null()) {
        no_new_finalizers(new, old, path, &mut errors);
    }
    if new.str_at(&["resourceVersion"]).is_empty() {
        errors.push(FieldError::invalid(&path.child("resourceVersion"), "", "must be specified for an update"));
    }
    let generation = |metadata: &Value| metadata.int_at(&["generation"]).unwrap_or(0);
    if generation(new) < generation(old) {
        errors.push(FieldError::invalid(&path.child("generation"), generation(new), "must not be decremented"));
    }
    for field in ["name", "namespace", "uid"] {
        let (new, old) = (new.str_at(&[field]), old.str_at(&[field]));
        if new != old {
            errors.push(FieldError::invalid(&path.child(field), new, IMMUTABLE));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let (new, old) = (new.get(field).filter(|v| !v.is_null()), old.get(field).filter(|v| !v.is_null()));
        if new != old {
            errors.push(FieldError::invalid(&path.child(field), shown(new), IMMUTABLE));
        }
    }
    labels(new.get("labels"), &path.child("labels"), &mut errors);
    annotations(new.get("annotations"), &path.child("annotations"), &mut errors);
    owner_references(new.list_at(&["ownerReferences"]), &path.child("ownerReferences"), &mut errors);
    managed_fields(new.list_at(&["managedFields"]), &path.child("managedFields"), &mut errors);
    errors
}

/// `field is immutable`.
pub const IMMUTABLE: &str = "field is immutable";

/// Validates the labels of an object or a pod template.
pub fn labels(labels: Option<&Value>, path: &FieldPath, errors: &mut FieldErrors) {
    for (key, value) in errors.while_room(labels.and_then(Value::as_object).into_iter().flat_map(|o| o.iter())) {
        errors.extend(names::label_key(key).iter().map(|m| FieldError::invalid(path, key, m)));
        let value = value.as_str().unwrap_or("");
        errors.extend(names::label_value(value).iter().map(|m| FieldError::invalid(path, value, m)));
    }
}

/// Validates annotations: label keys in any case, and a limited total size.
pub fn annotations(annotations: Option<&Value>, path: &FieldPath, errors: &mut FieldErrors) {
    let mut size = 0;
    for (key, value) in errors.while_room(annotations.and_then(Value::as_object).into_iter().flat_map(|o| o.iter())) {
        size += key.len() + value.as_str().map_or(0, str::len);
        errors.extend(names::label_key(&key.to_lowercase()).iter().map(|m| FieldError::invalid(path, key, m)));
    }
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MAX));
    }
}

fn common(metadata: &Value, namespaced: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let namespace = metadata.str_at(&["namespace"]);
    let at = path.child("namespace");
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required(&at, "")),
        (true, false) => {
            let messages = names::dns1123_label_name(namespace, false);
            errors.extend(messages.iter().map(|m| FieldError::invalid(&at, namespace, m)));
        }
        (false, false) => errors.push(FieldError::forbidden(&at, "not allowed on this type")),
        (false, true) => {}
    }
    let generation = metadata.int_at(&["generation"]).unwrap_or(0);
    if generation < 0 {
        let at = path.child("generation");
        errors.push(FieldError::invalid(&at, generation, "must be greater than or equal to 0"));
    }
    labels(metadata.get("labels"), &path.child("labels"), errors);
    annotations(metadata.get("annotations"), &path.child("annotations"), errors);
    owner_references(metadata.list_at(&["ownerReferences"]), &path.child("ownerReferences"), errors);
    finalizers(metadata.list_at(&["finalizers"]), &path.child("finalizers"), errors);
    managed_fields(metadata.list_at(&["managedFields"]), &path.child("managedFields"), errors);
}

fn owner_references(references: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let mut controller = String::new();
    // Each error shows all references: their text is formatted once.
    let mut all = None;
    for reference in errors.while_room(references) {
        let api_version = reference.str_at(&["apiVersion"]);
        let (kind, name) = (reference.str_at(&["kind"]), reference.str_at(&["name"]));
        // An apiVersion with more than one slash has no version.
        let version = match api_version.split_once('/') {
            Some((_, version)) if version.contains('/') => "",
            Some((_, version)) => version,
            None => api_version,
        };
        if version.is_empty() {
            errors.push(FieldError::invalid(&path.child("apiVersion"), api_version, "version must not be empty"));
        }
        for (field, value) in [("kind", kind), ("name", name), ("uid", reference.str_at(&["uid"]))] {
            if value.is_empty() {
                errors.push(FieldError::invalid(&path.child(field), value, "must not be empty"));
            }
        }
        if api_version == "v1" && kind == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(path, shown(Some(reference)), detail));
        }
        if reference.bool_at(&["controller"]) {
            let this = format!("{kind}/{name}");
            if controller.is_empty() {
                controller = this;
            } else {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {controller} and {this}"
                );
                let all = all.get_or_insert_with(|| json::to_string(&Value::List(references.to_vec())));
                errors.push(FieldError::invalid(path, ErrorValue::raw(all.as_str()), detail));
                if errors.is_full() {
                    return;
                }
            }
        }
    }
}

/// Validates the names of finalizers, and that the two propagation policies for dependents exclude each other.
pub fn finalizers(finalizers: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let has = |name: &str| finalizers.iter().any(|f| f.as_str() == Some(name));
    for finalizer in errors.while_room(finalizers.iter().filter_map(Value::as_str)) {
        errors.extend(names::label_key(finalizer).iter().map(|m| FieldError::invalid(path, finalizer, m)));
    }
    if has("orphan") && has("foregroundDeletion") {
        errors.push(FieldError::invalid(
            path,
            shown(Some(&Value::List(finalizers.to_vec()))),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

/// Checks that finalizers have a domain, except the system's. Most kinds call this in addition to [`validate`].
pub fn finalizers_have_domains(metadata: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let names = metadata.list_at(&["finalizers"]).iter().map(|name| name.as_str().unwrap_or(""));
    for (at, name) in errors.while_room(names.enumerate().filter(|(_, name)| lacks_domain(name))) {
        errors.push(FieldError::invalid(&path.child("finalizers").index(at), name, NO_DOMAIN));
    }
    errors
}

/// Returns true for a finalizer without a domain that is not one of the system.
pub fn lacks_domain(finalizer: &str) -> bool {
    !finalizer.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer)
}

/// The error for a finalizer that [`lacks_domain`].
pub const NO_DOMAIN: &str = "name is neither a standard finalizer name nor is it fully qualified";

fn no_new_finalizers(new: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let old: HashSet<&str> = old.list_at(&["finalizers"]).iter().filter_map(Value::as_str).collect();
    let mut extra: Vec<&str> =
        new.list_at(&["finalizers"]).iter().filter_map(Value::as_str).filter(|f| !old.contains(f)).collect();
    extra.sort_unstable();
    extra.dedup();
    if !extra.is_empty() {
        let list: Vec<String> = extra.iter().map(|f| binnacle_meta::go_quote(f)).collect();
        errors.push(FieldError::forbidden(
            &path.child("finalizers"),
            format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            ),
        ));
    }
}

fn managed_fields(entries: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    for (i, entry) in errors.while_room(entries.iter().enumerate()) {
        let at = path.index(i);
        let operation = entry.str_at(&["operation"]);
        if operation != "Apply" && operation != "Update" {
            errors.push(FieldError::invalid(&at.child("operation"), operation, "must be `Apply` or `Update`"));
        }
        let fields_type = entry.str_at(&["fieldsType"]);
        if !fields_type.is_empty() && fields_type != "FieldsV1" {
            errors.push(FieldError::invalid(&at.child("fieldsType"), fields_type, "must be `FieldsV1`"));
        }
        field_manager(entry.str_at(&["manager"]), &at.child("manager"), errors);
        if entry.str_at(&["subresource"]).len() > SUBRESOURCE_MAX {
            errors.push(FieldError::too_long(&at.child("subresource"), SUBRESOURCE_MAX));
        }
    }
}

/// Formats a value for messages; an absent one as null.
pub fn shown(value: Option<&Value>) -> ErrorValue {
    ErrorValue::from(value.unwrap_or(&Value::Null))
}

#[cfg(test)]
mod tests {
    #[test]
    fn domains_of_finalizers() {
        for (name, lacks) in [
            ("a", true),
            ("", true),
            ("a b", true),
            ("x/y", false),
            ("/", false),
            ("kubernetes", false),
            ("orphan", false),
            ("foregroundDeletion", false),
        ] {
            assert_eq!(super::lacks_domain(name), lacks, "{name}");
        }
    }

    use super::*;
    use binnacle_schema::value;

    fn check(metadata: Value, want: &[&str]) {
        let errors = validate(&metadata, true, names::dns1123_subdomain_name, &FieldPath::new("metadata"));
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
    }

    #[test]
    fn rules() {
        check(value!({"name": "a", "namespace": "b"}), &[]);
        check(value!({"namespace": "b"}), &["metadata.name: Required value: name or generateName is required"]);
        check(value!({"name": "a"}), &["metadata.namespace: Required value"]);
        check(
            value!({"name": "a", "namespace": "b", "ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "x", "uid": "u"}]}),
            &["metadata.ownerReferences.kind: Invalid value: \"\": must not be empty"],
        );
    }

    #[test]
    fn updates() {
        let old = value!({"name": "a", "uid": "1", "generation": 3i64, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]});
        let new = value!({"name": "b", "uid": "1", "generation": 2i64, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/z"]});
        let errors = validate_update(&new, &old, &FieldPath::new("metadata"));
        assert_eq!(
            errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x/z\"}",
                "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
                "metadata.generation: Invalid value: 2: must not be decremented",
                "metadata.name: Invalid value: \"b\": field is immutable",
            ]
        );
    }
}
