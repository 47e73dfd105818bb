//! A fast path for JSON where YAML is accepted, which most clients send: it takes a tenth of the work. Documents that
//! YAML may interpret differently are left to the YAML parser.

use binnacle_meta::Text;

use crate::json::Cursor;
use crate::limits::Budget;
use crate::{Limits, Object, Value};

/// Reads a text that begins with a brace, members by ascending name; `None` if the YAML parser must read it.
pub(super) fn read(text: &str, limits: &Limits) -> Option<Value> {
    let mut reader = Reader { cursor: Cursor::within(text, Budget::new(limits)), nodes: limits.max_yaml_nodes };
    if reader.cursor.peek().ok()? != b'{' {
        return None;
    }
    let value = reader.value(limits.max_depth)?;
    reader.cursor.end().ok().map(|()| value)
}

struct Reader<'t> {
    cursor: Cursor<'t>,
    /// The number of remaining nodes.
    nodes: usize,
}

/// The maximum length of keys, which YAML limits.
const MAX_KEY: usize = 512;
/// The maximum number of digits of an integer that both read in the same way.
const MAX_DIGITS: usize = 18;

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Option<Value> {
        self.nodes = self.nodes.checked_sub(1)?;
        match self.cursor.peek().ok()? {
            b'{' => self.object(depth.checked_sub(1)?).map(Value::Object),
            b'[' => self.list(depth.checked_sub(1)?).map(Value::List),
            b'"' => self.string().map(Value::Str),
            b'n' => self.cursor.word("null").ok().map(|()| Value::Null),
            b't' => self.cursor.word("true").ok().map(|()| Value::Bool(true)),
            b'f' => self.cursor.word("false").ok().map(|()| Value::Bool(false)),
            _ => {
                let digits = self.cursor.number().ok()?;
                let plain =
                    digits.len() <= MAX_DIGITS && digits != "-0" && digits.bytes().skip(1).all(|b| b.is_ascii_digit());
                plain.then(|| digits.parse().ok().map(Value::Int)).flatten()
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Object> {
        self.cursor.budget.object().ok()?;
        let mut members = Vec::new();
        let mut more = self.cursor.open(b'}').ok()?;
        while more {
            if self.cursor.peek().ok()? != b'"' {
                return None;
            }
            let name = self.string()?;
            // `<<` merges another map into this one.
            if name.len() > MAX_KEY || name == "<<" {
                return None;
            }
            self.cursor.expect(b':').ok()?;
            self.nodes = self.nodes.checked_sub(1)?;
            self.cursor.budget.member(members.len()).ok()?;
            members.push((name, self.value(depth)?));
            more = self.cursor.more(b'}').ok()?;
        }
        members.sort_by(|a, b| a.0.cmp(&b.0));
        // A duplicate name is a finding.
        let distinct = members.is_sorted_by(|a, b| a.0 < b.0);
        distinct.then(|| Object::from_distinct(members))
    }

    fn list(&mut self, depth: usize) -> Option<Vec<Value>> {
        let mut items = Vec::new();
        let mut more = self.cursor.open(b']').ok()?;
        while more {
            self.cursor.budget.element().ok()?;
            items.push(self.value(depth)?);
            more = self.cursor.more(b']').ok()?;
        }
        Some(items)
    }

    /// Reads a string without YAML line breaks, and with escapes that both support.
    fn string(&mut self) -> Option<Text> {
        let start = self.cursor.position();
        let text = self.cursor.string().ok()?;
        let mut rest = self.cursor.since(start);
        if !rest.is_ascii() && rest.contains(['\u{85}', '\u{2028}', '\u{2029}']) {
            return None;
        }
        while let Some(at) = rest.find('\\') {
            let escape = rest.as_bytes().get(at + 1..)?;
            match escape.first()? {
                b'"' | b'\\' | b'n' | b'r' | b't' => {}
                // YAML has no surrogate pairs.
                b'u' if !matches!(escape.get(1..3)?, [b'd' | b'D', b'8' | b'9' | b'a'..=b'f' | b'A'..=b'F']) => {}
                _ => return None,
            }
            rest = rest.get(at + 2..)?;
        }
        Some(Text::new(text))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LargeIntegers, compose, decode};
    use super::*;
    use crate::json;

    #[test]
    fn parses_plain_json_like_yaml() {
        let limits = Limits::default();
        for (text, is_plain) in [
            (r#"{}"#, true),
            (" {\n\t\"b\": [1, -20, 123456789012345678],\r\n \"a\":{\"x\":null,\"y\":true,\"z\":false} } \n", true),
            (r#"{"é 日":"\"quoted\" \\ \n \t \u003c\u00e9","1":"~","true":"no","":" a: #b "}"#, true),
            (r#"{"a":"0x1f","b":"1e3","c":"2001-01-01","d":"- x","e":"*x","f":"!!int 3"}"#, true),
            (r#"{"a":{"b":{"c":[[[{}]]]}}}"#, true),
            (r#"{"a":1,"a":2}"#, false),
            (r#"{"a":1.5}"#, false),
            (r#"{"a":-0}"#, false),
            (r#"{"a":1234567890123456789}"#, false),
            (r#"{"a":1e3}"#, false),
            (r#"{"<<":{"b":1},"c":2}"#, false),
            (r#"{"a":"\/"}"#, false),
            (r#"{"a":"\ud83d\ude00"}"#, false),
            ("{\"a\":\"x\u{2028}y\"}", false),
            ("{\"a\":\"x\u{85}y\"}", false),
            (r#"{"a":1} x"#, false),
            (r#"{"a":1} # why"#, false),
            (r#"{a: 1}"#, false),
            (r#"[1]"#, false),
            ("a: 1", false),
        ] {
            let read = read(text, &limits);
            assert_eq!(read.is_some(), is_plain, "{text}");
            if let Some(value) = read {
                let document = compose::compose(text, &limits).unwrap();
                let (by_yaml, finding) = decode::decode(&document, &limits, LargeIntegers::Rounded).unwrap();
                assert_eq!((json::to_string(&value), None), (json::to_string(&by_yaml), finding), "{text}");
            }
        }
        let small = |max_depth, max_yaml_nodes| Limits { max_depth, max_yaml_nodes, ..Limits::default() };
        assert!(read(r#"{"a":{"b":1}}"#, &small(2, 5)).is_some());
        assert_eq!(read(r#"{"a":{"b":1}}"#, &small(1, 5)), None);
        assert_eq!(read(r#"{"a":{"b":1}}"#, &small(2, 4)), None);
        let long = format!(r#"{{"{}":1}}"#, "k".repeat(MAX_KEY + 1));
        assert_eq!(read(&long, &limits), None);
    }
}
