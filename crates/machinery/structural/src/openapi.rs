//! Schemas for `/openapi/v3` and `/openapi/v2`. They are built from the schema in the definition, because parsed
//! schemas have no descriptions.

use binnacle_meta::{GroupVersionKind, Text};
use binnacle_schema::{Object, Value, json, value};

/// The OpenAPI version of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpecVersion {
    /// Without keywords that Swagger and kubectl do not support: alternatives, nullable values, properties next to
    /// unknown ones, defaults.
    V2,
    V3,
}

/// A version of a CustomResourceDefinition, as published in OpenAPI documents.
#[derive(Clone, Debug)]
pub struct CrdVersion<'a> {
    pub kind: &'a GroupVersionKind,
    /// `openAPIV3Schema`; `None` if it is absent or not structural.
    pub schema: Option<&'a Value>,
    /// `spec.preserveUnknownFields` of the definition.
    pub preserve_unknown: bool,
    /// The paths of selectable fields, without the leading dot.
    pub selectable: Vec<&'a str>,
}

/// Returns the name of the definition of a kind: the reversed parts of its group, version and kind.
pub fn definition_name(kind: &GroupVersionKind) -> String {
    let mut name = String::new();
    for part in kind.group.rsplit('.') {
        name.push_str(part);
        name.push('.');
    }
    name.push_str(&kind.version);
    name.push('.');
    name.push_str(&kind.kind);
    name
}

impl SpecVersion {
    /// Returns the part of a reference before the name of a definition.
    fn prefix(self) -> &'static str {
        match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        }
    }
}

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const ALTERNATIVES: [&str; 4] = ["allOf", "oneOf", "anyOf", "not"];

const METADATA: &str = "Standard object's metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const LIST_METADATA: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const CONVENTIONS: &str = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
const API_VERSION: &str = "APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const KIND: &str = "Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

impl CrdVersion<'_> {
    /// Returns the definition of the kind.
    pub fn definition(&self, form: SpecVersion) -> Value {
        let preserves = |schema: &Value| self.preserve_unknown || schema.bool_at(&[PRESERVE]);
        let mut root = match self.schema {
            // kubectl would reject fields that are not among the properties.
            Some(schema) if form == SpecVersion::V2 && preserves(schema) => value!({"type": "object"}),
            Some(schema) => {
                let mut root = node(schema, form);
                embed(&mut root, form);
                let properties = root.make_object().object_entry("properties");
                properties.insert("metadata", metadata(form));
                properties.insert("apiVersion", text(API_VERSION));
                properties.insert("kind", text(KIND));
                root
            }
            None => value!({"type": "object"}),
        };
        self.extend(&mut root, &self.kind.kind);
        root
    }

    /// Returns the definition of lists of the kind, `list_kind`, whose items are `plural`.
    pub fn list_definition(&self, form: SpecVersion, list_kind: &Text, plural: &str) -> Value {
        let GroupVersionKind { kind, .. } = self.kind;
        let element = format!("{}{}", form.prefix(), definition_name(self.kind));
        let items = format!("List of {plural}. More info: {CONVENTIONS}");
        let mut root = value!({"type": "object", "required": ["items"]});
        let list = root.make_object();
        list.insert("description", Text::from(format!("{list_kind} is a list of {kind}")));
        let reference: Object = [("$ref", Text::from(element))].into_iter().collect();
        let mut array = value!({"type": "array"});
        array.make_object().insert("description", Text::from(items));
        array.make_object().insert("items", reference);
        let properties = list.object_entry("properties");
        properties.insert("items", array);
        properties.insert("metadata", reference_with(LIST_METADATA, "ListMeta", form));
        properties.insert("apiVersion", text(API_VERSION));
        properties.insert("kind", text(KIND));
        self.extend(&mut root, list_kind);
        root
    }

    /// Adds the kind of a definition, and the selectable fields of its objects.
    fn extend(&self, definition: &mut Value, kind: &Text) {
        let names = [("group", &self.kind.group), ("kind", kind), ("version", &self.kind.version)];
        let kind: Object = names.into_iter().map(|(name, text)| (name, text.clone())).collect();
        let definition = definition.make_object();
        definition.insert("x-kubernetes-group-version-kind", vec![kind]);
        if !self.selectable.is_empty() {
            let field = |path: &&str| [("fieldPath", *path)].into_iter().collect::<Object>();
            let fields: Vec<Object> = self.selectable.iter().map(field).collect();
            definition.insert("x-kubernetes-selectable-fields", fields);
        }
    }
}

fn text(description: &str) -> Value {
    value!({"description": description, "type": "string"})
}

fn metadata(form: SpecVersion) -> Value {
    reference_with(METADATA, "ObjectMeta", form)
}

/// Returns a reference to a definition of `meta/v1`. In version 3 a reference has no siblings.
fn reference_with(description: &'static str, name: &str, form: SpecVersion) -> Value {
    let mut out = value!({});
    let object = out.make_object();
    object.insert("description", Text::new_static(description));
    let target = Text::from(format!("{}io.k8s.apimachinery.pkg.apis.meta.v1.{name}", form.prefix()));
    match form {
        SpecVersion::V2 => object.insert("$ref", target),
        SpecVersion::V3 => object.insert("allOf", vec![[("$ref", target)].into_iter().collect::<Object>()]),
    };
    out
}

