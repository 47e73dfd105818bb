//! FieldsV1: sets of fields as JSON text.

use binnacle_meta::Text;

use super::element::PathElement;
use super::set::{Node, Set};
use super::shape::Shape;

/// The error of a text that is not a valid FieldsV1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidFieldsV1;

/// The maximum depth of a set, greater than the depth of any object.
const MAX_DEPTH: usize = 300;

/// Parses a set. As in kube-apiserver, elements of an unknown kind are skipped.
pub(super) fn parse(text: &str) -> Result<Set, InvalidFieldsV1> {
    let mut reader = Reader { text, at: 0 };
    let (children, _) = reader.set(MAX_DEPTH)?;
    reader.space();
    if reader.at != text.len() {
        return Err(InvalidFieldsV1);
    }
    Ok(children)
}

/// Returns true if a set encoded by the server may have a member in common with `set`, or members below one of its
/// leaves. Much cheaper than parsing.
pub(super) fn intersects(text: &str, set: &Set) -> bool {
    let mut reader = Reader { text, at: 0 };
    // An invalid text counts as true, so that it is parsed.
    !set.is_empty() && reader.intersects(set, MAX_DEPTH).unwrap_or(true)
}

/// Returns true if a set encoded by the server has all members of `set`, and its leaves as leaves.
pub(super) fn contains_all(text: &str, set: &Set) -> bool {
    Reader { text, at: 0 }.contains_all(set, MAX_DEPTH).unwrap_or(false)
}

/// Returns true if a set encoded by the server has members below an atomic value of this shape.
pub(super) fn splits_atomic(text: &str, shape: Shape<'_>) -> bool {
    // An invalid text counts as true, so that it is parsed.
    Reader { text, at: 0 }.splits_atomic(shape, MAX_DEPTH).unwrap_or(true)
}

/// Returns the compact text of a set: elements in order, starting with `.` for a member that has members below.
pub(super) fn to_text(set: &Set) -> Text {
    let mut out = Vec::with_capacity(512);
    write(set, false, &mut out);
    // The text consists of valid strings and ASCII.
    String::from_utf8(out).unwrap_or_default().into()
}

