//! Validation of schemas of custom resources by the rules of the API server's OpenAPI conversion.

use binnacle_fields::apiextensions::v1::{JSONSchemaProps as Props, ValidationRule as Rule};
use binnacle_fields::types::{Bool, Str};
use binnacle_fields::{Field, FieldRef, Route, route};
use binnacle_meta::FieldErrors;
use binnacle_structural::{Interner, Structural};
use binnacle_validation::checks;

use super::list_types::list_and_map_types;
use super::rules::Rules;
use super::schema::{SCHEMA, has_properties};
use crate::internal;

/// The place of a schema in the tree.
#[derive(Clone, Copy, Default)]
pub(super) struct SchemaPosition {
    pub(super) is_root: bool,
    in_metadata: bool,
    /// The reason why the schema may have no default.
    no_default: Option<&'static str>,
}

impl SchemaPosition {
    pub(super) fn root() -> Self {
        Self { is_root: true, ..Self::default() }
    }

    pub(super) fn below(self) -> Self {
        Self { is_root: false, ..self }
    }

    /// Returns the position of the schema under `additionalProperties`.
    pub(super) fn of_additional(self) -> Self {
        const IN_METADATA: &str = "inside additionalProperties applying to object metadata";
        let no_default = if self.in_metadata { Some(IN_METADATA) } else { self.no_default };
        Self { no_default, ..self.below() }
    }

    /// Returns the position of a property of an object, which may be an embedded resource.
    pub(super) fn of_property(self, name: &str, embedded: bool) -> Self {
        let in_top_level = match name {
            "metadata" => "in top-level metadata",
            "kind" => "in top-level kind",
            "apiVersion" => "in top-level apiVersion",
            _ => return self.below(),
        };
        Self {
            is_root: false,
            in_metadata: self.in_metadata || self.is_root || embedded,
            no_default: if self.is_root { Some(in_top_level) } else { self.no_default },
        }
    }
}

pub(super) const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Validates the schema of a resource, except for its expressions.
pub(super) fn validate(schema: FieldRef<Props>, rules: &Rules, errors: &mut FieldErrors) {
    within(schema, SchemaPosition::root(), rules, errors);
}

/// Validates a schema and the schemas below it.
pub(super) fn within(schema: FieldRef<Props>, place: SchemaPosition, rules: &Rules, errors: &mut FieldErrors) {
    // Fields that take a schema can also be booleans or lists of strings.
    if schema.object().is_none() {
        return;
    }
    // This check visits the most members.
    binnacle_work::pace(2 * SCHEMA);
    keywords(schema, place, rules, errors);
    let unique = schema.at(Props::UNIQUE_ITEMS);
    if unique.bool() {
        errors
            .push(unique.forbidden("uniqueItems cannot be set to true since the runtime complexity becomes quadratic"));
    }
    below(schema, place, rules, errors);
    let preserve = schema.at(Props::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS);
    if preserve.get_bool() == Some(false) {
        errors.push(preserve.invalid("must be true or undefined"));
    }
    list_and_map_types(schema, rules, errors);
    let expressions = schema.at(Props::X_KUBERNETES_VALIDATIONS);
    // The tree is built once for all rules, and only if one of them has a field path.
    let with_paths = expressions.values().any(|rule| !rule.at(Rule::FIELD_PATH).is_empty());
    let fields = with_paths.then(|| Structural::parse(schema.value(), &Interner::new()).ok()).flatten();
    for rule in errors.while_room(expressions.items()) {
        validation_rule(rule, fields.as_deref(), errors);
    }
}

/// Validates the schemas below a schema.
fn below(schema: FieldRef<Props>, place: SchemaPosition, rules: &Rules, errors: &mut FieldErrors) {
    let below = place.below();
    let additional = schema.at(Props::ADDITIONAL_PROPERTIES);
    if additional.is_set() {
        if has_properties(schema) && additional.value().as_bool() != Some(true) {
            errors.push(additional.forbidden("additionalProperties and properties are mutual exclusive"));
        }
        within(additional.cast(), place.of_additional(), rules, errors);
    }
    let embedded = schema.at(Props::X_KUBERNETES_EMBEDDED_RESOURCE).bool();
    for (name, property) in errors.while_room(schema.at(Props::PROPERTIES).entries()) {
        within(property, place.of_property(name, embedded), rules, errors);
    }
    within(schema.at(Props::NOT), below, rules, errors);
    for list in [Props::ALL_OF, Props::ONE_OF, Props::ANY_OF] {
        for nested in errors.while_room(schema.at(list).items()) {
            within(nested, below, rules, errors);
        }
    }
    for (_, nested) in errors.while_room(schema.at(Props::DEFINITIONS).entries()) {
        within(nested, below, rules, errors);
    }
    let items = schema.at(Props::ITEMS);
    for nested in errors.while_room(items.schemas().items()) {
        within(nested, below, rules, errors);
    }
    within(items.cast(), below, rules, errors);
    for (_, nested) in errors.while_room(schema.at(Props::DEPENDENCIES).entries()) {
        within(nested.cast(), below, rules, errors);
    }
}

