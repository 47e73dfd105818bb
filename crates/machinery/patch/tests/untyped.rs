//! Server-side apply of custom resources whose schema has values without a type: scalars and lists are allowed as well
//! as objects whose members and elements may have schemas.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::Arc;

use binnacle_patch::apply::{self, Apply, Update, Versions};
use binnacle_schema::{Field, Limits, ListType, Message, MessageRef, Ty, Value, json};

struct OneVersion(Message);

impl Versions for OneVersion {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Message)> {
        (api_version == "x/v1").then(|| (object.clone(), &self.0))
    }
}

fn shared(message: Message) -> Ty {
    Ty::Message(MessageRef::Shared(Arc::new(message)))
}

fn metadata() -> Ty {
    let mut metadata = Message::new("", vec![Field::new("name", Ty::String)]);
    metadata.additional = Some(Box::new(Ty::Json));
    shared(metadata)
}

/// Returns a kind with the untyped members `any` and `list`, and `free`, an object of any members.
fn kind(free_is_atomic: bool) -> OneVersion {
    let open = |fields: Vec<Field>, element: Ty| {
        let mut message = Message::new("", fields);
        message.additional = Some(Box::new(Ty::Json));
        message.untyped = Some(Box::new(element));
        shared(message)
    };
    let a = || Field::new("a", Ty::String);
    let item = open(vec![Field::new("k", Ty::String)], Ty::Json);
    let any = vec![
        a(),
        Field::new("o", shared(Message::new("", vec![Field::new("x", Ty::String)]))),
        Field { list_type: ListType::Atomic, ..Field::new("atom", Ty::Map(Box::new(Ty::String))) },
        Field { list_type: ListType::Map(vec!["k".into()].into()), ..Field::new("l", Ty::List(Box::new(item))) },
    ];
    let mut free = Message::new("", vec![]);
    (free.additional, free.atomic) = (Some(Box::new(Ty::Json)), free_is_atomic);
    OneVersion(Message::new(
        "",
        vec![
            Field::new("apiVersion", Ty::String),
            Field::new("kind", Ty::String),
            Field::new("metadata", metadata()),
            Field::new("any", open(any, Ty::Json)),
            Field::new("list", open(vec![], shared(Message::new("", vec![a()])))),
            Field::new("free", shared(free)),
        ],
    ))
}

