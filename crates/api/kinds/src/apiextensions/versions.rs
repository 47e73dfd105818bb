//! Validation of the versions of a definition.

use std::collections::HashMap;

use binnacle_fields::FieldRef;
use binnacle_fields::apiextensions::v1::{
    CustomResourceColumnDefinition as Column, CustomResourceDefinitionVersion as Version,
    CustomResourceSubresources as Subresources, CustomResourceValidation as Validation,
};
use binnacle_fields::types::List;
use binnacle_meta::{ErrorValue, FieldErrors};
use binnacle_schema::json;
use binnacle_validation::repeated;

use super::definition::Definition;
use super::names::{column, label, subresources};
use super::required_checks::RequiredChecks;
use super::selectable_fields;
use super::version_schema::{self, SchemaContext};

/// The maximum length of a deprecation warning in bytes.
const WARNING_MAX: usize = 256;

/// Validates all versions, without the members that they share.
pub(super) fn validate(
    definition: &Definition<'_, '_>,
    required: &RequiredChecks<'_>,
    structural: bool,
    errors: &mut FieldErrors,
) {
    let status = status_by_name(definition.versions());
    for version in errors.while_room(definition.versions().items()) {
        let name = version.at(Version::NAME);
        label(&name, name.str(), "", name.str(), errors);
        let ctx = SchemaContext {
            required,
            structural,
            has_status: status.get(name.str()).is_some_and(|has_status| *has_status),
            unchanged: required.is_unchanged(version),
        };
        validate_version(definition, version, &ctx, errors);
    }
    validate_together(definition, errors);
}

/// Returns which versions have the subresource `status`. As in kube-apiserver, the first of two versions with one name
/// decides for both.
fn status_by_name<'v>(versions: FieldRef<'_, 'v, List<Version>>) -> HashMap<&'v str, bool> {
    versions.values().rev().map(|version| (version.at(Version::NAME).str(), has_status(version))).collect()
}

fn has_status(version: FieldRef<Version>) -> bool {
    version.at(Version::SUBRESOURCES).at(Subresources::STATUS).is_set()
}

fn validate_version(
    definition: &Definition<'_, '_>,
    version: FieldRef<Version>,
    ctx: &SchemaContext<'_>,
    errors: &mut FieldErrors,
) {
    deprecation_warning(version, errors);
    let validation = definition.own(&version, Version::SCHEMA);
    let schema = validation.as_ref().and_then(|validation| validation.at(Validation::OPEN_APIV3_SCHEMA).set());
    if let Some(schema) = schema {
        version_schema::validate(schema, ctx, errors);
    }
    if let Some(own) = definition.own(&version, Version::SUBRESOURCES) {
        subresources(own, errors);
    }
    if let Some(columns) = definition.own(&version, Version::ADDITIONAL_PRINTER_COLUMNS) {
        validate_columns(columns, errors);
    }
    let fields = definition.own(&version, Version::SELECTABLE_FIELDS).filter(|fields| !fields.is_empty());
    match (fields, schema) {
        (None, _) => {}
        (Some(fields), Some(schema)) => {
            let name = version.at(Version::NAME).str();
            selectable_fields::validate(fields, schema, name, ctx.required, errors);
        }
        (Some(fields), None) => {
            let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.push(fields.invalid_as("", detail));
        }
    }
}

fn validate_columns(columns: FieldRef<List<Column>>, errors: &mut FieldErrors) {
    for item in errors.while_room(columns.items()) {
        column(item, errors);
    }
}

