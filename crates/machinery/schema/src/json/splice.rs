//! Insertion of a member into the text of an object, without decoding the rest.

use super::{Cursor, InvalidJson};

/// Returns the JSON object with a text member set in the object under `parent`: replaced if it exists, or inserted in
/// the order of the names. Values need no escapes.
///
/// `None` if the text is not an object, or has no object named `parent`.
pub fn with_text_member(text: &[u8], parent: &str, name: &str, value: &str) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let span = find(text, parent, name).ok()??;
    let mut out = Vec::with_capacity(text.len() + name.len() + value.len() + 6);
    out.extend_from_slice(&text.as_bytes()[..span.start]);
    if span.comma_before {
        out.push(b',');
    }
    for part in ["\"", name, "\":\"", value, "\""] {
        out.extend_from_slice(part.as_bytes());
    }
    if span.comma_after {
        out.push(b',');
    }
    out.extend_from_slice(&text.as_bytes()[span.end..]);
    Some(out)
}

/// The part of the text that the member replaces.
struct MemberSpan {
    start: usize,
    end: usize,
    comma_before: bool,
    comma_after: bool,
}

/// The maximum nesting of skipped values.
const DEPTH: usize = 512;

fn find(text: &str, parent: &str, name: &str) -> Result<Option<MemberSpan>, InvalidJson> {
    let mut cursor = Cursor::new(text);
    if cursor.peek()? != b'{' {
        return Ok(None);
    }
    let mut more = cursor.open(b'}')?;
    while more {
        if cursor.name()? == parent && cursor.peek()? == b'{' {
            return member(&mut cursor, name).map(Some);
        }
        cursor.skip(DEPTH)?;
        more = cursor.more(b'}')?;
    }
    Ok(None)
}

fn member(cursor: &mut Cursor<'_>, name: &str) -> Result<MemberSpan, InvalidJson> {
    let mut more = cursor.open(b'}')?;
    // After the object's opening brace, or after the last skipped member. An empty object has been read completely.
    let mut end = if more { cursor.position() } else { cursor.position() - 1 };
    let mut skipped = false;
    while more {
        cursor.peek()?;
        let start = cursor.position();
        let found = cursor.name()?;
        if *found == *name {
            cursor.peek()?;
            cursor.skip(DEPTH)?;
            return Ok(MemberSpan { start, end: cursor.position(), comma_before: false, comma_after: false });
        }
        if *found > *name {
            return Ok(MemberSpan { start, end: start, comma_before: false, comma_after: true });
        }
        cursor.peek()?;
        cursor.skip(DEPTH)?;
        (end, skipped) = (cursor.position(), true);
        more = cursor.more(b'}')?;
    }
    Ok(MemberSpan { start: end, end, comma_before: skipped, comma_after: false })
}

#[cfg(test)]
mod tests {
    use super::with_text_member;

    #[test]
    fn inserts_members_in_order() {
        for (text, want) in [
            (r#"{"metadata":{"name":"a","uid":"u"},"x":1}"#, r#"{"metadata":{"name":"a","rv":"7","uid":"u"},"x":1}"#),
            (r#"{"a":{"metadata":{}},"metadata":{}}"#, r#"{"a":{"metadata":{}},"metadata":{"rv":"7"}}"#),
            (r#"{"metadata":{"name":"a"}}"#, r#"{"metadata":{"name":"a","rv":"7"}}"#),
            (r#"{"metadata":{"name":"a","rv":"1","uid":"u"}}"#, r#"{"metadata":{"name":"a","rv":"7","uid":"u"}}"#),
            (r#"{ "metadata" : { "uid" : [ 1 ] } }"#, r#"{ "metadata" : { "rv":"7","uid" : [ 1 ] } }"#),
        ] {
            let got = with_text_member(text.as_bytes(), "metadata", "rv", "7").unwrap();
            assert_eq!(String::from_utf8(got).unwrap(), want);
        }
        for text in ["", "[]", "{}", r#"{"metadata":1}"#, r#"{"metadata":{"a""#] {
            assert!(with_text_member(text.as_bytes(), "metadata", "rv", "7").is_none(), "{text}");
        }
    }
}
