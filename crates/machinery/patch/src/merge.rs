//! JSON merge patch (RFC 7386), with kube-apiserver's treatment of nulls below lists.

use binnacle_schema::{Object, Value};
use binnacle_work::pace;

/// Merges `patch` into `live`: members of objects are merged, `null` removes, everything else replaces. The members of a
/// merged object are sorted by name, because kube-apiserver converts it to a map.
pub fn apply(mut live: Value, patch: &Value) -> Value {
    match (&mut live, patch) {
        (Value::Object(target), Value::Object(patch)) => {
            merge(target, patch);
            live
        }
        // kube-apiserver removes nulls from a value that replaces a non-object, but not from one that replaces an
        // object.
        (Value::Object(_), _) => patch.clone(),
        _ => pruned(patch),
    }
}

fn merge(target: &mut Object, patch: &Object) {
    pace(4 * patch.len() as u64);
    for (name, change) in patch.iter() {
        if change.is_null() {
            target.remove(name);
            continue;
        }
        match target.get_mut(name) {
            Some(value) if !value.is_null() => *value = apply(std::mem::take(value), change),
            Some(value) => *value = pruned(change),
            None => {
                target.insert(name.clone(), pruned(change));
            }
        }
    }
    target.sort_by_name();
}

/// Copies a value without `null` members, at any depth, with members sorted by name, because kube-apiserver converts
/// such objects to maps. Nulls in lists are kept.
pub fn pruned(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            pace(8 * object.len() as u64);
            let members = object.iter().filter(|(_, member)| !member.is_null());
            let mut members: Object = members.map(|(name, member)| (name.clone(), pruned(member))).collect();
            members.sort_by_name();
            Value::Object(members)
        }
        Value::List(items) => Value::List(items.iter().map(pruned).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Limits, json};

    use super::*;

    fn parse(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    #[test]
    fn applies_merge_patches() {
        for (live, patch, want, why) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#, "replace"),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#, "add"),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, r#"{}"#, "remove"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#, "remove one of two"),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#, "list by scalar"),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#, "scalar by list"),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#, "nested"),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#, "lists are replaced"),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#, "a live null stays"),
            (r#"{"a":null}"#, r#"{"a":{"b":null,"c":1}}"#, r#"{"a":{"c":1}}"#, "nulls of what is new go"),
            (r#"{}"#, r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#, "deep nulls"),
            (r#"{}"#, r#"{"a":[{"b":null},null]}"#, r#"{"a":[{},null]}"#, "nulls below a new list"),
            (r#"{"a":{"b":1}}"#, r#"{"a":[{"b":null}]}"#, r#"{"a":[{"b":null}]}"#, "a list in place of an object"),
            (r#"{"a":[1]}"#, r#"{"a":[{"b":null}]}"#, r#"{"a":[{}]}"#, "a list in place of a list"),
        ] {
            let got = apply(parse(live), &parse(patch));
            assert_eq!(got, parse(want), "{why}: {}", json::to_string(&got));
        }
    }

    #[test]
    fn merged_objects_are_sorted_and_others_keep_their_order() {
        let live = parse(r#"{"z":{"b":1,"a":1},"y":{"b":1,"a":1},"x":[{"b":1,"a":1}]}"#);
        let got = apply(live, &parse(r#"{"y":{"c":1},"w":{"b":1,"a":1},"x":[{"b":1,"a":1}]}"#));
        let want = r#"{"w":{"a":1,"b":1},"x":[{"a":1,"b":1}],"y":{"a":1,"b":1,"c":1},"z":{"b":1,"a":1}}"#;
        assert_eq!(json::to_string(&got), want);
    }

    /// RFC 7386, section 2, word for word.
    fn definition(target: &Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else { return patch.clone() };
        let mut result = target.as_object().cloned().unwrap_or_default();
        for (name, value) in patch.iter() {
            if value.is_null() {
                result.remove(name);
            } else {
                let merged = definition(result.get(name).unwrap_or(&Value::Null), value);
                result.insert(name.clone(), merged);
            }
        }
        Value::Object(result)
    }

    /// A generator of objects with scalars, without lists, where kube-apiserver deviates from the definition.
    fn tree(seed: &mut u64, depth: usize) -> Value {
        *seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let choice = (*seed >> 33) % 6;
        match choice {
            0 => Value::Null,
            1 => Value::Int(((*seed >> 40) % 3) as i64),
            2 => Value::from("x"),
            _ if depth == 0 => Value::Bool(true),
            _ => Value::Object((0..(*seed >> 50) % 5).map(|i| (format!("k{i}"), tree(seed, depth - 1))).collect()),
        }
    }

    #[test]
    fn matches_rfc_7396() {
        let mut seed = 7;
        for _ in 0..5000 {
            let (live, patch) = (tree(&mut seed, 3), tree(&mut seed, 3));
            if live.as_object().is_none() || patch.as_object().is_none() {
                continue;
            }
            let want = definition(&live, &patch);
            let got = apply(live.clone(), &patch);
            assert_eq!(got, want, "{} with {}", json::to_string(&live), json::to_string(&patch));
            assert_eq!(apply(got.clone(), &patch), got, "a second time changes nothing");
        }
    }
}
