//! The scale subresource: the paths of the desired and actual replicas in a resource.

use std::fmt::Write;

use binnacle_cel::go_double;
use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_work::charge_bytes;

/// `subresources.scale`: the paths in the definition.
#[derive(Clone, Copy, Debug)]
pub struct ScalePaths<'p> {
    pub spec_replicas: &'p str,
    pub status_replicas: &'p str,
    pub label_selector: Option<&'p str>,
}

impl ScalePaths<'_> {
    /// Validates the desired replicas.
    pub fn validate_spec(&self, object: &Value, errors: &mut FieldErrors) {
        replicas(object, self.spec_replicas, errors);
    }

    /// Validates the actual replicas and the selector of their pods.
    pub fn validate_status(&self, object: &Value, errors: &mut FieldErrors) {
        replicas(object, self.status_replicas, errors);
        let Some(path) = self.label_selector else { return };
        match nested(object, path) {
            Ok(None | Some(Value::Str(_))) => {}
            Ok(Some(other)) => {
                let problem = wrong_type(path, other, "string");
                errors.push(FieldError::invalid(&FieldPath::new(path), "", problem));
            }
            Err(problem) => errors.push(FieldError::invalid(&FieldPath::new(path), "", problem)),
        }
    }
}

fn replicas(object: &Value, path: &str, errors: &mut FieldErrors) {
    let mut refuse = |n: i64, detail: &str| errors.push(FieldError::invalid(&FieldPath::new(path), n, detail));
    match nested(object, path) {
        Ok(None) => {}
        Ok(Some(Value::Int(n))) if *n < 0 => refuse(*n, "should be a non-negative integer"),
        Ok(Some(Value::Int(n))) if *n > i64::from(i32::MAX) => {
            refuse(*n, &format!("should be less than or equal to {}", i32::MAX));
        }
        Ok(Some(Value::Int(_))) => {}
        Ok(Some(other)) => refuse(0, &wrong_type(path, other, "int64")),
        Err(problem) => refuse(0, &problem),
    }
}

/// Resolves a dotted path. Returns `None` if a member does not exist.
fn nested<'v>(object: &'v Value, path: &str) -> Result<Option<&'v Value>, String> {
    let path = path.strip_prefix('.').unwrap_or(path);
    let mut at = object;
    let mut end = 0;
    for name in path.split('.') {
        match at {
            Value::Null => return Ok(None),
            Value::Object(object) => match object.get(name) {
                Some(value) => at = value,
                None => return Ok(None),
            },
            other => return Err(wrong_type(&path[..end + name.len()], other, "map[string]interface{}")),
        }
        end += name.len() + 1;
    }
    Ok(Some(at))
}

fn wrong_type(path: &str, value: &Value, expected: &str) -> String {
    let path = path.strip_prefix('.').unwrap_or(path);
    let mut shown = String::new();
    print(value, &mut shown);
    let kind = match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
        Value::Str(_) | Value::Raw(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    };
    format!(".{path} accessor error: {shown} is of the type {kind}, expected {expected}")
}

/// The maximum length of a formatted value, which errors truncate further.
const MAX_SHOWN: usize = 32 << 10;

/// Formats a value like Go's `%v`.
fn print(value: &Value, out: &mut String) {
    if out.len() > MAX_SHOWN || charge_bytes(16).is_err() {
        return;
    }
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Float(n) => out.push_str(&go_double(*n)),
        Value::Str(text) | Value::Raw(text) => out.push_str(text),
        // Writing to a string does not fail.
        Value::Bool(b) => drop(write!(out, "{b}")),
        Value::Int(n) => drop(write!(out, "{n}")),
        Value::List(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { " " } else { "" });
                print(item, out);
            }
            out.push(']');
        }
        Value::Object(object) => {
            let mut members: Vec<_> = object.iter().collect();
            members.sort_by(|a, b| a.0.cmp(b.0));
            out.push_str("map[");
            for (i, (name, value)) in members.into_iter().enumerate() {
                out.push_str(if i > 0 { " " } else { "" });
                out.push_str(name);
                out.push(':');
                print(value, out);
            }
            out.push(']');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn validates_scale_fields() {
        let scale = ScalePaths {
            spec_replicas: ".spec.replicas",
            status_replicas: ".status.replicas",
            label_selector: Some(".status.selector"),
        };
        for (object, want) in [
            (value!({"spec": {"replicas": 1i64}, "status": {}}), vec![]),
            (
                value!({"spec": {"replicas": (-1i64)}}),
                vec![".spec.replicas: Invalid value: -1: should be a non-negative integer"],
            ),
            (
                value!({"spec": {"replicas": 3_000_000_000i64}, "status": {"selector": [1i64]}}),
                vec![
                    ".spec.replicas: Invalid value: 3000000000: should be less than or equal to 2147483647",
                    ".status.selector: Invalid value: \"\": .status.selector accessor error: [1] is of the type []interface {}, expected string",
                ],
            ),
            (
                value!({"spec": {"replicas": 1.5}, "status": "x"}),
                vec![
                    ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: 1.5 is of the type float64, expected int64",
                    ".status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the type string, expected map[string]interface{}",
                    ".status.selector: Invalid value: \"\": .status.selector accessor error: x is of the type string, expected map[string]interface{}",
                ],
            ),
        ] {
            let mut errors = FieldErrors::new();
            scale.validate_spec(&object, &mut errors);
            scale.validate_status(&object, &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
    }
}
