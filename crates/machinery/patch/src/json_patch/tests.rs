use binnacle_schema::Limits;

use super::*;

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::default()).unwrap()
}

/// Objects that Go's library converts to maps are sorted; everything else keeps its order.
#[test]
fn preserves_member_order_like_go() {
    for (patch, want) in [
        ("[]", r#"{"a":{"y":{"d":1,"c":2},"x":[{"f":1,"e":2}]},"b":{"n":{"s":1,"r":2},"m":1}}"#),
        (
            r#"[{"op":"remove","path":"/b/m"}]"#,
            r#"{"a":{"y":{"d":1,"c":2},"x":[{"f":1,"e":2}]},"b":{"n":{"s":1,"r":2}}}"#,
        ),
        (
            r#"[{"op":"add","path":"/a/x/0/g","value":{"q":1,"p":2}}]"#,
            r#"{"a":{"x":[{"e":2,"f":1,"g":{"q":1,"p":2}}],"y":{"d":1,"c":2}},"b":{"n":{"s":1,"r":2},"m":1}}"#,
        ),
        (r#"[{"op":"move","from":"/b/n","path":"/a"}]"#, r#"{"a":{"s":1,"r":2},"b":{"m":1}}"#),
        (
            r#"[{"op":"move","from":"/b/n","path":"/b"}]"#,
            r#"{"a":{"y":{"d":1,"c":2},"x":[{"f":1,"e":2}]},"b":{"s":1,"r":2}}"#,
        ),
        (
            r#"[{"op":"move","from":"/a/y/c","path":"/c"}]"#,
            r#"{"a":{"x":[{"f":1,"e":2}],"y":{"d":1}},"b":{"n":{"s":1,"r":2},"m":1},"c":2}"#,
        ),
        (
            r#"[{"op":"copy","from":"/b","path":"/b/n/a"}]"#,
            r#"{"a":{"y":{"d":1,"c":2},"x":[{"f":1,"e":2}]},"b":{"m":1,"n":{"a":{"m":1,"n":{"r":2,"s":1}},"r":2,"s":1}}}"#,
        ),
        (
            r#"[{"op":"test","path":"/b","value":{"m":1,"n":{"r":2,"s":1}}}]"#,
            r#"{"a":{"y":{"d":1,"c":2},"x":[{"f":1,"e":2}]},"b":{"m":1,"n":{"r":2,"s":1}}}"#,
        ),
    ] {
        let live = r#"{"b":{"n":{"s":1,"r":2},"m":1},"a":{"y":{"d":1,"c":2},"x":[{"f":1,"e":2}]}}"#;
        let got = parse(patch.as_bytes()).unwrap().apply_in_order(tree(live)).unwrap();
        assert_eq!(json::to_string(&got), want, "{patch}");
    }
}

#[test]
fn applies_operations() {
    for (live, patch, want, why) in [
        (r#"{"a":1}"#, r#"[{"op":"add","path":"/b","value":2}]"#, Some(r#"{"a":1,"b":2}"#), "add a member"),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"/a","value":2}]"#, Some(r#"{"a":2}"#), "add over a member"),
        (r#"{"a":[1,3]}"#, r#"[{"op":"add","path":"/a/1","value":2}]"#, Some(r#"{"a":[1,2,3]}"#), "insert"),
        (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/-","value":2}]"#, Some(r#"{"a":[1,2]}"#), "append"),
        (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/1","value":2}]"#, Some(r#"{"a":[1,2]}"#), "at the end"),
        (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/2","value":2}]"#, None, "behind the end"),
        (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/-1","value":2}]"#, Some(r#"{"a":[1,2]}"#), "negative"),
        (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/-3","value":2}]"#, None, "too negative"),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"/b/c","value":2}]"#, None, "no parent"),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"/a/c","value":2}]"#, None, "a scalar parent"),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"","value":{}}]"#, None, "add to the whole"),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"/b"}]"#, Some(r#"{"a":1,"b":null}"#), "add nothing"),
        (r#"{"a":1,"b":2}"#, r#"[{"op":"remove","path":"/a"}]"#, Some(r#"{"b":2}"#), "remove"),
        (r#"{"a":1}"#, r#"[{"op":"remove","path":"/b"}]"#, None, "remove what is not there"),
        (r#"{"a":[1,2]}"#, r#"[{"op":"remove","path":"/a/-1"}]"#, Some(r#"{"a":[1]}"#), "remove the last"),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"/a","value":2}]"#, Some(r#"{"a":2}"#), "replace"),
        (r#"{"a":{}}"#, r#"[{"op":"replace","path":"/a/b","value":2}]"#, Some(r#"{"a":{"b":2}}"#), "replace makes"),
        (r#"{"a":[]}"#, r#"[{"op":"replace","path":"/a/0","value":2}]"#, None, "replace behind the end"),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"","value":{"b":1}}]"#, Some(r#"{"b":1}"#), "replace the whole"),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"","value":1}]"#, None, "replace the whole by a scalar"),
        (r#"{"a":1}"#, r#"[{"op":"move","from":"/a","path":"/b"}]"#, Some(r#"{"b":1}"#), "move"),
        (r#"{"a":[1,2,3]}"#, r#"[{"op":"move","from":"/a/0","path":"/a/2"}]"#, Some(r#"{"a":[2,3,1]}"#), "reorder"),
        (r#"{"a":1}"#, r#"[{"op":"copy","from":"/a","path":"/b"}]"#, Some(r#"{"a":1,"b":1}"#), "copy"),
        (r#"{"a":1}"#, r#"[{"op":"copy","from":"/c","path":"/b"}]"#, Some(r#"{"a":1,"b":null}"#), "copy nothing"),
        (r#"{"a":1}"#, r#"[{"op":"test","path":"/a","value":1}]"#, Some(r#"{"a":1}"#), "test"),
        (r#"{"a":1}"#, r#"[{"op":"test","path":"/a","value":"1"}]"#, None, "test of another type"),
        (r#"{"a":1}"#, r#"[{"op":"test","path":"/b","value":null}]"#, Some(r#"{"a":1}"#), "test for absence"),
        (r#"{"a":1}"#, r#"[{"op":"test","path":"/a"}]"#, None, "test without value"),
        (
            r#"{"a":{"x":1,"y":[2]}}"#,
            r#"[{"op":"test","path":"/a","value":{"y":[2],"x":1}}]"#,
            Some(r#"{"a":{"x":1,"y":[2]}}"#),
            "test in any order",
        ),
        (
            r#"{"a/b":1,"m~n":2}"#,
            r#"[{"op":"remove","path":"/a~1b"},{"op":"remove","path":"/m~0n"}]"#,
            Some("{}"),
            "escapes",
        ),
        (r#"{"~1":1}"#, r#"[{"op":"remove","path":"/~01"}]"#, Some("{}"), "an escaped tilde"),
        (r#"{"a":1}"#, r#"[{"op":"fly","path":"/a"}]"#, None, "unknown step"),
        (r#"{"a":1}"#, r#"[{"path":"/a"}]"#, None, "no step"),
        (r#"{"a":1}"#, "[null]", None, "a null step"),
        (r#"{"a":1}"#, "null", Some(r#"{"a":1}"#), "a null patch"),
        (r#"{"a":1}"#, "[]", Some(r#"{"a":1}"#), "no steps"),
    ] {
        let got = parse(patch.as_bytes()).unwrap().apply(tree(live));
        match want {
            Some(want) => assert_eq!(got.unwrap(), tree(want), "{why}"),
            None => {
                let status = got.unwrap_err();
                assert_eq!((status.code(), status.details().is_some()), (422, true), "{why}");
            }
        }
    }
}

#[test]
fn explains_failed_operations() {
    for (operation, why) in [
        (
            r#"{"op":"remove","path":"/data/nope"}"#,
            "remove operation does not apply: doc is missing path: \"/data/nope\": missing value",
        ),
        (
            r#"{"op":"remove","path":"/b"}"#,
            "error in remove for path: '/b': Unable to remove nonexistent key: b: missing value",
        ),
        (
            r#"{"op":"remove","path":"/l/7"}"#,
            "error in remove for path: '/l/7': Unable to access invalid index: 7: invalid index referenced",
        ),
        (
            r#"{"op":"add","path":"/l/x","value":1}"#,
            "error in add for path: '/l/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            r#"{"op":"add","path":"/l/5","value":1}"#,
            "error in add for path: '/l/5': Unable to access invalid index: 5: invalid index referenced",
        ),
        (r#"{"op":"add"}"#, "add operation failed to decode path: missing value"),
        (r#"{"op":"test"}"#, "test operation failed to decode path: operation missing path field: missing value"),
        (r#"{"op":"test","path":"/a","value":2}"#, "testing value /a failed: test failed"),
        (
            r#"{"op":"replace","path":"/x/y"}"#,
            "replace operation does not apply: doc is missing path: /x/y: missing value",
        ),
        (
            r#"{"op":"replace","path":"/l/3"}"#,
            "replace operation does not apply: doc is missing key: /l/3: missing value",
        ),
        (
            r#"{"op":"move","from":"/x/y"}"#,
            "move operation does not apply: doc is missing from path: /x/y: missing value",
        ),
        (
            r#"{"op":"move","from":"/x","path":"/a"}"#,
            "error in move for path: 'x': Unable to remove nonexistent key: x: missing value",
        ),
        (
            r#"{"op":"copy","from":"/a","path":"/x/y"}"#,
            "copy operation does not apply: doc is missing destination path: /x/y: missing value",
        ),
        (r#"{"op":"copy"}"#, "copy operation failed to decode from: operation, missing from field: missing value"),
        (r#"{"op":"fly"}"#, "Unexpected kind: fly"),
        ("{}", "Unexpected kind: unknown"),
    ] {
        let patch = parse_unvalidated(format!("[{operation}]").as_bytes()).unwrap();
        assert_eq!(patch.apply_with_reason(tree(r#"{"a":1,"l":[1]}"#)).unwrap_err(), why);
    }
}

#[test]
fn operates_on_raw_json() {
    let live = Value::Object([("f", Value::Raw(r#"{"f:a":{}}"#.into()))].into_iter().collect());
    let patch = parse(br#"[{"op":"test","path":"/f","value":{"f:a":{}}},{"op":"remove","path":"/f/f:a"}]"#).unwrap();
    assert_eq!(patch.apply(live).unwrap(), tree(r#"{"f":{}}"#));
}

/// Many small operations could nest the document too deeply to traverse it.
#[test]
fn bounds_nesting() {
    let tower = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
    let leaf = |levels: usize| "/a".repeat(levels);
    let add = |path: &str, levels: usize| format!(r#"{{"op":"add","path":"{path}","value":{}}}"#, tower(levels));
    let step = |op: &str, from: &str, path: &str| format!(r#"{{"op":"{op}","from":"{from}","path":"{path}"}}"#);
    for (why, steps, fits) in [
        ("as deep as allowed", vec![add("/b", 254)], true),
        ("a tower on a tower", vec![add("/b", 200), add(&format!("/b{}", leaf(199)), 60)], false),
        ("replaced by a tower", vec![add("/b", 200), add("/c", 200).replace("add", "replace")], true),
        ("a copy on top", vec![add("/b", 150), step("copy", "/b", &format!("/b{}", leaf(149)))], false),
        ("moved on top", vec![add("/b", 150), add("/c", 150), step("move", "/c", &format!("/b{}", leaf(149)))], false),
        ("moved to and fro", vec![step("move", "/x", "/y/x") + "," + &step("move", "/y/x", "/x"); 300], true),
        ("copied side by side", (0..300).map(|i| step("copy", "/x", &format!("/y/{i}"))).collect(), true),
    ] {
        let patch = parse(format!("[{}]", steps.join(",")).as_bytes()).unwrap();
        let patched = patch.apply(tree(r#"{"x":{"z":1},"y":{}}"#));
        assert_eq!(patched.map(drop).map_err(|status| status.code()), if fits { Ok(()) } else { Err(422) }, "{why}");
    }
}

#[test]
fn bounds_copies() {
    let mut steps = vec![r#"{"op":"add","path":"/a","value":{"x":"0123456789"}}"#.to_owned()];
    steps.extend((0..40).map(|i| format!(r#"{{"op":"copy","from":"/a","path":"/a/{i}"}}"#)));
    let patch = parse(format!("[{}]", steps.join(",")).as_bytes()).unwrap();
    assert_eq!(patch.apply(tree("{}")).unwrap_err().code(), 422);
}

/// A value of two bytes of JSON takes many times as much memory.
#[test]
fn charges_copies() {
    use binnacle_work::{WorkBudget, WorkLimits};

    let live = tree(&format!(r#"{{"l":[1{}]}}"#, ",1".repeat(99_999)));
    let copy = r#"{"op":"copy","from":"/l","path":"/c"}"#;
    let patch = |count: usize| parse(format!("[{}]", vec![copy; count].join(",")).as_bytes()).unwrap();
    let budget = WorkBudget::new(WorkLimits { steps: u64::MAX, memory: 8 << 20 });
    assert!(budget.enter(|| patch(1).apply(live.clone())).is_ok());
    assert!(budget.memory() >= 100_000 * size_of::<Value>());
    assert!(budget.enter(|| patch(5).apply(live.clone())).is_err());
    assert!(budget.check().is_err());
    let patch =
        parse(format!(r#"[{{"op":"add","path":"/c","value":[1{}]}}]"#, ",1".repeat(99_999)).as_bytes()).unwrap();
    let budget = WorkBudget::new(WorkLimits { steps: u64::MAX, memory: 8 << 20 });
    assert!(budget.enter(|| patch.apply(live)).is_ok());
    assert!(budget.memory() >= 100_000 * size_of::<Value>());
}

/// A text of JSON is only valid in its own field; elsewhere it would be decoded as a number.
#[test]
fn copied_and_moved_field_sets_are_values() {
    let set = || Value::Raw(r#"{"f:a":{}}"#.into());
    let live = || {
        Value::Object(
            [("list", Value::List(vec![Value::Object([("f", set())].into_iter().collect())]))].into_iter().collect(),
        )
    };
    let want = tree(r#"{"f:a":{}}"#);
    for (patch, at) in [
        (r#"[{"op":"copy","from":"/list/0/f","path":"/x"}]"#, &["x"][..]),
        (r#"[{"op":"move","from":"/list/0/f","path":"/x"}]"#, &["x"]),
        (r#"[{"op":"copy","from":"/list/0","path":"/x"}]"#, &["x", "f"]),
    ] {
        let patch = parse(patch.as_bytes()).unwrap();
        for patched in [patch.apply(live()).unwrap(), patch.apply_in_order(live()).unwrap()] {
            let found = at.iter().try_fold(&patched, |value, name| value.get(name));
            assert_eq!(found, Some(&want));
        }
    }
}

#[test]
fn shown_values_keep_their_texts() {
    for (patch, want) in [
        (r#"[{"op":"add","path":"/a","value":{ "\u0061" : "\u003C<\/" }}]"#, r#"{"a":{"\u0061":"\u003C\u003c\/"}}"#),
        (
            r#"[{"op":"add","path":"/a","value":["\u0041", 1e3, 1.0]},{"op":"add","path":"/a/-","value":2}]"#,
            r#"{"a":["\u0041",1e3,1.0,2]}"#,
        ),
        // Names, too, until a path leads through their object.
        (
            r#"[{"op":"add","path":"/a","value":{"\u0061":{"\u0062":{"\u0063":1}}}},{"op":"add","path":"/a/a/x","value":2}]"#,
            r#"{"a":{"a":{"b":{"\u0063":1},"x":2}}}"#,
        ),
        (
            r#"[{"op":"add","path":"/a","value":{"\u0062":{"\u0063":1,"c":2}}},{"op":"test","path":"/a","value":{"b":{"c":2}}}]"#,
            r#"{"a":{"b":{"c":2}}}"#,
        ),
        (r#"[{"op":"add","path":"/a","value":"\u0041"},{"op":"test","path":"/a","value":"A"}]"#, r#"{"a":"\u0041"}"#),
        (r#"[{"op":"add","path":"/a","value":1.5}]"#, r#"{"a":1.5}"#),
        (
            r#"[{"op":"add","path":"/a","value":{"n":"a"}},{"op":"test","path":"/a","value":{"n":"a"}}]"#,
            r#"{"a":{"n":"a"}}"#,
        ),
    ] {
        let parsed = parse(patch.as_bytes()).unwrap();
        let sent = parsed.rewrites().then_some(patch.as_bytes());
        let got = parsed.as_sent(sent).apply_in_order(tree("{}")).unwrap();
        assert_eq!(json::to_string(&got), want, "{patch}");
    }
}
