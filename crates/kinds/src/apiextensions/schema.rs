//! Schemas as trees: `JSONSchemaProps` in the shape of JSON.

use binnacle_schema::{Object, Value};

use crate::checks::present;

/// The members of an object under `name`, where there are any.
pub(super) fn members<'a>(schema: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
    schema.object_at(&[name]).into_iter().flat_map(Object::iter).map(|(name, value)| (name.as_str(), value))
}

pub(super) fn has_properties(schema: &Value) -> bool {
    schema.object_at(&["properties"]).is_some_and(|properties| !properties.is_empty())
}

pub(super) fn property<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.at(&["properties", name]).filter(|property| property.as_object().is_some())
}

/// The schema of all items, where it is one for all.
pub(super) fn item(schema: &Value) -> Option<&Value> {
    schema.get("items").filter(|items| items.as_object().is_some())
}

/// The schema of properties that have no names.
pub(super) fn additional(schema: &Value) -> Option<&Value> {
    schema.get("additionalProperties").filter(|additional| additional.as_object().is_some())
}

/// Whether a member is there and not what Go takes for nothing.
pub(super) fn is_set(schema: &Value, name: &str) -> bool {
    present(schema, name).is_some_and(|value| value.as_str() != Some("") && value.as_bool() != Some(false))
}

/// Whether something holds for a schema or one within.
pub(super) fn any(schema: &Value, holds: &mut dyn FnMut(&Value) -> bool) -> bool {
    const LISTS: [&str; 4] = ["items", "allOf", "anyOf", "oneOf"];
    const MAPS: [&str; 4] = ["properties", "patternProperties", "definitions", "dependencies"];
    if schema.as_object().is_none() {
        return false;
    }
    holds(schema)
        || item(schema).is_some_and(|item| any(item, holds))
        || LISTS.iter().any(|list| schema.list_at(&[list]).iter().any(|schema| any(schema, holds)))
        || ["not", "additionalProperties", "additionalItems"]
            .iter()
            .any(|name| schema.get(name).is_some_and(|schema| any(schema, holds)))
        || MAPS.iter().any(|map| members(schema, map).any(|(_, schema)| any(schema, holds)))
}

/// Why a schema cannot be taken for a structural one at all.
pub(super) fn unsupported(schema: &Value) -> Option<String> {
    let named = ["id", "$schema", "$ref"].into_iter().find(|name| is_set(schema, name));
    let filled = |name: &&str| members(schema, name).next().is_some();
    let named = named
        .or_else(|| ["patternProperties", "dependencies"].into_iter().find(filled))
        .or_else(|| present(schema, "additionalItems").map(|_| "additionalItems"))
        .or_else(|| Some("definitions").filter(filled));
    if let Some(name) = named {
        let name = if name == "$schema" { "schema" } else { name };
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    let nested = schema
        .get("not")
        .filter(|not| not.as_object().is_some())
        .into_iter()
        .chain(["allOf", "anyOf", "oneOf"].iter().flat_map(|list| schema.list_at(&[list])));
    if let Some(problem) = nested.into_iter().find_map(unsupported) {
        return Some(problem);
    }
    if schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(false) {
        return Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned());
    }
    if !schema.list_at(&["items"]).is_empty() {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    let properties = members(schema, "properties").map(|(_, property)| property);
    item(schema).into_iter().chain(properties).chain(additional(schema)).find_map(unsupported)
}