fn write(set: &Set, member: bool, out: &mut Vec<u8>) {
    out.push(b'{');
    let mut comma = member;
    if member {
        out.extend_from_slice(b"\".\":{}");
    }
    for node in &set.nodes {
        if comma {
            out.push(b',');
        }
        comma = true;
        node.element.write(out);
        out.push(b':');
        if node.children.is_empty() {
            out.extend_from_slice(b"{}");
        } else {
            write(&node.children, node.member, out);
        }
    }
    out.push(b'}');
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Reader<'t> {
    /// Reads an object. The boolean is true if it is itself a member: it has `.` or is empty.
    fn set(&mut self, depth: usize) -> Result<(Set, bool), InvalidFieldsV1> {
        self.space();
        if self.text[self.at..].starts_with("null") {
            self.at += 4;
            return Ok((Set::default(), true));
        }
        self.enter(depth)?;
        let mut nodes = Vec::new();
        let mut member = false;
        self.space();
        if self.take(b'}') {
            return Ok((Set::default(), true));
        }
        loop {
            self.space();
            let raw = self.string()?;
            let name = match raw.contains('\\') {
                true => &*unescape(raw)?,
                false => raw,
            };
            let element = if name == "." { None } else { Some(PathElement::parse(name).map_err(|_| InvalidFieldsV1)?) };
            self.space();
            self.expect(b':')?;
            match element {
                None => {
                    member = true;
                    self.skip(depth - 1)?;
                }
                Some(None) => self.skip(depth - 1)?,
                Some(Some(element)) => {
                    let (children, member) = self.set(depth - 1)?;
                    nodes.push(Node { element, member, children });
                }
            }
            self.space();
            if self.take(b'}') {
                break;
            }
            self.expect(b',')?;
        }
        let empty = nodes.is_empty();
        Ok((Set::from_nodes(nodes), member || empty))
    }

    /// Enters an object, which must not be nested deeper than `depth`.
    fn enter(&mut self, depth: usize) -> Result<(), InvalidFieldsV1> {
        self.expect(b'{')?;
        if depth == 0 { Err(InvalidFieldsV1) } else { Ok(()) }
    }

    /// Scans an object, and only those members that are in `set` or lead to its members.
    fn intersects(&mut self, set: &Set, depth: usize) -> Result<bool, InvalidFieldsV1> {
        self.enter(depth)?;
        if self.take(b'}') {
            return Ok(false);
        }
        loop {
            match self.node_of(set)? {
                None => self.skip_trusted()?,
                Some(node) => {
                    let rest = &self.text[self.at..];
                    let member = rest.starts_with("{}") || rest.starts_with("{\".\":");
                    // A leaf includes everything below it, as it may have become atomic since.
                    let leaf = node.children.is_empty();
                    if node.member && (member || leaf) || self.intersects(&node.children, depth - 1)? {
                        return Ok(true);
                    }
                }
            }
            if self.take(b'}') {
                return Ok(false);
            }
            self.expect(b',')?;
        }
    }

    /// Scans an object, and only those members that lead to members of `set`.
    fn contains_all(&mut self, set: &Set, depth: usize) -> Result<bool, InvalidFieldsV1> {
        self.enter(depth)?;
        if self.take(b'}') {
            return Ok(set.is_empty());
        }
        let mut found = 0;
        loop {
            match self.node_of(set)? {
                None => self.skip_trusted()?,
                Some(node) => {
                    let rest = &self.text[self.at..];
                    let leaf = rest.starts_with("{}");
                    let member = leaf || rest.starts_with("{\".\":");
                    if node.member && !member || leaf != node.children.is_empty() {
                        return Ok(false);
                    }
                    if !self.contains_all(&node.children, depth - 1)? {
                        return Ok(false);
                    }
                    found += 1;
                }
            }
            if self.take(b'}') {
                return Ok(found == set.nodes.len());
            }
            self.expect(b',')?;
        }
    }

    /// Scans an object, and only those members that have a shape.
    fn splits_atomic(&mut self, shape: Shape<'_>, depth: usize) -> Result<bool, InvalidFieldsV1> {
        self.enter(depth)?;
        if self.take(b'}') {
            return Ok(false);
        }
        loop {
            let raw = self.string()?;
            self.expect(b':')?;
            let below = match raw.as_bytes() {
                b"." => None,
                [b'f', b':', name @ ..] if !name.contains(&b'\\') => shape.member(&raw[2..]),
                [b'f', b':', ..] => shape.member(&unescape(raw)?[2..]),
                _ => shape.element(),
            };
            match below {
                None | Some(Shape::Scalar(_)) => self.skip_trusted()?,
                Some(below) if below.is_free() => self.skip_trusted()?,
                Some(below) if below.is_leaf() => {
                    if !self.text[self.at..].starts_with("{}") {
                        return Ok(true);
                    }
                    self.skip_trusted()?;
                }
                Some(below) => {
                    if self.splits_atomic(below, depth - 1)? {
                        return Ok(true);
                    }
                }
            }
            if self.take(b'}') {
                return Ok(false);
            }
            self.expect(b',')?;
        }
    }

    /// Reads the name of a member, and returns its node in `set`.
    fn node_of<'s>(&mut self, set: &'s Set) -> Result<Option<&'s Node>, InvalidFieldsV1> {
        let raw = self.string()?;
        self.expect(b':')?;
        // Fields are first in the order of elements.
        let only_fields = matches!(set.nodes.last(), Some(Node { element: PathElement::Field(_), .. }) | None);
        Ok(match raw.as_bytes() {
            [b'f', b':', name @ ..] if !name.contains(&b'\\') => set.field(&raw[2..]),
            [b'.'] => None,
            [kind, ..] if *kind != b'f' && only_fields => None,
            _ => {
                let element = PathElement::parse(&unescape(raw)?).map_err(|_| InvalidFieldsV1)?;
                element.and_then(|element| set.node(&element))
            }
        })
    }

    /// Skips an object that the server wrote.
    fn skip_trusted(&mut self) -> Result<(), InvalidFieldsV1> {
        let mut depth = 0_usize;
        while let Some(&c) = self.text.as_bytes().get(self.at) {
            match c {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' => depth += 1,
                b'}' => depth = depth.checked_sub(1).ok_or(InvalidFieldsV1)?,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
        Err(InvalidFieldsV1)
    }

    /// Skips any value.
    fn skip(&mut self, depth: usize) -> Result<(), InvalidFieldsV1> {
        self.space();
        if self.text[self.at..].starts_with("{}") {
            self.at += 2;
            return Ok(());
        }
        if depth == 0 {
            return Err(InvalidFieldsV1);
        }
        let mut values = serde_json::Deserializer::from_str(&self.text[self.at..]).into_iter::<serde::de::IgnoredAny>();
        match values.next() {
            Some(Ok(_)) => {
                self.at += values.byte_offset();
                Ok(())
            }
            _ => Err(InvalidFieldsV1),
        }
    }

    /// Returns the raw text of a string, without its quotes.
    fn string(&mut self) -> Result<&'t str, InvalidFieldsV1> {
        self.expect(b'"')?;
        let start = self.at;
        let bytes = self.text.as_bytes();
        while let Some(&c) = bytes.get(self.at) {
            match c {
                b'"' => {
                    self.at += 1;
                    return Ok(&self.text[start..self.at - 1]);
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
        Err(InvalidFieldsV1)
    }

    fn space(&mut self) {
        while self.text.as_bytes().get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
    }

    fn take(&mut self, c: u8) -> bool {
        let found = self.text.as_bytes().get(self.at) == Some(&c);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, c: u8) -> Result<(), InvalidFieldsV1> {
        if self.take(c) { Ok(()) } else { Err(InvalidFieldsV1) }
    }
}

fn unescape(raw: &str) -> Result<String, InvalidFieldsV1> {
    serde_json::from_str(&format!("\"{raw}\"")).map_err(|_| InvalidFieldsV1)
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Field, ListType, Message, Ty};

    use super::*;

    #[test]
    fn detects_common_fields() {
        let text = r#"{"f:a":{".":{},"f:b":{},"k:{\"name\":\"x\"}":{".":{},"f:c":{}}},"f:d":{"v:\"1\"":{}}}"#;
        let whole = parse(text).unwrap();
        for (other, want) in [
            ("{}", false),
            (r#"{"f:a":{}}"#, true),
            (r#"{"f:a":{"f:z":{}}}"#, false),
            (r#"{"f:a":{"f:b":{}}}"#, true),
            (r#"{"f:a":{"f:b":{"f:deeper":{}}}}"#, false),
            (r#"{"f:a":{"k:{\"name\":\"x\"}":{"f:c":{}}}}"#, true),
            (r#"{"f:a":{"k:{\"name\":\"y\"}":{"f:c":{}}}}"#, false),
            (r#"{"f:d":{".":{},"f:z":{}}}"#, false),
            (r#"{"f:d":{"v:\"1\"":{}}}"#, true),
            (r#"{"f:c":{},"f:e":{}}"#, false),
        ] {
            let set = parse(other).unwrap();
            assert_eq!(intersects(text, &set), want, "{other}");
            assert_eq!(!whole.intersection(&set).is_empty(), want, "{other}");
        }
        for (other, want) in [
            ("{}", true),
            (r#"{"f:a":{"f:b":{}}}"#, true),
            (r#"{"f:a":{"f:b":{}},"f:d":{"v:\"1\"":{}}}"#, true),
            (r#"{"f:a":{".":{},"k:{\"name\":\"x\"}":{".":{},"f:c":{}}}}"#, true),
            // As a leaf it does not match.
            (r#"{"f:a":{}}"#, false),
            (r#"{"f:a":{"f:b":{"f:deeper":{}}}}"#, false),
            (r#"{"f:a":{"f:b":{},"f:z":{}}}"#, false),
            (r#"{"f:a":{"k:{\"name\":\"y\"}":{"f:c":{}}}}"#, false),
            (r#"{"f:d":{".":{},"v:\"1\"":{}}}"#, false),
            (r#"{"f:c":{}}"#, false),
        ] {
            let set = parse(other).unwrap();
            assert_eq!(contains_all(text, &set), want, "{other}");
            // Subtracted members return with the union.
            let mut less = whole.clone();
            less.subtract(&set);
            assert!(!want || less.union(&set) == whole, "{other}");
        }
        assert!(!contains_all("{nonsense", &whole));
        assert!(intersects("{nonsense", &whole));
    }

    #[test]
    fn detects_fields_within_atomic_values() {
        let list = || Ty::List(Box::new(Ty::String));
        let atomic = Field { list_type: ListType::Atomic, ..Field::new("map", Ty::Map(Box::new(Ty::String))) };
        let message =
            Message::new("", vec![atomic, Field::new("list", list()), Field::new("maps", Ty::Map(Box::new(list())))]);
        for (text, want) in [
            ("{}", false),
            (r#"{"f:map":{},"f:list":{},"f:none":{"f:a":{}}}"#, false),
            (r#"{"f:map":{"f:a":{}}}"#, true),
            (r#"{"f:map":{".":{},"f:a":{}}}"#, true),
            (r#"{"f:list":{"v:\"a\"":{}}}"#, true),
            (r#"{"f:maps":{".":{},"f:a\n":{},"f:b":{}}}"#, false),
            (r#"{"f:maps":{"f:a\n":{"i:0":{}}}}"#, true),
            ("{nonsense", true),
        ] {
            assert_eq!(splits_atomic(text, Shape::of_message(&message)), want, "{text}");
        }
    }

    #[test]
    fn parses_and_serializes_fields_v1() {
        for (text, want) in [
            ("{}", "{}"),
            ("null", "{}"),
            (r#"{"f:a":{}}"#, r#"{"f:a":{}}"#),
            (r#"{"f:a":null}"#, r#"{"f:a":{}}"#),
            (r#" { "f:b" : { } , "f:a" : { "." : { } , "f:c":{} } } "#, r#"{"f:a":{".":{},"f:c":{}},"f:b":{}}"#),
            (r#"{"f:a":{".":{}}}"#, r#"{"f:a":{}}"#),
            (r#"{"f:a":{"z:later":{"x":[1]}}}"#, r#"{"f:a":{}}"#),
            (
                r#"{"f:p":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}"#,
                r#"{"f:p":{"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:port":{}}}}"#,
            ),
            (r#"{"f:l":{"v:\"a\\\"b\"":{}}}"#, r#"{"f:l":{"v:\"a\\\"b\"":{}}}"#),
            (r#"{"f:ü\u0041\n":{}}"#, r#"{"f:üA\n":{}}"#),
        ] {
            let set = parse(text).unwrap_or_else(|_| panic!("{text}"));
            assert_eq!(to_text(&set), want);
            assert_eq!(parse(want).unwrap(), set, "{want}");
        }
        let deep = format!("{}{}{}", r#"{"f:a":"#.repeat(400), "{}", "}".repeat(400));
        for bad in [
            "",
            "{",
            "[]",
            "1",
            r#"{"a":{}}"#,
            r#"{"f:a":1}"#,
            r#"{"f:a":{}"#,
            r#"{"f:a":{}}x"#,
            r#"{"f:a""#,
            "{\"\\",
            deep.as_str(),
        ] {
            assert_eq!(parse(bad), Err(InvalidFieldsV1), "{bad}");
        }
    }
}
