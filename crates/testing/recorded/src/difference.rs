//! Differences between recorded and received responses.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::pointer::escape;

/// The maximum number of printed differences for a step.
const SHOWN: usize = 8;
/// The maximum number of printed characters of a value.
const WIDTH: usize = 400;

/// A difference at one place of two values.
#[derive(Debug, PartialEq)]
pub(crate) struct Difference {
    /// A JSON pointer.
    path: String,
    expected: Option<Value>,
    got: Option<Value>,
}

/// Compares two values member by member. Numbers are equal if their values are.
pub(crate) fn differences(expected: &Value, got: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(Some(expected), Some(got), "", &mut found);
    found
}

fn compare(expected: Option<&Value>, got: Option<&Value>, path: &str, found: &mut Vec<Difference>) {
    match (expected, got) {
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let names: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for name in names {
                compare(left.get(name), right.get(name), &format!("{path}/{}", escape(name)), found);
            }
        }
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            for index in 0..left.len().max(right.len()) {
                compare(left.get(index), right.get(index), &format!("{path}/{index}"), found);
            }
        }
        (Some(Value::Number(left)), Some(Value::Number(right))) if left.as_f64() == right.as_f64() => {}
        (left, right) if left == right => {}
        (left, right) => {
            let path = if path.is_empty() { "/" } else { path };
            found.push(Difference { path: path.to_owned(), expected: left.cloned(), got: right.cloned() });
        }
    }
}

/// Formats differences as lines of path, expected and received value.
pub(crate) fn report(title: &str, found: &[Difference]) -> String {
    let plural = if found.len() == 1 { "" } else { "s" };
    let mut out = format!("{title}: {} difference{plural}", found.len());
    for difference in found.iter().take(SHOWN) {
        out += &format!("\n    {}", difference.path);
        out += &format!("\n      expected {}", shorten(difference.expected.as_ref()));
        out += &format!("\n      got      {}", shorten(difference.got.as_ref()));
    }
    if found.len() > SHOWN {
        out += &format!("\n    ... and {} more", found.len() - SHOWN);
    }
    out
}

/// Returns the text of a value, cut to the maximum length.
pub(crate) fn shorten(value: Option<&Value>) -> String {
    let Some(value) = value else { return "(absent)".to_owned() };
    let text = value.to_string();
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}... ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{differences, report};

    #[test]
    fn reports_the_path_of_each_difference() {
        let none: &[(&str, Value, Value)] = &[];
        let absent = || json!("(absent)");
        for (expected, got, want) in [
            (json!({"a": 1, "b": [1, {"c": null}]}), json!({"b": [1, {"c": null}], "a": 1}), none),
            (json!(1), json!(1.0), none),
            (json!(1), json!(2), &[("/", json!(1), json!(2))]),
            (json!(1), json!(true), &[("/", json!(1), json!(true))]),
            (json!(1), json!("1"), &[("/", json!(1), json!("1"))]),
            (json!(null), json!({}), &[("/", json!(null), json!({}))]),
            (json!({"a": 1}), json!({}), &[("/a", json!(1), absent())]),
            (json!({"a": null}), json!({}), &[("/a", json!(null), absent())]),
            (json!({}), json!({"a/b": {"c": 1}}), &[("/a~1b", absent(), json!({"c": 1}))]),
            (json!([1, 2]), json!([1]), &[("/1", json!(2), absent())]),
            (json!([]), json!([{}]), &[("/0", absent(), json!({}))]),
            (json!([]), json!({}), &[("/", json!([]), json!({}))]),
            (
                json!({"a": [{"x": 1}], "b": "s"}),
                json!({"a": [{"x": 2}], "b": "t"}),
                &[("/a/0/x", json!(1), json!(2)), ("/b", json!("s"), json!("t"))],
            ),
        ] {
            let found = differences(&expected, &got);
            let found: Vec<_> = found
                .into_iter()
                .map(|found| (found.path, found.expected.unwrap_or_else(absent), found.got.unwrap_or_else(absent)))
                .collect();
            let want = want.iter().map(|(path, left, right)| ((*path).to_owned(), left.clone(), right.clone()));
            assert_eq!(found, want.collect::<Vec<_>>(), "{expected} and {got}");
        }
    }

    #[test]
    fn limits_the_length_of_reports() {
        let found = differences(&json!([0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), &json!(["ä".repeat(500)]));
        let text = report("step 1 (GET /x)", &found);
        assert!(
            text.starts_with("step 1 (GET /x): 10 differences\n    /0\n      expected 0\n      got      \"ää"),
            "{text}"
        );
        assert!(text.contains("... (1002 bytes)") && text.ends_with("... and 2 more"), "{text}");
        assert!(text.contains("    /1\n      expected 0\n      got      (absent)\n"), "{text}");
    }
}
