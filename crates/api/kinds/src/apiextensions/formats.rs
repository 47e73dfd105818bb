//! Formats in schemas. Unknown ones have no effect and cause a warning.

use std::collections::HashSet;

use binnacle_fields::FieldRef;
use binnacle_fields::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps as Props};
use binnacle_structural::Format;

use super::definition::Definition;
use super::schema;

/// Returns the unknown formats of a definition, in order and with repetitions.
pub(super) fn unrecognized(definition: FieldRef<CustomResourceDefinition>) -> Vec<String> {
    let mut found = Vec::new();
    let mut collect = |schema: FieldRef<Props>| {
        let format = schema.at(Props::FORMAT).str();
        let known = match schema.at(Props::TYPE).str() {
            "" | "string" => Format::new(format).supported().is_some(),
            "integer" => matches!(format, "int32" | "int64"),
            "number" => matches!(format, "float" | "double"),
            _ => false,
        };
        if !format.is_empty() && !known {
            found.push(format.to_owned());
        }
        false
    };
    for schema in Definition::of(definition.at(CustomResourceDefinition::SPEC)).schemas() {
        schema::any(schema, &mut |schema| collect(schema));
    }
    found
}

/// Returns warnings about unknown formats that the old definition does not have.
pub(super) fn warnings(
    definition: FieldRef<CustomResourceDefinition>,
    old: Option<FieldRef<CustomResourceDefinition>>,
) -> Vec<String> {
    let old: HashSet<String> = old.map(unrecognized).unwrap_or_default().into_iter().collect();
    let new = unrecognized(definition).into_iter().filter(|format| !old.contains(format));
    new.map(|format| format!("unrecognized format {}", binnacle_meta::go_quote(&format))).collect()
}
