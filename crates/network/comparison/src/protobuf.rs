//! The compared part of a protobuf response: the envelope, and the presence of the message's fields.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

const MAGIC: &[u8] = b"k8s\0";

/// The content of one field of a message.
enum Content<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Describes a response by members that can be compared.
pub(crate) fn describe(data: &[u8]) -> Value {
    let magic: String = data.iter().take(4).map(|byte| char::from(*byte)).collect();
    let mut result = Map::new();
    result.insert("magic".to_owned(), Value::from(magic));
    if let Some(envelope) = data.strip_prefix(MAGIC)
        && let Err(error) = describe_envelope(envelope, &mut result)
    {
        result.insert("undecodable".to_owned(), Value::from(error));
    }
    Value::Object(result)
}

/// Returns the resourceVersion in the metadata of a message, empty if it has none.
pub(crate) fn resource_version(data: &[u8]) -> Result<String, String> {
    let envelope = fields(data.strip_prefix(MAGIC).ok_or("no envelope")?)?;
    let kind = match bytes_of(&envelope, 1).next() {
        Some(type_meta) => member(type_meta, 2)?,
        None => String::new(),
    };
    let message = fields(bytes_of(&envelope, 2).next().ok_or("an envelope without a message")?)?;
    let Some(metadata) = bytes_of(&message, 1).next() else { return Ok(String::new()) };
    // ListMeta and ObjectMeta differ.
    member(metadata, if kind.ends_with("List") || kind == "Table" { 2 } else { 6 })
}

/// Returns the numbers of the fields that lead to the first difference of two responses, as a JSON pointer. Values are
/// not returned, since they may be secret.
pub(crate) fn first_difference(left: &[u8], right: &[u8]) -> Option<String> {
    if left == right {
        return None;
    }
    let strip = |data: &[u8]| data.strip_prefix(MAGIC).and_then(|data| fields(data).ok().map(|_| data.to_vec()));
    let (Some(left), Some(right)) = (strip(left), strip(right)) else { return Some(String::new()) };
    differing_field(&left, &right, "")
}

/// The continue token of a list, which servers encode differently. The metadata of a list has at most four fields, that
/// of a stored object has a uid as fifth.
const CONTINUE: &str = "/2/1/3";

fn differing_field(left: &[u8], right: &[u8], path: &str) -> Option<String> {
    let (Ok(lefts), Ok(rights)) = (fields(left), fields(right)) else { return Some(path.to_owned()) };
    let is_list = path == "/2/1" && !lefts.iter().any(|(number, _)| *number > 4);
    for index in 0..lefts.len().max(rights.len()) {
        match (lefts.get(index), rights.get(index)) {
            (Some((a, Content::Number(x))), Some((b, Content::Number(y)))) if a == b && x == y => {}
            (Some((a, Content::Bytes(x))), Some((b, Content::Bytes(y)))) if a == b => {
                let inner = format!("{path}/{a}");
                if x != y && !(is_list && inner == CONTINUE) {
                    let found = differing_field(x, y, &inner);
                    if found.is_some() {
                        return found;
                    }
                }
            }
            (Some((a, _)), Some((b, _))) => return Some(format!("{path}/{}", a.min(b))),
            (Some((number, _)), None) | (None, Some((number, _))) => return Some(format!("{path}/{number}")),
            (None, None) => {}
        }
    }
    None
}

/// Describes one event of a watch, with or without an envelope around it.
pub(crate) fn describe_event(frame: &[u8]) -> Value {
    let mut event = Map::new();
    if let Err(error) = read_event(frame, &mut event) {
        event.insert("undecodable".to_owned(), Value::from(error));
    }
    Value::Object(event)
}

fn read_event(frame: &[u8], event: &mut Map<String, Value>) -> Result<(), String> {
    let body = match frame.strip_prefix(MAGIC) {
        Some(envelope) => bytes_of(&fields(envelope)?, 2).next().ok_or("an envelope without a message")?,
        None => frame,
    };
    for (number, content) in fields(body)? {
        match (number, content) {
            (1, Content::Bytes(kind)) => event.insert("type".to_owned(), Value::from(string(kind)?)),
            (2, Content::Bytes(extension)) => {
                let object = bytes_of(&fields(extension)?, 1).next().map_or_else(|| json!({}), describe);
                event.insert("object".to_owned(), object)
            }
            _ => None,
        };
    }
    Ok(())
}

