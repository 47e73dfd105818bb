//! `metav1.Condition`.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;

use crate::names;

const REASON_MAX: usize = 1024;
const MESSAGE_MAX: usize = 32 * 1024;
const REASON: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
const REASON_MESSAGE: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";

/// Validates a list of conditions; types must be unique.
pub fn conditions(conditions: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let repeated = crate::repeated(conditions, |item| item.str_at(&["type"]));
    for (i, item) in errors.while_room(conditions.iter().enumerate()) {
        let at = path.index(i);
        let kind = item.str_at(&["type"]);
        if repeated[i] {
            errors.push(FieldError::duplicate(&at.child("type"), kind));
        }
        condition(item, &at, errors);
    }
}

fn condition(condition: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let kind = condition.str_at(&["type"]);
    errors.extend(names::label_key(kind).iter().map(|m| FieldError::invalid(&path.child("type"), kind, m)));
    let status = condition.str_at(&["status"]);
    if !matches!(status, "True" | "False" | "Unknown") {
        errors.push(FieldError::not_supported(&path.child("status"), status, &["False", "True", "Unknown"]));
    }
    let generation = condition.int_at(&["observedGeneration"]).unwrap_or(0);
    if generation < 0 {
        let at = path.child("observedGeneration");
        errors.push(FieldError::invalid(&at, generation, "must be greater than or equal to zero"));
    }
    if condition.get("lastTransitionTime").is_none_or(Value::is_null) {
        errors.push(FieldError::required(&path.child("lastTransitionTime"), ""));
    }
    let reason = condition.str_at(&["reason"]);
    let at = path.child("reason");
    if reason.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        if !is_reason(reason) {
            let examples = &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
            errors.push(FieldError::invalid(&at, reason, names::regex_error(REASON_MESSAGE, REASON, examples)));
        }
        if reason.len() > REASON_MAX {
            errors.push(FieldError::too_long(&at, REASON_MAX));
        }
    }
    if condition.str_at(&["message"]).len() > MESSAGE_MAX {
        errors.push(FieldError::too_long(&path.child("message"), MESSAGE_MAX));
    }
}

fn is_reason(reason: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    reason.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && reason.bytes().all(|b| word(b) || b == b',' || b == b':')
        && reason.bytes().next_back().is_some_and(word)
}
