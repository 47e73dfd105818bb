//! Placeholders such as `{{ns}}` in the requests of a case.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::pointer::text;

/// Values by name of variable.
pub(crate) type Variables = HashMap<String, Value>;

static TEMPLATE: LazyLock<Regex> = LazyLock::new(|| regex(r"\{\{([A-Za-z_][A-Za-z0-9_]*)\}\}"));

/// Compiles a pattern of this crate.
#[expect(clippy::expect_used, reason = "patterns are literals that every test run compiles")]
pub(crate) fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a literal pattern")
}

/// Expands placeholders, also in the names of members. A text that is only a placeholder becomes the value itself.
pub(crate) fn expand(value: &Value, variables: &Variables) -> Result<Value, String> {
    Ok(match value {
        Value::String(string) => match TEMPLATE.captures(string) {
            Some(found) if found[0].len() == string.len() => variable(&found[1], variables)?.clone(),
            Some(_) => Value::from(expand_text(string, variables)?),
            None => value.clone(),
        },
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| expand(item, variables)).collect::<Result<_, _>>()?)
        }
        Value::Object(members) => Value::Object(expand_members(members, variables)?),
        _ => value.clone(),
    })
}

pub(crate) fn expand_members(
    members: &Map<String, Value>,
    variables: &Variables,
) -> Result<Map<String, Value>, String> {
    let member = |(name, value): (&String, &Value)| Ok((expand_text(name, variables)?, expand(value, variables)?));
    members.iter().map(member).collect()
}

pub(crate) fn expand_text(string: &str, variables: &Variables) -> Result<String, String> {
    let mut out = String::new();
    let mut end = 0;
    for found in TEMPLATE.captures_iter(string) {
        let Some(whole) = found.get(0) else { continue };
        out.push_str(&string[end..whole.start()]);
        out.push_str(&text(variable(&found[1], variables)?));
        end = whole.end();
    }
    out.push_str(&string[end..]);
    Ok(out)
}

fn variable<'a>(name: &str, variables: &'a Variables) -> Result<&'a Value, String> {
    variables.get(name).ok_or_else(|| format!("unknown variable {{{{{name}}}}}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Variables, expand};

    #[test]
    fn fills_placeholders_with_captured_values() {
        let variables: Variables =
            [("ns", json!("c-x")), ("n", json!(3)), ("o", json!({"a": 1}))].map(|(k, v)| (k.to_owned(), v)).into();
        for (value, want) in [
            (json!("plain"), Ok(json!("plain"))),
            (json!("{{ns}}"), Ok(json!("c-x"))),
            (json!("{{n}}"), Ok(json!(3))),
            (json!("{{o}}"), Ok(json!({"a": 1}))),
            (json!("a-{{n}}-{{ns}}-b"), Ok(json!("a-3-c-x-b"))),
            (json!({"{{ns}}": ["{{n}}", null, true]}), Ok(json!({"c-x": [3, null, true]}))),
            (json!("{{ ns }} {{1}} {x}"), Ok(json!("{{ ns }} {{1}} {x}"))),
            (json!("{{ns}}{{ns}}"), Ok(json!("c-xc-x"))),
            (json!("a {{other}}"), Err("unknown variable {{other}}".to_owned())),
            (json!("{{other}}"), Err("unknown variable {{other}}".to_owned())),
        ] {
            let got: Result<Value, String> = expand(&value, &variables);
            assert_eq!(got, want, "{value}");
        }
    }
}
