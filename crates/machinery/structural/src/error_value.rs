//! Formatting of values for messages.

use binnacle_cel::go_double;
use binnacle_meta::ErrorValue;
use binnacle_schema::{Value, json};

use crate::weight::copy_charged;

/// Returns quoted texts, numbers in Go's format, and others as JSON with sorted members.
pub(crate) fn error_value(value: &Value) -> ErrorValue {
    match value {
        Value::Null => ErrorValue::raw("null"),
        Value::Bool(b) => ErrorValue::from(*b),
        Value::Int(n) => ErrorValue::from(*n),
        Value::Float(n) => ErrorValue::raw(go_double(*n)),
        Value::Str(text) => ErrorValue::from(text),
        value => {
            let Some(mut value) = copy_charged(value) else { return ErrorValue::raw("") };
            binnacle_schema::sort_free_form(&mut value);
            ErrorValue::raw(json::to_string(&value))
        }
    }
}
