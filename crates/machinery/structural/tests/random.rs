//! Random schemas and objects: nothing panics, and every step is idempotent.

use std::sync::Arc;

use binnacle_meta::{FieldErrors, FieldPath, GroupVersionKind};
use binnacle_schema::{Field, Message, MessageRef, Object, Ty, Value, value};
use binnacle_structural::defaults::{self, DefaultRules};
use binnacle_structural::openapi::{CrdVersion, SpecVersion};
use binnacle_structural::resource::{CoercionOptions, Part, ResourceSchema};
use binnacle_structural::{Interner, Structural, footprint};

/// A generator of random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn of<'t, T>(&mut self, list: &'t [T]) -> &'t T {
        &list[self.below(list.len())]
    }
}

const NAMES: [&str; 9] = ["a", "b", "spec", "status", "metadata", "kind", "apiVersion", "k", "x.y/z"];

fn anything(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 9 } else { 12 }) {
        0 => Value::Null,
        1 => Value::Bool(random.below(2) == 0),
        2 => Value::Int(*random.of(&[0, 1, -1, 5, i64::MAX, i64::MIN])),
        3 => Value::Float(*random.of(&[0.5, -0.0, 1e300, 1e19, 3.0])),
        4..=8 => value!(*random.of(&["", "a", "b", "2024-01-01", "x.example.com", "1h", "é\u{0}"])),
        9 => Value::List((0..random.below(4)).map(|_| anything(random, depth - 1)).collect()),
        _ => {
            let members = (0..random.below(4)).map(|_| (*random.of(&NAMES), anything(random, depth - 1)));
            Value::Object(members.collect::<Object>())
        }
    }
}

fn schema(random: &mut Random, depth: usize) -> Value {
    let mut out = Object::new();
    let kinds = ["object", "object", "array", "string", "integer", "number", "boolean", "odd"];
    if random.below(5) > 0 {
        out.insert("type", *random.of(&kinds));
    }
    for _ in 0..random.below(5) {
        let count = *random.of(&[0_i64, 1, 3, -1, i64::MAX]);
        match random.below(18) {
            0 => out.insert("nullable", true),
            1 => out.insert("default", anything(random, 2)),
            2 => out.insert(*random.of(&["maxLength", "minLength", "maxItems", "minItems"]), count),
            3 => out.insert(*random.of(&["maxProperties", "minProperties"]), count),
            4 => out.insert(*random.of(&["maximum", "minimum", "multipleOf"]), *random.of(&[0.0, 0.5, -3.0, 1e300])),
            5 => out.insert("pattern", *random.of(&["^a", "(", "[[:alpha:]]{1,1000}", ""])),
            6 => out.insert("format", *random.of(&["date", "email", "int32", "float", "uri", "nobody"])),
            7 => out.insert("enum", vec![anything(random, 1), anything(random, 1)]),
            8 => out.insert("required", vec![*random.of(&NAMES)]),
            9 => out.insert("x-kubernetes-preserve-unknown-fields", true),
            10 => out.insert("x-kubernetes-embedded-resource", true),
            11 => out.insert("x-kubernetes-int-or-string", true),
            12 => out.insert("x-kubernetes-list-type", *random.of(&["set", "map", "atomic", "odd"])),
            13 => out.insert("x-kubernetes-list-map-keys", vec![*random.of(&NAMES)]),
            14 => {
                let rules = ["self == oldSelf", "self.a == 1", "size(self) > 1", "true", "self.all(x, x == x)", "("];
                let rule = value!({"rule": (*random.of(&rules)), "messageExpression": "string(self)"});
                out.insert("x-kubernetes-validations", vec![rule])
            }
            15 if depth > 0 => out.insert("not", schema(random, depth - 1)),
            16 if depth > 0 => {
                let nested = vec![schema(random, depth - 1), schema(random, depth - 1)];
                out.insert(*random.of(&["allOf", "anyOf", "oneOf"]), nested)
            }
            _ => out.insert("x-kubernetes-map-type", *random.of(&["atomic", "granular"])),
        };
    }
    if depth > 0 {
        if random.below(2) == 0 {
            let properties = (0..random.below(5)).map(|_| (*random.of(&NAMES), schema(random, depth - 1)));
            out.insert("properties", Value::Object(properties.collect::<Object>()));
        }
        if random.below(3) == 0 {
            out.insert("items", schema(random, depth - 1));
        }
        match random.below(8) {
            0 => drop(out.insert("additionalProperties", true)),
            1 => drop(out.insert("additionalProperties", schema(random, depth - 1))),
            _ => {}
        }
    }
    Value::Object(out)
}

#[test]
fn random_schemas_and_objects_do_not_panic() {
    let name = Field::new("name", Ty::String);
    let labels = Field::new("labels", Ty::Map(Box::new(Ty::String)));
    let meta = MessageRef::Shared(Arc::new(Message::new("a.b.v1.ObjectMeta", vec![name, labels])));
    let kind = GroupVersionKind { group: "example.com".into(), version: "v1".into(), kind: "Thing".into() };
    let interner = Interner::new();
    let mut random = Random(7);
    for _ in 0..1500 {
        let text = schema(&mut random, 4);
        for form in [SpecVersion::V2, SpecVersion::V3] {
            CrdVersion { kind: &kind, schema: Some(&text), preserve_unknown: false, selectable: Vec::new() }
                .definition(form);
        }
        let Ok(schema) = Structural::parse(&text, &interner) else { continue };
        assert!(Arc::ptr_eq(&schema, &Structural::parse(&text, &interner).unwrap()), "{text:?}");
        assert!(footprint([&schema]) > 0);
        let mut errors = FieldErrors::new();
        defaults::validate(
            &schema,
            DefaultRules { object_meta: &meta, pruned: true },
            &FieldPath::new("s"),
            &mut errors,
        );
        defaults::has_unpruned(&schema, &meta);
        let resource = ResourceSchema::new(Some(schema), meta.clone());
        resource.message();
        let mut old = None;
        for _ in 0..3 {
            let mut object = anything(&mut random, 5);
            object.make_object().insert("metadata", value!({"name": "a"}));
            let reading = CoercionOptions { report_unknown: true, ..CoercionOptions::default() };
            if resource.read(&mut object, reading).is_err() {
                continue;
            }
            resource.set_defaults(&mut object);
            let mut again = object.clone();
            resource.set_defaults(&mut again);
            assert_eq!(again, object, "{text:?}");
            resource.validate(&object, old.as_ref(), Part::Whole, FieldErrors::new());
            resource.validate(&object, old.as_ref(), Part::Status, FieldErrors::new());
            old = Some(object);
        }
    }
}
