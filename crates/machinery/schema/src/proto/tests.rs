//! Handwritten messages, whose bytes follow from the wire format and Go's generated code.

use super::*;
use crate::types::{Field, Message, MessageRef, Presence, Ty};
use crate::value;
use crate::value::Value;
use std::sync::{Arc, LazyLock};

fn field(tag: u32, name: &'static str, ty: Ty, presence: Presence) -> Field {
    Field { tag, presence, ..Field::new(name, ty) }
}

fn embedded(path: &'static [u32], field: Field) -> Field {
    Field { embedded_in: path, ..field }
}

fn shared(fields: Vec<Field>) -> MessageRef {
    MessageRef::Shared(Arc::new(Message::new("io.k8s.api.test.v1.Inner", fields)))
}

fn list(ty: Ty) -> Ty {
    Ty::List(Box::new(ty))
}

fn map(ty: Ty) -> Ty {
    Ty::Map(Box::new(ty))
}

/// A message with one field of every kind, numbered in another order than named.
static MESSAGE: LazyLock<Message> = LazyLock::new(|| {
    use Presence::{Always, AlwaysNull, OmitZero, Optional};
    let inner = || shared(vec![field(2, "b", Ty::Int32, OmitZero), field(1, "a", Ty::String, OmitZero)]);
    let shown = || shared(vec![field(1, "name", Ty::String, Always), field(2, "port", Ty::Int32, OmitZero)]);
    let metadata = || {
        shared(vec![
            field(1, "name", Ty::String, OmitZero),
            field(5, "uid", Ty::String, OmitZero),
            field(6, "resourceVersion", Ty::String, OmitZero),
            field(8, "creationTimestamp", Ty::Time, Always),
            field(11, "labels", map(Ty::String), OmitZero),
        ])
    };
    Message::new(
        "io.k8s.api.test.v1.Thing",
        vec![
            field(0, "kind", Ty::String, OmitZero),
            field(0, "apiVersion", Ty::String, OmitZero),
            field(1, "metadata", Ty::Message(metadata()), Always),
            field(30, "late", Ty::String, OmitZero),
            field(2, "text", Ty::String, OmitZero),
            field(3, "pointer", Ty::String, Optional),
            field(4, "shown", Ty::String, Always),
            field(5, "flag", Ty::Bool, OmitZero),
            field(6, "small", Ty::Int32, OmitZero),
            field(7, "big", Ty::Int64, Optional),
            field(8, "ratio", Ty::Double, Optional),
            field(9, "bytes", Ty::Bytes, OmitZero),
            field(10, "struct", Ty::Message(inner()), OmitZero),
            field(11, "shownStruct", Ty::Message(shown()), Always),
            field(12, "ref", Ty::Message(inner()), Optional),
            field(13, "names", list(Ty::String), OmitZero),
            field(14, "numbers", list(Ty::Int64), OmitZero),
            field(15, "structs", list(Ty::Message(inner())), AlwaysNull),
            field(16, "labels", map(Ty::String), OmitZero),
            field(17, "data", map(Ty::Bytes), OmitZero),
            field(18, "limits", map(Ty::Quantity), OmitZero),
            field(19, "when", Ty::Time, OmitZero),
            field(20, "then", Ty::MicroTime, Optional),
            field(21, "took", Ty::Duration, Optional),
            field(22, "port", Ty::IntOrString, Optional),
            field(23, "raw", Ty::RawExtension, OmitZero),
            field(24, "fieldsV1", Ty::FieldsV1, Optional),
            field(25, "extra", map(Ty::StaticWrappedList(&Ty::String)), OmitZero),
            field(26, "verbs", Ty::StaticWrappedList(&Ty::String), AlwaysNull),
            embedded(&[27], field(1, "inline", Ty::String, OmitZero)),
            embedded(&[27, 2], field(1, "deep", Ty::String, Optional)),
            field(28, "orBool", Ty::SchemaOrBool(inner()), Optional),
            field(29, "orArray", Ty::SchemaOrArray(inner()), Optional),
            field(31, "orStrings", Ty::SchemaOrStrings(inner()), Optional),
        ],
    )
});

