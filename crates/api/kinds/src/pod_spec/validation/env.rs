//! Validation of environment variables and the sources of their values.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::{checks, names};

use super::{PodValidationOptions, fields, paths};
use crate::tree_names::member;

/// The fields of a pod that a variable can hold.
const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

pub(super) fn variables(
    variables: &[Value],
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    for (i, variable) in errors.while_room(variables.iter().enumerate()) {
        let at = path.index(i);
        match variable.str_at(&["name"]) {
            "" => errors.push(FieldError::required(&at.child("name"), "")),
            name => checks::invalid_for(&at.child("name"), name, names::env_var_name(name), errors),
        }
        if let Some(source) = member(variable, "valueFrom") {
            value_from(source, variable.str_at(&["value"]), &at.child("valueFrom"), options, errors);
        }
    }
}

/// Validates sources that turn all keys of a config map or secret into variables.
pub(super) fn sources(sources: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    for (i, source) in errors.while_room(sources.iter().enumerate()) {
        let at = path.index(i);
        let prefix = source.str_at(&["prefix"]);
        if !prefix.is_empty() {
            checks::invalid_for(&at.child("prefix"), prefix, names::env_var_name(prefix), errors);
        }
        let mut count = 0;
        for kind in ["configMapRef", "secretRef"] {
            let Some(reference) = member(source, kind) else { continue };
            count += 1;
            let at = at.child(kind).child("name");
            match reference.str_at(&["name"]) {
                "" => errors.push(FieldError::required(&at, "")),
                name => checks::invalid_for(&at, name, names::dns1123_subdomain_name(name, true), errors),
            }
        }
        if count == 0 {
            errors.push(FieldError::invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"));
        } else if count > 1 {
            errors.push(FieldError::invalid(path, "", "may not have more than one field specified at a time"));
        }
    }
}

fn value_from(
    source: &Value,
    value: &str,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let mut count = 0;
    let mut each = |name: &str| {
        let found = member(source, name);
        count += usize::from(found.is_some());
        found.map(|found| (found, path.child(name)))
    };
    if let Some((field, at)) = each("fieldRef") {
        fields::field(field, &VARIABLE_FIELDS, &at, errors);
    }
    if let Some((resource, at)) = each("resourceFieldRef") {
        fields::resource(resource, false, &at, errors);
    }
    for kind in ["configMapKeyRef", "secretKeyRef"] {
        if let Some((key, at)) = each(kind) {
            checks::subdomain(&at.child("name"), key.str_at(&["name"]), errors);
            key_rules(key, names::config_map_key, &at, errors);
        }
    }
    if let Some((key, at)) = each("fileKeyRef") {
        file_key(key, &at, errors);
    }
    let why = match (count, value) {
        (0, _) if !options.allows_file_keys() => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        }
        (0, _) => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        (1, "") => return,
        (_, "") => "may not have more than one field specified at a time",
        _ => "may not be specified when `value` is not empty",
    };
    errors.push(FieldError::invalid(path, "", why));
}

fn file_key(key: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    key_rules(key, names::env_var_name, path, errors);
    match key.str_at(&["volumeName"]) {
        "" => errors.push(FieldError::required(&path.child("volumeName"), "")),
        name => checks::label(&path.child("volumeName"), name, errors),
    }
    match key.str_at(&["path"]) {
        "" => errors.push(FieldError::required(&path.child("path"), "")),
        file => paths::no_backsteps(&path.child("path"), file, errors),
    }
}

fn key_rules(reference: &Value, rule: fn(&str) -> Vec<String>, path: &FieldPath, errors: &mut FieldErrors) {
    match reference.str_at(&["key"]) {
        "" => errors.push(FieldError::required(&path.child("key"), "")),
        key => checks::invalid_for(&path.child("key"), key, rule(key), errors),
    }
}
