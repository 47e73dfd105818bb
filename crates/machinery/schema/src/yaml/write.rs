//! Writes YAML like `yaml.v2`: block style, keys in natural order, long texts folded at column 80.

use std::borrow::Cow;

use super::key_order;
use super::number::format_g;
use super::resolve::is_plain_string;
use crate::{Limits, Object, Value, json};

/// The column from which a text is continued on the next line.
const WIDTH: usize = 80;

const INDENT: usize = 2;

/// The maximum length of a key without a question mark.
const SIMPLE_KEY: usize = 128;

/// Appends a document.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    let mut writer = Writer { out: String::new(), column: 0, whitespace: true, indention: true };
    writer.node(value, None, Context::Root);
    writer.break_line_if_needed();
    out.extend_from_slice(writer.out.as_bytes());
}

/// Appends one item of a list that is a member of the document: lists in maps are not indented below their key.
pub fn write_item(item: &Value, out: &mut Vec<u8>) {
    let mut writer = Writer { out: String::new(), column: 0, whitespace: true, indention: true };
    writer.list(std::slice::from_ref(item), None, Context::Root);
    writer.break_line_if_needed();
    out.extend_from_slice(writer.out.as_bytes());
}

/// Returns a document as text.
pub fn to_string(value: &Value) -> String {
    let mut out = Vec::new();
    write(value, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

#[derive(Clone, Copy, PartialEq)]
enum Context {
    Root,
    Item,
    Member,
}

struct Writer {
    out: String,
    column: usize,
    /// True if the last thing written was space.
    whitespace: bool,
    /// True if the line has only indentation and indicators so far.
    indention: bool,
}

impl Writer {
    /// Writes a value; `indent` is the column of the surrounding collection, `None` at the root.
    fn node(&mut self, value: &Value, indent: Option<usize>, context: Context) {
        match value {
            Value::Null => self.plain("null", None),
            Value::Bool(b) => self.plain(if *b { "true" } else { "false" }, None),
            Value::Int(n) => self.plain(&n.to_string(), None),
            Value::Float(n) => self.plain(&float(*n), None),
            Value::Str(text) => self.text(text, indent, false),
            Value::List(items) if items.is_empty() => self.empty("[]"),
            Value::List(items) => self.list(items, indent, context),
            Value::Object(object) if object.is_empty() => self.empty("{}"),
            Value::Object(object) => self.map(object, indent),
            Value::Raw(raw) => match json::parse(raw.as_bytes(), &Limits::default()) {
                Ok(value) => self.node(&value, indent, context),
                // Raw values are validated on creation; an invalid one is written as a string.
                Err(_) => self.text(raw, indent, false),
            },
        }
    }

    fn list(&mut self, items: &[Value], indent: Option<usize>, context: Context) {
        let indent = match indent {
            None => 0,
            // Lists in maps are not indented below their key.
            Some(indent) if context == Context::Member && !self.indention => indent,
            Some(indent) => indent + INDENT,
        };
        for item in items {
            self.indent(indent);
            self.indicator("-", true, true);
            self.node(item, Some(indent), Context::Item);
        }
    }

    fn map(&mut self, object: &Object, indent: Option<usize>) {
        let indent = indent.map_or(0, |indent| indent + INDENT);
        for (name, value) in key_order::sorted(object.iter().collect()) {
            self.indent(indent);
            if name.len() <= SIMPLE_KEY && !name.contains(is_break) {
                self.text(name, Some(indent), true);
                self.indicator(":", false, false);
            } else {
                self.indicator("?", true, true);
                self.text(name, Some(indent), false);
                self.indent(indent);
                self.indicator(":", true, true);
            }
            self.node(value, Some(indent), Context::Member);
        }
    }

    fn empty(&mut self, brackets: &str) {
        self.space();
        self.put(brackets);
        self.whitespace = false;
        self.indention = false;
    }

    /// Writes a text in the first style that suits it. A `key` must stay on its line.
    fn text(&mut self, text: &str, indent: Option<usize>, key: bool) {
        let allowed = Styles::of(text);
        // Continued lines are indented deeper than the surrounding collection.
        let deeper = indent.map_or(INDENT, |indent| indent + INDENT);
        let breaks = (!key).then_some(deeper);
        if text.contains('\n') {
            if allowed.block && !key {
                self.literal(text, deeper);
            } else {
                self.double_quoted(text, breaks);
            }
        } else if !is_plain_string(text) {
            self.double_quoted(text, breaks);
        } else if allowed.plain {
            self.plain(text, breaks);
        } else if allowed.single_quoted {
            self.single_quoted(text, breaks);
        } else {
            self.double_quoted(text, breaks);
        }
    }

    fn plain(&mut self, text: &str, breaks: Option<usize>) {
        self.space();
        self.folded(text, breaks, |_| true);
        self.whitespace = false;
        self.indention = false;
    }

    fn single_quoted(&mut self, text: &str, breaks: Option<usize>) {
        self.indicator("'", true, false);
        let quoted = text.replace('\'', "''");
        let last = quoted.len() - 1;
        self.folded(&quoted, breaks, |at| at > 0 && at < last);
        self.indicator("'", false, false);
    }

    /// Writes a text without line breaks, continued on the next line at single spaces beyond the width.
    fn folded(&mut self, text: &str, breaks: Option<usize>, may_break: impl Fn(usize) -> bool) {
        let mut after_space = false;
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            if c == ' ' {
                let next_is_space = chars.peek().is_some_and(|(_, next)| *next == ' ');
                match breaks {
                    Some(indent) if !after_space && self.column > WIDTH && !next_is_space && may_break(at) => {
                        self.indent(indent);
                    }
                    _ => self.put_char(c),
                }
                after_space = true;
            } else {
                self.put_char(c);
                self.indention = false;
                after_space = false;
            }
        }
    }

    fn double_quoted(&mut self, text: &str, breaks: Option<usize>) {
        self.indicator("\"", true, false);
        let mut after_space = false;
        let last = text.len().saturating_sub(1);
        let begins_with_bom = text.starts_with('\u{feff}');
        let mut chars = text.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            // Go checks for a byte order mark at the start of the text, not at the character, so it escapes everything
            // after one.
            if !is_printable(c) || begins_with_bom || is_break(c) || c == '"' || c == '\\' {
                self.put(&escape(c));
                after_space = false;
            } else if c == ' ' {
                match breaks {
                    Some(indent) if !after_space && self.column > WIDTH && at > 0 && at < last => {
                        self.indent(indent);
                        if chars.peek().is_some_and(|(_, next)| *next == ' ') {
                            self.put("\\");
                        }
                    }
                    _ => self.put_char(c),
                }
                after_space = true;
            } else {
                self.put_char(c);
                after_space = false;
            }
        }
        self.indicator("\"", false, false);
    }

    fn literal(&mut self, text: &str, indent: usize) {
        self.indicator("|", true, false);
        if text.starts_with([' ', '\n']) {
            self.indicator("2", false, false);
        }
        let mut ending = text.chars().rev();
        match (ending.next().is_some_and(is_break), ending.next()) {
            (false, _) => self.indicator("-", false, false),
            (true, None) => self.indicator("+", false, false),
            (true, Some(before)) if is_break(before) => self.indicator("+", false, false),
            _ => {}
        }
        self.break_line();
        let mut at_start = true;
        for c in text.chars() {
            if c == '\n' {
                self.break_line();
                at_start = true;
            } else {
                if at_start {
                    self.indent(indent);
                }
                self.put_char(c);
                self.indention = false;
                at_start = false;
            }
        }
    }

    /// Moves to this column, on a new line if this one is in use.
    fn indent(&mut self, indent: usize) {
        if !self.indention || self.column > indent || (self.column == indent && !self.whitespace) {
            self.break_line();
        }
        while self.column < indent {
            self.put_char(' ');
        }
        self.whitespace = true;
        self.indention = true;
    }

    fn indicator(&mut self, indicator: &str, spaced: bool, keeps_indention: bool) {
        if spaced {
            self.space();
        }
        self.put(indicator);
        self.whitespace = false;
        self.indention &= keeps_indention;
    }

    fn space(&mut self) {
        if !self.whitespace {
            self.put_char(' ');
        }
    }

    fn break_line(&mut self) {
        self.out.push('\n');
        self.column = 0;
        self.whitespace = true;
        self.indention = true;
    }

    fn break_line_if_needed(&mut self) {
        if self.column > 0 {
            self.break_line();
        }
    }

    fn put(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.chars().count();
    }

    fn put_char(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }
}