/// Converts text such as `0a 02 'ab'` to bytes.
fn hex(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        match word.strip_prefix('\'') {
            Some(quoted) => bytes.extend(quoted.trim_end_matches('\'').bytes()),
            None => bytes.push(u8::from_str_radix(word, 16).expect("cases are written in hexadecimal")),
        }
    }
    bytes
}

fn encoded(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    encode(value, &MESSAGE, &mut out);
    out
}

fn json_of(value: &Value) -> String {
    crate::json::to_string(value)
}

/// The bytes of a zero object: every field that is not a pointer in Go.
const ZERO: &str = "0a 0a 0a 00 2a 00 32 00 42 00 12 00 22 00 28 00 30 00 52 04 0a 00 10 00 5a 04 0a 00 10 00 9a 01 00 \
                    ba 01 00 da 01 04 0a 00 12 00 f2 01 00";

#[test]
fn encodes_zero_values() {
    assert_eq!(encoded(&value!({})), hex(&ZERO.replace("0a 0a 0a 00", "0a 08 0a 00")));
}

/// Checks that a zero object with these additional members encodes to these additional bytes, and back.
fn check(members: Value, want: &str) {
    let got = encoded(&members);
    let want = hex(want);
    let zero = encoded(&value!({}));
    // The bytes that the members add or change are between the parts that are as in the zero object.
    let before = got.iter().zip(&zero).take_while(|(a, b)| a == b).count();
    let after = got.iter().rev().zip(zero.iter().rev()).take_while(|(a, b)| a == b).count();
    assert!(
        got.windows(want.len()).any(|window| window == want),
        "{members:?}: {:02x?}, want {want:02x?}",
        &got[before..(got.len() - after).max(before)]
    );

    let tree = decode(&got, &MESSAGE, DEPTH).expect("was just encoded");
    let mut whole = decode(&zero, &MESSAGE, DEPTH).expect("was just encoded");
    for (name, value) in members.as_object().into_iter().flat_map(|object| object.iter()) {
        whole.make_object().insert(name.clone(), value.clone());
    }
    assert_eq!(tree, whole);
    check_json(&got);
    assert_eq!(encoded(&tree), got);
}

/// Checks that the direct JSON and the tree agree.
fn check_json(raw: &[u8]) {
    for version in [None, Some("42"), Some("")] {
        let mut out = Vec::new();
        to_json(raw, &MESSAGE, "test/v1", "Thing", Overrides { resource_version: version }, &mut out)
            .expect("decodes as well");
        let mut tree = decode_object(raw, &MESSAGE, "test/v1", "Thing", DEPTH).expect("decoded before");
        if let Some(version) = version {
            let before = !tree.str_at(&["metadata", "resourceVersion"]).is_empty();
            let metadata = tree.make_at(&["metadata"]);
            metadata.remove("resourceVersion");
            if !version.is_empty() {
                metadata.insert("resourceVersion", version);
                let order = ["name", "uid", "resourceVersion"];
                metadata.sort_by_key(|name| order.iter().position(|o| o == name).unwrap_or(9));
            }
            assert!(!before, "stored bytes hold no version");
        }
        assert_eq!(String::from_utf8(out).expect("the writer writes UTF-8"), json_of(&tree));
    }
}

