//! Random objects of every kind: encoded objects decode to the same tree, and convert to the same JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_kinds::tables;
use binnacle_meta::{GoDuration, MicroTime, Time};
use binnacle_schema::{Field, Limits, Message, Object, Presence, Ty, Value, decode, json, proto};

/// A generator of random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 33) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len() as u64) as usize]
    }

    fn text(&mut self) -> String {
        const PARTS: &[&str] = &[
            "a",
            "web-0",
            "kube-system/",
            "<&>",
            "\"",
            "\\",
            "\n",
            "grün",
            "\u{2028}",
            "0123456789abcdef",
            "日本",
            "\u{1}",
            " ",
        ];
        (0..1 + self.below(5)).map(|_| self.pick(PARTS)).collect()
    }

    fn int(&mut self) -> i64 {
        let n = (self.next() >> self.below(64)) as i64;
        if self.one_in(4) { n.wrapping_neg() } else { n }
    }
}

/// Returns a struct with members in field order. Members that canonical trees require are always present; others are
/// random, and fewer at greater depth.
fn object(random: &mut Random, message: &Message, depth: u64) -> Value {
    let mut object = Object::new();
    for field in message.fields.iter().filter(|field| field.tag != 0 || !field.constant.is_empty()) {
        if !field.constant.is_empty() {
            object.insert(field.name.clone(), field.constant);
            continue;
        }
        let wanted = depth < 7 && random.below(8) >= depth;
        match field.presence {
            Presence::Always if never_null(&field.ty) => {
                let value = if wanted { value(random, &field.ty, depth) } else { zero(&field.ty) };
                object.insert(field.name.clone(), value);
            }
            Presence::Always | Presence::AlwaysNull => {
                let value = if wanted { value(random, &field.ty, depth) } else { Value::Null };
                object.insert(field.name.clone(), if is_empty(&value) { Value::Null } else { value });
            }
            Presence::Optional if wanted => {
                object.insert(field.name.clone(), value(random, &field.ty, depth));
            }
            Presence::OmitZero if wanted => {
                let value = value(random, &field.ty, depth);
                if !is_zero(field, &value) {
                    object.insert(field.name.clone(), value);
                }
            }
            _ => {}
        }
    }
    Value::Object(object)
}

fn is_zero(field: &Field, value: &Value) -> bool {
    is_empty(value) || (never_null(&field.ty) && *value == zero(&field.ty))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::List(items) => items.is_empty(),
        Value::Null => true,
        Value::Str(text) => text.is_empty(),
        _ => false,
    }
}

/// Returns true if Go's zero value of the type is anything but `null`.
fn never_null(ty: &Ty) -> bool {
    matches!(
        ty,
        Ty::String
            | Ty::Bool
            | Ty::Int32
            | Ty::Int64
            | Ty::Uint32
            | Ty::Double
            | Ty::Duration
            | Ty::Quantity
            | Ty::IntOrString
            | Ty::Message(_)
    )
}

fn zero(ty: &Ty) -> Value {
    match ty {
        Ty::String => "".into(),
        Ty::Bool => false.into(),
        Ty::Double => 0.0.into(),
        Ty::Duration => "0s".into(),
        Ty::Quantity => "0".into(),
        Ty::Message(message) => proto::decode(&[], message, proto::DEPTH).expect("nothing is a zero object"),
        _ => 0i64.into(),
    }
}

fn value(random: &mut Random, ty: &Ty, depth: u64) -> Value {
    match ty {
        Ty::String => match random.one_in(8) {
            true => "".into(),
            false => random.text().into(),
        },
        Ty::Bool => random.one_in(2).into(),
        Ty::Int32 => i64::from(random.int() as i32).into(),
        Ty::Int64 => random.int().into(),
        Ty::Uint32 => i64::from(random.int() as u32).into(),
        Ty::Double => (random.int() as i32 as f64 / 8.0).into(),
        Ty::Bytes => STANDARD.encode(random.text()).into(),
        Ty::Time => Time::from_unix(1 + random.below(4_000_000_000) as i64, 0).to_string().into(),
        Ty::MicroTime => {
            MicroTime::from_unix(1 + random.below(4_000_000_000) as i64, random.below(1_000_000) as u32 * 1000)
                .to_string()
                .into()
        }
        Ty::Duration => GoDuration(random.int()).to_string().into(),
        Ty::Quantity => {
            random.pick(&["0", "1", "100m", "1500m", "64Mi", "1Gi", "1k", "5n", "1e3", "12e6", "500m", "-3"]).into()
        }
        Ty::IntOrString => match random.one_in(2) {
            true => i64::from(random.int() as i32).into(),
            false => random.text().into(),
        },
        Ty::RawExtension => {
            let mut object = Object::new();
            object.insert("kind", random.text());
            object.insert("values", Value::List(vec![random.int().into(), random.one_in(2).into(), Value::Null]));
            Value::Object(object)
        }
        Ty::Json => match random.below(4) {
            0 => random.int().into(),
            1 => random.text().into(),
            2 => random.one_in(2).into(),
            _ => Value::List(vec![0.25.into(), random.text().into(), Value::Object(Object::new())]),
        },
        Ty::FieldsV1 => Value::Raw(
            random
                .pick(&[
                    "{}",
                    r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}}}"#,
                    r#"{"k:{\"name\":\"a \\u003c\"}":{".":{}}}"#,
                ])
                .into(),
        ),
        Ty::SchemaOrBool(schema) => match random.one_in(2) {
            true => random.one_in(2).into(),
            false => object(random, schema, depth + 1),
        },
        Ty::SchemaOrArray(schema) => match random.one_in(2) {
            true => object(random, schema, depth + 1),
            false => Value::List((0..1 + random.below(2)).map(|_| object(random, schema, depth + 1)).collect()),
        },
        Ty::SchemaOrStrings(schema) => match random.one_in(2) {
            true => object(random, schema, depth + 1),
            false => Value::List((0..1 + random.below(3)).map(|_| random.text().into()).collect()),
        },
        Ty::Message(message) => object(random, message, depth + 1),
        _ => match (ty.element(), ty.map_value()) {
            (Some(element), _) => {
                Value::List((0..1 + random.below(3)).map(|_| value(random, element, depth + 1)).collect())
            }
            (_, Some(values)) => {
                let mut map = Object::new();
                for _ in 0..1 + random.below(4) {
                    map.insert(random.text(), value(random, values, depth + 1));
                }
                map.sort_by_name();
                Value::Object(map)
            }
            _ => Value::Null,
        },
    }
}

