use std::borrow::Cow;

use binnacle_kinds::tables;
use binnacle_schema::{Field, Limits, MessageRef, PatchStrategy, Ty, json};

use super::*;

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::default()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// A struct with a field for each feature of the schema.
fn item() -> Message {
    let merge = |key: &'static str| PatchStrategy { merge: true, merge_key: key.into(), ..PatchStrategy::NONE };
    let inner = || {
        let fields = vec![
            Field::new("name", Ty::String),
            Field::new("value", Ty::Int32),
            Field { patch: merge(""), ..Field::new("scalars", Ty::List(Box::new(Ty::String))) },
        ];
        Ty::Message(MessageRef::Shared(Message::new("x.Inner", fields).into()))
    };
    let retain = PatchStrategy { retain_keys: true, ..PatchStrategy::NONE };
    let replace = PatchStrategy { replace: true, ..PatchStrategy::NONE };
    Message::new(
        "x.Item",
        Cow::Owned(vec![
            Field::new("name", Ty::String),
            Field::new("map", Ty::Map(Box::new(Ty::String))),
            Field { patch: merge("name"), ..Field::new("list", Ty::List(Box::new(inner()))) },
            Field { patch: merge(""), ..Field::new("keyless", Ty::List(Box::new(inner()))) },
            Field { patch: merge(""), ..Field::new("scalars", Ty::List(Box::new(Ty::String))) },
            Field::new("plain", Ty::List(Box::new(Ty::String))),
            Field { patch: retain, ..Field::new("retain", inner()) },
            Field { patch: replace, ..Field::new("replace", inner()) },
            Field::new("raw", Ty::RawExtension),
        ]),
    )
}

