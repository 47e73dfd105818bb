//! Small values as YAML, as gnostic encodes values without a field.

use serde_json::Value;

/// Returns the value as YAML, with a line feed at the end.
pub(crate) fn text(value: &Value) -> String {
    let mut out = String::new();
    write(value, 0, &mut out);
    out
}

/// Writes a value that starts on the current line; further lines are indented by `indent`.
fn write(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Array(elements) if !elements.is_empty() => {
            for (at, element) in elements.iter().enumerate() {
                pad(at, indent, out);
                out.push_str("- ");
                write(element, indent + 2, out);
            }
        }
        Value::Object(members) if !members.is_empty() => {
            for (at, (name, member)) in members.iter().enumerate() {
                pad(at, indent, out);
                out.push_str(&scalar(name));
                out.push(':');
                let nested = match member {
                    Value::Array(elements) => !elements.is_empty(),
                    Value::Object(members) => !members.is_empty(),
                    _ => false,
                };
                if nested {
                    // Indented to the next multiple of four.
                    let deeper = (indent + 4) / 4 * 4;
                    out.push('\n');
                    pad(1, deeper, out);
                    write(member, deeper, out);
                } else {
                    out.push(' ');
                    write(member, indent, out);
                }
            }
        }
        Value::String(text) => {
            out.push_str(&scalar(text));
            out.push('\n');
        }
        // Numbers, booleans, null and empty values are as in JSON.
        other => {
            out.push_str(&other.to_string());
            out.push('\n');
        }
    }
}

fn pad(at: usize, indent: usize, out: &mut String) {
    if at > 0 {
        out.extend(std::iter::repeat_n(' ', indent));
    }
}

/// Returns a string, quoted unless it is a plain word that cannot be parsed as another type.
fn scalar(text: &str) -> String {
    const NOT_STRINGS: [&str; 12] =
        ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf", "infinity"];
    let word = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/'));
    if word && !NOT_STRINGS.contains(&text.to_ascii_lowercase().as_str()) {
        return text.to_owned();
    }
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn writes_values_as_yaml() {
        for (value, want) in [
            (json!("get"), "get\n"),
            (json!("merge,retainKeys"), "\"merge,retainKeys\"\n"),
            (json!(""), "\"\"\n"),
            (json!("No"), "\"No\"\n"),
            (json!(1), "1\n"),
            (json!([]), "[]\n"),
            (json!(["ip", "port"]), "- ip\n- port\n"),
            (json!({"group": "", "kind": "Pod", "version": "v1"}), "group: \"\"\nkind: Pod\nversion: v1\n"),
            (json!([{"group": "a", "kind": "B"}, {"c": [1]}]), "- group: a\n  kind: B\n- c:\n    - 1\n"),
            (
                json!([{"discriminator": "type", "fields": {"a": "A", "b": {}}}]),
                "- discriminator: type\n  fields:\n    a: A\n    b: {}\n",
            ),
        ] {
            assert_eq!(text(&value), want, "{value}");
        }
    }
}
