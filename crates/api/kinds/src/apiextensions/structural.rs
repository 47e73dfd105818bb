//! Validation of structural schemas: every value has one type, given outside of `allOf`, `anyOf`, `oneOf` and `not`.

use std::sync::Arc;

use binnacle_fields::apiextensions::v1::JSONSchemaProps as Props;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{Bool, Str};
use binnacle_fields::{Field, FieldRef, Message as _, Route, route};
use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::{Message, Value};
use binnacle_structural::{Interner, Structural, defaults};
use binnacle_validation::go_regexp;

use super::schema::{SCHEMA, has_defaults, has_properties, property};
use crate::tables;

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Returns the reasons why the schema at a path is not structural.
pub fn violations(schema: &Value, path: &FieldPath) -> FieldErrors {
    validate(FieldRef::located(schema, path))
}

/// Validates a schema by the rules of structural schemas. The errors are sorted by text.
pub(super) fn validate(schema: FieldRef<Props>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    invariants(schema, Level::Root, &mut errors);
    complete(schema, schema, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn invariants(schema: FieldRef<Props>, level: Level, errors: &mut FieldErrors) {
    binnacle_work::pace(SCHEMA);
    let (kind, items, properties) = (schema.at(Props::TYPE), schema.at(Props::ITEMS), schema.at(Props::PROPERTIES));
    if kind.str() == "array" && items.schema().is_none() {
        errors.push(items.required("must be specified"));
    }
    if let Some(item) = items.schema() {
        invariants(item, Level::Item, errors);
    }
    for (_, property) in errors.while_room(properties.entries()) {
        invariants(property, Level::Field, errors);
    }
    let additional = schema.at(Props::ADDITIONAL_PROPERTIES);
    if additional.is_set() && level == Level::Root {
        errors.push(additional.forbidden("must not be used at the root"));
    }
    if let Some(additional) = additional.schema() {
        invariants(additional, Level::Field, errors);
    }
    let preserve = schema.at(Props::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS);
    let embedded = schema.at(Props::X_KUBERNETES_EMBEDDED_RESOURCE);
    let int_or_string = schema.at(Props::X_KUBERNETES_INT_OR_STRING).bool();
    for extension in [preserve, embedded] {
        if int_or_string && extension.bool() {
            errors.push(extension.invalid("must be false if x-kubernetes-int-or-string is true"));
        }
    }
    values(schema, is_int_or_string(schema), is_int_or_string_first(schema), errors);
    if embedded.bool() && kind.str() != "object" {
        wrong_type(kind, "must be object if x-kubernetes-embedded-resource is true", errors);
    } else if kind.is_empty() && !int_or_string && !preserve.bool() {
        errors.push(kind.required(match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        }));
    }
    if embedded.bool() && additional.is_set() {
        errors.push(additional.forbidden("must not be used if x-kubernetes-embedded-resource is set"));
    }
    if level == Level::Root && !kind.is_empty() && kind.str() != "object" {
        errors.push(kind.invalid("must be object at the root"));
    }
    resource_members(schema, level, errors);
    if embedded.bool() && !preserve.bool() && !has_properties(schema) {
        errors.push(properties.required(
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields",
        ));
    }
}

pub(super) fn object_meta() -> Option<&'static Message> {
    tables::message(ObjectMeta::DEFINITION)
}

/// Returns a schema as a tree of nodes, if it is structural.
fn structural_schema(schema: FieldRef<Props>) -> Option<Arc<Structural>> {
    let parsed = Structural::parse(schema.value(), &Interner::new()).ok()?;
    validate(schema).is_empty().then_some(parsed)
}

pub(super) fn is_structural(schema: FieldRef<Props>) -> bool {
    structural_schema(schema).is_some()
}

/// Returns true if a schema has defaults with members that it does not specify.
pub(super) fn has_unpruned_defaults(schema: FieldRef<'static, '_, Props>) -> bool {
    has_defaults(schema)
        && structural_schema(schema)
            .zip(object_meta())
            .is_some_and(|(schema, object_meta)| defaults::has_unpruned(&schema, object_meta))
}

/// Reports a type that is missing or wrong.
pub(super) fn wrong_type(kind: FieldRef<Str>, detail: &str, errors: &mut FieldErrors) {
    errors.push(if kind.is_empty() { kind.required(detail) } else { kind.invalid(detail) });
}

