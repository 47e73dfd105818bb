use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::{Value, value};

use super::{RUNTIME_BUDGET, Rules, Verdict};
use crate::correlation::{ComparisonCache, CorrelatedObject};
use crate::{Interner, Structural};

fn evaluate(schema: Value, new: Value, old: Option<Value>) -> Verdict {
    let schema = Structural::parse(&schema, &Interner::new()).unwrap();
    let rules = Rules::new(&schema, true).unwrap();
    let cache = ComparisonCache::default();
    let change = old.as_ref().map(|old| CorrelatedObject::new(&new, old, &schema, &cache));
    let mut verdict = Verdict::default();
    rules.evaluate(&new, old.as_ref(), change, &FieldPath::root(), RUNTIME_BUDGET, &mut verdict);
    verdict
}

fn texts(errors: &FieldErrors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Returns a schema with one property, `x`.
fn of(x: Value) -> Value {
    let mut schema = value!({"type": "object"});
    schema.make_at(&["properties"]).insert("x", x);
    schema
}

#[test]
fn reports_failed_rules() {
    for (x, new, want) in [
        (value!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]}), value!(2i64), vec![]),
        (
            value!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]}),
            value!(1i64),
            vec!["x: Invalid value: 1: failed rule: self > 1"],
        ),
        (
            value!({"type": "object", "x-kubernetes-validations": [
                {"rule": "self.a == 1", "message": " no ", "fieldPath": ".a", "reason": "FieldValueRequired"},
            ], "properties": {"a": {"type": "integer"}}}),
            value!({"a": 2i64}),
            vec!["x.a: Required value: no"],
        ),
        (
            value!({"type": "object", "x-kubernetes-validations": [
                {"rule": "self.a == 1", "messageExpression": "'is ' + string(self.a)"},
            ], "properties": {"a": {"type": "integer"}}}),
            value!({"a": 2i64}),
            vec!["x: Invalid value: is 2"],
        ),
        (
            value!({"type": "object", "x-kubernetes-validations": [{"rule": "self.a == 1"}], "properties": {"a": {"type": "integer"}}}),
            value!({}),
            vec!["x: Invalid value: \"object\": no such key: a evaluating rule: self.a == 1"],
        ),
        (
            value!({"type": "object", "x-kubernetes-validations": [
                {"rule": "!has(self.namespace) || self.namespace == self.__namespace__ && self.namespace.size() < 3"},
            ], "properties": {"namespace": {"type": "string", "maxLength": 64}}}),
            value!({"namespace": "default"}),
            vec![
                "x: Invalid value: failed rule: !has(self.namespace) || self.namespace == self.__namespace__ && self.namespace.size() < 3",
            ],
        ),
        (
            value!({"x-kubernetes-int-or-string": true, "x-kubernetes-validations": [{"rule": "self.startsWith('a')"}]}),
            value!(1i64),
            vec![
                "x: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self.startsWith('a')",
            ],
        ),
        // The other operand decides, so a value of a wrong type does not matter.
        (
            value!({"type": "integer", "x-kubernetes-validations": [{"rule": "self == 1 && false"}, {"rule": "self == 1"}]}),
            value!(1.5),
            vec![
                "x: Invalid value: 1.5: failed rule: self == 1 && false",
                "x: Invalid value: \"integer\": invalid data, expected int, got float64 evaluating rule: self == 1",
            ],
        ),
        (
            value!({"type": "string", "x-kubernetes-validations": [{"rule": "self"}]}),
            value!("a"),
            vec!["x: Invalid value: \"string\": rule compile error: cel expression must evaluate to a bool"],
        ),
        (
            value!({"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]}}),
            value!([2i64, 1i64, null]),
            vec!["x[1]: Invalid value: 1: failed rule: self > 1"],
        ),
        (
            value!({"type": "object", "additionalProperties": {"type": "integer", "x-kubernetes-validations": [
                {"rule": "self > 1", "reason": "FieldValueDuplicate"},
            ]}}),
            value!({"a/b": 1i64}),
            vec!["x[a/b]: Duplicate value: 1"],
        ),
    ] {
        let mut object = value!({});
        object.make_object().insert("x", new);
        assert_eq!(texts(&evaluate(of(x), object, None).errors), want);
    }
}

