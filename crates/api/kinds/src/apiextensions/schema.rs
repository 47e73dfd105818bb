//! JSON schemas as trees: `JSONSchemaProps` as JSON values.

use binnacle_schema::{Object, Value};

use crate::checks::present;

/// The steps of validating one schema in one respect, which takes about half a microsecond.
pub(super) const SCHEMA: u64 = 50;

/// Returns the members of the object under `name`, if any.
pub(super) fn members<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
    schema.object_at(&[name]).into_iter().flat_map(Object::iter).map(|(name, value)| (name.as_str(), value))
}

pub(super) fn has_properties(schema: &Value) -> bool {
    schema.object_at(&["properties"]).is_some_and(|properties| !properties.is_empty())
}

pub(super) fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.at(&["properties", name]).filter(|property| property.as_object().is_some())
}

/// Returns the schema of all items, if one schema applies to all.
pub(super) fn item(schema: &Value) -> Option<&Value> {
    schema.get("items").filter(|items| items.as_object().is_some())
}

/// Returns the schema under `additionalProperties`.
pub(super) fn additional(schema: &Value) -> Option<&Value> {
    schema.get("additionalProperties").filter(|additional| additional.as_object().is_some())
}

/// Returns true if a member is there and neither an empty string nor false, Go's zero values.
pub(super) fn is_set(schema: &Value, name: &str) -> bool {
    present(schema, name).is_some_and(|value| value.as_str() != Some("") && value.as_bool() != Some(false))
}

/// Returns true if a member does not have Go's zero value: pointers and interfaces are not zero, whatever they lead to.
pub(super) fn is_not_zero(schema: &Value, name: &str) -> bool {
    const POINTERS: [&str; 9] = [
        "$ref",
        "default",
        "example",
        "additionalItems",
        "additionalProperties",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-preserve-unknown-fields",
        "externalDocs",
    ];
    if POINTERS.contains(&name) { present(schema, name).is_some() } else { is_set(schema, name) }
}

/// Returns true if a predicate holds for a schema or one below it.
pub(super) fn any(schema: &Value, holds: &mut dyn FnMut(&Value) -> bool) -> bool {
    const LISTS: [&str; 4] = ["items", "allOf", "anyOf", "oneOf"];
    const MAPS: [&str; 4] = ["properties", "patternProperties", "definitions", "dependencies"];
    if schema.as_object().is_none() {
        return false;
    }
    binnacle_work::pace(4);
    holds(schema)
        || item(schema).is_some_and(|item| any(item, holds))
        || LISTS.iter().any(|list| schema.list_at(&[list]).iter().any(|schema| any(schema, holds)))
        || ["not", "additionalProperties", "additionalItems"]
            .iter()
            .any(|name| schema.get(name).is_some_and(|schema| any(schema, holds)))
        || MAPS.iter().any(|map| members(schema, map).any(|(_, schema)| any(schema, holds)))
}

/// Returns true if a predicate holds for an object anywhere in a tree.
pub(super) fn any_object(tree: &Value, holds: &dyn Fn(&Value) -> bool) -> bool {
    match tree {
        Value::Object(object) => holds(tree) || object.values().any(|value| any_object(value, holds)),
        Value::List(items) => items.iter().any(|item| any_object(item, holds)),
        _ => false,
    }
}