/// Applies a configuration with further `members`; managers with `!` force.
fn apply(kind: &OneVersion, live: Option<&Value>, manager: &str, members: &str) -> Result<Value, String> {
    let (manager, force) = manager.strip_suffix('!').map_or((manager, false), |manager| (manager, true));
    let config = format!(r#"{{"apiVersion":"x/v1","kind":"X"{members}}}"#);
    let mut config = json::parse(config.as_bytes(), &Limits::default()).unwrap();
    config.make_at(&["metadata"]).insert("name", "n");
    let update = Update { message: &kind.0, api_version: "x/v1", manager, subresource: "", now: 7, reset: &[] };
    let applied = apply::apply(&Apply { update, force, versions: kind }, live, &config);
    applied.map(|applied| applied.object).map_err(|error| error.to_string())
}

/// Returns the members except the metadata, and the fields of each manager.
fn shown(object: &Value) -> String {
    let members = object.as_object().unwrap().iter();
    let members = members.filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    let mut shown: Vec<String> = members.map(|(name, value)| format!("{name}={}", json::to_string(value))).collect();
    shown.extend(
        object.list_at(&["metadata", "managedFields"]).iter().map(|entry| {
            format!("{}: {}", entry.str_at(&["manager"]), json::to_string(entry.get("fieldsV1").unwrap()))
        }),
    );
    shown.join(" ")
}

#[test]
fn applies_untyped_values() {
    type Steps = &'static [(&'static str, &'static str, &'static str)];
    let cases: [Steps; 9] = [
        &[(
            "one",
            r#","any":{"a":"1","z":{"b":1},"o":{"x":"1"},"l":[{"k":"n","v":{"q":[1]}}]}"#,
            r#"any={"a":"1","z":{"b":1},"o":{"x":"1"},"l":[{"k":"n","v":{"q":[1]}}]} one: {"f:any":{"f:a":{},"f:l":{"k:{\"k\":\"n\"}":{".":{},"f:k":{},"f:v":{".":{},"f:q":{}}}},"f:o":{"f:x":{}},"f:z":{".":{},"f:b":{}}}}"#,
        )],
        &[
            ("one", r#","any":"text""#, r#"any="text" one: {"f:any":{}}"#),
            ("two!", r#","any":{"a":"1"}"#, r#"any={"a":"1"} two: {"f:any":{"f:a":{}}}"#),
        ],
        &[
            ("one", r#","any":[{"a":1},2]"#, r#"any=[{"a":1},2] one: {"f:any":{}}"#),
            ("two", r#","any":[]"#, r#"Apply failed with 1 conflict: conflict with "one": .any"#),
        ],
        &[
            (
                "one",
                r#","any":{"a":"1","o":{"x":"1"}}"#,
                r#"any={"a":"1","o":{"x":"1"}} one: {"f:any":{"f:a":{},"f:o":{"f:x":{}}}}"#,
            ),
            ("one", r#","any":{"o":{"x":"1"}}"#, r#"any={"o":{"x":"1"}} one: {"f:any":{"f:o":{"f:x":{}}}}"#),
        ],
        &[
            ("one", r#","any":{"a":"1"}"#, r#"any={"a":"1"} one: {"f:any":{"f:a":{}}}"#),
            ("two", r#","any":{"z":1}"#, r#"any={"a":"1","z":1} one: {"f:any":{"f:a":{}}} two: {"f:any":{"f:z":{}}}"#),
            // A scalar that replaces the members does not change their fields, but takes ownership of them.
            ("two", r#","any":5"#, r#"any=5 two: {"f:any":{}}"#),
        ],
        &[(
            "one",
            r#","any":{"a":1}"#,
            "failed to create typed patch object (/n; x/v1, Kind=X): .any.a: expected string, got &value.valueUnstructured{Value:1}",
        )],
        &[
            ("one", r#","any":{"atom":{"q":"1"}}"#, r#"any={"atom":{"q":"1"}} one: {"f:any":{"f:atom":{}}}"#),
            ("two", r#","any":{"atom":{"r":"1"}}"#, r#"Apply failed with 1 conflict: conflict with "one": .any.atom"#),
        ],
        &[("one", r#","any":null"#, r#"any=null one: {"f:any":{}}"#)],
        &[(
            "one",
            r#","list":[{"a":1}]"#,
            "failed to create typed patch object (/n; x/v1, Kind=X): .list[0].a: expected string, got &value.valueUnstructured{Value:1}",
        )],
    ];
    let kind = kind(false);
    for steps in cases {
        let mut live = None;
        for (manager, members, want) in steps {
            let applied = apply(&kind, live.as_ref(), manager, members);
            assert_eq!(applied.as_ref().map_or_else(Clone::clone, shown), *want, "{manager} {members}");
            live = applied.ok();
        }
    }
}

/// Without a schema, as for definitions of v1beta1 that are not structural, the metadata is deduced as well.
#[test]
fn deduces_metadata_of_resources_without_schema() {
    let mut kind = Message::new("", vec![]);
    kind.additional = Some(Box::new(Ty::Json));
    let kind = OneVersion(kind);
    let finalizers = |name: &str| format!(r#","metadata":{{"finalizers":["{name}"]}},"spec":{{"n":1}}"#);
    let live = apply(&kind, None, "one", &finalizers("x/a")).unwrap();
    assert_eq!(shown(&live), r#"spec={"n":1} one: {"f:metadata":{"f:finalizers":{}},"f:spec":{".":{},"f:n":{}}}"#);
    let conflict = r#"Apply failed with 1 conflict: conflict with "one": .metadata.finalizers"#;
    assert_eq!(apply(&kind, Some(&live), "two", &finalizers("x/b")).unwrap_err(), conflict);
}

/// kube-apiserver does not reconcile the field sets of free-form objects that became atomic.
#[test]
fn keeps_field_sets_of_free_form_objects_that_became_atomic() {
    let live = apply(&kind(false), None, "one", r#","free":{"a":{"b":1}}"#).unwrap();
    let owned = |entries: &str| format!(r#"free={{"a":{{"b":1}}}} {entries}"#);
    assert_eq!(shown(&live), owned(r#"one: {"f:free":{"f:a":{".":{},"f:b":{}}}}"#));
    let live = apply(&kind(true), Some(&live), "two", r#","free":{"a":{"b":1}}"#).unwrap();
    // The second manager has changed nothing, so its entry has no timestamp and comes first.
    assert_eq!(shown(&live), owned(r#"two: {"f:free":{}} one: {"f:free":{"f:a":{".":{},"f:b":{}}}}"#));
}