/// The styles that are possible for a text.
struct Styles {
    plain: bool,
    single_quoted: bool,
    block: bool,
}

impl Styles {
    fn of(text: &str) -> Self {
        if text.is_empty() {
            return Self { plain: true, single_quoted: true, block: false };
        }
        let mut indicators = text.starts_with("---") || text.starts_with("...");
        let (mut special, mut breaks, mut break_space, mut space_break) = (false, false, false, false);
        let mut before = '\n';
        let mut chars = text.char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            let blank_follows = chars.peek().is_none_or(|(_, next)| matches!(next, ' ' | '\t'));
            indicators |= match c {
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => i == 0,
                '#' => matches!(before, ' ' | '\t' | '\0') || is_break(before),
                '?' | '-' => i == 0 && blank_follows,
                ':' => blank_follows,
                _ => false,
            };
            special |= !is_printable(c);
            breaks |= is_break(c);
            break_space |= i > 0 && c == ' ' && is_break(before);
            space_break |= before == ' ' && is_break(c);
            before = c;
        }
        // Some line breaks of YAML 1.1 are ordinary characters in YAML 1.2; escaped, they are the same in both. Go
        // writes them unescaped.
        special |= breaks && text.chars().any(|c| is_break(c) && c != '\n');
        let edge = |c: char| c == ' ' || is_break(c);
        let edges = text.starts_with(edge) || text.ends_with(edge);
        let bad = space_break || special;
        Self {
            plain: !(indicators || edges || break_space || bad || breaks),
            single_quoted: !(break_space || bad),
            block: !(bad || text.ends_with(' ')),
        }
    }
}