#[test]
fn encodes_and_decodes_every_field_type() {
    check(value!({"text": "ab"}), "12 02 'ab'");
    check(value!({"pointer": ""}), "1a 00 22 00");
    check(value!({"shown": "x"}), "22 01 'x'");
    check(value!({"flag": true}), "28 01 30 00");
    check(value!({"small": (-1i64)}), "30 ff ff ff ff ff ff ff ff ff 01");
    check(value!({"big": 0i64}), "38 00");
    check(value!({"big": 300i64}), "38 ac 02");
    check(value!({"ratio": 1.5f64}), "41 00 00 00 00 00 00 f8 3f");
    check(value!({"bytes": "AQI="}), "4a 02 01 02");
    check(value!({"struct": {"a": "x"}}), "52 05 0a 01 'x' 10 00");
    check(value!({"struct": {"b": 7i64}}), "52 04 0a 00 10 07");
    check(value!({"shownStruct": {"name": "", "port": 1i64}}), "5a 04 0a 00 10 01");
    check(value!({"ref": {}}), "62 04 0a 00 10 00");
    check(value!({"names": ["a", "", "b"]}), "6a 01 'a' 6a 00 6a 01 'b'");
    check(value!({"numbers": [1i64, 0i64, (-1i64)]}), "70 01 70 00 70 ff ff ff ff ff ff ff ff ff 01");
    check(value!({"structs": [{"a": "x"}, {}]}), "7a 05 0a 01 'x' 10 00 7a 04 0a 00 10 00");
    check(value!({"labels": {"a": "", "b": "x"}}), "82 01 05 0a 01 'a' 12 00 82 01 06 0a 01 'b' 12 01 'x'");
    check(value!({"data": {"a": "AQ==", "b": ""}}), "8a 01 06 0a 01 'a' 12 01 01 8a 01 05 0a 01 'b' 12 00");
    check(value!({"limits": {"cpu": "100m"}}), "92 01 0d 0a 03 'cpu' 12 06 0a 04 '100m'");
    check(value!({"when": "1970-01-01T00:00:01Z"}), "9a 01 04 08 01 10 00");
    check(value!({"then": "1970-01-01T00:00:01.000002Z"}), "a2 01 05 08 01 10 d0 0f");
    check(value!({"took": "1s"}), "aa 01 06 08 80 94 eb dc 03");
    check(value!({"took": "0s"}), "aa 01 02 08 00");
    check(value!({"port": 80i64}), "b2 01 06 08 00 10 50 1a 00");
    check(value!({"port": "http"}), "b2 01 0a 08 01 10 00 1a 04 'http'");
    check(value!({"raw": {"a": 1i64}}), "ba 01 09 0a 07 '{\"a\":1}'");
    check(value!({"fieldsV1": (Value::Raw("{\"f:a\":{}}".into()))}), "c2 01 0c 0a 0a '{\"f:a\":{}}'");
    check(
        value!({"extra": {"a": ["x", "y"], "b": []}}),
        "ca 01 0b 0a 01 'a' 12 06 0a 01 'x' 0a 01 'y' ca 01 05 0a 01 'b' 12 00",
    );
    check(value!({"verbs": ["get"]}), "d2 01 05 0a 03 'get'");
    check(value!({"inline": "x"}), "da 01 05 0a 01 'x' 12 00");
    check(value!({"deep": "x"}), "da 01 07 0a 00 12 03 0a 01 'x'");
    check(value!({"orBool": true}), "e2 01 02 08 01");
    check(value!({"orBool": false}), "e2 01 02 08 00");
    check(value!({"orBool": {"a": "x"}}), "e2 01 09 08 01 12 05 0a 01 'x' 10 00");
    check(value!({"orArray": {"a": "x"}}), "ea 01 07 0a 05 0a 01 'x' 10 00");
    check(value!({"orArray": [{"a": "x"}]}), "ea 01 07 12 05 0a 01 'x' 10 00");
    check(value!({"orStrings": {"a": "x"}}), "fa 01 07 0a 05 0a 01 'x' 10 00");
    check(value!({"orStrings": ["x"]}), "fa 01 03 12 01 'x'");
    check(value!({"late": "x"}), "f2 01 01 'x'");
}

#[test]
fn sorts_map_entries() {
    let value = value!({"labels": {"b": "2", "a": "1", "c": "3"}});
    let sorted = value!({"labels": {"a": "1", "b": "2", "c": "3"}});
    assert_eq!(encoded(&value), encoded(&sorted));
}

