//! Errors that kube-apiserver collects in the order of a map, which changes from request to request.

use std::cmp::Ordering;

use serde_json::Value;

/// Maps whose errors name only the map, not the key.
const MAPS: [&str; 9] = [
    "allocatedResources",
    "annotations",
    "finalizers",
    "labels",
    "matchAttributes",
    "matchLabels",
    "nodeSelector",
    "parameters",
    "selector",
];

/// The beginnings of errors whose fields are the values of a map or members of a set.
const UNORDERED: [&str; 2] = [
    "Forbidden: only deletion is allowed, but found new scheduling gate",
    "Forbidden: must populate the given metric source only",
];

/// The maximum number of errors that are sorted, as the cost grows with its square.
const MAX_CAUSES: usize = 256;

/// Sorts the errors in a Status that follow the order of a map, in its causes and in its message. The order of all other
/// errors has a meaning, and stays.
pub(crate) fn sort_errors(body: &mut Value) {
    if body["kind"] != "Status" {
        return;
    }
    let Some(causes) = body["details"]["causes"].as_array() else { return };
    if causes.len() > MAX_CAUSES {
        return;
    }
    let before = joined(causes);
    let mut sorted = causes.clone();
    // Only neighbors that belong to one map change places, so this is no order that a library could sort by.
    for end in 1..sorted.len() {
        for index in (1..=end).rev() {
            if !map_order(&sorted[index - 1], &sorted[index]).is_gt() {
                break;
            }
            sorted.swap(index - 1, index);
        }
    }
    let after = joined(&sorted);
    body["details"]["causes"] = Value::from(sorted);
    if let Some(message) = body["message"].as_str() {
        body["message"] = Value::from(message.replace(&before, &after));
    }
}

/// Returns the causes as in a message, where each error is there once.
fn joined(causes: &[Value]) -> String {
    let mut errors: Vec<String> = Vec::new();
    for cause in causes {
        let error = format!("{}: {}", field(cause), text(cause, "message"));
        if !errors.contains(&error) {
            errors.push(error);
        }
    }
    errors.join(", ")
}

/// Compares the keys of two errors in one map; other errors are equal.
fn map_order(left: &Value, right: &Value) -> Ordering {
    let texts = [left, right].map(|cause| text(cause, "message"));
    if UNORDERED.iter().any(|beginning| texts.iter().all(|text| text.starts_with(beginning))) {
        return texts[0].cmp(texts[1]).then_with(|| field(left).cmp(field(right)));
    }
    let (one, other) = (parts(field(left)), parts(field(right)));
    if in_same_resources(&one, &other) {
        return field(left).cmp(field(right)).then_with(|| texts[0].cmp(texts[1]));
    }
    let shared = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let is_map = shared > 0 && MAPS.contains(&one[shared - 1]);
    match (one.get(shared), other.get(shared)) {
        (None, None) if is_map => texts[0].cmp(texts[1]),
        (Some(one), Some(other)) if is_key(one) && is_key(other) => one.cmp(other),
        _ => Ordering::Equal,
    }
}

/// Returns true for two fields within the resource requirements of one container, where the errors of a key may name the
/// map of the limits, that of the requests, or the key in one of them.
fn in_same_resources(one: &[&str], other: &[&str]) -> bool {
    let split = |parts: &[&str]| parts.iter().position(|part| matches!(*part, "limits" | "requests"));
    split(one).zip(split(other)).is_some_and(|(here, there)| one[..here] == other[..there])
}

/// Splits a field into its names, indexes and keys; the latter begin with a bracket.
fn parts(field: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        let end = match rest.strip_prefix('[') {
            Some(inside) => inside.find(']').map_or(rest.len(), |end| end + 2),
            None => rest.find(['.', '[']).unwrap_or(rest.len()),
        };
        parts.push(&rest[..end]);
        rest = rest[end..].strip_prefix('.').unwrap_or(&rest[end..]);
    }
    parts
}

fn is_key(part: &str) -> bool {
    part.strip_prefix('[').is_some_and(|inside| inside.trim_end_matches(']').parse::<usize>().is_err())
}

fn field(cause: &Value) -> &str {
    text(cause, "field")
}

fn text<'v>(cause: &'v Value, name: &str) -> &'v str {
    cause[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::sort_errors;

    const NEW_A: &str = "Forbidden: only deletion is allowed, but found new scheduling gate 'a'";
    const ONLY: &str = "Forbidden: must populate the given metric source only";
    const NEW_B: &str = "Forbidden: only deletion is allowed, but found new scheduling gate 'b'";

    fn status(causes: &[(&str, &str)]) -> Value {
        let texts: Vec<String> = causes.iter().map(|(field, message)| format!("{field}: {message}")).collect();
        let causes: Vec<Value> =
            causes.iter().map(|(field, message)| json!({"field": field, "message": message})).collect();
        json!({"kind": "Status", "message": format!("A \"a\" is invalid: [{}]", texts.join(", ")), "details": {"causes": causes}})
    }

    #[test]
    fn errors_of_a_map_have_one_order_and_others_keep_theirs() {
        for (from, to) in [
            (vec![("data[b]", "x"), ("data[a]", "y")], vec![("data[a]", "y"), ("data[b]", "x")]),
            (vec![("data[b.c/d]", "x"), ("data[..]", "y")], vec![("data[..]", "y"), ("data[b.c/d]", "x")]),
            (
                vec![("s.properties[b].type", "x"), ("s.properties[b]", "z"), ("s.properties[a].items.type", "y")],
                vec![("s.properties[a].items.type", "y"), ("s.properties[b].type", "x"), ("s.properties[b]", "z")],
            ),
            (
                vec![("metadata.labels", "b"), ("metadata.labels", "a")],
                vec![("metadata.labels", "a"), ("metadata.labels", "b")],
            ),
            (vec![("a.requests", "x"), ("a.limits", "b")], vec![("a.limits", "b"), ("a.requests", "x")]),
            (vec![("a.requests", "b"), ("a.requests", "a")], vec![("a.requests", "a"), ("a.requests", "b")]),
            (
                vec![("a.limits[b]", "x"), ("a.requests[b]", "x"), ("a.requests[b]", "w"), ("a.limits", "z")],
                vec![("a.limits", "z"), ("a.limits[b]", "x"), ("a.requests[b]", "w"), ("a.requests[b]", "x")],
            ),
            (
                vec![("metrics[2].resource", ONLY), ("metrics[2].pods", ONLY)],
                vec![("metrics[2].pods", ONLY), ("metrics[2].resource", ONLY)],
            ),
            (
                vec![("gates[1].name", NEW_B), ("gates[2].name", NEW_A)],
                vec![("gates[2].name", NEW_A), ("gates[1].name", NEW_B)],
            ),
            (vec![("spec[1]", "x"), ("spec[0]", "y")], vec![("spec[1]", "x"), ("spec[0]", "y")]),
            (vec![("spec.name", "b"), ("spec.name", "a")], vec![("spec.name", "b"), ("spec.name", "a")]),
            (
                vec![("data[b]", "x"), ("spec", "z"), ("data[a]", "y")],
                vec![("data[b]", "x"), ("spec", "z"), ("data[a]", "y")],
            ),
        ] {
            let mut got = status(&from);
            sort_errors(&mut got);
            assert_eq!(got, status(&to));
        }
    }
}
