//! The facts that OpenAPI alone has: required, list types, patch strategies, defaults, enums, unions.

use binnacle_tables::{DefaultValue, Field, ListType, Patch, Ty, Union};
use serde_json::Value;

use super::openapi::strings;

/// Adds the facts of a field that OpenAPI alone has.
pub(crate) fn add_openapi(field: &mut Field, schema: &Value, required: &[&str]) -> Result<(), String> {
    field.required = required.contains(&field.name.as_str());
    let text = |name: &str| schema.get(name).and_then(Value::as_str);
    let keys = strings(schema.get("x-kubernetes-list-map-keys"));
    field.list_type = match (text("x-kubernetes-list-type"), text("x-kubernetes-map-type")) {
        (None, None) => ListType::Unset,
        (Some("atomic"), None) | (None, Some("atomic")) => ListType::Atomic,
        (None, Some("granular")) => ListType::Granular,
        (Some("set"), None) => ListType::Set,
        (Some("map"), None) => ListType::Map(keys.iter().map(ToString::to_string).collect()),
        other => return Err(format!("list type {other:?} is not understood")),
    };
    let mut patch =
        Patch { merge_key: text("x-kubernetes-patch-merge-key").unwrap_or_default().into(), ..Patch::default() };
    for strategy in text("x-kubernetes-patch-strategy").unwrap_or_default().split(',').filter(|s| !s.is_empty()) {
        match strategy {
            "merge" => patch.merge = true,
            "replace" => patch.replace = true,
            "retainKeys" => patch.retain_keys = true,
            _ => return Err(format!("the patch strategy {strategy:?} is not understood")),
        }
    }
    field.patch = patch;
    field.default = match schema.get("default") {
        None => DefaultValue::None,
        Some(default) if *default == zero(&field.ty) => DefaultValue::Zero,
        Some(default) => {
            let json = default.to_string();
            if json.contains(char::is_whitespace) {
                return Err(format!("a default with spaces: {json}"));
            }
            DefaultValue::Value(json)
        }
    };
    let values = enum_of(schema);
    if !values.is_empty() {
        if !field.values.is_empty() && field.values != values {
            return Err(format!("the values are {:?} elsewhere, {values:?} in OpenAPI", field.values));
        }
        field.values = values.iter().map(ToString::to_string).collect();
    }
    if field.values.iter().any(|value| value.contains('|')) {
        return Err("an enum value with \"|\"".into());
    }
    for extension in schema.as_object().into_iter().flat_map(|schema| schema.keys()).filter(|key| key.starts_with("x-"))
    {
        const KNOWN: [&str; 5] = ["list-type", "list-map-keys", "map-type", "patch-merge-key", "patch-strategy"];
        if !extension.strip_prefix("x-kubernetes-").is_some_and(|name| KNOWN.contains(&name)) {
            return Err(format!("the extension {extension} is not understood"));
        }
    }
    Ok(())
}

/// The enum of a schema or of its elements.
fn enum_of(schema: &Value) -> Vec<&str> {
    let mut schema = Some(schema);
    while let Some(inner) = schema {
        let values = strings(inner.get("enum"));
        if !values.is_empty() {
            return values;
        }
        schema = inner.get("items").or_else(|| inner.get("additionalProperties"));
    }
    Vec::new()
}

/// Go's zero value as a `default`.
pub(crate) fn zero(ty: &Ty) -> Value {
    match ty {
        Ty::String | Ty::Duration => "".into(),
        Ty::Bool => false.into(),
        Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double => 0.into(),
        _ => Value::Object(serde_json::Map::new()),
    }
}

/// The `x-kubernetes-unions` of a definition.
pub(crate) fn unions(schema: &Value) -> Vec<Union> {
    let unions = schema.get("x-kubernetes-unions").and_then(Value::as_array);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    unions
        .into_iter()
        .flatten()
        .map(|union| Union {
            discriminator: text(&union["discriminator"]),
            fields: union["fields-to-discriminateBy"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(field, value)| (field.clone(), text(value)))
                .collect(),
        })
        .collect()
}
