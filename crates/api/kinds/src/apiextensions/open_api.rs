//! Validation of schemas of custom resources by the rules of the API server's OpenAPI conversion.

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_structural::{Interner, Structural};

use super::list_types::list_and_map_types;
use super::schema::{SCHEMA, has_properties, is_not_zero, is_set, members};
use crate::checks::{items, one_of, present};

/// Newer rules, each true unless the old definition breaks it.
pub(super) struct Rules {
    pub(super) valid_types: bool,
    pub(super) atomic_sets: bool,
    pub(super) map_keys: bool,
}

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
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Validates the schema of a resource, except for its expressions.
pub(super) fn validate(schema: &Value, rules: &Rules, path: &FieldPath, errors: &mut FieldErrors) {
    within(schema, SchemaPosition::root(), rules, path, errors);
}

/// Validates a schema and the schemas below it.
pub(super) fn within(schema: &Value, place: SchemaPosition, rules: &Rules, path: &FieldPath, errors: &mut FieldErrors) {
    // Members that take a schema can also be booleans or lists of strings.
    if schema.as_object().is_none() {
        return;
    }
    // Of all respects, this one looks at most members.
    binnacle_work::pace(2 * SCHEMA);
    keywords(schema, place, rules, path, errors);
    if schema.bool_at(&["uniqueItems"]) {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(&path.child("uniqueItems"), detail));
    }
    let below = place.below();
    if let Some(additional) = present(schema, "additionalProperties") {
        let at = path.child("additionalProperties");
        if has_properties(schema) && additional.as_bool() != Some(true) {
            errors.push(FieldError::forbidden(&at, "additionalProperties and properties are mutual exclusive"));
        }
        within(additional, place.of_additional(), rules, &at, errors);
    }
    for (name, property) in errors.while_room(members(schema, "properties")) {
        let property_place = place.of_property(name, schema.bool_at(&[EMBEDDED]));
        within(property, property_place, rules, &path.child("properties").key(name), errors);
    }
    if let Some(not) = present(schema, "not") {
        within(not, below, rules, &path.child("not"), errors);
    }
    for list in ["allOf", "oneOf", "anyOf"] {
        for (at, nested) in errors.while_room(items(schema, list, path)) {
            within(nested, below, rules, &at, errors);
        }
    }
    for (name, nested) in errors.while_room(members(schema, "definitions")) {
        within(nested, below, rules, &path.child("definitions").key(name), errors);
    }
    match present(schema, "items") {
        Some(Value::List(_)) => {
            for (at, nested) in errors.while_room(items(schema, "items", path)) {
                within(nested, below, rules, &at, errors);
            }
        }
        Some(item) => within(item, below, rules, &path.child("items"), errors),
        None => {}
    }
    for (name, nested) in errors.while_room(members(schema, "dependencies")) {
        within(nested, below, rules, &path.child("dependencies").key(name), errors);
    }
    let at = path.child("x-kubernetes-preserve-unknown-fields");
    if present(schema, "x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(false) {
        errors.push(FieldError::invalid(&at, false, "must be true or undefined"));
    }
    list_and_map_types(schema, rules, path, errors);
    // The tree is built once for all rules, and only if one of them has a field path.
    let with_paths = schema.list_at(&["x-kubernetes-validations"]).iter().any(|rule| is_set(rule, "fieldPath"));
    let fields = with_paths.then(|| Structural::parse(schema, &Interner::new()).ok()).flatten();
    for (at, rule) in errors.while_room(items(schema, "x-kubernetes-validations", path)) {
        validation_rule(rule, fields.as_deref(), &at, errors);
    }
}