/// Returns a schema with everything below it.
fn node(schema: &Value, form: SpecVersion) -> Value {
    let mut out = Object::new();
    for (name, value) in schema.as_object().into_iter().flat_map(Object::iter) {
        let value = match (name.as_str(), value) {
            (_, value) if is_nothing(name, value) => continue,
            ("properties" | "items" | "additionalProperties", _) => continue,
            ("allOf" | "anyOf" | "oneOf", Value::List(nested)) => Value::List(nested.iter().map(alternative).collect()),
            ("not", not) => alternative(not),
            (_, value) => unpacked(value),
        };
        out.insert(name.clone(), value);
    }
    unfold(&mut out);
    let drops_below = form == SpecVersion::V2 && simplify(&mut out, schema);
    let below = |schema: &Value| match schema {
        Value::Object(_) => node(schema, form),
        other => other.clone(),
    };
    for name in ["items", "additionalProperties"] {
        if let Some(schema) = schema.get(name).filter(|schema| !schema.is_null())
            && !(drops_below && name == "items")
        {
            out.insert(name, below(schema));
        }
    }
    if let Some(properties) = schema.object_at(&["properties"])
        && !properties.is_empty()
        && !drops_below
    {
        let properties: Object = properties.iter().map(|(name, schema)| (name.clone(), below(schema))).collect();
        out.insert("properties", properties);
    }
    Value::Object(out)
}

/// Returns a schema within `allOf` and the like, without `additionalProperties`.
fn alternative(schema: &Value) -> Value {
    let mut out = Object::new();
    for (name, value) in schema.as_object().into_iter().flat_map(Object::iter) {
        let value = match (name.as_str(), value) {
            (_, value) if is_nothing(name, value) => continue,
            ("additionalProperties", _) => continue,
            ("properties", Value::Object(properties)) => {
                Value::Object(properties.iter().map(|(name, schema)| (name.clone(), alternative(schema))).collect())
            }
            ("items" | "not", schema) => alternative(schema),
            ("allOf" | "anyOf" | "oneOf", Value::List(nested)) => Value::List(nested.iter().map(alternative).collect()),
            (_, value) => unpacked(value),
        };
        out.insert(name.clone(), value);
    }
    Value::Object(out)
}

fn unpacked(value: &Value) -> Value {
    let mut value = value.clone();
    json::unpack(&mut value);
    value
}

/// Returns true for a keyword without effect.
fn is_nothing(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(false) => !matches!(name, "default" | "example" | "additionalProperties"),
        Value::Str(text) => text.is_empty() && !matches!(name, "default" | "example"),
        Value::List(items) => items.is_empty() && !matches!(name, "default" | "example"),
        _ => false,
    }
}

/// Adds the alternatives of int-or-string values.
fn unfold(out: &mut Object) {
    if out.get(INT_OR_STRING).and_then(Value::as_bool) != Some(true) {
        return;
    }
    let either = || value!([{"type": "integer"}, {"type": "string"}]);
    let first = out.get("allOf").and_then(Value::as_list).and_then(|all| all.first());
    let is_either = |schema: Option<&Value>| schema == Some(&either());
    if is_either(out.get("anyOf")) || is_either(first.and_then(|first| first.get("anyOf"))) {
        return;
    }
    if !out.contains("anyOf") {
        out.insert("anyOf", either());
        return;
    }
    let mut all = vec![Value::Object([("anyOf", either())].into_iter().collect())];
    all.extend(out.get("allOf").and_then(Value::as_list).unwrap_or_default().iter().cloned());
    out.insert("allOf", Value::List(all));
}

/// Removes keywords that version 2 does not support. Returns true if items and properties must be omitted.
fn simplify(out: &mut Object, schema: &Value) -> bool {
    for name in ALTERNATIVES {
        out.remove(name);
    }
    out.remove("default");
    let (nullable, preserve) = (schema.bool_at(&["nullable"]), schema.bool_at(&[PRESERVE]));
    let drops_below = nullable || preserve;
    let kind = schema.str_at(&["type"]);
    let has_items = !drops_below && schema.get("items").is_some_and(|items| !items.is_null());
    if nullable || kind == "array" && !has_items || kind == "object" && preserve {
        out.remove("type");
    }
    out.remove("nullable");
    let is_nullable = |schema: Option<&Value>| schema.is_some_and(|schema| schema.bool_at(&["nullable"]));
    if is_nullable(schema.get("additionalProperties")) {
        out.remove("required");
    }
    if let Some(Value::List(required)) = out.get_mut("required").filter(|_| !drops_below) {
        required.retain(|name| !is_nullable(schema.at(&["properties", name.as_str().unwrap_or_default()])));
        if required.is_empty() {
            out.remove("required");
        }
    }
    drops_below
}

