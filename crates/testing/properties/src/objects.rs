//! Properties of decoded objects, shared by several formats.

use binnacle_kinds::tables;
use binnacle_schema::{Limits, Message, Value, decode, json, proto, yaml};

/// Returns the schema of a kind; that of pods if the kind is unknown.
pub(crate) fn message(api_version: &str, kind: &str) -> &'static Message {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let named = tables::kind(group, version, kind).or_else(|| tables::kind("", "v1", "Pod"));
    named.expect("the tables have pods")
}

/// Returns the schema of the kind that a tree names.
pub(crate) fn message_of(tree: &Value) -> &'static Message {
    message(tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]))
}

/// Returns true if objects of the kind have names, resourceVersions and managed fields.
pub(crate) fn is_resource(message: &Message) -> bool {
    let metadata = message.get("metadata").and_then(|field| field.ty.message());
    metadata.is_some_and(|metadata| metadata.get("managedFields").is_some())
}

/// Returns true for numbers that some encoding changes: Go writes the float -0 as `-0` and reads it as the integer 0,
/// and YAML reads numbers beyond floating point, which only embedded JSON may contain, as texts.
pub(crate) fn has_odd_number(value: &Value) -> bool {
    match value {
        Value::Float(n) => *n == 0.0 && n.is_sign_negative(),
        Value::Raw(text) => !text.starts_with(['{', '[']),
        Value::Object(object) => object.values().any(has_odd_number),
        Value::List(items) => items.iter().any(has_odd_number),
        _ => false,
    }
}

/// Checks that a decoded object can be read back from every encoding.
pub(crate) fn survives(value: &Value, message: &Message) {
    if has_odd_number(value) {
        return;
    }
    // The encoding may exceed the maximum size of a body.
    let limits = Limits { max_bytes: usize::MAX, max_yaml_nodes: 1 << 30, max_memory: usize::MAX, ..Limits::default() };
    let text = json::to_string(value);
    let decoded = decode::json(text.as_bytes(), message, &limits).expect("JSON that was written is read");
    assert!(decoded.findings.is_empty(), "strict decoding refuses what was written: {text}");
    assert_eq!(json::to_string(&decoded.value), text, "JSON tells the same");

    let in_yaml = yaml::to_string(value);
    let decoded = decode::yaml(in_yaml.as_bytes(), message, &limits).expect("YAML that was written is read");
    assert_eq!(sorted(&decoded.value), sorted(value), "YAML tells the same:\n{in_yaml}");

    let mut stored = Vec::new();
    proto::encode(value, message, &mut stored);
    stored_survives(&stored, value, message);
}

/// Checks that both decoders agree on an encoded message, and that encoding it again does not change it.
pub(crate) fn stored_survives(stored: &[u8], from: &Value, message: &Message) {
    let (api_version, kind) = (from.str_at(&["apiVersion"]), from.str_at(&["kind"]));
    let read = |bytes: &[u8]| {
        let value = proto::decode_object(bytes, message, api_version, kind, proto::DEPTH)
            .unwrap_or_else(|error| panic!("{error}: {}", json::to_string(from)));
        let text = json::to_string(&value);
        let mut streamed = Vec::new();
        proto::to_json(bytes, message, api_version, kind, proto::Overrides::default(), &mut streamed)
            .expect("both readers read it");
        assert_eq!(String::from_utf8_lossy(&streamed), text, "both readers read the same");
        (value, text)
    };
    let (value, text) = read(stored);
    // The bytes may differ: a map's empty value may be encoded as nothing, but is decoded as an empty value.
    let mut again = Vec::new();
    proto::encode(&value, message, &mut again);
    let (value, text_again) = read(&again);
    assert_eq!(text_again, text, "protobuf tells the same");
    let mut third = Vec::new();
    proto::encode(&value, message, &mut third);
    assert!(third == again, "protobuf tells the same: {text}");
}

/// Returns the nesting depth of a tree: 0 for scalars.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        Value::List(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// Returns the text of a tree with members sorted by name, for comparisons that ignore their order.
pub(crate) fn sorted(value: &Value) -> String {
    let mut value = value.clone();
    json::unpack(&mut value);
    binnacle_schema::sort_free_form(&mut value);
    json::to_string(&value)
}

/// Splits the input at its first line break into two JSON documents.
pub(crate) fn two(data: &[u8]) -> Option<(Value, &[u8])> {
    let at = data.iter().position(|byte| *byte == b'\n')?;
    let first = json::parse(&data[..at], &Limits::default()).ok()?;
    Some((first, &data[at + 1..]))
}
