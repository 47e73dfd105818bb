//! Validation of selectable fields, by which lists of custom resources can be filtered.

use std::collections::HashSet;
use std::sync::Arc;

use binnacle_fields::FieldRef;
use binnacle_fields::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion as Version, JSONSchemaProps as Props, SelectableField,
};
use binnacle_fields::types::List;
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_structural::{Interner, Structural};

use super::definition::Definition;
use super::required_checks::{RequiredChecks, with_name};

/// The maximum number of selectable fields of a version.
const MAX: usize = 8;

/// Validates selectable fields: those of a version with a name, or of all versions if the name is empty.
pub(super) fn validate(
    fields: FieldRef<List<SelectableField>>,
    schema: FieldRef<Props>,
    version: &str,
    required: &RequiredChecks<'_>,
    errors: &mut FieldErrors,
) {
    let parsed = match Structural::parse(schema.value(), &Interner::new()) {
        Ok(parsed) => parsed,
        Err(problem) => {
            errors.push(schema.invalid_as("", problem.to_string()));
            // The paths themselves are still validated, beside a schema without fields.
            Arc::default()
        }
    };
    let mut unique: HashSet<String> = HashSet::new();
    for field in errors.while_room(fields.items()) {
        let json_path = field.at(SelectableField::JSON_PATH);
        if json_path.is_empty() {
            errors.push(json_path.required(""));
            continue;
        }
        let found = match parsed.find_field(json_path.str(), false) {
            Ok(found) => found,
            Err(problem) => {
                errors.push(json_path.invalid(format!("is an invalid path: {problem}")));
                continue;
            }
        };
        if found.root == "metadata" {
            errors.push(json_path.invalid("must not point to fields in metadata"));
        }
        let kind = found.schema.map_or("", Structural::type_name);
        if !matches!(kind, "string" | "boolean" | "integer") {
            errors.push(json_path.invalid("must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed."));
        }
        if !unique.insert(found.path) {
            errors.push(json_path.duplicate());
        }
    }
    if unique.len() > MAX && !may_stay(fields, version, required) {
        errors.push(FieldError::too_many(&fields, unique.len(), MAX));
    }
}

/// Returns true if the old definition has the same selectable fields, even if they are above the limit.
fn may_stay(fields: FieldRef<List<SelectableField>>, version: &str, required: &RequiredChecks<'_>) -> bool {
    let Some(old) = required.old else { return false };
    let spec = old.at(CustomResourceDefinition::SPEC);
    let definition = Definition::of(spec);
    let is_same = |old: FieldRef<List<SelectableField>>| old.len() > MAX && old.list() == fields.list();
    match version {
        "" => definition.shared(Version::SELECTABLE_FIELDS).is_some_and(is_same),
        _ => with_name(spec, version)
            .is_some_and(|old| definition.own(&old, Version::SELECTABLE_FIELDS).is_some_and(is_same)),
    }
}