#[test]
fn random_objects_round_trip() {
    let mut random = Random(0x5eed_0b1a_c1e5);
    let (mut objects, mut size) = (0, 0);
    for kind in tables::kinds() {
        let message = kind.message;
        if message.fields.iter().all(|field| field.tag == 0) {
            continue;
        }
        for _ in 0..6 {
            let tree = object(&mut random, message, 0);
            let mut bytes = Vec::new();
            proto::encode(&tree, message, &mut bytes);
            let again = proto::decode(&bytes, message, proto::DEPTH).expect("was just encoded");
            assert_same(&again, &tree, kind);

            let want = json::to_string(&tree);
            let mut streamed = Vec::new();
            proto::to_json(&bytes, message, "", "", proto::Overrides::default(), &mut streamed)
                .expect("decoded before");
            assert_eq!(String::from_utf8_lossy(&streamed), want, "{kind:?}");

            let limits = Limits { max_bytes: usize::MAX, ..Limits::default() };
            let from_json = decode::json(want.as_bytes(), message, &limits).expect("was just written").value;
            assert_same(&from_json, &tree, kind);
            let mut from_tree = Vec::new();
            proto::encode(&from_json, message, &mut from_tree);
            assert_eq!(from_tree, bytes, "{kind:?}");
            objects += 1;
            size += bytes.len();
        }
    }
    println!("{objects} random objects, {size} bytes");
}

#[track_caller]
fn assert_same(a: &Value, b: &Value, kind: &tables::KindMessage) {
    assert!(a == b, "{kind:?}:\n{}\n{}", json::to_string(a), json::to_string(b));
}

/// Returns different bytes with the same meaning: records of different fields change order, and messages are split.
/// Records of one field keep their order, which has a meaning.
fn shuffled(random: &mut Random, bytes: &[u8], message: &Message) -> Vec<u8> {
    let mut queues: Vec<(u64, std::collections::VecDeque<Vec<u8>>)> = Vec::new();
    for (key, content) in records(bytes) {
        let field = message.fields.iter().find(|f| u64::from(f.tag) == key >> 3 && f.embedded_in.is_empty());
        let parts = match field.map(|field| &field.ty) {
            Some(Ty::Message(inner)) => {
                let content = shuffled(random, &content, inner);
                // The records of a message may be split between two records.
                let inner = records(&content);
                let at = random.below(inner.len() as u64 + 1) as usize;
                let [first, second] = [&inner[..at], &inner[at..]].map(|part| part.iter().flat_map(record).collect());
                vec![first, second]
            }
            Some(ty) => match ty.element().and_then(Ty::message) {
                Some(inner) => vec![shuffled(random, &content, inner)],
                None => vec![content],
            },
            None => vec![content],
        };
        let at = queues.iter().position(|(k, _)| *k == key).unwrap_or_else(|| {
            queues.push((key, Default::default()));
            queues.len() - 1
        });
        queues[at].1.extend(parts.into_iter().map(|content| record(&(key, content))));
    }
    let mut out = Vec::new();
    while !queues.is_empty() {
        let at = random.below(queues.len() as u64) as usize;
        match queues[at].1.pop_front() {
            Some(record) => out.extend(record),
            None => drop(queues.swap_remove(at)),
        }
    }
    out
}