fn float(n: f64) -> String {
    // Go reads the number back from JSON, where a whole number has no point.
    let mut text = Vec::new();
    json::write_float(n, &mut text);
    let text = String::from_utf8(text).unwrap_or_default();
    if text.parse::<i64>().is_ok() || text.parse::<u64>().is_ok() {
        return text;
    }
    format_g(n)
}

fn is_break(c: char) -> bool {
    matches!(c, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns true for characters that need no escape; those beyond the basic plane do.
fn is_printable(c: char) -> bool {
    matches!(c, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}') && c != '\u{feff}'
}

fn escape(c: char) -> Cow<'static, str> {
    Cow::Borrowed(match c {
        '\0' => "\\0",
        '\u{7}' => "\\a",
        '\u{8}' => "\\b",
        '\t' => "\\t",
        '\n' => "\\n",
        '\u{b}' => "\\v",
        '\u{c}' => "\\f",
        '\r' => "\\r",
        '\u{1b}' => "\\e",
        '"' => "\\\"",
        '\\' => "\\\\",
        '\u{85}' => "\\N",
        '\u{a0}' => "\\_",
        '\u{2028}' => "\\L",
        '\u{2029}' => "\\P",
        _ => {
            let code = u32::from(c);
            return Cow::Owned(match code {
                0..=0xff => format!("\\x{code:02X}"),
                0x100..=0xffff => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[test]
    fn writes_list_items_separately() {
        let items = [
            value!({"a": {"b": [{"c": "x\ny\n"}, {}]}, "d": "x\n\n"}),
            value!({}),
            value!(["n", ["m"]]),
            value!({"text": (["word"; 40].join(" ")), "end": "|\n"}),
            value!(null),
            value!("x\ny"),
            value!({"last": []}),
        ];
        let mut written = b"items:\n".to_vec();
        items.iter().for_each(|item| write_item(item, &mut written));
        let whole = to_string(&value!({"items": (Value::List(items.to_vec()))}));
        assert_eq!(String::from_utf8(written).unwrap(), whole);
    }

    #[test]
    fn writes_documents_like_go_yaml() {
        let long = "word ".repeat(20);
        let long = long.trim_end();
        for (value, want) in [
            (value!({}), "{}\n".to_owned()),
            (value!({"a": []}), "a: []\n".to_owned()),
            (
                value!({"b": 1i64, "a": {"y": null, "x": [true, ["n", ["m"]], {"k": "v", "l": {}}]}}),
                "a:\n  x:\n  - true\n  - - \"n\"\n    - - m\n  - k: v\n    l: {}\n  \"y\": null\nb: 1\n".to_owned(),
            ),
            (
                value!({"k10": "", "k9": "yes", "K": "1", "_": "a: b", "a#": "a #b", "b": "- x", "c": "x\ny\n", "d": "x\ny", "e": " x", "f": "\t"}),
                "_: 'a: b'\nK: \"1\"\na#: 'a #b'\nb: '- x'\nc: |\n  x\n  y\nd: |-\n  x\n  y\ne: ' x'\nf: \"\\t\"\nk9: \"yes\"\nk10: \"\"\n"
                    .to_owned(),
            ),
            (
                value!({"a": [1.5, 1000000.0, 2500000.5, 1e-7]}),
                "a:\n- 1.5\n- 1000000\n- 2.5000005e+06\n- 1e-07\n".to_owned(),
            ),
            (
                value!({"x": long}),
                format!("x: {}\n  word word word word\n", ["word"; 16].join(" ")),
            ),
            (value!({"date": "2008-01-01T01:01:01Z"}), "date: \"2008-01-01T01:01:01Z\"\n".to_owned()),
        ] {
            assert_eq!(to_string(&value), want);
        }
    }
}