#[test]
fn skips_unreachable_rules() {
    let rule = value!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]});
    let below = |mut schema: Value| {
        schema.make_at(&["properties"]).insert("a", rule.clone());
        schema
    };
    let list = |items: Value| value!({"type": "array", "items": items});
    let untyped = below(value!({"x-kubernetes-preserve-unknown-fields": true}));
    let typed = below(value!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    for (x, new, runs, why) in [
        (typed.clone(), value!({"a": 1i64}), true, "an object"),
        (untyped.clone(), value!({"a": 1i64}), false, "a value without a type"),
        (list(typed), value!([{"a": 1i64}]), true, "objects"),
        (list(untyped.clone()), value!([{"a": 1i64}]), false, "values without a type"),
        (
            value!({"type": "object", "additionalProperties": untyped}),
            value!({"k": {"a": 1i64}}),
            false,
            "values without a type by name",
        ),
        (below(value!({"x-kubernetes-int-or-string": true})), value!({"a": 1i64}), false, "no object at all"),
    ] {
        let mut object = value!({"y": 1i64});
        object.make_object().insert("x", new);
        let mut schema = of(x);
        schema.make_at(&["properties"]).insert("y", rule.clone());
        let found = texts(&evaluate(schema, object, None).errors);
        assert_eq!(found.len(), 1 + usize::from(runs), "{why}: {found:?}");
    }
}

#[test]
fn evaluates_transition_rules() {
    let schema = || {
        value!({"type": "object", "properties": {
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "x-kubernetes-validations": [
                    {"rule": "self >= oldSelf"},
                ]}},
            }},
            "once": {"type": "string", "x-kubernetes-validations": [
                {"rule": "oldSelf.hasValue() || self == 'first'", "optionalOldSelf": true},
            ]},
        }})
    };
    let object = |v: i64| value!({"list": [{"k": "b", "v": 1i64}, {"k": "a", "v": v}]});
    assert!(evaluate(schema(), object(1), None).errors.is_empty());
    assert!(evaluate(schema(), object(2), Some(value!({"list": [{"k": "a", "v": 1i64}]}))).errors.is_empty());
    assert_eq!(
        texts(&evaluate(schema(), object(0), Some(value!({"list": [{"k": "a", "v": 1i64}]}))).errors),
        ["list[1].v: Invalid value: 0: failed rule: self >= oldSelf"]
    );
    let once = |text: &str| value!({"once": text});
    assert_eq!(evaluate(schema(), once("second"), None).errors.len(), 1);
    assert!(evaluate(schema(), once("second"), Some(once("first"))).errors.is_empty());
}

/// The contents of an optional old value are untyped, as in kube-apiserver, from which these results were recorded.
#[test]
fn optional_old_self_is_untyped_as_in_kube_apiserver() {
    const UNEQUAL: &str = "'no such overload': call arguments did not match a supported operator, function or macro \
                           signature for rule: ";
    for (rule, want) in [
        ("self == oldSelf.value()", "failed rule: "),
        ("self.t == oldSelf.value().t", "failed rule: "),
        ("self.i == oldSelf.value().i", ""),
        ("self.l == oldSelf.value().l", ""),
        ("oldSelf.value() == self", "failed rule: "),
        ("self.o == oldSelf.value().o", UNEQUAL),
        ("oldSelf.value().o == self.o", "failed rule: "),
        ("self.o != oldSelf.value().o", ""),
    ] {
        let schema = value!({
            "type": "object",
            "properties": {
                "t": {"type": "string", "format": "date-time"},
                "i": {"type": "integer"},
                "l": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
                "o": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"k": {"type": "string"}}},
            },
            "x-kubernetes-validations": [{"rule": (rule), "optionalOldSelf": true}],
        });
        let object = || value!({"t": "2021-01-01T00:00:00Z", "i": 1i64, "l": [{"k": "a"}], "o": {"k": "a", "x": 1i64}});
        let errors = texts(&evaluate(schema, object(), Some(object())).errors);
        let found = errors.first().map_or("", |error| error.trim_start_matches("<nil>: Invalid value: "));
        let found = found.trim_start_matches("\"object\": ").trim_end_matches(rule);
        assert_eq!(found, want, "{rule}");
    }
}

