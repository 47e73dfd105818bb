use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::{Value, value};

use super::{validate, validate_update};
use crate::correlation::{ComparisonCache, CorrelatedObject};
use crate::{Interner, Structural};

/// Checks the errors of a value `x` of a schema.
fn check(schema: Value, x: Value, want: &[&str]) {
    let mut root = value!({"type": "object"});
    root.make_at(&["properties"]).insert("x", schema);
    let schema = Structural::parse(&root, &Interner::new()).unwrap();
    let mut object = value!({});
    object.make_object().insert("x", x);
    let mut errors = FieldErrors::new();
    validate(&object, &schema, &FieldPath::root(), &mut errors);
    assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
}

#[test]
fn rejects_values_of_other_types() {
    check(value!({"type": "string"}), value!("a"), &[]);
    check(
        value!({"type": "string"}),
        value!(1i64),
        &["x: Invalid value: \"integer\": x in body must be of type string: \"integer\""],
    );
    check(
        value!({"type": "integer"}),
        Value::Null,
        &["x: Invalid value: \"null\": x in body must be of type integer: \"null\""],
    );
    check(value!({"type": "integer", "nullable": true}), Value::Null, &[]);
    check(value!({"type": "integer"}), value!(2.0), &[]);
    check(
        value!({"type": "integer"}),
        value!(1.5),
        &[
            "x: Invalid value: \"number\": x in body must be of type integer: \"number\"",
            "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in x",
        ],
    );
    check(value!({"type": "number"}), value!(1i64), &[]);
    check(value!({"x-kubernetes-int-or-string": true}), value!("a"), &[]);
    check(
        value!({"x-kubernetes-int-or-string": true}),
        value!(1.5),
        &["x: Invalid value: \"number\": x in body must be of type integer,string: \"number\""],
    );
    // A list is accepted for a text with any format.
    check(value!({"type": "string", "format": "date"}), value!([1i64]), &[]);
    check(
        value!({"type": "string", "format": "date"}),
        value!(1i64),
        &["x: Invalid value: \"int64\": x in body must be of type date: \"int64\""],
    );
    check(
        value!({"type": "string", "format": "date"}),
        value!("2024"),
        &["x: Invalid value: \"2024\": x in body must be of type date: \"2024\""],
    );
    check(value!({"type": "string", "format": "nobody"}), value!("2024"), &[]);
}

#[test]
fn validates_numbers() {
    let schema = || value!({"type": "integer", "minimum": 1i64, "maximum": 5i64, "multipleOf": 2i64});
    check(schema(), value!(4i64), &[]);
    check(
        schema(),
        value!(7i64),
        &[
            "x: Invalid value: 7: x in body should be a multiple of 2",
            "x: Invalid value: 7: x in body should be less than or equal to 5",
        ],
    );
    check(
        value!({"type": "number", "minimum": 0.5, "exclusiveMinimum": true, "multipleOf": 0.25}),
        value!(0.5),
        &["x: Invalid value: 0.5: x in body should be greater than 0.5"],
    );
    check(
        value!({"type": "integer", "format": "int32"}),
        value!(3_000_000_000i64),
        &["<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in x"],
    );
    // A bound that is not an integer is reported for any value.
    check(
        value!({"type": "integer", "maximum": 1.5}),
        value!(1i64),
        &["<nil>: Invalid value: \"\": Maximum boundary value must be of type integer (default format) in x"],
    );
    // As integers, these bounds lose their fractions.
    check(value!({"type": "number", "maximum": 1.5}), value!(1i64), &[]);
    check(
        value!({"type": "number", "multipleOf": 0.5}),
        value!(1i64),
        &["x: Invalid value: 0: factor MultipleOf declared for x must be positive: 0"],
    );
}

#[test]
fn validates_strings_and_arrays() {
    check(value!({"type": "string", "maxLength": 2i64}), value!("abc"), &["x: Too long: may not be more than 2 bytes"]);
    check(value!({"type": "string", "maxLength": 2i64}), value!("éé"), &[]);
    check(
        value!({"type": "string", "minLength": 2i64, "pattern": "^b"}),
        value!("a"),
        &["x: Invalid value: \"a\": x in body should be at least 2 chars long"],
    );
    check(
        value!({"type": "string", "pattern": "^b"}),
        value!("a"),
        &["x: Invalid value: \"a\": x in body should match '^b'"],
    );
    check(
        value!({"type": "string", "enum": ["b", "c"]}),
        value!("a"),
        &["x: Unsupported value: \"a\": supported values: \"b\", \"c\""],
    );
    check(value!({"enum": [1i64, "5"]}), value!(1.7), &[]);
    check(
        value!({"type": "object", "enum": [{"b": 1i64}], "required": ["b"], "properties": {"a": {"type": "string"}}}),
        value!({"a": 1i64}),
        &[
            "x: Unsupported value: {\"a\":1}: supported values: \"{\\\"b\\\":1}\"",
            "x.a: Invalid value: \"integer\": x.a in body must be of type string: \"integer\"",
            "x.b: Required value",
        ],
    );
    check(value!({"enum": [1i64]}), Value::Null, &["x: Unsupported value: null: supported values: \"1\""]);
    let list = || value!({"type": "array", "minItems": 2i64, "maxItems": 3i64, "items": {"type": "integer"}});
    check(list(), value!([1i64]), &["x: Invalid value: 1: x in body should have at least 2 items"]);
    check(list(), value!([1i64, 2i64, 3i64, 4i64]), &["x: Too many: 4: must have at most 3 items"]);
    check(
        list(),
        value!([1i64, "a"]),
        &["x[1]: Invalid value: \"string\": x[1] in body must be of type integer: \"string\""],
    );
}

