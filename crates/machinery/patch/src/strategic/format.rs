//! Values as Go's `fmt` prints them.

use binnacle_schema::{Object, Value};

/// `%v`.
pub fn go_print(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Float(number) => go_float(*number),
        Value::Str(text) | Value::Raw(text) => text.to_string(),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(go_print).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(object) => go_print_object(object),
    }
}

/// Formats a floating point number like `%v`: with an exponent if it is below -4 or above 5.
pub(crate) fn go_float(number: f64) -> String {
    let text = format!("{number:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    match exponent.parse::<i32>() {
        Ok(-4..=5) | Err(_) => number.to_string(),
        Ok(exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
    }
}

pub(super) fn go_print_object(object: &Object) -> String {
    let mut members: Vec<(&str, &Value)> = object.iter().map(|(name, value)| (name.as_str(), value)).collect();
    members.sort_by_key(|(name, _)| *name);
    let members: Vec<String> = members.iter().map(|(name, value)| format!("{name}:{}", go_print(value))).collect();
    format!("map[{}]", members.join(" "))
}

/// `%s`, which marks values that are no strings as errors, except nil in a list or map.
pub(super) fn go_string(value: &Value) -> String {
    match value {
        Value::Str(text) | Value::Raw(text) => text.to_string(),
        Value::Null => "%!s(<nil>)".to_owned(),
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => format!("%!s({}={})", go_type(value), go_print(value)),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(go_string_within).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(object) => {
            let members = object.iter().map(|(name, value)| format!("{name}:{}", go_string_within(value)));
            let mut members: Vec<String> = members.collect();
            members.sort();
            format!("map[{}]", members.join(" "))
        }
    }
}

fn go_string_within(value: &Value) -> String {
    if value.is_null() { "<nil>".to_owned() } else { go_string(value) }
}

/// Returns Go's type of a value in an unstructured object.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_nil_by_itself_is_no_string() {
        for (value, want) in [
            (Value::Null, "%!s(<nil>)"),
            (Value::List(vec![Value::Null, Value::Int(1), "a".into()]), "[<nil> %!s(int64=1) a]"),
            (Value::Object([("a", Value::Null)].into_iter().collect()), "map[a:<nil>]"),
        ] {
            assert_eq!(go_string(&value), want);
        }
    }

    #[test]
    fn formats_floats_like_go() {
        for (number, want) in [
            (1.5, "1.5"),
            (-0.25, "-0.25"),
            (123456.5, "123456.5"),
            (1234567.5, "1.2345675e+06"),
            (1.2345678901234567e19, "1.2345678901234567e+19"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(go_print(&Value::Float(number)), want);
        }
    }
}
