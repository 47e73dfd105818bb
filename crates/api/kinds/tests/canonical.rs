//! Properties of the typed codec, tested with generated objects of every built-in kind.

use binnacle_kinds::tables;
use binnacle_schema::{Limits, Message, Object, Ty, Value, canonical, decode, json, yaml};

/// A small generator of random numbers, deterministic for a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }

    /// Returns an object of a table as a client might send it: some of the fields in any order, including zero values
    /// and nulls.
    fn object(&mut self, message: &Message, depth: u64) -> Value {
        let mut members = Vec::new();
        for field in message.fields.iter() {
            if self.below(3) == 0 {
                let value = if self.below(8) == 0 && !matches!(field.ty, Ty::Duration) {
                    Value::Null
                } else {
                    self.value(&field.ty, depth)
                };
                members.push((field.name.clone(), value));
            }
        }
        if !members.is_empty() {
            let at = self.below(members.len() as u64) as usize;
            members.rotate_left(at);
        }
        Value::Object(members.into_iter().collect())
    }

    fn value(&mut self, ty: &Ty, depth: u64) -> Value {
        let few = if depth == 0 { 0 } else { self.below(3) };
        match ty {
            Ty::String => self.pick(&["", "a", "a text that is longer than 23 bytes", "<&>\n"]).into(),
            Ty::Bool => Value::Bool(self.below(2) == 0),
            Ty::Int32 | Ty::Uint32 => Value::Int(self.below(3) as i64),
            Ty::Int64 => Value::Int([0, 7, i64::MAX][self.below(3) as usize]),
            Ty::Double => Value::Float([0.0, 1.0, 0.5][self.below(3) as usize]),
            Ty::Bytes => self.pick(&["", "aGk=", "aG\nk=", "aR=="]).into(),
            Ty::Time => self.pick(&["2024-01-01T00:00:00Z", "2024-01-01T00:00:00.5+01:00"]).into(),
            Ty::MicroTime => self.pick(&["2024-01-01T00:00:00.000000Z", "2024-01-01T00:00:00.123456-01:00"]).into(),
            Ty::Duration => self.pick(&["0s", "90s", "1h"]).into(),
            Ty::Quantity => match self.below(2) {
                0 => self.pick(&["0", "0.5", "1024Mi", "1e3", "100m"]).into(),
                _ => Value::Int(5),
            },
            Ty::IntOrString => match self.below(2) {
                0 => self.pick(&["", "25%"]).into(),
                _ => Value::Int(self.below(3) as i64),
            },
            Ty::RawExtension => {
                let members = [("b", Value::Int(1)), ("a", Value::Null), ("c", Value::List(vec![0.5.into()]))];
                Value::Object(members.into_iter().collect())
            }
            Ty::Json => {
                [Value::Int(0), "x".into(), Value::Bool(false), Value::List(vec![])][self.below(4) as usize].clone()
            }
            Ty::FieldsV1 => Value::Object([("f:a", Object::new())].into_iter().collect()),
            Ty::SchemaOrBool(message) => match self.below(2) {
                0 => Value::Bool(self.below(2) == 0),
                _ => self.nested(message, depth),
            },
            Ty::SchemaOrArray(message) => match self.below(2) {
                0 => Value::List((0..few).map(|_| self.nested(message, depth)).collect()),
                _ => self.nested(message, depth),
            },
            Ty::SchemaOrStrings(message) => match self.below(2) {
                0 => Value::List((0..few).map(|_| "x".into()).collect()),
                _ => self.nested(message, depth),
            },
            Ty::Message(message) => self.nested(message, depth),
            _ => {
                if let Some(element) = ty.element() {
                    return Value::List((0..few).map(|_| self.element(element, depth)).collect());
                }
                let element = ty.map_value().expect("scalars are dealt with above");
                (0..few)
                    .map(|_| (self.pick(&["k2", "k1", "k10"]), self.element(element, depth)))
                    .collect::<Object>()
                    .into()
            }
        }
    }

    fn element(&mut self, ty: &Ty, depth: u64) -> Value {
        if self.below(8) == 0 && !matches!(ty, Ty::Duration) { Value::Null } else { self.value(ty, depth - 1) }
    }

    fn nested(&mut self, message: &Message, depth: u64) -> Value {
        if depth == 0 { Value::Object(Object::new()) } else { self.object(message, depth - 1) }
    }
}

/// Removes empty `managedFields`, which decoding keeps because clients reset the managers with them.
fn without_empty_managers(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, v| name != "managedFields" || v.as_list().is_none_or(|list| !list.is_empty()));
            members.iter_mut().for_each(|(_, member)| without_empty_managers(member));
        }
        Value::List(items) => items.iter_mut().for_each(without_empty_managers),
        _ => {}
    }
}

#[test]
fn typed_objects_decode_to_canonical_form() {
    let mut random = Random(0x5eed);
    let limits = Limits::default();
    for kind in tables::kinds() {
        for round in 0..6 {
            let mut given = random.object(kind.message, 5);
            without_empty_managers(&mut given);
            let given_text = json::to_string(&given);
            let what = format!("{} {round}: {given_text}", kind.message.name);
            let decode = |text: &str| {
                let decoded = decode::json(text.as_bytes(), kind.message, &limits);
                let decoded = decoded.unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(decoded.findings.is_empty(), "{what}: {:?}", decoded.findings);
                decoded.value
            };
            let value = decode(&given_text);
            let text = json::to_string(&value);
            assert_eq!(json::to_string(&decode(&text)), text, "{what}: decoding what was encoded changes nothing");

            let mut again = value.clone();
            canonical::canonicalize(&mut again, kind.message);
            assert_eq!(json::to_string(&again), text, "{what}: a decoded object is canonical");

            let as_tree = decode::value(given, kind.message).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(json::to_string(&as_tree.value), text, "{what}: bytes and trees decode alike");

            let mut shuffled = value.clone();
            binnacle_schema::sort_free_form(&mut shuffled);
            canonical::canonicalize(&mut shuffled, kind.message);
            let mut once = text.clone();
            // Free-form parts keep their order.
            if value != shuffled || json::to_string(&shuffled) != text {
                let sorted = |value: &Value| {
                    let mut value = value.clone();
                    binnacle_schema::sort_free_form(&mut value);
                    json::to_string(&value)
                };
                assert_eq!(sorted(&shuffled), sorted(&value), "{what}: the order of members is made good");
                once = json::to_string(&shuffled);
            }
            canonical::canonicalize(&mut shuffled, kind.message);
            assert_eq!(json::to_string(&shuffled), once, "{what}: canonical objects stay as they are");

            let by_yaml = decode::yaml(yaml::to_string(&value).as_bytes(), kind.message, &limits);
            let by_yaml = by_yaml.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(by_yaml.findings.is_empty(), "{what}: {:?}", by_yaml.findings);
            let (mut a, mut b) = (by_yaml.value, value);
            binnacle_schema::sort_free_form(&mut a);
            binnacle_schema::sort_free_form(&mut b);
            assert_eq!(json::to_string(&a), json::to_string(&b), "{what}: YAML tells the same");
        }
    }
}