/// Lookups of elements of sets and list maps; the results were recorded from kube-apiserver.
#[test]
fn compares_sets_and_list_maps_like_kube_apiserver() {
    let set = |items: Value| value!({"type": "array", "x-kubernetes-list-type": "set", "items": (items)});
    let list_map = |keys: Value| {
        value!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": (keys), "items": {
            "type": "object", "properties": {
                "a-b": {"type": "string"}, "x": {"type": "string"}, "y": {"type": "integer"}, "v": {"type": "integer"},
            },
        }})
    };
    let schema = |rule: &str| {
        value!({"type": "object", "x-kubernetes-validations": [{"rule": (rule)}], "properties": {
            "s": (set(value!({"type": "string"}))),
            "i": (set(value!({"type": "integer"}))),
            "n": (set(value!({"type": "number"}))),
            "t": (set(value!({"type": "string", "format": "date-time"}))),
            "d": (set(value!({"type": "string", "format": "duration"}))),
            "b": (set(value!({"type": "string", "format": "byte"}))),
            "dashed": (list_map(value!(["a-b"]))),
            "keyed": (list_map(value!(["x", "y"]))),
        }})
    };
    let xy = |x: &str, y: i64| value!({"x": (x), "y": (y)});
    let dashed = |name: &str| value!({"a-b": (name)});
    let both = || value!([(xy("a", 1)), (xy("b", 1))]);
    let time = || value!(["2020-01-01T00:00:00Z"]);
    #[rustfmt::skip]
    let cases = [
        ("self.s == oldSelf.s", value!(["b", "a"]), value!(["a", "b"]), "the order does not matter", true),
        ("self.s == oldSelf.s", value!(["b", "a"]), value!(["a", "a"]), "all of the other's elements are found", true),
        ("oldSelf.s == self.s", value!(["b", "a"]), value!(["a", "a"]), "b is not", false),
        ("self.s + ['c'] == ['c', 'b', 'a']", value!(["b", "a"]), value!([]), "a sum is a set", true),
        ("size(self.s + ['c'] + ['d', 'c', 'd']) == 4", value!(["b", "a"]), value!([]), "and no more than a set", true),
        ("size(['c'] + self.s + ['c']) == 4", value!(["b", "a"]), value!([]), "a literal is no set", true),
        ("self.i + [3] == [3, 2, 1]", value!([1i64, 2i64]), value!([]), "whole numbers", true),
        ("self.n == self.n", value!([1.5f64, 2.5f64]), value!([]), "fractions", true),
        ("self.n == self.n", value!([1i64, 2.5f64]), value!([]), "whole numbers of type number are not found", false),
        ("size(self.n + self.n) == 3", value!([1i64, 2.5f64]), value!([]), "and added again", true),
        ("self.t == self.t", (time()), value!([]), "times are not found", false),
        ("size(self.t + self.t) == 2", (time()), value!([]), "and added again", true),
        ("self.d == self.d", value!(["1h"]), value!([]), "durations are not found", false),
        ("self.keyed == oldSelf.keyed", (both()), value!([(xy("b", 1)), (xy("a", 1))]), "the order does not matter", true),
        ("self.keyed == oldSelf.keyed", (both()), value!([(xy("b", 1)), (xy("a", 2))]), "another y", false),
        ("self.keyed + oldSelf.keyed == [oldSelf.keyed[0], self.keyed[0]]", (both()), value!([(xy("b", 1))]), "a sum is keyed", true),
        ("self.dashed == oldSelf.dashed", value!([(dashed("x")), (dashed("y"))]), value!([(dashed("x")), (dashed("y"))]),
         "no key is found by an escaped name, so all are the same", false),
        ("size(self.dashed + oldSelf.dashed) == 1", value!([(dashed("x"))]), value!([(dashed("y"))]), "all are the same", true),
    ];
    for (rule, new, old, why, holds) in cases {
        let name = rule.split_once("elf.").unwrap().1.split([' ', ')']).next().unwrap();
        let of = |list| {
            let mut object = value!({});
            object.make_at(&[]).insert(name, list);
            object
        };
        assert_eq!(evaluate(schema(rule), of(new), Some(of(old))).errors.is_empty(), holds, "{rule}: {why}");
    }
    let unhashable = evaluate(schema("self.b == self.b"), value!({"b": ["aGk="]}), None);
    assert_eq!(
        texts(&unhashable.errors),
        [
            r#"<nil>: Invalid value: "object": internal error: runtime error: hash of unhashable type []uint8 evaluating rule: self.b == self.b"#
        ]
    );
}

#[test]
fn ratchets_unchanged_values() {
    let schema = || {
        value!({"type": "object", "properties": {
            "a": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]},
            "b": {"type": "integer"},
        }})
    };
    let old = || Some(value!({"a": 1i64, "b": 1i64}));
    let verdict = evaluate(schema(), value!({"a": 1i64, "b": 2i64}), old());
    assert!(verdict.errors.is_empty());
    assert_eq!(verdict.warnings, ["a: Invalid value: 1: failed rule: self > 1"]);
    assert_eq!(evaluate(schema(), value!({"a": 0i64}), old()).errors.len(), 1);
}

#[test]
fn stops_at_the_cost_budget() {
    let schema = Structural::parse(
        &of(
            value!({"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]}}),
        ),
        &Interner::new(),
    )
    .unwrap();
    let rules = Rules::new(&schema, true).unwrap();
    let mut verdict = Verdict::default();
    let object = value!({"x": [1i64, 2i64, 3i64]});
    let left = rules.evaluate(&object, None, None, &FieldPath::root(), 3, &mut verdict);
    assert_eq!(left, -1);
    assert_eq!(
        texts(&verdict.errors),
        [
            "x[0]: Invalid value: 1: failed rule: self > 1",
            "x[1]: Invalid value: \"integer\": validation failed due to running out of cost budget, no further validation rules will be run",
        ]
    );
}
