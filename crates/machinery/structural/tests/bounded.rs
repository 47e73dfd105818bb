//! Work on hostile schemas and objects stops at the work budget, and real ones stay far below its limits.

use std::sync::Arc;

use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::{Field, Message, MessageRef, Object, Ty, Value, value};
use binnacle_structural::resource::{CoercionOptions, Part, ResourceSchema};
use binnacle_structural::{Interner, Structural, list_types, pruning, validation};
use binnacle_work::{BudgetError, WorkBudget, WorkLimits};

fn parse(schema: &Value) -> Arc<Structural> {
    Structural::parse(schema, &Interner::new()).expect("a schema")
}

/// Returns a schema of an object with a list `l`, whose items have this schema.
fn items(schema: Value) -> Value {
    value!({"type": "object", "properties": {"l": {"type": "array", "items": schema}}})
}

fn list(of: usize, item: impl Fn(usize) -> Value) -> Value {
    value!({"l": (Value::List((0..of).map(item).collect()))})
}

fn repeated(count: usize, schema: impl Fn(usize) -> Value) -> Value {
    Value::List((0..count).map(schema).collect())
}

/// Less than a thirtieth of the limits of a request, so that tests of unoptimized builds are fast.
const LIMITS: WorkLimits = WorkLimits { steps: 10_000_000, memory: 2_800_000 };

/// Validates an object; returns the budget that was spent.
fn validated(schema: &Value, object: &Value) -> WorkBudget {
    let schema = parse(schema);
    let budget = WorkBudget::new(LIMITS);
    let mut errors = FieldErrors::new();
    budget.enter(|| validation::validate(object, &schema, &FieldPath::root(), &mut errors));
    budget
}

/// Fails unless the limit of steps or memory was exceeded, and not by much.
fn assert_ended(what: &str, budget: &WorkBudget) {
    assert!(
        matches!(budget.check(), Err(BudgetError::Steps(_) | BudgetError::Memory(_))),
        "{what}: {:?}",
        budget.check()
    );
    assert!(budget.steps() < LIMITS.steps * 11 / 10, "{what}: {}", budget.steps());
    assert!(budget.memory() < LIMITS.memory * 12 / 10, "{what}: {}", budget.memory());
}

/// A definition of 88 KB whose alternatives are all tried for each value of an object of 78 KB.
#[test]
fn alternatives_stop_at_the_budget() {
    // The last one matches, so that no error ends the validation.
    let long = |name: &str| {
        let mut schema = value!({"type": "object"});
        let alternative = |i: usize| match name {
            "allOf" => value!({"maxProperties": (i as i64)}),
            _ if i == 3999 => value!({"type": "object"}),
            _ => value!({"required": [(format!("x{i}"))]}),
        };
        schema.make_object().insert(name, repeated(4000, alternative));
        items(schema)
    };
    let object = list(20_000, |_| value!({}));
    for name in ["anyOf", "oneOf", "allOf"] {
        assert_ended(name, &validated(&long(name), &object));
    }
    let none = repeated(4000, |i| value!({"required": [(format!("x{i}"))]}));
    let nested = value!({"not": {"anyOf": none}});
    assert_ended("not", &validated(&items(nested), &object));
}

#[test]
fn comparisons_stop_at_the_budget() {
    let large = |last: i64| {
        let mut items: Vec<Value> = (0..5000_i64).map(Value::Int).collect();
        items.push(Value::Int(last));
        Value::List(items)
    };
    let schema =
        items(value!({"type": "array", "items": {"type": "integer"}, "enum": (repeated(15, |i| large(i as i64)))}));
    assert_ended("enum", &validated(&schema, &list(40, |_| large(-1))));
    let many = value!({"type": "integer", "enum": (repeated(20_000, |i| Value::Int(i as i64)))});
    assert_ended("enum of many", &validated(&items(many), &list(40_000, |_| Value::Int(-1))));
    let required = repeated(8000, |i| format!("x{i}").into());
    let schema = items(value!({"type": "object", "anyOf": [{"required": required}, {"type": "object"}]}));
    assert_ended("required", &validated(&schema, &list(40_000, |_| value!({"a": 1i64, "b": 2i64}))));
}

/// Errors quote long keys, which are part of many paths.
#[test]
fn charges_long_paths() {
    let schema = value!({"type": "object", "additionalProperties": {
        "type": "object", "anyOf": (repeated(4000, |i| value!({"required": [(format!("x{i}"))]}))),
    }});
    let object: Object = (0..200).map(|i| (format!("{i}{}", "k".repeat(30_000)), value!({}))).collect();
    assert_ended("keys", &validated(&schema, &Value::Object(object)));
}

