//! Validation of the list and map types in schemas.

use std::collections::HashSet;

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Value, json};
use binnacle_validation::metadata::shown;
use binnacle_validation::repeated;

use super::open_api::Rules;
use super::schema::{item, property};
use super::structural::wrong_type;
use crate::checks::{one_of, present, texts};
use crate::internal;

const SCHEMA: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_KEYS: &str = "x-kubernetes-list-map-keys";
const MAP_TYPE: &str = "x-kubernetes-map-type";

fn text<'a>(schema: &'a Value, name: &str) -> Option<&'a str> {
    present(schema, name).and_then(Value::as_str)
}

pub(super) fn list_and_map_types(schema: &Value, rules: &Rules, path: &FieldPath, errors: &mut FieldErrors) {
    let (kind, at) = (schema.str_at(&["type"]), path.child("type"));
    if let Some(map_type) = text(schema, MAP_TYPE) {
        if kind != "object" {
            wrong_type(kind, "must be object if x-kubernetes-map-type is specified", &at, errors);
        }
        one_of(&path.child(MAP_TYPE), map_type, &["atomic", "granular"], errors);
    }
    let list_type = text(schema, LIST_TYPE);
    if list_type.is_some() && kind != "array" {
        wrong_type(kind, "must be array if x-kubernetes-list-type is specified", &at, errors);
    } else if let Some((name, value)) = non_atomic_item(schema).filter(|_| rules.atomic_sets) {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.push(FieldError::invalid(&path.child("items").child(name), shown(value), detail));
    }
    if let Some(list_type) = list_type {
        one_of(&path.child(LIST_TYPE), list_type, &["atomic", "set", "map"], errors);
    }
    if !schema.list_at(&[MAP_KEYS]).is_empty() {
        let (at, detail) = (path.child(LIST_TYPE), "must be map if x-kubernetes-list-map-keys is non-empty");
        match list_type {
            None => errors.push(FieldError::required(&at, detail)),
            Some("map") => {}
            Some(other) => errors.push(FieldError::invalid(&at, other, detail)),
        }
    }
    if list_type == Some("map") {
        list_map(schema, path, errors);
    }
    if rules.map_keys {
        items_of_maps_and_sets(schema, path, errors);
    }
}

/// Returns the extension that makes items of a set non-atomic, and the list type, which kube-apiserver's message shows
/// for either extension.
pub(super) fn non_atomic_item(schema: &Value) -> Option<(&'static str, Option<&Value>)> {
    let item = item(schema).filter(|_| text(schema, LIST_TYPE) == Some("set"))?;
    let name = match item.str_at(&["type"]) {
        "array" if text(item, LIST_TYPE).is_some_and(|list_type| list_type != "atomic") => LIST_TYPE,
        "object" if text(item, MAP_TYPE) != Some("atomic") => MAP_TYPE,
        _ => return None,
    };
    Some((name, item.get(LIST_TYPE)))
}

fn list_map(schema: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child(MAP_KEYS);
    if schema.list_at(&[MAP_KEYS]).is_empty() {
        errors.push(FieldError::required(&at, "must not be empty if x-kubernetes-list-type is map"));
    }
    let items_path = path.child("items");
    let Some(item) = item(schema) else {
        match present(schema, "items") {
            None => {
                let detail = "must have a schema if x-kubernetes-list-type is map";
                errors.push(FieldError::required(&items_path, detail));
            }
            Some(items) => {
                let detail = "must only have a single schema if x-kubernetes-list-type is map";
                let shown = ErrorValue::raw(json::to_string(&internal::member(SCHEMA, "items", items)));
                errors.push(FieldError::invalid(&items_path, shown, detail));
            }
        }
        return;
    };
    let kind = item.str_at(&["type"]);
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(&items_path.child("type"), kind, detail));
        return;
    }
    let keys = texts(schema, MAP_KEYS);
    // Each error shows all keys, so they are written only while there is room.
    let refused = |detail: &str| FieldError::invalid(&at, shown(schema.get(MAP_KEYS)), detail);
    let repeated = repeated(&keys, |key| *key);
    for (key, is_repeated) in errors.while_room(keys.iter().zip(repeated)) {
        match property(item, key).map(|property| property.str_at(&["type"])) {
            None => errors.push(refused("entries must all be names of item properties")),
            Some("array" | "object") => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let at = items_path.child("properties").key(key).child("type");
                errors.push(FieldError::invalid(&at, kind, detail));
            }
            Some(_) => {}
        }
        if is_repeated {
            errors.push(refused("must not contain duplicate entries"));
        }
    }
}

/// Rejects nullable items of sets and maps, and map keys that may be absent or null.
pub(super) fn items_of_maps_and_sets(schema: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(item) = item(schema) else { return };
    let Some(list_type @ ("set" | "map")) = text(schema, LIST_TYPE) else { return };
    let path = path.child("items");
    if item.bool_at(&["nullable"]) {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&path.child("nullable"), detail));
    }
    if list_type == "set" {
        return;
    }
    let required: HashSet<&str> = texts(item, "required").into_iter().collect();
    for key in errors.while_room(texts(schema, MAP_KEYS)) {
        let Some(property) = property(item, key) else { continue };
        let at = path.child("properties").key(key);
        if !required.contains(key) && present(property, "default").is_none() {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(&at.child("default"), detail));
        }
        if property.bool_at(&["nullable"]) {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&at.child("nullable"), detail));
        }
    }
}
