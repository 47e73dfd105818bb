//! Validation of the schema of a version, or of the schema that all versions share.

use binnacle_fields::FieldRef;
use binnacle_fields::apiextensions::v1::JSONSchemaProps as Props;
use binnacle_meta::FieldErrors;
use binnacle_structural::defaults::{self, DefaultRules};
use binnacle_structural::{Interner, Structural};

use super::expressions::{self, Subject};
use super::required_checks::RequiredChecks;
use super::{open_api, schema, structural};

/// The context in which a schema is validated.
pub(super) struct SchemaContext<'a> {
    pub(super) required: &'a RequiredChecks<'a>,
    /// True if the schema must be structural.
    pub(super) structural: bool,
    /// True if the resource has the subresource `status`.
    pub(super) has_status: bool,
    /// True if the old definition has the same schema.
    pub(super) unchanged: bool,
}

/// Validates a schema, its defaults and its expressions.
pub(super) fn validate(schema: FieldRef<Props>, ctx: &SchemaContext<'_>, errors: &mut FieldErrors) {
    let before = errors.len();
    if ctx.has_status {
        open_api::root_with_status(schema, errors);
    }
    let nullable = schema.at(Props::NULLABLE);
    if nullable.bool() {
        errors.push(nullable.forbidden("nullable cannot be true at the root"));
    }
    let parsed = ctx.structural.then(|| Structural::parse(schema.value(), &Interner::new()));
    let (parsed, unsupported) = match parsed {
        Some(Ok(parsed)) => (Some(parsed), None),
        Some(Err(problem)) => (None, Some(problem)),
        None => (None, None),
    };
    let sound = parsed.filter(|parsed| {
        let mut found = structural::validate(schema);
        if found.is_empty()
            && let Some(object_meta) = structural::object_meta()
        {
            let rules = DefaultRules { object_meta, pruned: ctx.required.pruned_defaults };
            defaults::validate(parsed, rules, &schema.path(), &mut found);
        }
        let is_sound = found.is_empty();
        errors.extend(found);
        is_sound
    });
    let before_words = errors.len();
    open_api::validate(schema, &ctx.required.rules, errors);
    if let Some(structural) = &sound {
        let subject = Subject {
            schema,
            structural,
            rules: &ctx.required.rules,
            existing: &ctx.required.existing,
            has_errors: errors.len() > before_words,
            unchanged: ctx.unchanged,
        };
        expressions::validate(&subject, errors);
    }
    if let Some(problem) = unsupported.filter(|_| errors.len() == before) {
        errors.push(schema.invalid_as("", problem.to_string()));
    }
}

/// Returns true if a schema uses an extension that only structural schemas have.
pub(super) fn has_extensions(schema: FieldRef<'static, '_, Props>) -> bool {
    schema::any(schema, &mut |schema| {
        schema.at(Props::X_KUBERNETES_EMBEDDED_RESOURCE).bool()
            || schema.at(Props::X_KUBERNETES_INT_OR_STRING).bool()
            || schema.at(Props::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS).is_set()
            || schema.at(Props::X_KUBERNETES_LIST_TYPE).is_set()
            || !schema.at(Props::X_KUBERNETES_LIST_MAP_KEYS).is_empty()
            || !schema.at(Props::X_KUBERNETES_VALIDATIONS).is_empty()
    })
}
