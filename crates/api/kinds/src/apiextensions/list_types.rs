//! Validation of the list and map types in schemas.

use std::collections::HashSet;

use binnacle_fields::apiextensions::v1::JSONSchemaProps as Props;
use binnacle_fields::types::Str;
use binnacle_fields::{Field, FieldRef, Message};
use binnacle_meta::{ErrorValue, FieldErrors};
use binnacle_schema::json;
use binnacle_validation::{checks, repeated};

use super::rules::Rules;
use super::schema::property;
use super::structural::wrong_type;
use crate::internal;

const LIST_TYPE: Field<Props, Str> = Props::X_KUBERNETES_LIST_TYPE;
const MAP_TYPE: Field<Props, Str> = Props::X_KUBERNETES_MAP_TYPE;

pub(super) fn list_and_map_types(schema: FieldRef<Props>, rules: &Rules, errors: &mut FieldErrors) {
    let (kind, map_type, list_type) = (schema.at(Props::TYPE), schema.at(MAP_TYPE), schema.at(LIST_TYPE));
    if map_type.is_set() {
        if kind.str() != "object" {
            wrong_type(kind, "must be object if x-kubernetes-map-type is specified", errors);
        }
        checks::string_one_of(&map_type, map_type.str(), &["atomic", "granular"], errors);
    }
    if list_type.is_set() && kind.str() != "array" {
        wrong_type(kind, "must be array if x-kubernetes-list-type is specified", errors);
    } else if let Some(field) = non_atomic_item(schema).filter(|_| rules.atomic_sets) {
        let item = schema.at(Props::ITEMS).cast::<Props>();
        // kube-apiserver shows the list type for both extensions.
        let list_type = item.at(LIST_TYPE);
        let shown = list_type.get().map_or_else(|| ErrorValue::raw("null"), |_| list_type.shown_as_json());
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        errors.push(item.at(field).invalid_as(shown, detail));
    }
    if list_type.is_set() {
        checks::string_one_of(&list_type, list_type.str(), &["atomic", "set", "map"], errors);
    }
    if !schema.at(Props::X_KUBERNETES_LIST_MAP_KEYS).is_empty() {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type.get_str() {
            None => errors.push(list_type.required(detail)),
            Some("map") => {}
            Some(_) => errors.push(list_type.invalid(detail)),
        }
    }
    if list_type.str() == "map" {
        list_map(schema, errors);
    }
    if rules.map_keys {
        items_of_maps_and_sets(schema, errors);
    }
}

/// Returns the extension that makes items of a set non-atomic.
pub(super) fn non_atomic_item(schema: FieldRef<Props>) -> Option<Field<Props, Str>> {
    let item = schema.at(Props::ITEMS).schema().filter(|_| schema.at(LIST_TYPE).str() == "set")?;
    match item.at(Props::TYPE).str() {
        "array" if item.at(LIST_TYPE).get_str().is_some_and(|list_type| list_type != "atomic") => Some(LIST_TYPE),
        "object" if item.at(MAP_TYPE).str() != "atomic" => Some(MAP_TYPE),
        _ => None,
    }
}

fn list_map(schema: FieldRef<Props>, errors: &mut FieldErrors) {
    let (keys, items) = (schema.at(Props::X_KUBERNETES_LIST_MAP_KEYS), schema.at(Props::ITEMS));
    if keys.is_empty() {
        errors.push(keys.required("must not be empty if x-kubernetes-list-type is map"));
    }
    let Some(item) = items.schema() else {
        if items.is_set() {
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            let shown = internal::member(Props::DEFINITION, Props::ITEMS.name(), items.value());
            errors.push(items.invalid_as(ErrorValue::raw(json::to_string(&shown)), detail));
        } else {
            errors.push(items.required("must have a schema if x-kubernetes-list-type is map"));
        }
        return;
    };
    let kind = item.at(Props::TYPE);
    if kind.str() != "object" {
        errors.push(kind.invalid("must be object if parent array's x-kubernetes-list-type is map"));
        return;
    }
    let properties = item.at(Props::PROPERTIES);
    let names: Vec<&str> = keys.strs().collect();
    let repeated = repeated(&names, |name| *name);
    // Each error shows all keys, so they are written only while there is room.
    for (name, is_repeated) in errors.while_room(names.iter().zip(repeated)) {
        match property(&properties, name) {
            None => errors.push(keys.invalid("entries must all be names of item properties")),
            Some(property) => {
                let of_property = property.at(Props::TYPE);
                if matches!(of_property.str(), "array" | "object") {
                    let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    errors.push(of_property.invalid_as(kind.str(), detail));
                }
            }
        }
        if is_repeated {
            errors.push(keys.invalid("must not contain duplicate entries"));
        }
    }
}

/// Rejects nullable items of sets and maps, and map keys that may be absent or null.
pub(super) fn items_of_maps_and_sets(schema: FieldRef<Props>, errors: &mut FieldErrors) {
    let Some(item) = schema.at(Props::ITEMS).schema() else { return };
    let list_type = schema.at(LIST_TYPE).str();
    if !matches!(list_type, "set" | "map") {
        return;
    }
    let nullable = item.at(Props::NULLABLE);
    if nullable.bool() {
        errors.push(nullable.forbidden(format!("cannot be nullable when x-kubernetes-list-type is {list_type}")));
    }
    if list_type == "set" {
        return;
    }
    let properties = item.at(Props::PROPERTIES);
    let required: HashSet<&str> = item.at(Props::REQUIRED).strs().collect();
    for key in errors.while_room(schema.at(Props::X_KUBERNETES_LIST_MAP_KEYS).strs()) {
        let Some(property) = property(&properties, key) else { continue };
        let default = property.at(Props::DEFAULT);
        if !required.contains(key) && !default.is_set() {
            errors.push(default.required(
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ));
        }
        let nullable = property.at(Props::NULLABLE);
        if nullable.bool() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(nullable.forbidden(detail));
        }
    }
}