#[test]
fn nested_sets_stop_at_the_budget() {
    let mut schema = value!({"type": "string"});
    let mut object = repeated(20_000, |i| format!("an element that is a text {i}").into());
    for _ in 0..60 {
        schema = value!({"type": "array", "x-kubernetes-list-type": "set", "items": schema});
        object = Value::List(vec![object, Value::Null]);
    }
    let schema = value!({"type": "object", "properties": {"l": {
        "type": "array", "x-kubernetes-list-type": "set", "items": schema,
    }}});
    let (schema, object) = (parse(&schema), value!({"l": object}));
    let budget = WorkBudget::new(LIMITS);
    budget.enter(|| list_types::validate(&object, &schema, &FieldPath::root(), &mut FieldErrors::new()));
    assert_ended("sets", &budget);
}

/// Regression: each item of a preserved list used to copy its schema.
#[test]
fn pruning_does_not_copy_schemas() {
    let properties: Object = (0..2000).map(|i| (format!("p{i}"), value!({"type": "string"}))).collect();
    let schema = value!({"type": "object", "properties": {"l": {
        "type": "array", "x-kubernetes-preserve-unknown-fields": true,
        "items": {"type": "object", "properties": properties},
    }}});
    let (schema, mut object) = (parse(&schema), list(100_000, |_| value!({"p1": "a", "odd": 1i64})));
    let budget = WorkBudget::new(WorkLimits::REQUEST);
    budget.enter(|| pruning::prune(&mut object, Some(&schema), true));
    assert_eq!(budget.check(), Ok(()));
    assert!(budget.steps() < 2_000_000, "{}", budget.steps());
    assert_eq!(object.list_at(&["l"])[99_999], value!({"p1": "a", "odd": 1i64}));
}

#[test]
fn unknown_fields_below_long_keys_are_reported_within_bounds() {
    let schema = parse(
        &value!({"type": "object", "additionalProperties": {"type": "object", "additionalProperties": {"type": "object"}}}),
    );
    let below: Object = (0..1000).map(|i| (format!("x{i}"), value!({"odd": 1i64}))).collect();
    let mut object = Value::Object([("k".repeat(1 << 20), Value::Object(below))].into_iter().collect());
    let found = pruning::prune_and_report(&mut object, Some(&schema), true);
    let bytes: usize = found.iter().map(String::len).sum();
    assert!(found.len() == 100 && bytes < 100 * (40 << 10), "{} {bytes}", found.len());
}

fn resource(schema: &Value) -> ResourceSchema {
    let metadata = Message::new("ObjectMeta", vec![Field::new("name", Ty::String)]);
    ResourceSchema::new(Some(parse(schema)), MessageRef::Shared(Arc::new(metadata)))
}

/// The steps of a write with an object as large as the largest real ones: thousands of items with a few members each.
#[test]
fn real_objects_need_little_of_the_budget() {
    let port = value!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "minLength": 1i64, "maxLength": 63i64},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "protocol": {"type": "string", "enum": ["TCP", "UDP", "SCTP"], "default": "TCP"},
    }});
    let mut schema = items(port);
    let keyed = schema.make_at(&["properties", "l"]);
    keyed.insert("x-kubernetes-list-type", "map");
    keyed.insert("x-kubernetes-list-map-keys", vec!["name"]);
    let resource = resource(&schema);
    let object = |changed: usize| {
        list(10_000, |i| {
            let port = if i == changed { "other".to_owned() } else { format!("port-{i}") };
            value!({"name": (format!("name-{i}")), "port": port})
        })
    };
    let budget = WorkBudget::new(WorkLimits::REQUEST);
    budget.enter(|| {
        let mut objects = [object(usize::MAX), object(5000)];
        for object in &mut objects {
            resource
                .read(object, CoercionOptions { report_unknown: true, ..CoercionOptions::default() })
                .expect("valid metadata");
            assert!(resource.set_defaults(object));
        }
        let [old, new] = &objects;
        let judgement = resource.validate(new, Some(old), Part::Whole, FieldErrors::new());
        assert_eq!(judgement.errors.len(), 0);
    });
    assert_eq!(budget.check(), Ok(()));
    assert!(budget.steps() < WorkLimits::REQUEST.steps / 20, "{}", budget.steps());
    assert!(budget.memory() < WorkLimits::REQUEST.memory / 10, "{}", budget.memory());
}

/// A change is compared once, regardless of its size and of how often its parts are compared.
#[test]
fn comparisons_of_changes_are_linear() {
    let mut schema = value!({"type": "string", "maxLength": 1i64});
    let mut object = Value::from("too long");
    for _ in 0..200 {
        schema = value!({"type": "object", "properties": {"a": schema, "l": {"type": "array", "items": {"type": "integer"}}}});
        object = value!({"a": object, "l": (repeated(100, |i| Value::Int(i as i64)))});
    }
    let resource = resource(&schema);
    let budget = WorkBudget::new(WorkLimits::REQUEST);
    let judgement = budget.enter(|| resource.validate(&object, Some(&object.clone()), Part::Whole, FieldErrors::new()));
    assert_eq!((judgement.errors.len(), budget.check()), (0, Ok(())));
    assert!(budget.steps() < 2_000_000, "{}", budget.steps());
}