#[test]
fn round_trips_long_values() {
    let long = "x".repeat(40_000);
    let value = value!({
        "structs": [{"a": (long.as_str())}, {"a": "y"}],
        "deep": (long.as_str()),
        "labels": {"k": (long.as_str())},
    });
    let bytes = encoded(&value);
    let tree = decode(&bytes, &MESSAGE, DEPTH).expect("was just encoded");
    assert_eq!(tree.get("structs"), value.get("structs"));
    assert_eq!(tree.get("deep"), value.get("deep"));
    assert_eq!(tree.get("labels"), value.get("labels"));
    check_json(&bytes);
}

/// Bytes that the encoder would not write, with their JSON.
#[test]
fn decodes_messages_of_other_encoders() {
    let zero = json_of(&decode(&[], &MESSAGE, DEPTH).expect("nothing is a zero object"));
    assert_eq!(
        zero,
        r#"{"metadata":{"creationTimestamp":null},"shown":"","shownStruct":{"name":""},"structs":null,"verbs":null}"#
    );
    let metadata = r#""metadata":{"creationTimestamp":null}"#;
    let rest = r#""shown":"","shownStruct":{"name":""}"#;
    let nulls = r#""structs":null"#;
    for (bytes, want) in [
        ("", zero.clone()),
        // Unknown numbers of every wire type, including a group.
        ("f8 07 05 f9 07 01 02 03 04 05 06 07 08 fa 07 01 'x' fb 07 08 01 fc 07 fd 07 01 02 03 04", zero.clone()),
        // The last string wins, even if it is empty.
        ("12 01 'a' 12 01 'b'", format!(r#"{{{metadata},"text":"b",{rest},{nulls},"verbs":null}}"#)),
        ("12 01 'a' 12 00", zero.clone()),
        ("30 05 30 00", zero.clone()),
        // Records of one message are merged.
        (
            "52 03 0a 01 'x' 12 01 't' 52 02 10 07",
            format!(
                r#"{{{metadata},"text":"t",{r},"struct":{{"b":7,"a":"x"}},{s},{nulls},"verbs":null}}"#,
                r = r#""shown":"""#,
                s = r#""shownStruct":{"name":""}"#
            ),
        ),
        // Lists in parts.
        (
            "6a 01 'a' 12 01 't' 6a 01 'b'",
            format!(r#"{{{metadata},"text":"t",{rest},"names":["a","b"],{nulls},"verbs":null}}"#),
        ),
        // Packed numbers, also mixed with single ones.
        ("72 03 01 02 03 70 04", format!(r#"{{{metadata},{rest},"numbers":[1,2,3,4],{nulls},"verbs":null}}"#)),
        ("72 00", zero.clone()),
        // Maps: unsorted, with a repeated key, without a value, with an empty entry.
        (
            "82 01 06 0a 01 'b' 12 01 '1' 82 01 06 0a 01 'a' 12 01 '2' 82 01 06 0a 01 'b' 12 01 '3'",
            format!(r#"{{{metadata},{rest},{nulls},"labels":{{"a":"2","b":"3"}},"verbs":null}}"#),
        ),
        (
            "82 01 00 82 01 03 0a 01 'a' 82 01 06 12 01 'v' 0a 01 'z'",
            format!(r#"{{{metadata},{rest},{nulls},"labels":{{"":"","a":"","z":"v"}},"verbs":null}}"#),
        ),
        ("8a 01 03 0a 01 'a'", format!(r#"{{{metadata},{rest},{nulls},"data":{{"a":""}},"verbs":null}}"#)),
        ("92 01 03 0a 01 'a'", format!(r#"{{{metadata},{rest},{nulls},"limits":{{"a":"0"}},"verbs":null}}"#)),
        // Quantities become canonical.
        (
            "92 01 0b 0a 01 'a' 12 06 0a 04 '1000'",
            format!(r#"{{{metadata},{rest},{nulls},"limits":{{"a":"1k"}},"verbs":null}}"#),
        ),
        // Go's zero time counts as absent, as does an empty pointer to a time.
        ("9a 01 0d 08 80 92 b8 c3 98 fe ff ff ff 01 10 00", zero.clone()),
        ("a2 01 00", zero.clone()),
        // Fields without contents.
        ("ba 01 02 0a 00 c2 01 00 ea 01 00 fa 01 00", zero.clone()),
        ("d2 01 00", zero.clone()),
        // Integers are truncated to their width.
        ("30 80 80 80 80 10", zero.clone()),
        (
            "30 ff ff ff ff 0f",
            format!(r#"{{{metadata},"shown":"","small":-1,"shownStruct":{{"name":""}},{nulls},"verbs":null}}"#),
        ),
    ] {
        let bytes = hex(bytes);
        let tree = decode(&bytes, &MESSAGE, DEPTH).expect("every case is well formed");
        assert_eq!(json_of(&tree), want, "{bytes:02x?}");
        check_json(&bytes);
    }
}

#[test]
fn rejects_malformed_messages() {
    for (bytes, want) in [
        ("12", "unexpected EOF"),
        ("12 05 'ab'", "unexpected EOF"),
        ("12 ff ff ff ff 0f", "unexpected EOF"),
        ("12 ff ff ff ff ff ff ff ff ff 01", "proto: negative length found during unmarshaling"),
        ("12 ff ff ff ff ff ff ff ff ff ff 01", "proto: integer overflow"),
        ("30", "unexpected EOF"),
        ("30 80", "unexpected EOF"),
        ("41 01 02", "unexpected EOF"),
        ("10 01", "proto: wrong wireType = 0 for field Text"),
        ("32 01 'a'", "proto: wrong wireType = 2 for field Small"),
        ("68 01", "proto: wrong wireType = 0 for field Names"),
        ("71 01 02 03 04 05 06 07 08", "proto: wrong wireType = 1 for field Numbers"),
        ("80 01 01", "proto: wrong wireType = 0 for field Labels"),
        ("0a 02 28 01", "proto: wrong wireType = 0 for field UID"),
        ("14", "proto: Thing: wiretype end group for non-group"),
        ("02 01", "proto: Thing: illegal tag 0 (wire type 2)"),
        ("fa 07 05 'x'", "unexpected EOF"),
        ("fb 07 08 01", "unexpected EOF"),
        ("fe 07", "proto: illegal wireType 6"),
        ("0a 01 ff", "unexpected EOF"),
        ("b2 01 02 08 07", "impossible IntOrString.Type"),
        ("41 00 00 00 00 00 00 f0 7f", "json: unsupported value: +Inf"),
    ] {
        let bytes = hex(bytes);
        let error = decode(&bytes, &MESSAGE, DEPTH).expect_err("every case is malformed");
        assert_eq!(error.to_string(), want, "{bytes:02x?}");
        let mut out = b"before".to_vec();
        let error = to_json(&bytes, &MESSAGE, "v1", "Thing", Overrides::default(), &mut out).expect_err("as above");
        assert_eq!(error.to_string(), want, "{bytes:02x?}");
        assert_eq!(out, b"before", "nothing of a failed answer stays");
    }
    for bytes in ["92 01 0a 0a 01 'a' 12 05 0a 03 'x_y'", "ba 01 03 0a 01 '{'", "c2 01 03 0a 01 'x'"] {
        let bytes = hex(bytes);
        assert!(decode(&bytes, &MESSAGE, DEPTH).is_err(), "{bytes:02x?}");
        let mut out = Vec::new();
        assert!(to_json(&bytes, &MESSAGE, "v1", "Thing", Overrides::default(), &mut out).is_err(), "{bytes:02x?}");
    }
}

/// Every prefix of a message and every single corrupt byte yields a value or an error, the same in both decoders.
#[test]
fn both_decoders_agree_on_corrupt_messages() {
    let value = value!({
        "text": "abc", "small": 5i64, "struct": {"a": "x"}, "names": ["a", "b"], "labels": {"a": "1", "b": "2"},
        "limits": {"cpu": "1"}, "when": "2024-01-01T00:00:00Z", "port": "http", "deep": "x", "orArray": [{"a": "x"}],
        "extra": {"a": ["x"]}, "numbers": [1i64, 300i64], "raw": {"a": [1i64]},
        "fieldsV1": (Value::Raw("{\"f:a\":{}}".into())),
    });
    let good = encoded(&value);
    let check = |bytes: &[u8]| {
        let tree = decode_object(bytes, &MESSAGE, "v1", "Thing", DEPTH);
        let mut out = Vec::new();
        let json = to_json(bytes, &MESSAGE, "v1", "Thing", Overrides::default(), &mut out);
        match (tree, json) {
            (Ok(tree), Ok(())) => assert_eq!(String::from_utf8_lossy(&out), json_of(&tree), "{bytes:02x?}"),
            (Err(_), Err(_)) => {}
            (tree, json) => panic!("{bytes:02x?}: {tree:?} but {json:?}"),
        }
    };
    for n in 0..good.len() {
        check(&good[..n]);
        for b in [0u8, 1, 2, 7, 10, 18, 0x7f, 0x80, 0xff] {
            let mut bad = good.clone();
            bad[n] = b;
            check(&bad);
        }
    }
}

#[test]
fn bounds_depth() {
    // A field with the type of its own message, which is only possible in a static.
    static SELF: LazyLock<Message> = LazyLock::new(|| {
        let next: &'static Message = Box::leak(Box::new(Message::new("t.Level5", vec![])));
        let mut message =
            Message::new("t.Level4", vec![field(1, "next", Ty::Message(MessageRef::Static(next)), Presence::Optional)]);
        for name in ["t.Level3", "t.Level2", "t.Level1"] {
            let next: &'static Message = Box::leak(Box::new(message));
            message =
                Message::new(name, vec![field(1, "next", Ty::Message(MessageRef::Static(next)), Presence::Optional)]);
        }
        message
    });
    let bytes = hex("0a 06 0a 04 0a 02 0a 00");
    assert!(decode(&bytes, &SELF, 5).is_ok());
    assert_eq!(decode(&bytes, &SELF, 4).err(), Some(ProtoError::TooDeep));
}

#[test]
fn wraps_and_unwraps_envelopes() {
    let bytes = wrap("v1", "Pod", |out| out.extend(b"raw"));
    assert_eq!(bytes, hex("'k8s 00 0a 09 0a 02 'v1' 12 03 'Pod' 12 03 'raw' 1a 00 22 00"));
    let envelope = unwrap(&bytes).expect("was just wrapped");
    assert_eq!((&*envelope.api_version, &*envelope.kind, envelope.raw), ("v1", "Pod", &b"raw"[..]));
    for (bytes, want) in [
        ("", "empty data"),
        ("'k8s", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        ("'k8s 01 00", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
        ("'k8s 00", "empty body"),
        ("'k8s 00 0a 05", "unexpected EOF"),
        ("'k8s 00 10 05", "proto: wrong wireType = 0 for field Raw"),
        ("'k8s 00 0a 02 08 01", "proto: wrong wireType = 0 for field APIVersion"),
    ] {
        assert_eq!(unwrap(&hex(bytes)).map_err(|e| e.to_string()), Err(want.to_owned()));
    }
}

#[test]
fn builds_lists_from_encoded_items() {
    let items: [&[u8]; 3] = [b"\x0a\x00", b"", &[0x12; 300]];
    let meta = ListMeta { resource_version: "7", continue_token: "next", remaining_item_count: Some(300), shard: "" };
    let mut out = Vec::new();
    list_head("v1", "PodList", meta, items.iter().map(|item| list_item_len(item.len())).sum(), &mut out);
    for item in items {
        list_item_header(item.len(), &mut out);
        out.extend(item);
    }
    list_tail(&mut out);
    let want = wrap("v1", "PodList", |out| {
        out.extend(hex("0a 0e 0a 00 12 01 '7' 1a 04 'next' 20 ac 02 12 02 0a 00 12 00 12 ac 02"));
        out.extend([0x12; 300]);
    });
    assert_eq!(out, want);
}

#[test]
fn encodes_watch_frames() {
    let mut out = Vec::new();
    watch_frame("ADDED", b"object", &mut out);
    assert_eq!(out, hex("00 00 00 11 0a 05 'ADDED' 12 08 0a 06 'object'"));
    let mut long = Vec::new();
    watch_frame("BOOKMARK", &[7; 200], &mut long);
    assert_eq!(long[..4], [0, 0, 0, 216]);
    assert_eq!(long.len(), 4 + 216);
}

#[test]
fn splices_resource_versions() {
    let check = |value: Value, version: &str| {
        let bytes = encoded(&value);
        let mut want = value.clone();
        want.make_at(&["metadata"]).insert("resourceVersion", version);
        let want = encoded(&want);
        let splice = Splice::find(&bytes).expect("was just encoded");
        assert_eq!(splice.spliced_len(version), want.len());
        assert_eq!(splice_resource_version(&bytes, version).as_deref(), Ok(&want[..]));
    };
    check(value!({}), "1");
    check(value!({"metadata": {"name": "a", "uid": "b"}, "text": "after"}), "12345");
    check(value!({"metadata": {"name": "a", "resourceVersion": "old"}, "text": "after"}), "new");
    check(value!({"metadata": {"labels": {"a": ("x".repeat(120))}}}), "123456789");
    check(value!({"metadata": {"name": "a", "resourceVersion": "old"}}), "");
    // Without metadata, and without the field.
    assert_eq!(splice_resource_version(&hex("12 00"), "7").as_deref(), Ok(&hex("0a 03 32 01 '7' 12 00")[..]));
    assert_eq!(
        splice_resource_version(&hex("0a 05 0a 01 'n' 42 00 12 00"), "7").as_deref(),
        Ok(&hex("0a 08 0a 01 'n' 32 01 '7' 42 00 12 00")[..])
    );
    assert_eq!(splice_resource_version(&hex("0a 05 0a"), "7"), Err(ProtoError::UnexpectedEof));
}

#[test]
fn narrowed_messages_decode_selected_fields() {
    let value = value!({
        "metadata": {"name": "a", "uid": "b", "labels": {"x": "y"}}, "text": "t", "shown": "s", "struct": {"a": "x", "b": 2i64},
    });
    let bytes = encoded(&value);
    let narrowed = narrow(&MESSAGE, &[&["metadata", "labels"], &["struct", "b"], &["text"], &["absent", "x"]]);
    assert_eq!(
        decode(&bytes, &narrowed, DEPTH),
        Ok(value!({"metadata": {"labels": {"x": "y"}}, "text": "t", "struct": {"b": 2i64}}))
    );
    // Through lists and maps, and with the names of a map's members only.
    let structs = value!({"structs": [{"a": "x", "b": 2i64}, {"a": "y"}]});
    let bytes_of = encoded(&structs);
    let narrowed = narrow(&MESSAGE, &[&["structs", "a"]]);
    assert_eq!(decode(&bytes_of, &narrowed, DEPTH), Ok(value!({"structs": [{"a": "x"}, {"a": "y"}]})));
    let narrowed = narrow(&MESSAGE, &[&["structs", ""]]);
    assert_eq!(decode(&bytes_of, &narrowed, DEPTH), Ok(value!({"structs": [{}, {}]})));
    let narrowed = narrow(&MESSAGE, &[&["metadata", "labels"], &["metadata"]]);
    assert_eq!(
        decode(&bytes, &narrowed, DEPTH).map(|value| value.str_at(&["metadata", "uid"]).to_owned()),
        Ok("b".into())
    );
}