/// Validates the members that all versions share. They are reported as fields of the spec, which has them in Go's
/// internal form.
pub(super) fn validate_shared(
    definition: &Definition<'_, '_>,
    required: &RequiredChecks<'_>,
    structural: bool,
    errors: &mut FieldErrors,
) {
    let validation = definition.shared(Version::SCHEMA);
    let reported = validation.map(|validation| validation.reported_as("validation"));
    let schema = reported.as_ref().and_then(|validation| validation.at(Validation::OPEN_APIV3_SCHEMA).set());
    if let Some(schema) = schema {
        let ctx = SchemaContext {
            required,
            structural,
            has_status: definition.versions().values().any(has_status),
            unchanged: definition.versions().item(0).is_some_and(|first| required.is_unchanged(first)),
        };
        version_schema::validate(schema, &ctx, errors);
    }
    if let Some(shared) = definition.shared(Version::SUBRESOURCES) {
        subresources(shared, errors);
    }
    if let Some(columns) = definition.shared(Version::ADDITIONAL_PRINTER_COLUMNS) {
        validate_columns(columns, errors);
    }
    let fields = definition.shared(Version::SELECTABLE_FIELDS).filter(|fields| !fields.is_empty());
    match (fields, validation) {
        (None, _) => {}
        (Some(fields), Some(validation)) => {
            let schema = validation.at(Validation::OPEN_APIV3_SCHEMA);
            selectable_fields::validate(fields, schema, "", required, errors);
        }
        (Some(fields), None) => {
            errors.push(fields.invalid_as("", "may only be set when validations.schema is included"));
        }
    }
}

/// Reports versions without a schema.
pub(super) fn missing_schemas(
    definition: &Definition<'_, '_>,
    required: &RequiredChecks<'_>,
    preserve: bool,
    errors: &mut FieldErrors,
) {
    let is_there = |validation: FieldRef<Validation>| validation.at(Validation::OPEN_APIV3_SCHEMA).is_set();
    if definition.shared(Version::SCHEMA).is_some_and(is_there) || (!required.schemas && preserve) {
        return;
    }
    for version in errors.while_room(definition.versions().items()) {
        if definition.own(&version, Version::SCHEMA).is_some_and(is_there) {
            continue;
        }
        let validation = version.at(Version::SCHEMA);
        let schema = validation.at(Validation::OPEN_APIV3_SCHEMA);
        if required.schemas {
            errors.push(schema.required(""));
        } else if version.at(Version::SERVED).bool() {
            errors.push(schema.required("because otherwise all fields are pruned"));
        }
    }
}

fn deprecation_warning(version: FieldRef<Version>, errors: &mut FieldErrors) {
    let field = version.at(Version::DEPRECATION_WARNING);
    let Some(warning) = field.get_str() else { return };
    // In Go the text is a pointer, so messages show it as JSON.
    let shown = || ErrorValue::raw(json::to_string(field.value()));
    let mut refuse = |detail: &str| errors.push(field.invalid_as(shown(), detail));
    if !version.at(Version::DEPRECATED).bool() {
        refuse("can only be set for deprecated versions");
        return;
    }
    if warning.len() > WARNING_MAX {
        refuse("must be <= 256 characters long");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    // The only white space among Go's printable characters is the space.
    let unprintable = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
    if let Some((i, _)) = warning.char_indices().find(|(_, c)| unprintable(*c)) {
        refuse(&format!("must only contain printable UTF-8 characters; non-printable character found at index {i}"));
    }
}

/// Validates the names and the storage version.
fn validate_together(definition: &Definition<'_, '_>, errors: &mut FieldErrors) {
    let versions = definition.versions();
    let mut refuse = |detail| errors.push(versions.invalid_as(definition.shown_versions(), detail));
    let names: Vec<&str> = versions.values().map(|version| version.at(Version::NAME).str()).collect();
    if repeated(&names, |name| *name).contains(&true) {
        refuse("must contain unique version names");
    }
    if versions.values().filter(|version| version.at(Version::STORAGE).bool()).count() != 1 {
        refuse("must have exactly one version marked as storage version");
    }
    // Go's internal form has the name of the first version as a field of its own.
    if let Some(first) = names.first().filter(|name| !name.is_empty()) {
        label(&versions.reported_as("version"), first, "", first, errors);
    }
}
