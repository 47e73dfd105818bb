//! Values as the reference shows them in errors: its internal structs as JSON, that is with Go's names and with
//! everything that is unset.

use binnacle_meta::Shown;
use binnacle_schema::{Field, Message, Presence, Ty, Value, json};

use crate::tables;

/// A struct of the field tables (`io.k8s.api.rbac.v1.RoleRef`), or `null`.
pub(crate) fn shown(definition: &str, value: Option<&Value>) -> Shown {
    let mut text = Vec::new();
    match (tables::message(definition), value.filter(|v| !v.is_null())) {
        (Some(message), Some(value)) => write_struct(value, message, &mut text),
        _ => text.extend_from_slice(b"null"),
    }
    Shown::raw(String::from_utf8_lossy(&text))
}

/// A list of such structs; an empty one is nil.
#[expect(dead_code, reason = "for the rules of custom resource definitions, which follow")]
pub(crate) fn shown_list(definition: &str, items: &[Value]) -> Shown {
    let mut text = Vec::new();
    match tables::message(definition) {
        Some(message) if !items.is_empty() => {
            write_list(items, &mut text, |item, text| write_struct(item, message, text));
        }
        _ => text.extend_from_slice(b"null"),
    }
    Shown::raw(String::from_utf8_lossy(&text))
}

fn write_struct(value: &Value, message: &Message, out: &mut Vec<u8>) {
    // Types of the machinery are their own internal form and say in tags how they encode.
    if message.name.starts_with("io.k8s.apimachinery.") {
        return json::write(value, out);
    }
    out.push(b'{');
    let mut first = true;
    for field in message.fields.iter().filter(|field| field.name != "kind" || field.tag != 0) {
        if field.name == "apiVersion" && field.tag == 0 {
            continue;
        }
        let member = value.get(&field.name).filter(|v| !v.is_null());
        // Embedded metadata shows its members, without those that are empty.
        if let (Ty::Message(inner), "metadata") = (&field.ty, field.name.as_str())
            && inner.name.ends_with(".ObjectMeta")
        {
            for (name, member) in member.and_then(Value::as_object).into_iter().flat_map(|m| m.iter()) {
                write_name(name, &mut first, out);
                json::write(member, out);
            }
            continue;
        }
        write_name(&go_name(message, field), &mut first, out);
        match member {
            Some(member) => write_value(member, &field.ty, out),
            None => write_zero(field, out),
        }
    }
    out.push(b'}');
}

fn write_name(name: &str, first: &mut bool, out: &mut Vec<u8>) {
    if !std::mem::take(first) {
        out.push(b',');
    }
    json::write_string(name, out);
    out.push(b':');
}

fn write_value(value: &Value, ty: &Ty, out: &mut Vec<u8>) {
    if let Some(message) = ty.message() {
        return write_struct(value, message, out);
    }
    match (value, ty.element(), ty.map_value()) {
        (Value::List(items), Some(element), _) => write_list(items, out, |item, out| write_value(item, element, out)),
        (Value::Object(members), _, Some(element)) => {
            out.push(b'{');
            let mut first = true;
            for (name, member) in members.iter() {
                write_name(name, &mut first, out);
                write_value(member, element, out);
            }
            out.push(b'}');
        }
        _ => json::write(value, out),
    }
}

fn write_list(items: &[Value], out: &mut Vec<u8>, write: impl Fn(&Value, &mut Vec<u8>)) {
    out.push(b'[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(item, out);
    }
    out.push(b']');
}

fn write_zero(field: &Field, out: &mut Vec<u8>) {
    let pointer = matches!(field.presence, Presence::Optional | Presence::AlwaysNull);
    match &field.ty {
        _ if pointer => out.extend_from_slice(b"null"),
        Ty::Message(message) => write_struct(&Value::Null, message, out),
        Ty::String => out.extend_from_slice(b"\"\""),
        Ty::Bool => out.extend_from_slice(b"false"),
        Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double | Ty::IntOrString => out.push(b'0'),
        Ty::Quantity => out.extend_from_slice(b"\"0\""),
        _ => out.extend_from_slice(b"null"),
    }
}

/// The name of a field in Go: mostly the JSON name with a capital.
fn go_name(message: &Message, field: &Field) -> String {
    let name = field.name.as_str();
    let struct_name = message.name.rsplit('.').next().unwrap_or_default();
    let special = match (struct_name, name) {
        ("DeviceAttribute", "int") => "IntValue",
        ("DeviceAttribute", "bool") => "BoolValue",
        ("DeviceAttribute", "string") => "StringValue",
        ("DeviceAttribute", "version") => "VersionValue",
        ("DeviceAttribute", "ints") => "IntValues",
        ("DeviceAttribute", "bools") => "BoolValues",
        ("DeviceAttribute", "strings") => "StringValues",
        ("DeviceAttribute", "versions") => "VersionValues",
        (_, "apiGroup") => "APIGroup",
        (_, "apiGroups") => "APIGroups",
        (_, "apiVersion") => "APIVersion",
        (_, "apiVersions") => "APIVersions",
        (_, "uid") => "UID",
        (_, "url") => "URL",
        (_, "cel") => "CEL",
        (_, "cidr") => "CIDR",
        (_, "cidrs") => "CIDRs",
        (_, "ip") => "IP",
        _ => "",
    };
    if !special.is_empty() {
        return special.to_owned();
    }
    let mut chars = name.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_meta::{FieldError, FieldPath};
    use binnacle_schema::value;

    #[test]
    fn structs() {
        let claim = value!({"devices": {"requests": [
            {"name": "q", "exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1i64}}
        ]}});
        for (definition, value, want) in [
            (
                "io.k8s.api.rbac.v1.RoleRef",
                value!({"apiGroup": "g", "kind": "ClusterRole", "name": "edit"}),
                r#"{"APIGroup":"g","Kind":"ClusterRole","Name":"edit"}"#,
            ),
            (
                "io.k8s.api.resource.v1.ResourceClaimSpec",
                claim.clone(),
                r#"{"Devices":{"Requests":[{"Name":"q","Exactly":{"DeviceClassName":"c","Selectors":null,"AllocationMode":"ExactCount","Count":1,"AdminAccess":null,"Tolerations":null,"Capacity":null},"FirstAvailable":null}],"Constraints":null,"Config":null}}"#,
            ),
            (
                "io.k8s.api.resource.v1.ResourceClaimTemplateSpec",
                value!({"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": null}}}),
                r#"{"labels":{"a":"b"},"Spec":{"Devices":{"Requests":null,"Constraints":null,"Config":null}}}"#,
            ),
        ] {
            let error = FieldError::invalid(&FieldPath::new("x"), shown(definition, Some(&value)), "");
            assert_eq!(error.body(), format!("Invalid value: {want}"));
        }
    }
}
