//! Validation of structural schemas: every value has one type, given outside of `allOf`, `anyOf`, `oneOf` and `not`.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value};
use binnacle_validation::go_regexp;

use super::schema::{SCHEMA, additional, has_properties, is_not_zero, is_set, item, members, property};
use crate::checks::present;

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Validates a schema by the rules of structural schemas. The errors are sorted by text.
pub fn validate(schema: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    invariants(schema, Level::Root, path, &mut errors);
    complete(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

fn invariants(schema: &Value, level: Level, path: &FieldPath, errors: &mut FieldErrors) {
    binnacle_work::pace(SCHEMA);
    let kind = schema.str_at(&["type"]);
    if kind == "array" && item(schema).is_none() {
        errors.push(FieldError::required(&path.child("items"), "must be specified"));
    }
    if let Some(item) = item(schema) {
        invariants(item, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in errors.while_room(members(schema, "properties")) {
        invariants(property, Level::Field, &path.child("properties").key(name), errors);
    }
    let at = path.child("additionalProperties");
    let has_additional = present(schema, "additionalProperties").is_some();
    if has_additional && level == Level::Root {
        errors.push(FieldError::forbidden(&at, "must not be used at the root"));
    }
    if let Some(additional) = additional(schema) {
        invariants(additional, Level::Field, &at, errors);
    }
    let [preserve, embedded, int_or_string] = [PRESERVE, EMBEDDED, INT_OR_STRING].map(|name| schema.bool_at(&[name]));
    for (name, extension) in [(PRESERVE, preserve), (EMBEDDED, embedded)] {
        if int_or_string && extension {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(&path.child(name), true, detail));
        }
    }
    values(schema, is_int_or_string(schema), is_int_or_string_first(schema), path, errors);
    let at = path.child("type");
    if embedded && kind != "object" {
        wrong_type(kind, "must be object if x-kubernetes-embedded-resource is true", &at, errors);
    } else if kind.is_empty() && !int_or_string && !preserve {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&at, detail));
    }
    if embedded && has_additional {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&path.child("additionalProperties"), detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(&at, kind, "must be object at the root"));
    }
    resource_members(schema, level, embedded, path, errors);
    if embedded && !preserve && !has_properties(schema) {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&path.child("properties"), detail));
    }
}

/// Reports a type that is missing or wrong.
pub(super) fn wrong_type(kind: &str, detail: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if kind.is_empty() {
        errors.push(FieldError::required(path, detail));
    } else {
        errors.push(FieldError::invalid(path, kind, detail));
    }
}

/// Validates the types of `kind`, `apiVersion` and `metadata`; of the metadata only names may be restricted.
fn resource_members(schema: &Value, level: Level, embedded: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let is_resource = level == Level::Root || embedded;
    for name in ["kind", "apiVersion"].into_iter().filter(|_| is_resource) {
        if let Some(kind) = property(schema, name).map(|property| property.str_at(&["type"]))
            && kind != "string"
        {
            let at = path.child("properties").key(name).child("type");
            errors.push(FieldError::invalid(&at, kind, "must be string"));
        }
    }
    let Some(metadata) = property(schema, "metadata") else { return };
    let path = path.child("properties").key("metadata");
    let kind = metadata.str_at(&["type"]);
    if is_resource && kind != "object" {
        errors.push(FieldError::invalid(&path.child("type"), kind, "must be object"));
    }
    let names_only = members(metadata, "properties").all(|(name, _)| matches!(name, "name" | "generateName"));
    let others = metadata.as_object().into_iter().flat_map(Object::keys);
    let others = others.filter(|name| !matches!(name.as_str(), "type" | "default" | "properties"));
    if level == Level::Root && (!names_only || others.into_iter().any(|name| !is_zero(metadata, name))) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(&path, detail));
    }
}

/// Returns true if a member of a structural schema has Go's zero value or is absent.
fn is_zero(schema: &Value, name: &str) -> bool {
    const LISTS: [&str; 4] = ["enum", "allOf", "anyOf", "oneOf"];
    match name {
        // Structural schemas do not have them: here they are empty, since others are refused.
        "id" | "$schema" | "$ref" | "patternProperties" | "dependencies" | "definitions" => true,
        "items" => item(schema).is_none(),
        _ => !is_not_zero(schema, name) || (LISTS.contains(&name) && schema.list_at(&[name]).is_empty()),
    }
}

fn is_only_type(schema: &Value, kind: &str) -> bool {
    let mut others = schema.as_object().into_iter().flat_map(Object::keys).filter(|name| name.as_str() != "type");
    let is_absent = |name: &str| {
        // Under `anyOf`, false and absent are equal.
        is_zero(schema, name) || name == "additionalProperties" && !is_set(schema, name)
    };
    schema.str_at(&["type"]) == kind && others.all(|name| is_absent(name))
}