/// Rejects OpenAPI keywords that are not supported, or not at this position.
fn keywords(schema: &Value, place: SchemaPosition, rules: &Rules, path: &FieldPath, errors: &mut FieldErrors) {
    let kind = schema.str_at(&["type"]);
    if rules.valid_types && !kind.is_empty() {
        one_of(&path.child("type"), kind, &TYPES, errors);
    }
    let mut forbid = |name: &str, detail: &str| errors.push(FieldError::forbidden(&path.child(name), detail));
    if let Some(reason) = place.no_default.filter(|_| present(schema, "default").is_some()) {
        forbid("default", &format!("must not be set {reason}"));
    }
    for name in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        let is_there = match name {
            "id" => is_set(schema, name),
            "patternProperties" | "definitions" => members(schema, name).next().is_some(),
            _ => present(schema, name).is_some(),
        };
        if is_there {
            forbid(name, &format!("{name} is not supported"));
        }
    }
    if kind == "null" {
        forbid("type", "type cannot be set to null, use nullable as an alternative");
    }
    if !schema.list_at(&["items"]).is_empty() {
        forbid("items", "items must be a schema object and not an array");
    }
    if place.in_metadata && schema.bool_at(&[EMBEDDED]) {
        forbid(EMBEDDED, "must not be used inside of resource meta");
    }
}

/// Validates a validation rule, except for its expressions. `fields` is the schema whose fields it can name.
fn validation_rule(rule: &Value, fields: Option<&Structural>, path: &FieldPath, errors: &mut FieldErrors) {
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    const EMPTY: &str = "must be non-empty if specified";
    const LINE_BREAKS: &str = "must not contain line breaks";
    let [text, message, message_expression, field] =
        ["rule", "message", "messageExpression", "fieldPath"].map(|name| rule.str_at(&[name]));
    let has_lines = |text: &str| text.contains(['\n', '\r']);
    let is_blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    let at = path.child("message");
    if text.trim().is_empty() {
        errors.push(FieldError::required(&path.child("rule"), "rule is not specified"));
    } else if is_blank(message) {
        errors.push(FieldError::invalid(&at, message, EMPTY));
    } else if has_lines(message.trim()) {
        errors.push(FieldError::invalid(&at, message, LINE_BREAKS));
    } else if has_lines(text.trim()) && message.is_empty() {
        errors.push(FieldError::required(&at, "message must be specified if rule contains line breaks"));
    }
    if is_blank(message_expression) {
        let detail = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(&path.child("messageExpression"), detail));
    }
    if let Some(reason) = present(rule, "reason").and_then(Value::as_str) {
        one_of(&path.child("reason"), reason, &REASONS, errors);
    }
    let at = path.child("fieldPath");
    let mut refuse = |detail| errors.push(FieldError::invalid(&at, field, detail));
    if is_blank(field) {
        refuse(EMPTY);
    }
    if has_lines(field) {
        refuse(LINE_BREAKS);
    }
    if !field.is_empty() && fields.is_some_and(|fields| fields.find_field(field, true).is_err()) {
        refuse("must be a valid path");
    }
}

/// Validates the root schema of a resource with a `status` subresource, in which only some fields are allowed.
pub(super) fn root_with_status(schema: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const ALLOWED: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
        MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example \
        XPreserveUnknownFields XValidations";
    const BEFORE_TYPE: [&str; 3] = ["id", "$schema", "$ref"];
    const AFTER_TYPE: [&str; 19] = [
        "nullable",
        "default",
        "enum",
        "maxProperties",
        "minProperties",
        "allOf",
        "oneOf",
        "anyOf",
        "not",
        "additionalProperties",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
        EMBEDDED,
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
    ];
    const DEFINITION: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let is_there = |name: &&str| is_not_zero(schema, name);
    let kind = schema.str_at(&["type"]);
    let early = BEFORE_TYPE.iter().any(&is_there);
    if !early && !kind.is_empty() && kind != "object" {
        let detail =
            "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(&path.child("type"), kind, detail));
    } else if early || AFTER_TYPE.iter().any(is_there) {
        let shown: ErrorValue = crate::internal::shown_as(DEFINITION, Some(schema));
        let detail = format!(
            "only [{ALLOWED}] fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.push(FieldError::invalid(path, shown, detail));
    }
}