/// Validates the types of `kind`, `apiVersion` and `metadata`; of the metadata only names may be restricted.
fn resource_members(schema: FieldRef<Props>, level: Level, errors: &mut FieldErrors) {
    let is_resource = level == Level::Root || schema.at(Props::X_KUBERNETES_EMBEDDED_RESOURCE).bool();
    let properties = schema.at(Props::PROPERTIES);
    for name in ["kind", "apiVersion"].into_iter().filter(|_| is_resource) {
        let Some(property) = property(&properties, name) else { continue };
        let kind = property.at(Props::TYPE);
        if kind.str() != "string" {
            errors.push(kind.invalid("must be string"));
        }
    }
    let Some(metadata) = property(&properties, "metadata") else { return };
    let kind = metadata.at(Props::TYPE);
    if is_resource && kind.str() != "object" {
        errors.push(kind.invalid("must be object"));
    }
    let names_only = metadata.at(Props::PROPERTIES).entries().all(|(name, _)| matches!(name, "name" | "generateName"));
    if level == Level::Root
        && (!names_only || metadata.at(Props::ADDITIONAL_PROPERTIES).is_set() || has_other_members(metadata))
    {
        errors.push(metadata.forbidden(
            "must not specify anything other than name and generateName, but metadata is implicitly specified",
        ));
    }
}

/// Returns true if a structural schema has a member other than `type`, `default`, `properties` and
/// `additionalProperties` that is not Go's zero value.
fn has_other_members(schema: FieldRef<Props>) -> bool {
    // Structural schemas have no `$ref`, no `definitions` and so on: here they are empty, since others are refused.
    const TEXTS: [Field<Props, Str>; 4] = [Props::DESCRIPTION, Props::FORMAT, Props::TITLE, Props::PATTERN];
    const BOOLEANS: [Field<Props, Bool>; 6] = [
        Props::EXCLUSIVE_MAXIMUM,
        Props::EXCLUSIVE_MINIMUM,
        Props::UNIQUE_ITEMS,
        Props::NULLABLE,
        Props::X_KUBERNETES_EMBEDDED_RESOURCE,
        Props::X_KUBERNETES_INT_OR_STRING,
    ];
    // In Go, pointers are set even if they lead to an empty text or false; so are the lists and maps of a schema.
    const POINTERS: [Route<Props>; 19] = [
        route![Props::MAXIMUM],
        route![Props::MINIMUM],
        route![Props::MULTIPLE_OF],
        route![Props::MAX_LENGTH],
        route![Props::MIN_LENGTH],
        route![Props::MAX_ITEMS],
        route![Props::MIN_ITEMS],
        route![Props::MAX_PROPERTIES],
        route![Props::MIN_PROPERTIES],
        route![Props::REQUIRED],
        route![Props::NOT],
        route![Props::ADDITIONAL_ITEMS],
        route![Props::EXTERNAL_DOCS],
        route![Props::EXAMPLE],
        route![Props::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS],
        route![Props::X_KUBERNETES_LIST_MAP_KEYS],
        route![Props::X_KUBERNETES_LIST_TYPE],
        route![Props::X_KUBERNETES_MAP_TYPE],
        route![Props::X_KUBERNETES_VALIDATIONS],
    ];
    let lists = [Props::ALL_OF, Props::ANY_OF, Props::ONE_OF];
    schema.at(Props::ITEMS).schema().is_some()
        || TEXTS.into_iter().any(|text| !schema.at(text).is_empty())
        || BOOLEANS.into_iter().any(|boolean| schema.at(boolean).bool())
        || !schema.at(Props::ENUM).is_empty()
        || lists.into_iter().any(|list| !schema.at(list).is_empty())
        || POINTERS.into_iter().any(|pointer| !schema.value_at(pointer).is_null())
}

fn is_only_type(schema: FieldRef<Props>, kind: &str) -> bool {
    schema.at(Props::TYPE).str() == kind
        && !schema.at(Props::DEFAULT).is_set()
        && !schema.at(Props::PROPERTIES).is_set()
        && !allows_additional(schema)
        && !has_other_members(schema)
}

/// Returns true if there is a schema or `true` under `additionalProperties`.
fn allows_additional(schema: FieldRef<Props>) -> bool {
    schema.at(Props::ADDITIONAL_PROPERTIES).get().is_some_and(|additional| additional.as_bool() != Some(false))
}