/// Returns true for `anyOf: [{type: integer}, {type: string}]`, the one `anyOf` with types that is allowed.
fn is_int_or_string(schema: &Value) -> bool {
    match schema.list_at(&["anyOf"]) {
        [a, b] => is_only_type(a, "integer") && is_only_type(b, "string"),
        _ => false,
    }
}

/// Returns true if the first schema of `allOf` is that `anyOf`.
fn is_int_or_string_first(schema: &Value) -> bool {
    schema.list_at(&["allOf"]).first().is_some_and(is_int_or_string)
}

/// Validates the value constraints of a schema.
fn values(schema: &Value, skip_any: bool, skip_first_any: bool, path: &FieldPath, errors: &mut FieldErrors) {
    for list in ["anyOf", "allOf", "oneOf"].into_iter().filter(|list| !(skip_any && *list == "anyOf")) {
        for (i, nested) in errors.while_room(schema.list_at(&[list]).iter().enumerate()) {
            let skip = skip_first_any && list == "allOf" && i == 0;
            validate_nested(nested, skip, &path.child(list).index(i), errors);
        }
    }
    if let Some(not) = present(schema, "not") {
        validate_nested(not, false, &path.child("not"), errors);
    }
    let pattern = schema.str_at(&["pattern"]);
    if let Err(problem) = go_regexp::check(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {problem}");
        errors.push(FieldError::invalid(&path.child("pattern"), pattern, detail));
    }
}

/// Validates schemas under `allOf` and the like, which may constrain values but not define them.
fn validate_nested(schema: &Value, skip_any: bool, path: &FieldPath, errors: &mut FieldErrors) {
    const UNDEFINED: &str = "must be undefined to be structural";
    const EMPTY: &str = "must be empty to be structural";
    const FALSE: &str = "must be false to be structural";
    binnacle_work::pace(SCHEMA);
    values(schema, skip_any, false, path, errors);
    if let Some(item) = item(schema) {
        validate_nested(item, false, &path.child("items"), errors);
    }
    for (name, property) in errors.while_room(members(schema, "properties")) {
        validate_nested(property, false, &path.child("properties").key(name), errors);
    }
    for (name, detail) in [
        ("type", EMPTY),
        ("additionalProperties", UNDEFINED),
        ("default", UNDEFINED),
        ("title", EMPTY),
        ("description", EMPTY),
        ("nullable", FALSE),
        (PRESERVE, FALSE),
        (EMBEDDED, FALSE),
        (INT_OR_STRING, FALSE),
        ("x-kubernetes-list-map-keys", EMPTY),
        ("x-kubernetes-list-type", UNDEFINED),
        ("x-kubernetes-map-type", UNDEFINED),
        ("x-kubernetes-validations", EMPTY),
    ] {
        let is_there = match name {
            // Reported with any value, even an empty one.
            "default" | "x-kubernetes-list-type" | "x-kubernetes-map-type" => present(schema, name).is_some(),
            _ => is_set(schema, name) && schema.get(name).and_then(Value::as_list) != Some(&[]),
        };
        if is_there {
            errors.push(FieldError::forbidden(&path.child(name), detail));
        }
    }
    if property(schema, "metadata").is_some() {
        let at = path.child("properties").key("metadata");
        errors.push(FieldError::forbidden(&at, "must not be specified in a nested context"));
    }
}

/// Reports fields that `allOf`, `anyOf`, `oneOf` or `not` of a schema use and `structure`, at `path`, lacks.
fn complete(
    schema: &Value,
    structure: Option<&Value>,
    path: &FieldPath,
    schema_path: &FieldPath,
    errors: &mut FieldErrors,
) {
    if let Some(not) = present(schema, "not") {
        nested_complete(not, structure, path, &schema_path.child("not"), errors);
    }
    for list in ["allOf", "anyOf", "oneOf"] {
        for (i, nested) in errors.while_room(schema.list_at(&[list]).iter().enumerate()) {
            nested_complete(nested, structure, path, &schema_path.child(list).index(i), errors);
        }
    }
}

fn nested_complete(
    schema: &Value,
    structure: Option<&Value>,
    path: &FieldPath,
    schema_path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let Some(known) = structure else {
        errors.push(FieldError::required(path, format!("because it is defined in {schema_path}")));
        return;
    };
    binnacle_work::pace(SCHEMA);
    complete(schema, structure, path, schema_path, errors);
    if let Some(nested) = item(schema) {
        nested_complete(nested, item(known), &path.child("items"), &schema_path.child("items"), errors);
    }
    for (name, nested) in errors.while_room(members(schema, "properties")) {
        let at = |path: &FieldPath| path.child("properties").key(name);
        nested_complete(nested, property(known, name), &at(path), &at(schema_path), errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn rules() {
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
            let errors = validate(&schema, &FieldPath::new("s"));
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
    }

    /// In Go, pointers are set even if they lead to an empty text or false.
    #[test]
    fn metadata_with_empty_members() {
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
            assert_eq!(validate(&schema, &FieldPath::new("s")).is_empty(), is_allowed, "{member}");
        }
    }
}
