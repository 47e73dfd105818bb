use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::{Field, Message, MessageRef, Ty, Value, value};
use std::sync::Arc;

use super::{CoercionOptions, Part, ResourceSchema};
use crate::defaults::{self, DefaultRules};
use crate::{Interner, Structural};

fn object_meta() -> MessageRef {
    let mut fields: Vec<Field> =
        ["name", "generateName", "namespace"].into_iter().map(|name| Field::new(name, Ty::String)).collect();
    fields.push(Field::new("generation", Ty::Int64));
    fields.push(Field::new("labels", Ty::Map(Box::new(Ty::String))));
    let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    MessageRef::Shared(Arc::new(Message::new(name, fields)))
}

fn resource(properties: Value) -> ResourceSchema {
    let mut schema = value!({"type": "object"});
    schema.make_object().insert("properties", properties);
    ResourceSchema::new(Some(Structural::parse(&schema, &Interner::new()).unwrap()), object_meta())
}

fn texts(errors: &FieldErrors) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn decodes_prune_coerce_and_default_objects() {
    let resource = resource(value!({
        "spec": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string", "nullable": true}}},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"x": {"type": "integer"}}},
    }));
    let object = || {
        value!({
            "metadata": {"name": "n", "odd": 1i64}, "odd": {},
            "spec": {"a": null, "b": null, "z": 1i64},
            "template": {"kind": "K", "metadata": {"name": "t", "odd": 1i64}, "y": 1i64},
        })
    };
    let mut read = object();
    let unknown =
        resource.read(&mut read, CoercionOptions { report_unknown: true, ..CoercionOptions::default() }).unwrap();
    assert_eq!(unknown, ["metadata.odd", "odd", "spec.z", "template.y", "template.metadata.odd"]);
    assert_eq!(
        read,
        value!({"metadata": {"name": "n"}, "spec": {"b": null}, "template": {"kind": "K", "metadata": {"name": "t"}}})
    );
    let mut bad = value!({"metadata": {"name": "n", "labels": [1i64]}, "template": {"kind": 1i64}});
    let error = resource.read(&mut bad.clone(), CoercionOptions::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string"
    );
    // Stored objects must be readable.
    resource.read(&mut bad, CoercionOptions { from_store: true, ..CoercionOptions::default() }).unwrap();
    assert_eq!(bad, value!({"metadata": {"name": "n", "generation": 1i64}, "template": {}}));
}