/// Rejects OpenAPI keywords that are not supported, or not at this position.
fn keywords(schema: FieldRef<Props>, place: SchemaPosition, rules: &Rules, errors: &mut FieldErrors) {
    let kind = schema.at(Props::TYPE);
    if rules.valid_types && !kind.is_empty() {
        checks::string_one_of(&kind, kind.str(), &TYPES, errors);
    }
    let default = schema.at(Props::DEFAULT);
    if let Some(reason) = place.no_default.filter(|_| default.is_set()) {
        errors.push(default.forbidden(format!("must not be set {reason}")));
    }
    unsupported(schema, Props::ID, |id| !id.is_empty(), errors);
    unsupported(schema, Props::ADDITIONAL_ITEMS, |items| items.is_set(), errors);
    unsupported(schema, Props::PATTERN_PROPERTIES, |properties| !properties.is_empty(), errors);
    unsupported(schema, Props::DEFINITIONS, |definitions| !definitions.is_empty(), errors);
    unsupported(schema, Props::DEPENDENCIES, |dependencies| dependencies.is_set(), errors);
    unsupported(schema, Props::REF, |reference| reference.is_set(), errors);
    if kind.str() == "null" {
        errors.push(kind.forbidden("type cannot be set to null, use nullable as an alternative"));
    }
    let items = schema.at(Props::ITEMS);
    if !items.schemas().is_empty() {
        errors.push(items.forbidden("items must be a schema object and not an array"));
    }
    let embedded = schema.at(Props::X_KUBERNETES_EMBEDDED_RESOURCE);
    if place.in_metadata && embedded.bool() {
        errors.push(embedded.forbidden("must not be used inside of resource meta"));
    }
}

/// Rejects a keyword that is never supported.
fn unsupported<T>(
    schema: FieldRef<Props>,
    keyword: Field<Props, T>,
    is_there: impl FnOnce(FieldRef<T>) -> bool,
    errors: &mut FieldErrors,
) {
    let field = schema.at(keyword);
    if is_there(field) {
        errors.push(field.forbidden(format!("{} is not supported", keyword.name())));
    }
}

/// Validates a validation rule, except for its expressions. `fields` is the schema whose fields it can name.
fn validation_rule(rule: FieldRef<Rule>, fields: Option<&Structural>, errors: &mut FieldErrors) {
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    const EMPTY: &str = "must be non-empty if specified";
    const LINE_BREAKS: &str = "must not contain line breaks";
    let (expression, message) = (rule.at(Rule::RULE), rule.at(Rule::MESSAGE));
    if expression.str().trim().is_empty() {
        errors.push(expression.required("rule is not specified"));
    } else if is_blank(message) {
        errors.push(message.invalid(EMPTY));
    } else if has_lines(message.str().trim()) {
        errors.push(message.invalid(LINE_BREAKS));
    } else if has_lines(expression.str().trim()) && message.is_empty() {
        errors.push(message.required("message must be specified if rule contains line breaks"));
    }
    let message_expression = rule.at(Rule::MESSAGE_EXPRESSION);
    if is_blank(message_expression) {
        errors.push(message_expression.required("messageExpression must be non-empty if specified"));
    }
    let reason = rule.at(Rule::REASON);
    if reason.is_set() {
        checks::one_of(&reason, reason.str(), &REASONS, errors);
    }
    let path = rule.at(Rule::FIELD_PATH);
    if is_blank(path) {
        errors.push(path.invalid(EMPTY));
    }
    if has_lines(path.str()) {
        errors.push(path.invalid(LINE_BREAKS));
    }
    if !path.is_empty() && fields.is_some_and(|fields| fields.find_field(path.str(), true).is_err()) {
        errors.push(path.invalid("must be a valid path"));
    }
}

fn has_lines(text: &str) -> bool {
    text.contains(['\n', '\r'])
}

/// Returns true for a text of white space.
fn is_blank(text: FieldRef<Str>) -> bool {
    !text.is_empty() && text.str().trim().is_empty()
}

/// Validates the root schema of a resource with a `status` subresource, in which only some fields are allowed.
pub(super) fn root_with_status(schema: FieldRef<Props>, errors: &mut FieldErrors) {
    const ALLOWED: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
        MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example \
        XPreserveUnknownFields XValidations";
    let kind = schema.at(Props::TYPE);
    // kube-apiserver reports the first field in the order of its struct; these come before the type.
    let has_earlier = [Props::ID, Props::SCHEMA].into_iter().any(|field| !schema.at(field).is_empty())
        || schema.at(Props::REF).is_set();
    if !has_earlier && !kind.is_empty() && kind.str() != "object" {
        errors.push(kind.invalid(
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled",
        ));
    } else if has_earlier || has_later_field(schema) {
        let detail = format!(
            "only [{ALLOWED}] fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.push(schema.invalid_as(internal::shown(schema), detail));
    }
}

/// Returns true if a schema has a field that [`root_with_status`] refuses, among those after the type.
fn has_later_field(schema: FieldRef<Props>) -> bool {
    const BOOLEANS: [Field<Props, Bool>; 3] =
        [Props::NULLABLE, Props::X_KUBERNETES_EMBEDDED_RESOURCE, Props::X_KUBERNETES_INT_OR_STRING];
    // In Go, pointers, lists and maps are set even if they are empty.
    const POINTERS: [Route<Props>; 16] = [
        route![Props::DEFAULT],
        route![Props::ENUM],
        route![Props::MAX_PROPERTIES],
        route![Props::MIN_PROPERTIES],
        route![Props::ALL_OF],
        route![Props::ONE_OF],
        route![Props::ANY_OF],
        route![Props::NOT],
        route![Props::ADDITIONAL_PROPERTIES],
        route![Props::PATTERN_PROPERTIES],
        route![Props::DEPENDENCIES],
        route![Props::ADDITIONAL_ITEMS],
        route![Props::DEFINITIONS],
        route![Props::X_KUBERNETES_LIST_MAP_KEYS],
        route![Props::X_KUBERNETES_LIST_TYPE],
        route![Props::X_KUBERNETES_MAP_TYPE],
    ];
    BOOLEANS.into_iter().any(|boolean| schema.at(boolean).bool())
        || POINTERS.into_iter().any(|pointer| !schema.value_at(pointer).is_null())
}
