//! kube-apiserver's filled objects: every member is in the tables, in their order, and required members are present.
//!
//! The members are read in the order of the text, which `serde_json::Value` does not keep.

use std::path::PathBuf;
use std::{fmt, fs};

use binnacle_kinds::tables;
use binnacle_schema::{Message, Presence, Ty};
use binnacle_test_requirements::shared;
use serde_json::Value;

/// A JSON value that keeps the order of members.
enum OrderedValue {
    Object(Vec<(String, OrderedValue)>),
    List(Vec<OrderedValue>),
    Scalar(Value),
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn fixtures_have_fields_in_table_order() {
    let folder = shared("reference/roundtrip");
    let mut paths: Vec<PathBuf> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    assert!(!paths.is_empty(), "no fixtures in {}", folder.display());
    let mut problems = Vec::new();
    for path in &paths {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let text = fs::read_to_string(path).unwrap();
        let OrderedValue::Object(object) = serde_json::from_str(&text).unwrap() else { panic!("{name} is no object") };
        // `apps.v1.Deployment`: a watch event has no type of its own.
        let (api_version, kind) = name.rsplit_once('.').unwrap();
        let (group, version) = api_version.rsplit_once('.').unwrap();
        let group = if group == "core" { "" } else { group };
        match tables::kind(group, version, kind) {
            Some(message) => walk(name, message, &object, &mut problems),
            None => problems.push(format!("{name}: {api_version} {kind} is no kind of the tables")),
        }
    }
    assert!(problems.is_empty(), "{} of {} fixtures:\n{}", problems.len(), paths.len(), problems.join("\n"));
}

fn walk(path: &str, message: &Message, object: &[(String, OrderedValue)], problems: &mut Vec<String>) {
    let mut last = 0;
    for (name, value) in object {
        let path = format!("{path}.{name}");
        match message.field(name, 0) {
            None => problems.push(format!("{path}: {} has no such field", message.name)),
            Some((index, field)) => {
                if index < last {
                    problems.push(format!("{path}: stands behind {} in {}", message.fields[last].name, message.name));
                }
                last = last.max(index);
                let null = matches!(value, OrderedValue::Scalar(Value::Null));
                let always_null = match field.presence {
                    Presence::OmitZero | Presence::Optional => false,
                    Presence::AlwaysNull => true,
                    Presence::Always => matches!(field.ty, Ty::Time | Ty::MicroTime | Ty::RawExtension | Ty::Json),
                };
                if null && !always_null {
                    problems.push(format!("{path}: null, but {:?}", field.presence));
                } else if !null {
                    walk_ty(&path, &field.ty, value, problems);
                }
            }
        }
    }
    let always = |presence| matches!(presence, Presence::Always | Presence::AlwaysNull);
    for field in message.fields.iter().filter(|field| always(field.presence)) {
        if !object.iter().any(|(name, _)| *name == field.name) {
            problems.push(format!("{path}.{}: absent, but {:?}", field.name, field.presence));
        }
    }
}

fn walk_ty(path: &str, ty: &Ty, value: &OrderedValue, problems: &mut Vec<String>) {
    use OrderedValue::{List, Object, Scalar};
    let fits = match (ty, value) {
        (Ty::Message(message), Object(object)) => {
            walk(path, message, object, problems);
            true
        }
        (Ty::SchemaOrBool(message) | Ty::SchemaOrArray(message), Object(object)) => {
            walk(path, message, object, problems);
            true
        }
        (Ty::SchemaOrStrings(message), Object(object)) => {
            walk(path, message, object, problems);
            true
        }
        (Ty::SchemaOrBool(_), Scalar(Value::Bool(_))) => true,
        (Ty::SchemaOrArray(_), List(_)) | (Ty::SchemaOrStrings(_), List(_)) => true,
        (Ty::String | Ty::Bytes | Ty::Time | Ty::MicroTime | Ty::Duration | Ty::Quantity, Scalar(Value::String(_))) => {
            true
        }
        (Ty::Bool, Scalar(Value::Bool(_))) => true,
        (Ty::Int32, Scalar(Value::Number(n))) => n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()),
        (Ty::Int64, Scalar(Value::Number(n))) => n.is_i64(),
        (Ty::Uint32, Scalar(Value::Number(n))) => n.is_u64(),
        (Ty::Double, Scalar(Value::Number(_))) => true,
        (Ty::IntOrString, Scalar(Value::Number(_) | Value::String(_))) => true,
        (Ty::RawExtension | Ty::FieldsV1, Object(_)) => true,
        (Ty::Json, _) => true,
        (ty, List(items)) => match ty.element() {
            Some(element) => {
                for (index, item) in items.iter().enumerate() {
                    walk_ty(&format!("{path}[{index}]"), element, item, problems);
                }
                true
            }
            None => false,
        },
        (ty, Object(object)) => match ty.map_value() {
            Some(inner) => {
                for (key, item) in object {
                    walk_ty(&format!("{path}[{key}]"), inner, item, problems);
                }
                true
            }
            None => false,
        },
        _ => false,
    };
    if !fits {
        problems.push(format!("{path}: does not fit its type"));
    }
}

impl<'de> serde::Deserialize<'de> for OrderedValue {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OrderedVisitor)
    }
}

struct OrderedVisitor;

impl<'de> serde::de::Visitor<'de> for OrderedVisitor {
    type Value = OrderedValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Scalar(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<OrderedValue, E> {
        Ok(OrderedValue::Scalar(value.into()))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut items: A) -> Result<OrderedValue, A::Error> {
        let mut out = Vec::new();
        while let Some(item) = items.next_element()? {
            out.push(item);
        }
        Ok(OrderedValue::List(out))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut members: A) -> Result<OrderedValue, A::Error> {
        let mut out = Vec::new();
        while let Some(member) = members.next_entry()? {
            out.push(member);
        }
        Ok(OrderedValue::Object(out))
    }
}