#[test]
fn validates_objects() {
    let schema = || {
        value!({
            "type": "object", "required": ["a"], "minProperties": 1i64, "maxProperties": 1i64,
            "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        })
    };
    check(
        schema(),
        value!({}),
        &["x: Invalid value: 0: x in body should have at least 1 properties", "x.a: Required value"],
    );
    check(schema(), value!({"a": "", "b": ""}), &["x: Too many: 2: must have at most 1 item"]);
    check(
        value!({"type": "object", "additionalProperties": {"type": "string"}}),
        value!({"k.l": 1i64}),
        &["x.k.l: Invalid value: \"integer\": x.k.l in body must be of type string: \"integer\""],
    );
}

#[test]
fn validates_any_of_one_of_and_not() {
    check(
        value!({"type": "string", "anyOf": [{"pattern": "^a"}, {"minLength": 3i64}]}),
        value!("b"),
        &[
            "<nil>: Invalid value: \"\": \"x\" must validate at least one schema (anyOf)",
            "x: Invalid value: \"b\": x in body should match '^a'",
        ],
    );
    let one_of = || value!({"type": "object", "properties": {"a": {}, "b": {}}, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
    check(one_of(), value!({"a": 1i64}), &[]);
    check(
        one_of(),
        value!({"a": 1i64, "b": 1i64}),
        &[
            "<nil>: Invalid value: \"\": \"x\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ],
    );
    check(
        one_of(),
        value!({}),
        &[
            "<nil>: Invalid value: \"\": \"x\" must validate one and only one schema (oneOf). Found none valid",
            "x.a: Required value",
        ],
    );
    check(
        value!({"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "b"}]}),
        value!("a"),
        &[
            "x: Invalid value: \"a\": x in body should match 'b'",
            "<nil>: Invalid value: \"\": \"x\" must validate all the schemas (allOf)",
        ],
    );
    check(
        value!({"type": "string", "not": {"enum": ["a"]}}),
        value!("a"),
        &["<nil>: Invalid value: \"\": \"x\" must not validate the schema (not)"],
    );
    // If both fail, the better match is reported.
    check(
        value!({"type": "object", "anyOf": [
            {"required": ["z"]},
            {"properties": {"a": {"enum": [1i64]}}, "required": ["y"]},
        ], "properties": {"a": {}}}),
        value!({"a": 1i64}),
        &["<nil>: Invalid value: \"\": \"x\" must validate at least one schema (anyOf)", "x.y: Required value"],
    );
}

#[test]
fn ratchets_unchanged_values() {
    let schema = value!({"type": "object", "properties": {
        "kind": {"type": "integer"},
        "a": {"type": "string", "maxLength": 1i64},
        "o": {"type": "object", "required": ["z"], "properties": {"b": {"type": "integer"}, "z": {"type": "integer"}}},
        "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
            "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
        }},
        "all": {"type": "string", "allOf": [{"minLength": 3i64}]},
    }});
    let schema = Structural::parse(&schema, &Interner::new()).unwrap();
    for (old, new, want) in [
        (value!({"a": "aa", "o": {"b": "x"}}), value!({"a": "aa", "o": {"b": "x"}}), vec![]),
        (value!({"a": "aa"}), value!({"a": "bb"}), vec!["a: Too long: may not be more than 1 byte"]),
        (value!({"o": {"b": "x"}}), value!({"o": {"b": "x", "c": 1i64}}), vec!["o.z: Required value"]),
        (
            value!({"list": [{"k": "1", "v": "x"}, {"k": "2", "v": "y"}]}),
            value!({"list": [{"k": "2", "v": "y"}, {"k": "3", "v": "z"}]}),
            vec!["list[1].v: Invalid value: \"string\": list[1].v in body must be of type integer: \"string\""],
        ),
        (
            value!({"kind": "K"}),
            value!({"kind": "K", "a": "a"}),
            vec!["kind: Invalid value: \"string\": kind in body must be of type integer: \"string\""],
        ),
        (value!({"all": "x"}), value!({"all": "x"}), vec![]),
    ] {
        let cache = ComparisonCache::default();
        let mut errors = FieldErrors::new();
        validate_update(&CorrelatedObject::new(&new, &old, &schema, &cache), &schema, &FieldPath::root(), &mut errors);
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
    }
}

#[test]
fn deep_schemas_and_many_errors_are_bounded() {
    let mut schema = value!({"type": "string"});
    let mut object = value!("a");
    for _ in 0..120 {
        let mut around = value!({"type": "object"});
        around.make_at(&["properties"]).insert("p", schema.clone());
        schema = around;
        let mut nested = value!({});
        nested.make_at(&["properties"]).insert("p", value!({"minLength": 1i64}));
        schema.make_object().insert("allOf", Value::List(vec![nested]));
        let mut holder = value!({});
        holder.make_object().insert("p", object);
        object = holder;
    }
    let schema = Structural::parse(&schema, &Interner::new()).unwrap();
    let mut errors = FieldErrors::new();
    validate(&object, &schema, &FieldPath::root(), &mut errors);
    assert!(errors.is_empty());

    let list = value!({"type": "array", "items": {"type": "integer", "anyOf": [{"minimum": 1i64}, {"minimum": 2i64}]}});
    let list = Structural::parse(&list, &Interner::new()).unwrap();
    let items = Value::List((0..100_000).map(|_| value!("a")).collect());
    validate(&items, &list, &FieldPath::root(), &mut errors);
    assert!(errors.is_full());
}
