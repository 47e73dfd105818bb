//! Values as messages show them.

use binnacle_cel::go_double;
use binnacle_meta::Shown;
use binnacle_schema::{Value, canonical, json};

/// Texts quoted, numbers as Go prints them, all else as JSON with the members in order.
pub(crate) fn shown(value: &Value) -> Shown {
    match value {
        Value::Null => Shown::raw("null"),
        Value::Bool(b) => Shown::from(*b),
        Value::Int(n) => Shown::from(*n),
        Value::Float(n) => Shown::raw(go_double(*n)),
        Value::Str(text) => Shown::from(text),
        value => {
            let mut value = value.clone();
            canonical::sort_free_form(&mut value);
            Shown::raw(json::to_string(&value))
        }
    }
}
