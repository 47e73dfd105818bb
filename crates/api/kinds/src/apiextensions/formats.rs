//! Formats in schemas. Unknown ones have no effect and cause a warning.

use std::collections::HashSet;

use binnacle_schema::Value;
use binnacle_structural::Format;

use super::schema;

/// Returns the unknown formats of a definition, in order and with repetitions.
pub(super) fn unrecognized(definition: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut collect = |schema: &Value| {
        let format = schema.str_at(&["format"]);
        let known = match schema.str_at(&["type"]) {
            "" | "string" => Format::new(format).known().is_some(),
            "integer" => matches!(format, "int32" | "int64"),
            "number" => matches!(format, "float" | "double"),
            _ => false,
        };
        if !format.is_empty() && !known {
            found.push(format.to_owned());
        }
        false
    };
    for schema in super::definition::Definition::of(definition).schemas() {
        schema::any(schema, &mut collect);
    }
    found
}

/// Returns warnings about unknown formats that the old definition does not have.
pub(super) fn warnings(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let old: HashSet<String> = old.map(unrecognized).unwrap_or_default().into_iter().collect();
    let new = unrecognized(definition).into_iter().filter(|format| !old.contains(format));
    new.map(|format| format!("unrecognized format {}", binnacle_meta::go_quote(&format))).collect()
}
