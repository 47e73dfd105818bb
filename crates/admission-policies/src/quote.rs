//! JSON as Go writes it.

use std::fmt::Write;

/// A text as a JSON string in which `<`, `>` and `&` are written out, as Go's encoder does.
pub(crate) fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                // Writing to a string does not fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings() {
        for (text, want) in [("a", "\"a\""), ("a<b>\"&\n\u{1}", "\"a\\u003cb\\u003e\\\"\\u0026\\n\\u0001\"")] {
            assert_eq!(json_string(text), want);
        }
    }
}
