//! Validation of the names of custom resources and of their columns.

use binnacle_fields::FieldRef;
use binnacle_fields::apiextensions::v1::{
    CustomResourceColumnDefinition as Column, CustomResourceDefinitionNames as Names,
    CustomResourceSubresourceScale as Scale, CustomResourceSubresources as Subresources,
};
use binnacle_fields::types::Str;
use binnacle_meta::{FieldError, FieldErrors, Location};
use binnacle_validation::{checks, names};

/// Validates names: those of the spec, or the accepted names.
pub(super) fn validate_names(names: FieldRef<Names>, errors: &mut FieldErrors) {
    for field in [Names::PLURAL, Names::SINGULAR] {
        let name = names.at(field);
        if !name.is_empty() {
            label(&name, name.str(), "", name.str(), errors);
        }
    }
    const MIXED_CASE: &str = "may have mixed case, but should otherwise match: ";
    let (kind, list_kind) = (names.at(Names::KIND), names.at(Names::LIST_KIND));
    for name in [kind, list_kind].into_iter().filter(|name| !name.is_empty()) {
        label(&name, &name.str().to_lowercase(), MIXED_CASE, name.str(), errors);
    }
    for name in errors.while_room(names.at(Names::SHORT_NAMES).items()) {
        label(&name, name.str(), "", name.str(), errors);
    }
    if !kind.is_empty() && kind.str() == list_kind.str() {
        errors.push(list_kind.invalid("kind and listKind may not be the same"));
    }
    for name in errors.while_room(names.at(Names::CATEGORIES).items()) {
        label(&name, name.str(), "", name.str(), errors);
    }
}

/// Validates a DNS label; all its problems are in one message.
pub(super) fn label(path: &dyn Location, label: &str, prefix: &str, shown: &str, errors: &mut FieldErrors) {
    let messages = names::dns1035_label(label);
    if !messages.is_empty() {
        errors.push(FieldError::invalid(path, shown, format!("{prefix}{}", messages.join(","))));
    }
}

/// Validates a column of tables.
pub(super) fn column(column: FieldRef<Column>, errors: &mut FieldErrors) {
    const TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let name = column.at(Column::NAME);
    checks::required(&name, name.str(), errors);
    let (kind, detail) = (column.at(Column::TYPE), format!("must be one of {}", TYPES.join(",")));
    if kind.is_empty() {
        errors.push(kind.required(detail));
    } else if !TYPES.contains(&kind.str()) {
        errors.push(kind.invalid(detail));
    }
    let format = column.at(Column::FORMAT);
    if !format.is_empty() && !FORMATS.contains(&format.str()) {
        errors.push(format.invalid(format!("must be one of {}", FORMATS.join(","))));
    }
    let json_path = column.at(Column::JSON_PATH).reported_as("JSONPath");
    if json_path.is_empty() {
        errors.push(json_path.required(""));
    } else {
        simple_json_path(json_path, errors);
    }
}

/// Validates `status` and `scale` of a custom resource.
pub(super) fn subresources(subresources: FieldRef<Subresources>, errors: &mut FieldErrors) {
    let Some(scale) = subresources.at(Subresources::SCALE).set() else { return };
    for (field, roots, wrong_root, is_optional) in [
        (Scale::SPEC_REPLICAS_PATH, &[".spec."][..], "should be a json path under .spec", false),
        (Scale::STATUS_REPLICAS_PATH, &[".status."], "should be a json path under .status", false),
        (
            Scale::LABEL_SELECTOR_PATH,
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
            true,
        ),
    ] {
        let json_path = scale.at(field);
        if json_path.is_empty() {
            if !is_optional {
                errors.push(json_path.required(""));
            }
        } else if simple_json_path(json_path, errors) && !roots.iter().any(|root| json_path.str().starts_with(root)) {
            let shown = if is_optional { json_path.shown_as_json() } else { json_path.shown() };
            errors.push(json_path.invalid_as(shown, wrong_root));
        }
    }
}

fn simple_json_path(json_path: FieldRef<Str>, errors: &mut FieldErrors) -> bool {
    let simple = json_path.str().starts_with('.');
    if !simple {
        errors.push(json_path.invalid("must be a simple json path starting with ."));
    }
    simple
}