#[test]
fn validates_objects_and_updates() {
    let resource = resource(value!({
        "spec": {"type": "object", "x-kubernetes-validations": [{"rule": "self.n > 0"}], "properties": {
            "n": {"type": "integer"},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        }},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }));
    let judge =
        |new: &Value, old: Option<&Value>, part| texts(&resource.validate(new, old, part, FieldErrors::new()).errors);
    assert_eq!(
        judge(
            &value!({"spec": {"n": "x"}, "template": {"kind": "a_b", "metadata": {"name": "a/b"}}}),
            None,
            Part::Whole
        ),
        [
            "spec.n: Invalid value: \"string\": spec.n in body must be of type integer: \"string\"",
            "template.apiVersion: Required value",
            "template.kind: Invalid value: \"a_b\": may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
            "template.metadata.name: Invalid value: \"a/b\": may not contain '/'",
            "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ]
    );
    assert_eq!(
        judge(&value!({"spec": {"n": 0i64}}), None, Part::Whole),
        ["spec: Invalid value: failed rule: self.n > 0"]
    );
    // Duplicates are accepted if the old list has some.
    let doubled = value!({"spec": {"n": 1i64, "set": [1i64, 1i64]}});
    assert_eq!(judge(&doubled, None, Part::Whole), ["spec.set[1]: Duplicate value: 1"]);
    assert!(judge(&doubled, Some(&doubled), Part::Whole).is_empty());
    // Through `/status`, only the status is validated against the schema.
    let odd = value!({"spec": {"n": 1i64}, "status": {"n": "x"}, "template": {}});
    assert_eq!(
        judge(&odd, Some(&value!({})), Part::Status)[0],
        "status.n: Invalid value: \"string\": n in body must be of type integer: \"string\""
    );
    assert!(judge(&odd, Some(&odd), Part::Status).is_empty());
    let null = value!({"status": null});
    for (old, want) in [(value!({}), true), (value!({"status": {}}), false)] {
        assert_eq!(judge(&null, Some(&old), Part::Status).is_empty(), want, "{old:?}");
    }
}

#[test]
fn detects_nulls_in_defaults() {
    let open = |default: Value| {
        let any = value!({"x-kubernetes-preserve-unknown-fields": true});
        let mut schema = value!({"type": "object", "additionalProperties": any});
        schema.make_object().insert("default", default);
        resource(value!({"x": schema})).prunes_defaults()
    };
    assert_eq!([value!({"a": null}), value!({"a": {"b": null}}), value!({})].map(open), [true, false, false]);
}

#[test]
fn detects_objects_that_lose_fields_when_stored() {
    let resource = resource(value!({
        "a": {"type": "string"},
        "any": {"x-kubernetes-preserve-unknown-fields": true},
        "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }));
    for (object, want, why) in [
        (value!({"a": "x", "any": {"b": null}, "template": {"metadata": {"name": "n"}}}), false, "nothing"),
        (value!({"odd": 1i64}), true, "unknown fields"),
        (value!({"any": null}), true, "nulls without a type"),
        (value!({"a": null}), true, "and other nulls"),
        (value!({"template": {"metadata": null}}), true, "metadata of embedded resources"),
        (value!({"template": {"metadata": {"odd": 1i64}}}), true, "and its unknown fields"),
    ] {
        assert_eq!(resource.prunes_applied(&object), want, "{why}");
    }
}

#[test]
fn rejects_defaults_that_do_not_match_their_schema() {
    let meta = object_meta();
    for (x, want) in [
        (value!({"type": "integer", "default": 1i64}), vec![]),
        (
            value!({"type": "integer", "default": "a"}),
            vec![
                "s.properties[x].default: Invalid value: \"string\": s.properties[x].default in body must be of type integer: \"string\"",
            ],
        ),
        (
            value!({"type": "object", "default": {"a": 1i64, "z": 1i64}, "properties": {"a": {"type": "integer"}}}),
            vec!["s.properties[x].default: Invalid value: {\"a\":1,\"z\":1}: must not have unknown fields"],
        ),
        (
            value!({"type": "integer", "default": 0i64, "x-kubernetes-validations": [{"rule": "self > 0"}]}),
            vec!["s.properties[x].default: Invalid value: 0: failed rule: self > 0"],
        ),
        (
            value!({"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
                "metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "a/b"}}},
            }}),
            vec![
                "s.properties[x].properties[metadata].properties[name].default: Invalid value: \"a/b\": must result in valid metadata: metadata.name: Invalid value: \"a/b\": may not contain '/'",
            ],
        ),
    ] {
        let mut schema = value!({"type": "object"});
        schema.make_at(&["properties"]).insert("x", x);
        let schema = Structural::parse(&schema, &Interner::new()).unwrap();
        let mut errors = FieldErrors::new();
        let rules = DefaultRules { object_meta: &meta, pruned: true };
        defaults::validate(&schema, rules, &FieldPath::new("s"), &mut errors);
        // Errors contain the path of a value.
        let texts: Vec<String> = texts(&errors);
        assert_eq!(texts.len(), want.len(), "{texts:?}");
        for (text, want) in texts.iter().zip(want) {
            let (path, _) = want.split_once(": ").unwrap();
            assert!(text.starts_with(path), "{text}");
        }
    }
    let unpruned = value!({"type": "object", "properties": {"x": {"type": "object", "default": {"z": 1i64}, "properties": {"a": {"type": "integer"}}}}});
    let unpruned = Structural::parse(&unpruned, &Interner::new()).unwrap();
    assert!(defaults::has_unpruned(&unpruned, &meta));
}

/// Defaults are pruned like objects, including metadata of embedded resources, which schemas do not list.
#[test]
fn prunes_defaults() {
    let meta = object_meta();
    let embedded = |default: Value| {
        value!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true,
            "default": default})
    };
    let whole =
        || value!({"apiVersion": "v1", "kind": "A", "spec": {"any": 1i64}, "metadata": {"name": "a", "odd": "b"}});
    for (x, want) in [
        (value!({"type": "integer", "default": 1i64}), Some(value!(1i64))),
        (
            value!({"type": "object", "default": {"a": 1i64, "b": 2i64}, "properties": {"a": {"type": "integer"}}}),
            Some(value!({"a": 1i64})),
        ),
        (
            embedded(whole()),
            Some(value!({"apiVersion": "v1", "kind": "A", "spec": {"any": 1i64}, "metadata": {"name": "a"}})),
        ),
    ] {
        let mut schema = value!({"type": "object", "properties": {"y": {"type": "object"}}});
        schema.make_at(&["properties"]).insert("x", x);
        let interner = Interner::new();
        let schema = Structural::parse(&schema, &interner).unwrap();
        let pruned = defaults::pruned(&schema, &meta, &interner);
        assert_eq!(pruned.property("x").unwrap().default.as_deref(), want.as_ref());
        assert_eq!(Arc::ptr_eq(&pruned, &schema), !defaults::has_unpruned(&schema, &meta));
        assert!(Arc::ptr_eq(pruned.property("y").unwrap(), schema.property("y").unwrap()));
        assert!(!defaults::has_unpruned(&pruned, &meta));
    }
}

/// Validation in kube-apiserver coerces defaults in place, so that the coerced defaults are stored.
#[test]
fn coerces_metadata_of_embedded_resources_in_defaults() {
    let meta = object_meta();
    let resource = || value!({"metadata": {"name": "a", "odd": "b", "creationTimestamp": null}, "odd": 1i64});
    let coerced = || value!({"metadata": {"name": "a"}, "odd": 1i64});
    let embedded = || value!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let with_default = |mut schema: Value, default: Value| {
        schema.make_object().insert("default", default);
        schema
    };
    let list = || value!({"type": "array", "items": (embedded())});
    let malformed = || value!({"metadata": {"name": 1i64, "odd": "b"}});
    for (case, x, want) in [
        ("of the resource itself", with_default(embedded(), resource()), coerced()),
        (
            "in a list",
            with_default(list(), Value::List(vec![resource(), resource()])),
            Value::List(vec![coerced(), coerced()]),
        ),
        (
            "in a map",
            with_default(value!({"type": "object", "additionalProperties": (embedded())}), value!({"k": (resource())})),
            value!({"k": (coerced())}),
        ),
        (
            "not a resource",
            with_default(value!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}), resource()),
            resource(),
        ),
        ("malformed, which validation rejects", with_default(embedded(), malformed()), malformed()),
    ] {
        let mut tree = value!({"type": "object"});
        tree.make_at(&["properties"]).insert("x", x);
        let mut deep = value!({"type": "object"});
        deep.make_at(&["properties", "l"]).insert("type", "array");
        deep.make_at(&["properties", "l"]).insert("items", tree.clone());
        for (mut tree, path) in [
            (tree, &["properties", "x", "default"][..]),
            (deep, &["properties", "l", "items", "properties", "x", "default"]),
        ] {
            let schema = Structural::parse(&tree, &Interner::new()).unwrap();
            defaults::coerce(&mut tree, &schema, &meta);
            assert_eq!(tree.at(path), Some(&want), "{case}");
        }
    }
}

/// kube-apiserver validates copies of defaults of metadata fields, so they do not change.
#[test]
fn does_not_coerce_defaults_of_metadata() {
    let metadata = || value!({"type": "object", "default": {"name": "a", "odd": "b"}});
    let mut tree = value!({"type": "object", "default": {"metadata": {"name": "a", "odd": "b"}}, "properties": {
        "metadata": (metadata()),
        "x": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"metadata": (metadata())}},
    }});
    let schema = Structural::parse(&tree, &Interner::new()).unwrap();
    defaults::coerce(&mut tree, &schema, &object_meta());
    assert_eq!(tree.get("default"), Some(&value!({"metadata": {"name": "a"}})), "the root is a resource");
    for path in [&["properties", "metadata"][..], &["properties", "x", "properties", "metadata"]] {
        assert_eq!(tree.at(path), Some(&metadata()));
    }
}
