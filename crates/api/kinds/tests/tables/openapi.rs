//! Every definition of the OpenAPI documents can be generated from the tables, except for its descriptions.

use binnacle_kinds::tables;
use binnacle_schema::{Field, ListType, Message, Ty};
use binnacle_test_requirements::shared;
use serde_json::{Map, Value, json};

use crate::support::documents;

/// Definitions that are types of the model instead of messages.
const TYPES: [&str; 10] = [
    "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
    "io.k8s.apimachinery.pkg.runtime.RawExtension",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
];

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn openapi_definitions_match_field_tables() {
    // Served documents have enums; the specifications of all versions have none.
    for (folder, enums) in [("v3", true), ("all-v3", false)] {
        let folder = shared("reference/openapi").join(folder);
        let mut compared = 0;
        for (file, document) in documents(&folder) {
            let Some(definitions) = document.pointer("/components/schemas").and_then(Value::as_object) else {
                continue;
            };
            for (name, definition) in definitions {
                if TYPES.contains(&name.as_str()) {
                    continue;
                }
                let message = tables::message(name).unwrap_or_else(|| panic!("{file}: no table has {name}"));
                let kinds = definition.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
                for kind in kinds.into_iter().flatten() {
                    let text = |name: &str| kind[name].as_str().unwrap();
                    let found = tables::kind(text("group"), text("version"), text("kind"));
                    assert!(found.is_some_and(|found| std::ptr::eq(found, message)), "{file}: {name}: {kind}");
                }
                let mut expected = definition.clone();
                normalize(&mut expected);
                assert_eq!(schema(message, enums), expected, "{file}: {name}");
                compared += 1;
            }
        }
        assert!(compared > 500, "only {compared} definitions in {}", folder.display());
    }
}

/// Removes descriptions and kinds, and unifies the two ways of referring to a definition.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, value| name != "description" || !value.is_string());
            members.remove("x-kubernetes-group-version-kind");
            if let Some(Value::Array(all)) = members.get("allOf") {
                assert_eq!(all.len(), 1);
                let reference = all[0]["$ref"].clone();
                members.remove("allOf");
                members.insert("$ref".into(), reference);
            }
            members.values_mut().for_each(normalize);
        }
        Value::Array(items) => items.iter_mut().for_each(normalize),
        _ => {}
    }
}

fn schema(message: &Message, enums: bool) -> Value {
    let mut out = Map::new();
    out.insert("type".into(), "object".into());
    if !message.fields.is_empty() {
        let properties = message.fields.iter().map(|field| (field.name.to_string(), property(field, enums)));
        out.insert("properties".into(), Value::Object(properties.collect()));
    }
    let required: Vec<&str> = message.fields.iter().filter(|f| f.required).map(|f| f.name.as_str()).collect();
    if !required.is_empty() {
        out.insert("required".into(), json!(required));
    }
    if message.atomic {
        out.insert("x-kubernetes-map-type".into(), "atomic".into());
    }
    if !message.unions.is_empty() {
        let unions = message.unions.iter().map(|union| {
            let fields: Map<String, Value> =
                union.fields.iter().map(|(field, value)| (field.to_string(), value.as_str().into())).collect();
            let mut out = Map::new();
            if !union.discriminator.is_empty() {
                out.insert("discriminator".into(), union.discriminator.as_str().into());
            }
            out.insert("fields-to-discriminateBy".into(), Value::Object(fields));
            Value::Object(out)
        });
        out.insert("x-kubernetes-unions".into(), unions.collect());
    }
    Value::Object(out)
}

