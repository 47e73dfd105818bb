//! Values as Go's `fmt` prints them.

use binnacle_schema::{Object, Value, json};

/// `%v`.
pub fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Float(_) => json::to_string(value),
        Value::Str(text) | Value::Raw(text) => text.to_string(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(go_print).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(object) => go_print_object(object),
    }
}

pub(super) fn go_print_object(object: &Object) -> String {
    let mut members: Vec<(&str, &Value)> = object.iter().map(|(name, value)| (name.as_str(), value)).collect();
    members.sort_by_key(|(name, _)| *name);
    let members: Vec<String> = members.iter().map(|(name, value)| format!("{name}:{}", go_print(value))).collect();
    format!("map[{}]", members.join(" "))
}

/// `%s`, which complains about what is no text.
pub(super) fn go_string(value: &Value) -> String {
    match value {
        Value::Str(text) | Value::Raw(text) => text.to_string(),
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => format!("%!s({}={})", go_type(value), go_print(value)),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(go_string).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(object) => {
            let mut members: Vec<String> = object.iter().map(|(name, v)| format!("{name}:{}", go_string(v))).collect();
            members.sort();
            format!("map[{}]", members.join(" "))
        }
    }
}

/// The type that holds such a value in a tree without schema.
pub(crate) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::Str(_) | Value::Raw(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
