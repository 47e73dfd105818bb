//! Validation of the names of custom resources and of their columns.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::{checks, names};

use crate::checks::items;

/// Validates names: those of the spec, or the accepted names.
pub(super) fn validate_names(object: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let text = |name| object.str_at(&[name]);
    for name in ["plural", "singular"].into_iter().filter(|name| !text(name).is_empty()) {
        label(&path.child(name), text(name), "", text(name), errors);
    }
    const MIXED_CASE: &str = "may have mixed case, but should otherwise match: ";
    for name in ["kind", "listKind"].into_iter().filter(|name| !text(name).is_empty()) {
        label(&path.child(name), &text(name).to_lowercase(), MIXED_CASE, text(name), errors);
    }
    for (at, name) in errors.while_room(items(object, "shortNames", path)) {
        let name = name.as_str().unwrap_or_default();
        label(&at, name, "", name, errors);
    }
    if !text("kind").is_empty() && text("kind") == text("listKind") {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(&path.child("listKind"), text("listKind"), detail));
    }
    for (at, name) in errors.while_room(items(object, "categories", path)) {
        let name = name.as_str().unwrap_or_default();
        label(&at, name, "", name, errors);
    }
}

/// Validates a DNS label; all its problems are in one message.
pub(super) fn label(path: &FieldPath, label: &str, prefix: &str, shown: &str, errors: &mut FieldErrors) {
    let messages = names::dns1035_label(label);
    if !messages.is_empty() {
        errors.push(FieldError::invalid(path, shown, format!("{prefix}{}", messages.join(","))));
    }
}

/// Validates a column of tables.
pub(super) fn column(column: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let [name, kind, format, json_path] = ["name", "type", "format", "jsonPath"].map(|name| column.str_at(&[name]));
    checks::required(&path.child("name"), name, errors);
    let (at, detail) = (path.child("type"), format!("must be one of {}", TYPES.join(",")));
    if kind.is_empty() {
        errors.push(FieldError::required(&at, detail));
    } else if !TYPES.contains(&kind) {
        errors.push(FieldError::invalid(&at, kind, detail));
    }
    if !format.is_empty() && !FORMATS.contains(&format) {
        let detail = format!("must be one of {}", FORMATS.join(","));
        errors.push(FieldError::invalid(&path.child("format"), format, detail));
    }
    let at = path.child("JSONPath");
    if json_path.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        simple_json_path(json_path, &at, errors);
    }
}

/// Validates `status` and `scale` of a custom resource.
pub(super) fn subresources(subresources: Option<&Value>, path: &FieldPath, errors: &mut FieldErrors) {
    let scale = subresources.and_then(|subresources| subresources.get("scale")).filter(|scale| !scale.is_null());
    let Some(scale) = scale else { return };
    for (name, roots, wrong_root) in [
        ("specReplicasPath", &[".spec."][..], "should be a json path under .spec"),
        ("statusReplicasPath", &[".status."], "should be a json path under .status"),
        ("labelSelectorPath", &[".spec.", ".status."], "should be a json path under either .spec or .status"),
    ] {
        let (value, at) = (scale.str_at(&[name]), path.child("scale").child(name));
        if value.is_empty() {
            if name != "labelSelectorPath" {
                errors.push(FieldError::required(&at, ""));
            }
        } else if simple_json_path(value, &at, errors) && !roots.iter().any(|root| value.starts_with(root)) {
            errors.push(FieldError::invalid(&at, value, wrong_root));
        }
    }
}

fn simple_json_path(json_path: &str, path: &FieldPath, errors: &mut FieldErrors) -> bool {
    let simple = json_path.starts_with('.');
    if !simple {
        errors.push(FieldError::invalid(path, json_path, "must be a simple json path starting with ."));
    }
    simple
}
