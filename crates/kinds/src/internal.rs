//! Structs as the reference shows them in messages: JSON of its internal types, which have Go's names for fields,
//! leave nothing out and show nil as `null`. Types that are not internal, such as selectors, show as in the API.

use binnacle_meta::{Shown, Text};
use binnacle_schema::{Field, Message, Object, Presence, Ty, Value, json};

use crate::tables;

/// A struct of a definition (`io.k8s.api.core.v1.Toleration`) as a message shows it; `None` shows as `null`.
pub(crate) fn shown(definition: &str, value: Option<&Value>) -> Shown {
    Shown::raw(json::to_string(&internal(definition, value)))
}

/// A struct in its internal form.
pub(crate) fn internal(definition: &str, value: Option<&Value>) -> Value {
    match (tables::message(definition), value) {
        (Some(message), Some(Value::Object(object))) => internal_struct(object, message).into(),
        (_, value) => value.cloned().unwrap_or_default(),
    }
}

/// Definitions whose Go types have names for JSON, so that they show as in the API.
fn is_api_type(message: &Message) -> bool {
    message.name.starts_with("io.k8s.apimachinery")
}

fn internal_struct(object: &Object, message: &Message) -> Object {
    if is_api_type(message) {
        return object.clone();
    }
    let mut members = Object::new();
    for field in message.fields.iter().filter(|field| field.tag != 0) {
        let value = object.get(&field.name);
        // Metadata is embedded: its members stand among those of the struct, in their API form.
        if field.ty.message().is_some_and(|inner| inner.name.ends_with(".meta.v1.ObjectMeta")) {
            let metadata = value.and_then(Value::as_object).into_iter().flat_map(|metadata| metadata.iter());
            metadata.for_each(|(name, value)| drop(members.insert(name.clone(), value.clone())));
            continue;
        }
        members.insert(field_name(message, field), internal_member(value, field));
    }
    members
}

/// Go's name of a field of a struct; a few differ from the API's in more than their case.
fn field_name(message: &Message, field: &Field) -> Text {
    let name = field.name.as_str();
    if message.name.ends_with(".DeviceAttribute") {
        let (kind, list) = name.strip_suffix('s').map_or((name, ""), |kind| (kind, "s"));
        return format!("{}Value{list}", go_name(kind)).into();
    }
    go_name(name)
}

fn internal_member(value: Option<&Value>, field: &Field) -> Value {
    match value.filter(|value| !value.is_null()) {
        Some(value) => internal_value(value, &field.ty),
        None if field.ty.element().is_some() || field.ty.map_value().is_some() => Value::Null,
        None if matches!(field.presence, Presence::Optional | Presence::AlwaysNull) => Value::Null,
        None => zero(&field.ty),
    }
}

fn internal_value(value: &Value, ty: &Ty) -> Value {
    match (value, ty.message(), ty.element()) {
        (Value::Object(object), Some(message), _) => internal_struct(object, message).into(),
        (Value::List(items), _, Some(element)) => {
            Value::List(items.iter().map(|item| internal_value(item, element)).collect())
        }
        (Value::Object(object), _, _) => match ty.map_value() {
            Some(element) => {
                let mut map: Object = object.iter().map(|(k, v)| (k.clone(), internal_value(v, element))).collect();
                map.sort_by_name();
                map.into()
            }
            None => value.clone(),
        },
        _ => value.clone(),
    }
}

fn zero(ty: &Ty) -> Value {
    match ty {
        Ty::Bool => false.into(),
        Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double | Ty::IntOrString => Value::Int(0),
        Ty::Quantity => "0".into(),
        Ty::Time | Ty::MicroTime => Value::Null,
        Ty::Message(message) => internal_struct(&Object::new(), message).into(),
        _ => "".into(),
    }
}

/// Go's name of a field: an initial, or initials that Go writes in capitals.
fn go_name(name: &str) -> Text {
    const INITIALS: [(&str, &str); 20] = [
        ("api", "API"),
        ("cel", "CEL"),
        ("cidr", "CIDR"),
        ("cidrs", "CIDRs"),
        ("csi", "CSI"),
        ("fs", "FS"),
        ("gid", "GID"),
        ("grpc", "GRPC"),
        ("http", "HTTP"),
        ("iscsi", "ISCSI"),
        ("id", "ID"),
        ("ip", "IP"),
        ("nfs", "NFS"),
        ("os", "OS"),
        ("rbd", "RBD"),
        ("se", "SE"),
        ("tcp", "TCP"),
        ("tty", "TTY"),
        ("uid", "UID"),
        ("url", "URL"),
    ];
    let word = name.find(|c: char| c.is_ascii_uppercase()).unwrap_or(name.len());
    let (first, rest) = name.split_at(word);
    if let Some((_, capitals)) = INITIALS.iter().find(|(initials, _)| *initials == first) {
        return format!("{capitals}{rest}").into();
    }
    let mut letters = name.chars();
    match letters.next() {
        Some(letter) => format!("{}{}", letter.to_ascii_uppercase(), letters.as_str()).into(),
        None => Text::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn internal_forms() {
        for (definition, given, want) in [
            (
                "io.k8s.api.core.v1.ServicePort",
                value!({"port": 80i64, "protocol": "TCP"}),
                r#"{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}"#,
            ),
            (
                "io.k8s.api.core.v1.Taint",
                value!({"key": "a", "effect": "NoSchedule"}),
                r#"{"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}"#,
            ),
            (
                "io.k8s.api.rbac.v1.RoleRef",
                value!({"apiGroup": "g", "kind": "K", "name": "n"}),
                r#"{"APIGroup":"g","Kind":"K","Name":"n"}"#,
            ),
            (
                "io.k8s.api.resource.v1.ResourceClaimTemplateSpec",
                value!({"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": null}}}),
                r#"{"labels":{"a":"b"},"Spec":{"Devices":{"Requests":null,"Constraints":null,"Config":null}}}"#,
            ),
            (
                "io.k8s.api.resource.v1.DeviceAttribute",
                value!({"int": 1i64}),
                r#"{"IntValue":1,"BoolValue":null,"StringValue":null,"VersionValue":null,"IntValues":null,"BoolValues":null,"StringValues":null,"VersionValues":null}"#,
            ),
        ] {
            assert_eq!(json::to_string(&internal(definition, Some(&given))), want);
        }
    }
}
