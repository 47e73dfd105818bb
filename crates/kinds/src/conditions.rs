//! Conditions of newer kinds: apimachinery's `metav1.Condition`, with its rules.

use std::collections::BTreeSet;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks;
use binnacle_validation::names::regex_error;

const REASON_MAX: usize = 1024;
const MESSAGE_MAX: usize = 32 * 1024;

/// A list of conditions, each type once.
pub(crate) fn validate(list: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (i, condition) in list.iter().enumerate() {
        let at = path.index(i);
        let kind = condition.str_at(&["type"]);
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(&at.child("type"), kind));
        }
        one(condition, &at, errors);
    }
}

fn one(condition: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    checks::qualified_name(&path.child("type"), condition.str_at(&["type"]), errors);
    let status = condition.str_at(&["status"]);
    checks::one_of(&path.child("status"), status, &["False", "True", "Unknown"], errors);
    if let Some(generation) = condition.int_at(&["observedGeneration"]).filter(|generation| *generation < 0) {
        let why = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(&path.child("observedGeneration"), generation, why));
    }
    if condition.get("lastTransitionTime").is_none_or(Value::is_null) {
        errors.push(FieldError::required(&path.child("lastTransitionTime"), ""));
    }
    let (reason, at) = (condition.str_at(&["reason"]), path.child("reason"));
    if reason.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        if !is_reason(reason) {
            errors.push(FieldError::invalid(&at, reason, wrong_reason()));
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
    let word = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    let bytes = reason.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|c| word(*c))
        && bytes.iter().all(|c| word(*c) || matches!(c, b',' | b':'))
}

fn wrong_reason() -> String {
    regex_error(
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
        "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
        &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn rules() {
        let time = "2026-01-01T00:00:00Z";
        for (condition, want) in [
            (value!({"type": "a.b/C", "status": "True", "lastTransitionTime": time, "reason": "R:x"}), vec![]),
            (
                value!({"type": "C", "status": "true", "lastTransitionTime": time, "reason": "R"}),
                vec!["c[0].status: Unsupported value: \"true\": supported values: \"False\", \"True\", \"Unknown\""],
            ),
            (
                value!({"type": "C", "status": "True", "observedGeneration": (-1i64)}),
                vec![
                    "c[0].observedGeneration: Invalid value: -1: must be greater than or equal to zero",
                    "c[0].lastTransitionTime: Required value",
                    "c[0].reason: Required value",
                ],
            ),
            (
                value!({"type": "C", "status": "True", "lastTransitionTime": time, "reason": "1"}),
                vec![
                    "c[0].reason: Invalid value: \"1\": a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
                ],
            ),
        ] {
            let mut errors = FieldErrors::new();
            validate(&[condition], &FieldPath::new("c"), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
    }
}