/// Returns true for `anyOf: [{type: integer}, {type: string}]`, the one `anyOf` with types that is allowed.
fn is_int_or_string(schema: FieldRef<Props>) -> bool {
    let any_of = schema.at(Props::ANY_OF);
    match (any_of.item(0), any_of.item(1)) {
        (Some(a), Some(b)) if any_of.len() == 2 => is_only_type(a, "integer") && is_only_type(b, "string"),
        _ => false,
    }
}

/// Returns true if the first schema of `allOf` is that `anyOf`.
fn is_int_or_string_first(schema: FieldRef<Props>) -> bool {
    schema.at(Props::ALL_OF).item(0).is_some_and(is_int_or_string)
}

/// Validates the value constraints of a schema.
fn values(schema: FieldRef<Props>, skip_any: bool, skip_first_any: bool, errors: &mut FieldErrors) {
    if !skip_any {
        for nested in errors.while_room(schema.at(Props::ANY_OF).items()) {
            validate_nested(nested, false, errors);
        }
    }
    for (i, nested) in errors.while_room(schema.at(Props::ALL_OF).items().enumerate()) {
        validate_nested(nested, skip_first_any && i == 0, errors);
    }
    for nested in errors.while_room(schema.at(Props::ONE_OF).items()) {
        validate_nested(nested, false, errors);
    }
    if let Some(not) = schema.at(Props::NOT).set() {
        validate_nested(not, false, errors);
    }
    let pattern = schema.at(Props::PATTERN);
    if let Err(problem) = go_regexp::check(pattern.str()) {
        errors.push(pattern.invalid(format!("must be a valid regular expression, but isn't: {problem}")));
    }
}

/// Validates schemas under `allOf` and the like, which may constrain values but not define them.
fn validate_nested(schema: FieldRef<Props>, skip_any: bool, errors: &mut FieldErrors) {
    binnacle_work::pace(SCHEMA);
    values(schema, skip_any, false, errors);
    if let Some(item) = schema.at(Props::ITEMS).schema() {
        validate_nested(item, false, errors);
    }
    let properties = schema.at(Props::PROPERTIES);
    for (_, property) in errors.while_room(properties.entries()) {
        validate_nested(property, false, errors);
    }
    undefined(schema, errors);
    if let Some(metadata) = property(&properties, "metadata") {
        errors.push(metadata.forbidden("must not be specified in a nested context"));
    }
}

/// Reports members that define values.
fn undefined(schema: FieldRef<Props>, errors: &mut FieldErrors) {
    const UNDEFINED: &str = "must be undefined to be structural";
    const EMPTY: &str = "must be empty to be structural";
    const FALSE: &str = "must be false to be structural";
    fn forbid<T>(is_there: bool, field: FieldRef<T>, detail: &str, errors: &mut FieldErrors) {
        if is_there {
            errors.push(field.forbidden(detail));
        }
    }
    fn zero<T>(field: FieldRef<T>, detail: &str, errors: &mut FieldErrors) {
        forbid(!field.is_zero(), field, detail, errors);
    }
    /// Some fields are reported with any value, even an empty one.
    fn absent<T>(field: FieldRef<T>, errors: &mut FieldErrors) {
        forbid(field.is_set(), field, UNDEFINED, errors);
    }
    zero(schema.at(Props::TYPE), EMPTY, errors);
    forbid(allows_additional(schema), schema.at(Props::ADDITIONAL_PROPERTIES), UNDEFINED, errors);
    absent(schema.at(Props::DEFAULT), errors);
    zero(schema.at(Props::TITLE), EMPTY, errors);
    zero(schema.at(Props::DESCRIPTION), EMPTY, errors);
    zero(schema.at(Props::NULLABLE), FALSE, errors);
    zero(schema.at(Props::X_KUBERNETES_PRESERVE_UNKNOWN_FIELDS), FALSE, errors);
    zero(schema.at(Props::X_KUBERNETES_EMBEDDED_RESOURCE), FALSE, errors);
    zero(schema.at(Props::X_KUBERNETES_INT_OR_STRING), FALSE, errors);
    zero(schema.at(Props::X_KUBERNETES_LIST_MAP_KEYS), EMPTY, errors);
    absent(schema.at(Props::X_KUBERNETES_LIST_TYPE), errors);
    absent(schema.at(Props::X_KUBERNETES_MAP_TYPE), errors);
    zero(schema.at(Props::X_KUBERNETES_VALIDATIONS), EMPTY, errors);
}