fn describe_envelope(envelope: &[u8], result: &mut Map<String, Value>) -> Result<(), String> {
    let mut raw: &[u8] = b"";
    for (number, content) in fields(envelope)? {
        let Content::Bytes(content) = content else { continue };
        match number {
            1 => {
                for (number, content) in fields(content)? {
                    let Content::Bytes(content) = content else { continue };
                    let name = match number {
                        1 => "apiVersion".to_owned(),
                        2 => "kind".to_owned(),
                        other => format!("typeMeta{other}"),
                    };
                    result.insert(name, Value::from(string(content)?));
                }
            }
            2 => raw = content,
            3 => drop(result.insert("contentEncoding".to_owned(), Value::from(string(content)?))),
            4 => drop(result.insert("contentType".to_owned(), Value::from(string(content)?))),
            _ => {}
        }
    }
    let fields = fields(raw)?;
    let numbers: BTreeSet<u64> = fields.iter().map(|(number, _)| *number).collect();
    result.insert("fields".to_owned(), numbers.into_iter().collect());
    let kind = result.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
    if kind.ends_with("List") {
        let names: Vec<String> = bytes_of(&fields, 2).map(item_name).collect::<Result<_, _>>()?;
        result.insert("items".to_owned(), Value::from(names));
    } else if kind == "Status" {
        for (number, content) in &fields {
            match (number, content) {
                (2, Content::Bytes(text)) => result.insert("status".to_owned(), Value::from(string(text)?)),
                (3, Content::Bytes(text)) => result.insert("message".to_owned(), Value::from(string(text)?)),
                (4, Content::Bytes(text)) => result.insert("reason".to_owned(), Value::from(string(text)?)),
                (6, Content::Number(code)) => result.insert("code".to_owned(), Value::from(*code)),
                _ => None,
            };
        }
    } else if kind != "Table"
        && let Some(metadata) = bytes_of(&fields, 1).next()
    {
        result.insert("name".to_owned(), Value::from(member(metadata, 1)?));
        result.insert("namespace".to_owned(), Value::from(member(metadata, 3)?));
    }
    Ok(())
}

fn item_name(item: &[u8]) -> Result<String, String> {
    bytes_of(&fields(item)?, 1).next().map_or_else(|| Ok(String::new()), |metadata| member(metadata, 1))
}

fn member(message: &[u8], number: u64) -> Result<String, String> {
    bytes_of(&fields(message)?, number).next().map_or_else(|| Ok(String::new()), string)
}

fn string(bytes: &[u8]) -> Result<String, String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "text that is not UTF-8".to_owned())
}

fn bytes_of<'a>(fields: &[(u64, Content<'a>)], wanted: u64) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter_map(move |(number, content)| match content {
        Content::Bytes(bytes) if *number == wanted => Some(*bytes),
        _ => None,
    })
}

fn fields(mut data: &[u8]) -> Result<Vec<(u64, Content<'_>)>, String> {
    let mut fields = Vec::new();
    while !data.is_empty() {
        let tag = varint(&mut data)?;
        let content = match tag & 7 {
            0 => Content::Number(varint(&mut data)?),
            1 => Content::Bytes(take(&mut data, 8)?),
            2 => {
                let length = varint(&mut data)?;
                Content::Bytes(take(&mut data, length)?)
            }
            5 => Content::Bytes(take(&mut data, 4)?),
            other => return Err(format!("wire type {other}")),
        };
        fields.push((tag >> 3, content));
    }
    Ok(fields)
}

fn take<'a>(data: &mut &'a [u8], length: u64) -> Result<&'a [u8], String> {
    let length = usize::try_from(length).map_err(|_| "truncated field")?;
    let (taken, rest) = data.split_at_checked(length).ok_or("truncated field")?;
    *data = rest;
    Ok(taken)
}

