//! Differences between recorded and received responses.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::mask::MASK;
use crate::pointer::{escape, lookup};

/// The maximum number of printed differences for a step.
const SHOWN: usize = 8;
/// The maximum number of printed characters of a value.
const WIDTH: usize = 400;

/// A difference at one place of two values.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// A JSON pointer into the normal form: `/status`, `/headers/...` or `/body/...`.
    pub path: String,
    pub expected: Option<Value>,
    pub got: Option<Value>,
}

impl Difference {
    /// Replaces the values by those of normal forms without secrets.
    pub(crate) fn mask(&mut self, expected: &Value, got: &Value) {
        for (value, form) in [(&mut self.expected, expected), (&mut self.got, got)] {
            if let Some(value) = value.as_mut().filter(|_| !self.path.starts_with("/body/protobuf")) {
                *value = lookup(form, &self.path).cloned().unwrap_or_else(|| Value::from(MASK));
            }
        }
    }

    /// Returns the difference as text: the path and both values, shortened. Long texts begin shortly before they differ.
    #[must_use]
    pub fn text(&self) -> String {
        let cut = match (&self.expected, &self.got) {
            (Some(Value::String(left)), Some(Value::String(right))) => common_prefix(left, right),
            _ => 0,
        };
        let shown = |value: &Option<Value>| match value {
            Some(Value::String(text)) if cut > 0 => {
                let rest: String = text.chars().skip(cut).collect();
                shorten(Some(&Value::from(format!("...{rest}"))))
            }
            value => shorten(value.as_ref()),
        };
        format!("{}: expected {}, got {}", self.path, shown(&self.expected), shown(&self.got))
    }
}

/// Returns how many characters two long texts may lose at their beginning, so that their difference is shown.
fn common_prefix(left: &str, right: &str) -> usize {
    const CONTEXT: usize = 60;
    let same = left.chars().zip(right.chars()).take_while(|(left, right)| left == right).count();
    if same > 2 * CONTEXT { same - CONTEXT } else { 0 }
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
    fn shows_where_long_texts_differ() {
        let text = |left: &str, right: &str| {
            let prefix = "x".repeat(1000);
            let [left, right] = [left, right].map(|end| json!(format!("{prefix}{end}")));
            differences(&left, &right)[0].text()
        };
        let context = "x".repeat(60);
        assert_eq!(text("a", "b"), format!("/: expected \"...{context}a\", got \"...{context}b\""));
        assert_eq!(differences(&json!("xa"), &json!("xb"))[0].text(), "/: expected \"xa\", got \"xb\"");
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