/// Returns key and content of each record; the content of a number is its encoding.
fn records(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    fn varint(rest: &mut &[u8]) -> u64 {
        let n = rest.iter().take_while(|b| **b >= 0x80).count() + 1;
        let (number, after) = rest.split_at(n);
        *rest = after;
        number.iter().rev().fold(0, |n, b| n << 7 | u64::from(b & 0x7f))
    }
    let (mut rest, mut records) = (bytes, Vec::new());
    while !rest.is_empty() {
        let key = varint(&mut rest);
        let before = rest;
        let length = match key & 7 {
            0 => {
                varint(&mut rest);
                before.len() - rest.len()
            }
            1 => 8,
            _ => varint(&mut rest) as usize,
        };
        let from = if key & 7 == 0 { before } else { rest };
        records.push((key, from[..length].to_vec()));
        rest = &from[length..];
    }
    records
}

fn record((key, content): &(u64, Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    let mut put = |mut n: u64| {
        while n >= 0x80 {
            out.push(n as u8 | 0x80);
            n >>= 7;
        }
        out.push(n as u8);
    };
    put(*key);
    if key & 7 == 2 {
        put(content.len() as u64);
    }
    out.extend(content);
    out
}

#[test]
fn decodes_fields_in_any_order() {
    let mut random = Random(0x0dd_0de2);
    for kind in tables::kinds().filter(|kind| kind.message.fields.iter().any(|field| field.tag != 0)) {
        let tree = object(&mut random, kind.message, 0);
        let mut bytes = Vec::new();
        proto::encode(&tree, kind.message, &mut bytes);
        let other = shuffled(&mut random, &bytes, kind.message);
        let again = proto::decode(&other, kind.message, proto::DEPTH).expect("means the same");
        assert_same(&again, &tree, kind);
        let mut streamed = Vec::new();
        proto::to_json(&other, kind.message, "", "", proto::Overrides::default(), &mut streamed).expect("as above");
        assert_eq!(String::from_utf8_lossy(&streamed), json::to_string(&tree), "{kind:?}");
    }
}

/// Damaged bytes result in an object or an error, the same from both decoders, and never in a panic.
#[test]
fn readers_agree_on_damaged_objects() {
    let mut random = Random(0xda_3a9e);
    let (mut read, mut refused) = (0, 0);
    for kind in tables::kinds().filter(|kind| kind.message.fields.iter().any(|field| field.tag != 0)) {
        let mut good = Vec::new();
        proto::encode(&object(&mut random, kind.message, 0), kind.message, &mut good);
        for _ in 0..20 {
            let mut bad = good.clone();
            for _ in 0..1 + random.below(3) {
                let at = random.below(bad.len() as u64) as usize;
                match random.below(4) {
                    0 => bad.truncate(at + 1),
                    1 => drop(bad.remove(at)),
                    2 => bad.insert(at, random.next() as u8),
                    _ => bad[at] ^= 1 << random.below(8),
                }
                if bad.is_empty() {
                    bad.push(0);
                }
            }
            let tree = proto::decode(&bad, kind.message, proto::DEPTH);
            let mut streamed = Vec::new();
            let json = proto::to_json(&bad, kind.message, "", "", proto::Overrides::default(), &mut streamed);
            match (tree, json) {
                (Ok(tree), Ok(())) => {
                    assert_eq!(String::from_utf8_lossy(&streamed), json::to_string(&tree), "{kind:?} {bad:02x?}");
                    read += 1;
                }
                (Err(_), Err(_)) => refused += 1,
                (tree, json) => panic!("{kind:?} {bad:02x?}: {tree:?} but {json:?}"),
            }
        }
    }
    println!("{read} damaged objects read, {refused} refused");
}

/// Schemas within schemas, the only messages that nest without bound.
#[test]
fn limits_depth_of_schemas() {
    let name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
    let schema = tables::message(name).expect("the tables have schemas");
    let nested =
        |levels: usize, around: &dyn Fn(Vec<u8>) -> Vec<u8>| (0..levels).fold(Vec::new(), |inner, _| around(inner));
    let not = |inner: Vec<u8>| record(&(28 << 3 | 2, inner));
    let property =
        |inner: Vec<u8>| record(&(29 << 3 | 2, [record(&(10, b"p".to_vec())), record(&(18, inner))].concat()));
    let unordered = |inner: Vec<u8>| [record(&(28 << 3 | 2, Vec::new())), record(&(28 << 3 | 2, inner))].concat();
    for around in [&not as &dyn Fn(Vec<u8>) -> Vec<u8>, &property, &unordered] {
        for (levels, fits) in [(proto::DEPTH - 1, true), (proto::DEPTH, false), (20 * proto::DEPTH, false)] {
            let bytes = nested(levels, around);
            let decoded = proto::decode(&bytes, schema, proto::DEPTH);
            assert_eq!(decoded.as_ref().err(), (!fits).then_some(&proto::ProtoError::TooDeep), "{levels}");
            let mut out = Vec::new();
            let json = proto::to_json(&bytes, schema, "", "", proto::Overrides::default(), &mut out);
            assert_eq!(json.is_ok(), fits, "{levels}");
            if let Ok(tree) = decoded {
                assert_eq!(String::from_utf8_lossy(&out), json::to_string(&tree));
            }
        }
    }
}