fn varint(data: &mut &[u8]) -> Result<u64, String> {
    let mut result = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = data.split_first().ok_or("truncated number")?;
        *data = rest;
        result |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(result);
        }
    }
    Err("a number of more than ten bytes".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{describe, describe_event, first_difference, resource_version};

    /// Encodes a field of bytes.
    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, u8::try_from(content.len()).unwrap()], content].concat()
    }

    fn envelope(kind: &str, raw: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [b"k8s\0".to_vec(), field(1, &type_meta), field(2, raw)].concat()
    }

    fn named(name: &str) -> Vec<u8> {
        field(1, &[field(1, name.as_bytes()), field(3, b"ns")].concat())
    }

    #[test]
    fn describes_protobuf_responses() {
        let status = [field(2, b"Failure"), field(3, b"no"), field(4, b"NotFound"), vec![0x30, 0x94, 0x03]].concat();
        let list = [field(1, b""), field(2, &named("a")), field(2, &named("b"))].concat();
        for (data, want) in [
            (
                envelope("Pod", &[named("a"), field(2, b"")].concat()),
                json!({"magic": "k8s\0", "apiVersion": "v1", "kind": "Pod", "fields": [1, 2], "name": "a", "namespace": "ns"}),
            ),
            (
                envelope("PodList", &list),
                json!({"magic": "k8s\0", "apiVersion": "v1", "kind": "PodList", "fields": [1, 2], "items": ["a", "b"]}),
            ),
            (
                envelope("Status", &status),
                json!({"magic": "k8s\0", "apiVersion": "v1", "kind": "Status", "fields": [2, 3, 4, 6], "status": "Failure",
                    "message": "no", "reason": "NotFound", "code": 404}),
            ),
            (b"{\"ki".to_vec(), json!({"magic": "{\"ki"})),
            (b"k8s\0\x0a\x7f".to_vec(), json!({"magic": "k8s\0", "undecodable": "truncated field"})),
            (b"k8s\0\x0b".to_vec(), json!({"magic": "k8s\0", "undecodable": "wire type 3"})),
            (b"k8s\0\xff".to_vec(), json!({"magic": "k8s\0", "undecodable": "truncated number"})),
        ] {
            assert_eq!(describe(&data), want);
        }
    }

    #[test]
    fn reads_versions_of_objects_and_lists() {
        let object = field(1, &[field(1, b"a"), field(6, b"7")].concat());
        assert_eq!(resource_version(&envelope("Pod", &object)).as_deref(), Ok("7"));
        let list = field(1, &field(2, b"9"));
        assert_eq!(resource_version(&envelope("PodList", &list)).as_deref(), Ok("9"));
        assert_eq!(resource_version(&envelope("PodList", b"")).as_deref(), Ok(""));
        assert!(resource_version(b"{}").is_err());
    }

    #[test]
    fn finds_the_field_that_differs() {
        let with = |name: &str| envelope("Pod", &[named(name), vec![0x10, 5]].concat());
        assert_eq!(first_difference(&with("a"), &with("a")), None);
        assert_eq!(first_difference(&with("a"), &with("b")).as_deref(), Some("/2/1/1"));
        assert_eq!(first_difference(&with("a"), &envelope("Pod", &named("a"))).as_deref(), Some("/2/2"));
        assert_eq!(first_difference(&with("a"), b"{}").as_deref(), Some(""));
        let list = |token: &str, name: &str| {
            let metadata = field(1, &[field(2, b"9"), field(3, token.as_bytes())].concat());
            envelope("PodList", &[metadata, field(2, &named(name))].concat())
        };
        assert_eq!(first_difference(&list("x", "a"), &list("y", "a")), None, "continue tokens");
        assert_eq!(first_difference(&list("x", "a"), &list("y", "b")).as_deref(), Some("/2/2/1/1"));
    }

    #[test]
    fn describes_protobuf_events() {
        let event = [field(1, b"ADDED"), field(2, &field(1, &envelope("Pod", &named("a"))))].concat();
        let want = json!({"type": "ADDED", "object": {"magic": "k8s\0", "apiVersion": "v1", "kind": "Pod", "fields": [1],
            "name": "a", "namespace": "ns"}});
        assert_eq!(describe_event(&event), want);
        assert_eq!(describe_event(&envelope("WatchEvent", &event)), want);
        assert_eq!(describe_event(b"k8s\0"), json!({"undecodable": "an envelope without a message"}));
    }
}