/// Adds the fields of resources to embedded ones.
fn embed(schema: &mut Value, form: SpecVersion) {
    let Some(object) = schema.as_object_mut() else { return };
    for name in ["items", "additionalProperties"] {
        if let Some(below) = object.get_mut(name) {
            embed(below, form);
        }
    }
    if let Some(Value::Object(properties)) = object.get_mut("properties") {
        properties.iter_mut().for_each(|(_, property)| embed(property, form));
    }
    let is = |name: &str| object.get(name).and_then(Value::as_bool) == Some(true);
    // kubectl would reject unknown members.
    if !is(EMBEDDED) || form == SpecVersion::V2 && is(PRESERVE) {
        return;
    }
    let properties = object.object_entry("properties");
    properties.insert("apiVersion", text(EMBEDDED_API_VERSION));
    properties.insert("kind", text(EMBEDDED_KIND));
    properties.insert("metadata", metadata(form));
    if let Value::List(required) = object.entry("required", || Value::List(Vec::new())) {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known.as_str() == Some(name)) {
                required.push(Value::Str(Text::new_static(name)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(properties: Value, form: SpecVersion) -> Value {
        let mut schema = value!({"type": "object"});
        schema.make_object().insert("properties", properties);
        let kind = GroupVersionKind { group: "example.com".into(), version: "v1".into(), kind: "Thing".into() };
        let published =
            CrdVersion { kind: &kind, schema: Some(&schema), preserve_unknown: false, selectable: vec!["spec.a"] };
        published.definition(form)
    }

    #[test]
    fn openapi_v2_omits_unsupported_keywords() {
        for (schema, v3, v2) in [
            (
                value!({"type": "string", "default": "x", "maxLength": 5i64}),
                value!({"type": "string", "default": "x", "maxLength": 5i64}),
                value!({"type": "string", "maxLength": 5i64}),
            ),
            (value!({"type": "string", "nullable": true}), value!({"type": "string", "nullable": true}), value!({})),
            (
                value!({"x-kubernetes-int-or-string": true, "anyOf": [{"pattern": "a"}]}),
                value!({
                    "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}], "anyOf": [{"pattern": "a"}],
                    "x-kubernetes-int-or-string": true,
                }),
                value!({"x-kubernetes-int-or-string": true}),
            ),
            (
                value!({"type": "object", "required": ["n", "a"], "properties": {"n": {"type": "string", "nullable": true}, "a": {"type": "integer"}}}),
                value!({"type": "object", "required": ["n", "a"], "properties": {"n": {"type": "string", "nullable": true}, "a": {"type": "integer"}}}),
                value!({"type": "object", "required": ["a"], "properties": {"n": {}, "a": {"type": "integer"}}}),
            ),
            (
                value!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"q": {"type": "string"}}}),
                value!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"q": {"type": "string"}}}),
                value!({"x-kubernetes-preserve-unknown-fields": true}),
            ),
            (
                value!({"type": "array", "nullable": true, "items": {"type": "string"}}),
                value!({"type": "array", "nullable": true, "items": {"type": "string"}}),
                value!({}),
            ),
            (
                value!({"type": "object", "additionalProperties": {"type": "string", "nullable": true}}),
                value!({"type": "object", "additionalProperties": {"type": "string", "nullable": true}}),
                value!({"type": "object", "additionalProperties": {}}),
            ),
            (
                value!({"type": "object", "properties": {"b": {"type": "number"}}, "oneOf": [{"required": ["b"]}]}),
                value!({"type": "object", "properties": {"b": {"type": "number"}}, "oneOf": [{"required": ["b"]}]}),
                value!({"type": "object", "properties": {"b": {"type": "number"}}}),
            ),
        ] {
            let mut properties = value!({});
            properties.make_object().insert("x", schema);
            let published =
                |form| publish(properties.clone(), form).at(&["properties", "x"]).cloned().unwrap_or_default();
            assert_eq!(published(SpecVersion::V3), v3);
            assert_eq!(published(SpecVersion::V2), v2);
        }
    }

    #[test]
    fn publishes_type_meta_and_object_meta() {
        let schema = value!({"spec": {
            "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
        }});
        let root = publish(schema.clone(), SpecVersion::V3);
        let spec = root.at(&["properties", "spec"]).unwrap();
        assert_eq!(spec.get("required"), Some(&value!(["kind", "apiVersion"])));
        assert_eq!(spec.object_at(&["properties"]).unwrap().len(), 3);
        assert_eq!(
            root.get("x-kubernetes-group-version-kind"),
            Some(&value!([{"group": "example.com", "kind": "Thing", "version": "v1"}]))
        );
        assert_eq!(root.get("x-kubernetes-selectable-fields"), Some(&value!([{"fieldPath": "spec.a"}])));
        assert!(root.str_at(&["properties", "apiVersion", "description"]).starts_with("APIVersion defines"));
        let spec = publish(schema, SpecVersion::V2).at(&["properties", "spec"]).cloned().unwrap();
        assert_eq!(spec.as_object().unwrap().len(), 2);
    }
}
