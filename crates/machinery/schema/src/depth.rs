//! The nesting depth of values.

use binnacle_work::pace;

use crate::Value;

/// Returns the number of lists and objects that are nested in each other: 0 for a scalar.
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Object(object) => {
            pace(object.len() as u64);
            1 + object.values().map(depth).max().unwrap_or(0)
        }
        Value::List(items) => {
            pace(items.len() as u64);
            1 + items.iter().map(depth).max().unwrap_or(0)
        }
        Value::Raw(text) => text_depth(text),
        _ => 0,
    }
}

/// Returns the depth of a JSON document.
fn text_depth(text: &str) -> usize {
    let (mut open, mut most, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                open += 1;
                most = most.max(open);
            }
            b']' | b'}' if !in_string => open = open.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[test]
    fn counts_nested_containers() {
        for (value, want) in [
            (Value::Null, 0),
            (value!([]), 1),
            (value!({"a": 1, "b": [{"c": "{{{"}]}), 3),
            (value!({"a": (Value::Raw(r#"{"f:a\"{":{},"[[[":[[]]}"#.into()))}), 4),
            (Value::Raw("5".into()), 0),
        ] {
            assert_eq!(depth(&value), want, "{value:?}");
        }
    }
}