fn property(field: &Field, enums: bool) -> Value {
    let values: Vec<&str> = field.values.iter().filter(|_| enums).map(|value| value.as_str()).collect();
    let mut out = ty(&field.ty, &values);
    let mut set = |name: &str, value: Value| {
        out.insert(name.into(), value);
    };
    if let Some(default) = &field.default {
        set("default", serde_json::from_str(default).unwrap());
    } else if field.zero_default {
        let zero = match &field.ty {
            Ty::String | Ty::Duration => json!(""),
            Ty::Bool => json!(false),
            Ty::Int32 | Ty::Int64 | Ty::Double => json!(0),
            _ => json!({}),
        };
        set("default", zero);
    }
    let subject = if field.ty.element().is_some() || matches!(field.ty, Ty::Bytes) { "list" } else { "map" };
    match &field.list_type {
        ListType::Unset => {}
        ListType::Atomic => set(&format!("x-kubernetes-{subject}-type"), "atomic".into()),
        ListType::Granular => set("x-kubernetes-map-type", "granular".into()),
        ListType::Set => set("x-kubernetes-list-type", "set".into()),
        ListType::Map(keys) => {
            set("x-kubernetes-list-type", "map".into());
            set("x-kubernetes-list-map-keys", keys.iter().map(|key| key.as_str()).collect());
        }
    }
    let patch = &field.patch;
    let strategies: Vec<&str> = [(patch.merge, "merge"), (patch.replace, "replace"), (patch.retain_keys, "retainKeys")]
        .into_iter()
        .filter_map(|(set, name)| set.then_some(name))
        .collect();
    if !strategies.is_empty() {
        set("x-kubernetes-patch-strategy", strategies.join(",").into());
    }
    if !patch.merge_key.is_empty() {
        set("x-kubernetes-patch-merge-key", patch.merge_key.as_str().into());
    }
    Value::Object(out)
}

fn ty(of: &Ty, values: &[&str]) -> Map<String, Value> {
    let plain = |ty: &str, format: Option<&str>| {
        let mut out = Map::new();
        out.insert("type".into(), ty.into());
        if let Some(format) = format {
            out.insert("format".into(), format.into());
        }
        if !values.is_empty() {
            out.insert("enum".into(), json!(values));
        }
        out
    };
    let to = |name: &str| {
        let mut out = Map::new();
        out.insert("$ref".into(), format!("#/components/schemas/{name}").into());
        out
    };
    let with = |ty_name: &str, member: &str, inner: &Ty| {
        let mut out = Map::new();
        out.insert("type".into(), ty_name.into());
        out.insert(member.into(), Value::Object(ty(inner, values)));
        out
    };
    let apiextensions = |name: &str| to(&format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{name}"));
    match of {
        Ty::String | Ty::Duration => plain("string", None),
        Ty::Bool => plain("boolean", None),
        Ty::Int32 => plain("integer", Some("int32")),
        Ty::Int64 => plain("integer", Some("int64")),
        Ty::Uint32 | Ty::ListOf(_) => panic!("no document has unsigned numbers, or lists in lists with a type"),
        Ty::Double => plain("number", Some("double")),
        Ty::Bytes => plain("string", Some("byte")),
        Ty::Time => to("io.k8s.apimachinery.pkg.apis.meta.v1.Time"),
        Ty::MicroTime => to("io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"),
        Ty::Quantity => to("io.k8s.apimachinery.pkg.api.resource.Quantity"),
        Ty::IntOrString => to("io.k8s.apimachinery.pkg.util.intstr.IntOrString"),
        Ty::RawExtension => to("io.k8s.apimachinery.pkg.runtime.RawExtension"),
        Ty::FieldsV1 => to("io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1"),
        Ty::Json => apiextensions("JSON"),
        Ty::SchemaOrBool(_) => apiextensions("JSONSchemaPropsOrBool"),
        Ty::SchemaOrArray(_) => apiextensions("JSONSchemaPropsOrArray"),
        Ty::SchemaOrStrings(_) => apiextensions("JSONSchemaPropsOrStringArray"),
        Ty::Message(message) => to(&message.name),
        Ty::List(inner) => with("array", "items", inner),
        Ty::StaticList(inner) | Ty::StaticWrappedList(inner) => with("array", "items", inner),
        Ty::Map(inner) => with("object", "additionalProperties", inner),
        Ty::StaticMap(inner) => with("object", "additionalProperties", inner),
    }
}