#[test]
fn applies_strategic_merge_patches() {
    let message = item();
    for (live, patch, want, why) in [
        (r#"{"name":"a"}"#, r#"{"name":"b"}"#, r#"{"name":"b"}"#, "scalars are replaced"),
        (r#"{"name":"a"}"#, r#"{"name":null}"#, "{}", "null removes"),
        ("{}", r#"{"map":{"a":null,"b":"1"}}"#, r#"{"map":{"b":"1"}}"#, "nulls of what is new go"),
        (r#"{"map":{"a":"1"}}"#, r#"{"map":{"b":"2"}}"#, r#"{"map":{"a":"1","b":"2"}}"#, "maps are merged"),
        (r#"{"map":{"a":"1"}}"#, r#"{"map":{"$patch":"replace","b":"2"}}"#, r#"{"map":{"b":"2"}}"#, "replace a map"),
        (r#"{"map":{"a":"1"}}"#, r#"{"map":{"$patch":"delete"}}"#, r#"{"map":{}}"#, "delete a map"),
        ("{}", r#"{"map":{"$patch":"delete"}}"#, "{}", "a directive alone makes nothing"),
        (r#"{"plain":["a"]}"#, r#"{"plain":["b"]}"#, r#"{"plain":["b"]}"#, "lists are replaced unless merged"),
        (
            r#"{"list":[{"name":1,"value":1}]}"#,
            r#"{"list":[{"name":1.0,"value":2}]}"#,
            r#"{"list":[{"name":1.0,"value":2},{"name":1,"value":1}]}"#,
            "as a key, a float is no integer",
        ),
        (r#"{"scalars":["a","b"]}"#, r#"{"scalars":["c","a"]}"#, r#"{"scalars":["c","a","b"]}"#, "sets are united"),
        (
            r#"{"scalars":["a","b"]}"#,
            r#"{"$deleteFromPrimitiveList/scalars":["a","z"]}"#,
            r#"{"scalars":["b"]}"#,
            "deletions",
        ),
        ("{}", r#"{"$deleteFromPrimitiveList/scalars":["a"]}"#, "{}", "deletions from nothing"),
        (
            r#"{"scalars":["a","b"]}"#,
            r#"{"$setElementOrder/scalars":["b","c","a"],"scalars":["c"]}"#,
            r#"{"scalars":["b","c","a"]}"#,
            "the order of a set",
        ),
        (
            r#"{"list":[{"name":"1","value":1},{"name":"2","value":2}]}"#,
            r#"{"list":[{"name":"2","value":3},{"name":"3"}]}"#,
            r#"{"list":[{"name":"1","value":1},{"name":"2","value":3},{"name":"3"}]}"#,
            "by merge key",
        ),
        (
            r#"{"list":[{"name":"1"},{"name":"2"}]}"#,
            r#"{"list":[{"name":"3"},{"name":"1","value":9}]}"#,
            r#"{"list":[{"name":"3"},{"name":"1","value":9},{"name":"2"}]}"#,
            "new elements come where the patch has them",
        ),
        (
            r#"{"list":[{"name":"1"},{"name":"2"}]}"#,
            r#"{"list":[{"name":"1","$patch":"delete"}]}"#,
            r#"{"list":[{"name":"2"}]}"#,
            "delete an element",
        ),
        (
            r#"{"list":[{"name":"1"},{"name":"2"}]}"#,
            r#"{"list":[{"name":"3"},{"$patch":"replace"}]}"#,
            r#"{"list":[{"name":"3"}]}"#,
            "replace a list",
        ),
        (
            r#"{"list":[{"name":"1","scalars":["a"]}]}"#,
            r#"{"list":[{"name":"1","$deleteFromPrimitiveList/scalars":["a"],"scalars":["b"]}]}"#,
            r#"{"list":[{"name":"1","scalars":["b"]}]}"#,
            "deletions inside elements",
        ),
        (
            r#"{"list":[{"name":"1"},{"name":"2"},{"name":"server"}]}"#,
            r#"{"$setElementOrder/list":[{"name":"2"},{"name":"1"}]}"#,
            r#"{"list":[{"name":"2"},{"name":"1"},{"name":"server"}]}"#,
            "only an order",
        ),
        (
            "{}",
            r#"{"$setElementOrder/list":[{"name":"2"},{"name":"1"}],"list":[{"name":"2"},{"name":"1"},{"name":"9","$patch":"delete"}]}"#,
            r#"{"list":[{"name":"2"},{"name":"1"}]}"#,
            "an ordered list that is new",
        ),
        ("{}", r#"{"$setElementOrder/list":[{"name":"2"}]}"#, "{}", "the order of nothing"),
        (r#"{"":{"a":1}}"#, r#"{"$deleteFromPrimitiveList/":{"a":2}}"#, r#"{"":{"a":1}}"#, "a deletion from no name"),
        (
            r#"{"list":[{"name":"1"},{"name":"2"}]}"#,
            r#"{"$setElementOrder/list":[],"list":[{"name":"3"}]}"#,
            r#"{"list":[{"name":"1"},{"name":"2"},{"name":"3"}]}"#,
            "an order without the element of the patch",
        ),
        (
            r#"{"retain":{"name":"a","value":1}}"#,
            r#"{"retain":{"$retainKeys":["name"],"name":"b"}}"#,
            r#"{"retain":{"name":"b"}}"#,
            "retain keys",
        ),
        (
            r#"{"replace":{"name":"a","value":1}}"#,
            r#"{"replace":{"name":"b"}}"#,
            r#"{"replace":{"name":"b"}}"#,
            "replace",
        ),
        (r#"{"map":{"a":"1"}}"#, r#"{"map":"text"}"#, r#"{"map":"text"}"#, "another kind of value"),
        (r#"{"list":[]}"#, r#"{"list":[]}"#, r#"{"list":[]}"#, "nothing with nothing"),
        (r#"{"unknown":1}"#, r#"{"unknown":2,"new":{"a":1}}"#, r#"{"unknown":2,"new":{"a":1}}"#, "unknown fields pass"),
    ] {
        let got = apply(tree(live), &tree(patch), &message).unwrap_or_else(|e| panic!("{why}: {e}"));
        assert_eq!(got, tree(want), "{why}: {}", json::to_string(&got));
    }
}

#[test]
fn rejects_invalid_patches() {
    let message = item();
    for (live, patch, code, want) in [
        (
            "{}",
            r#"{"map":{},"$patch":"explode"}"#,
            500,
            "unknown patch type: explode in map: map[$patch:explode map:map[]]",
        ),
        ("{}", r#"{"$patch":1}"#, 500, "unknown patch type: %!s(int64=1) in map: map[$patch:1]"),
        (
            r#"{"list":[{"name":"1"}]}"#,
            r#"{"list":[{"value":1}]}"#,
            500,
            "map: map[value:1] does not contain declared merge key: name",
        ),
        (
            r#"{"list":[{"name":"1"}]}"#,
            r#"{"list":[{"$patch":"delete"}]}"#,
            500,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (
            r#"{"list":[{"name":"1"}]}"#,
            r#"{"list":[{"name":"1","$patch":"merge"}]}"#,
            500,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            r#"{"keyless":[{"name":"1"}]}"#,
            r#"{"keyless":[{"name":"1"}]}"#,
            500,
            "cannot merge lists without merge key for struct",
        ),
        (r#"{"scalars":["a"]}"#, r#"{"scalars":[1]}"#, 500, "list element types are not identical: [[a] [1]]"),
        (r#"{"scalars":[["a"]]}"#, r#"{"scalars":["b"]}"#, 422, "lists of lists are not supported"),
        ("{}", r#"{"$deleteFromPrimitiveListX":["a"]}"#, 400, "invalid patch format of primitive list"),
        ("{}", r#"{"$setElementOrder":["a"]}"#, 400, "invalid patch format of setElementOrder list"),
        ("{}", r#"{"$setElementOrder/list":1}"#, 500, "expected a []interface {}, but received a int64"),
        (
            r#"{"retain":{"name":"a"}}"#,
            r#"{"retain":{"$retainKeys":["name"],"value":1}}"#,
            400,
            "invalid patch format of retainKeys",
        ),
        (
            r#"{"retain":{"name":"a"}}"#,
            r#"{"retain":{"$retainKeys":"name"}}"#,
            400,
            "invalid patch format of retainKeys",
        ),
        (
            r#"{"scalars":["a","b"]}"#,
            r#"{"$setElementOrder/scalars":["a","b"],"scalars":["b","a"]}"#,
            500,
            "The order in patch list:\n[b a]\n doesn't match $setElementOrder list:\n[a b]\n",
        ),
        (
            r#"{"unknown":{"a":1}}"#,
            r#"{"unknown":{"a":2}}"#,
            500,
            "unable to find api field in struct Item for the json field \"unknown\"",
        ),
        (
            r#"{"raw":{"spec":{}}}"#,
            r#"{"raw":{"spec":{"a":1}}}"#,
            500,
            "unable to find api field in struct RawExtension for the json field \"spec\"",
        ),
        (
            r#"{"map":{"a":{}}}"#,
            r#"{"map":{"a":{"b":1}}}"#,
            500,
            "merging an object in json but data type is not struct, instead is: map",
        ),
        ("{}", r#"{"$setElementOrder/map":[]}"#, 500, "expected slice or array type, but got: struct"),
    ] {
        let error = apply(tree(live), &tree(patch), &message).expect_err(patch);
        assert_eq!(error.to_string(), want, "{patch}");
        assert_eq!(error.to_status().code(), code, "{patch}");
    }
}

#[test]
fn patches_a_deployment() {
    let deployment = tables::kind("apps", "v1", "Deployment").unwrap();
    let live = tree(
        r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i","ports":[{"containerPort":80}]},{"name":"d"},{"name":"e"}],
            "tolerations":[{"key":"a"}]}},"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}}}"#,
    );
    let patch = tree(
        r#"{"metadata":{"finalizers":["x"]},"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"},"template":{"spec":{
            "$setElementOrder/containers":[{"name":"e"},{"name":"c"},{"name":"d"}],"tolerations":[{"key":"b"}],
            "containers":[{"name":"d","image":"new"},{"name":"c","$patch":"delete"}]}}}}"#,
    );
    let want = tree(
        r#"{"metadata":{"finalizers":["x"]},"spec":{"strategy":{"type":"Recreate"},"template":{"spec":{
            "containers":[{"name":"e"},{"name":"d","image":"new"}],"tolerations":[{"key":"b"}]}}}}"#,
    );
    let once = apply(live, &patch, deployment).unwrap();
    assert_eq!(once, want);
    assert_eq!(apply(once, &patch, deployment).unwrap(), want, "a second time changes nothing");
}
