//! Tolerations of taints.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;

use crate::names;

const DECIMAL: &str = "must be a valid decimal integer in canonical form";

/// Validates a list of tolerations. `comparisons` allows the numeric operators `Lt` and `Gt`.
pub fn tolerations(tolerations: &[Value], comparisons: bool, path: &FieldPath, errors: &mut FieldErrors) {
    for (i, item) in errors.while_room(tolerations.iter().enumerate()) {
        toleration(item, comparisons, &path.index(i), errors);
    }
}

fn toleration(toleration: &Value, comparisons: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let [key, operator, value, effect] = ["key", "operator", "value", "effect"].map(|name| toleration.str_at(&[name]));
    let at = path.child("operator");
    let mut invalid = |path: &FieldPath, value: &str, detail: &str| {
        errors.push(FieldError::invalid(path, value, detail));
    };
    if key.is_empty() && operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        invalid(&at, operator, detail);
    } else if !key.is_empty() {
        names::label_key(key).iter().for_each(|message| invalid(&path.child("key"), key, message));
    }
    if toleration.int_at(&["tolerationSeconds"]).is_some() && effect != "NoExecute" {
        invalid(&path.child("effect"), effect, "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    match operator {
        "Equal" | "" => {
            let messages = names::label_value(value);
            if !messages.is_empty() {
                invalid(&at, value, &messages.join(";"));
            }
        }
        "Exists" => {
            if !value.is_empty() {
                invalid(&at, value, "value must be empty when `operator` is 'Exists'");
            }
        }
        "Lt" | "Gt" if comparisons => number(value, &path.child("value"), errors),
        "Lt" | "Gt" => errors.push(FieldError::not_supported(&at, operator, &["Equal", "Exists", "Lt", "Gt"])),
        _ => errors.push(FieldError::not_supported(&at, operator, &["Equal", "Exists"])),
    }
    if !matches!(effect, "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
        let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        errors.push(FieldError::not_supported(&path.child("effect"), effect, &supported));
    }
}

fn number(value: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let digits = value.strip_prefix('-').unwrap_or(value);
    let decimal = match digits.as_bytes() {
        [] => false,
        [b'0'] => !value.starts_with('-'),
        [first, rest @ ..] => (b'1'..=b'9').contains(first) && rest.iter().all(u8::is_ascii_digit),
    };
    if !decimal {
        let message = if value.is_empty() { "must be non-empty" } else { DECIMAL };
        errors.push(FieldError::invalid(path, value, message));
    }
    if value.parse::<i64>().is_err() {
        let why = if decimal { "value out of range" } else { "invalid syntax" };
        let detail = format!("strconv.ParseInt: parsing {}: {why}", binnacle_meta::go_quote(value));
        errors.push(FieldError::invalid(path, value, detail));
    }
}