/// Reports fields that `allOf`, `anyOf`, `oneOf` or `not` of a schema use and `structure` lacks.
fn complete(schema: FieldRef<Props>, structure: FieldRef<Props>, errors: &mut FieldErrors) {
    if let Some(not) = schema.at(Props::NOT).set() {
        nested_complete(not, structure, errors);
    }
    for list in [Props::ALL_OF, Props::ANY_OF, Props::ONE_OF] {
        for nested in errors.while_room(schema.at(list).items()) {
            nested_complete(nested, structure, errors);
        }
    }
}

fn nested_complete(schema: FieldRef<Props>, structure: FieldRef<Props>, errors: &mut FieldErrors) {
    if structure.object().is_none() {
        errors.push(structure.required(format!("because it is defined in {}", schema.path())));
        return;
    }
    binnacle_work::pace(SCHEMA);
    complete(schema, structure, errors);
    if let Some(nested) = schema.at(Props::ITEMS).schema() {
        nested_complete(nested, structure.at(Props::ITEMS).cast(), errors);
    }
    let properties = structure.at(Props::PROPERTIES);
    for (name, nested) in errors.while_room(schema.at(Props::PROPERTIES).entries()) {
        nested_complete(nested, properties.key(name), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn validates_structural_schemas() {
        for (schema, want) in [
            (value!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true}}}), vec![]),
            (
                value!({"type": "object", "properties": {"a": {
                    "x-kubernetes-int-or-string": true,
                    "anyOf": [{"type": "integer"}, {"type": "string"}],
                    "allOf": [{"pattern": "^a"}],
                }}}),
                vec![],
            ),
            (
                value!({"type": "object", "properties": {"a": {
                    "x-kubernetes-int-or-string": true,
                    "allOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}],
                }}}),
                vec![],
            ),
            (
                value!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string"}}}}}),
                vec![],
            ),
            (
                value!({"type": "object", "properties": {"metadata": {"type": "object", "patternProperties": {}, "dependencies": {}}}}),
                vec![],
            ),
            (
                value!({"type": "object", "properties": {"a": {
                    "x-kubernetes-int-or-string": true,
                    "anyOf": [{"type": "integer", "additionalProperties": false, "items": []}, {"type": "string", "$ref": ""}],
                }}}),
                vec![],
            ),
            (
                value!({"type": "object", "properties": {"a": {
                    "x-kubernetes-int-or-string": true,
                    "anyOf": [{"type": "integer"}, {"type": "string", "example": ""}],
                }}}),
                vec![
                    "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
                    "s.properties[a].anyOf[1].type: Forbidden: must be empty to be structural",
                ],
            ),
            (
                value!({"type": "object", "additionalProperties": true, "not": {"properties": {"b": {}}, "items": {}}}),
                vec![
                    "s.additionalProperties: Forbidden: must not be used at the root",
                    "s.items: Required value: because it is defined in s.not.items",
                    "s.properties[b]: Required value: because it is defined in s.not.properties[b]",
                ],
            ),
            (
                value!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
                vec![
                    "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified",
                ],
            ),
        ] {
            let errors = violations(&schema, &FieldPath::new("s"));
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
    }

    /// In Go, pointers are set even if they lead to an empty text or false.
    #[test]
    fn distinguishes_empty_from_unset_metadata_members() {
        for (member, value, is_allowed) in [
            ("x-kubernetes-list-type", value!(""), false),
            ("x-kubernetes-map-type", value!(""), false),
            ("additionalProperties", value!(false), false),
            ("example", value!(""), false),
            ("default", value!(""), true),
            ("format", value!(""), true),
            ("$ref", value!(""), true),
            ("nullable", value!(false), true),
            ("items", value!([]), true),
            ("enum", value!([]), true),
            ("required", value!([]), false),
        ] {
            let mut metadata = value!({"type": "object"});
            metadata.make_object().insert(member, value);
            let schema = value!({"type": "object", "properties": {"metadata": (metadata)}});
            assert_eq!(validate(FieldRef::root(&schema)).is_empty(), is_allowed, "{member}");
        }
    }
}
