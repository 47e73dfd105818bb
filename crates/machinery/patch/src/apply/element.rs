//! Elements of paths: a field, a list element by its keys or value, or an index.

use std::cmp::Ordering;
use std::fmt;

use binnacle_meta::{Text, go_quote};
use binnacle_schema::{Limits, Value, json};

use crate::order::order;
use crate::strategic::go_float;

#[derive(Clone, Debug)]
pub(super) enum PathElement {
    /// A member of a struct or map.
    Field(Text),
    /// The element of a list map with these values of its keys; ordered by name.
    Key(Box<[(Text, Value)]>),
    /// The element of a set.
    Value(Value),
    /// The element at an index. The server never writes it, but clients may send it.
    Index(i64),
}

/// The error of a text that is not a path element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidPathElement;

impl PathElement {
    /// Creates the path element for the keys of a list map.
    pub(super) fn key(mut fields: Vec<(Text, Value)>) -> Self {
        if fields.len() > 1 {
            fields.sort_by(|a, b| a.0.cmp(&b.0));
        }
        Self::Key(fields.into_boxed_slice())
    }

    /// Parses the form of FieldsV1 (`f:name`, `k:{"name":"web"}`, `v:"x"`, `i:0`); `None` for unknown kinds of
    /// elements, which a later version may add.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, InvalidPathElement> {
        let bytes = text.as_bytes();
        if bytes.len() < 2 || bytes[1] != b':' {
            return Err(InvalidPathElement);
        }
        // Unless the first two bytes are ASCII, the kind is unknown.
        let Some(content) = text.get(2..) else { return Ok(None) };
        let scalar = || json::parse(content.as_bytes(), &Limits::default()).map_err(|_| InvalidPathElement);
        Ok(Some(match bytes[0] {
            b'f' => Self::Field(Text::new(content)),
            b'v' => Self::Value(scalar()?),
            b'k' => match scalar()? {
                Value::Object(object) => Self::key(object.into_iter().collect()),
                Value::Null => Self::key(Vec::new()),
                _ => return Err(InvalidPathElement),
            },
            b'i' => Self::Index(content.parse().map_err(|_| InvalidPathElement)?),
            _ => return Ok(None),
        }))
    }

    /// Appends the form of FieldsV1 as a JSON string.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        match self {
            Self::Field(name) => {
                out.extend_from_slice(b"f:");
                escape(name.as_bytes(), out);
            }
            Self::Key(fields) => {
                out.extend_from_slice(b"k:{");
                let mut scratch = Vec::new();
                for (i, (name, value)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(b"\\\"");
                    escape(name.as_bytes(), out);
                    out.extend_from_slice(b"\\\":");
                    escape_value(value, &mut scratch, out);
                }
                out.push(b'}');
            }
            Self::Value(value) => {
                out.extend_from_slice(b"v:");
                escape_value(value, &mut Vec::new(), out);
            }
            Self::Index(at) => out.extend_from_slice(format!("i:{at}").as_bytes()),
        }
        out.push(b'"');
    }
}

/// Appends a value as JSON text inside a JSON string.
fn escape_value(value: &Value, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    scratch.clear();
    json::write(value, scratch);
    escape(scratch, out);
}

/// Appends text inside a JSON string, with the fewest escapes.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    if !json::has_byte(text, |c| (c < 0x20) | (c == b'"') | (c == b'\\')) {
        out.extend_from_slice(text);
        return;
    }
    for &c in text {
        match c {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..0x20 => out.extend_from_slice(format!("\\u{c:04x}").as_bytes()),
            _ => out.push(c),
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            (Self::Key(a), Self::Key(b)) => a
                .iter()
                .zip(b)
                .map(|(a, b)| a.0.cmp(&b.0).then_with(|| order(&a.1, &b.1)))
                .find(|ordering| ordering.is_ne())
                .unwrap_or_else(|| a.len().cmp(&b.len())),
            (Self::Value(a), Self::Value(b)) => order(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PathElement {
    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={}", DisplayValue(value))?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", DisplayValue(value)),
            Self::Index(at) => write!(f, "[{at}]"),
        }
    }
}

/// A value in kube-apiserver's format for paths.
pub(super) struct DisplayValue<'v>(pub(super) &'v Value);

impl fmt::Display for DisplayValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("null"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(n) => write!(f, "{n}"),
            Value::Float(n) => f.write_str(&go_float(*n)),
            Value::Str(text) | Value::Raw(text) => f.write_str(&go_quote(text)),
            Value::List(items) => {
                f.write_str("[")?;
                for (i, item) in items.iter().enumerate() {
                    let comma = if i > 0 { "," } else { "" };
                    write!(f, "{comma}{}", DisplayValue(item))?;
                }
                f.write_str("]")
            }
            Value::Object(object) => {
                object.iter().try_for_each(|(name, value)| write!(f, "{name}={}", DisplayValue(value)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::order::same;

    #[test]
    fn parses_and_displays_path_elements() {
        for (text, shown) in [
            (r#"f:spec"#, ".spec"),
            (r#"f:a.b/c"#, ".a.b/c"),
            (r#"k:{"name":"web"}"#, r#"[name="web"]"#),
            (r#"k:{"containerPort":80,"protocol":"TCP"}"#, r#"[containerPort=80,protocol="TCP"]"#),
            (r#"v:"x.test/a""#, r#"[="x.test/a"]"#),
            (r#"v:1"#, "[=1]"),
            (r#"v:true"#, "[=true]"),
            (r#"i:3"#, "[3]"),
        ] {
            let element = PathElement::parse(text).unwrap().unwrap();
            assert_eq!(element.to_string(), shown);
            let mut out = Vec::new();
            element.write(&mut out);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }
        for bad in ["", "f", "fx", "i:x", "k:1", "v:", "k:{"] {
            assert_eq!(PathElement::parse(bad), Err(InvalidPathElement), "{bad}");
        }
        assert_eq!(PathElement::parse("z:new"), Ok(None));
    }

    #[test]
    fn orders_path_elements() {
        let element = |text| PathElement::parse(text).unwrap().unwrap();
        let sorted = [
            "f:",
            "f:a",
            "f:b",
            "k:{\"a\":1}",
            "k:{\"a\":1,\"b\":1}",
            "k:{\"a\":2}",
            "k:{\"a\":\"1\"}",
            "v:1",
            "v:1.5",
            "v:2",
            "v:\"a\"",
            "v:false",
            "v:true",
            "i:0",
            "i:1",
        ];
        for pair in sorted.windows(2) {
            assert!(element(pair[0]) < element(pair[1]), "{} < {}", pair[0], pair[1]);
        }
        assert!(same(&value!({"a": 1i64, "b": [2.0]}), &value!({"b": [2i64], "a": 1.0})));
    }
}
