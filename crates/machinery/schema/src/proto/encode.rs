//! Encodes the tree to protobuf: fields by ascending number, and values that are not pointers in Go are always written.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_meta::{GoDuration, MicroTime, Time};

use super::wire::{DELIMITED, FIXED64, VARINT, put_bytes, put_delimited, put_key, put_varint};
use crate::json;
use crate::types::plan::{Absent, Group, Rule, Shape};
use crate::types::{Field, Message, Ty};
use crate::value::{Object, Value};

/// Appends the message of an object, without envelope. Members that are not fields of the message are not written, nor
/// are `apiVersion` and `kind`, which belong to the envelope.
pub fn encode(value: &Value, message: &Message, out: &mut Vec<u8>) {
    Encoder { values: Vec::with_capacity(NESTED_FIELDS) }.message(message, value.as_object(), out);
}

/// The number of fields of a pod, its spec, a container and nested structs. More are rarely needed at a time.
const NESTED_FIELDS: usize = 192;

struct Encoder<'v> {
    /// The values by field index of each message that is being written.
    values: Vec<Option<&'v Value>>,
}

impl<'v> Encoder<'v> {
    fn message(&mut self, message: &Message, object: Option<&'v Object>, out: &mut Vec<u8>) {
        let base = self.values.len();
        self.values.resize(base + message.fields.len(), None);
        let mut hint = 0;
        for (name, value) in object.iter().flat_map(|object| object.iter()) {
            if let Some((i, _)) = message.field(name, hint) {
                self.values[base + i] = Some(value);
                hint = i + 1;
            }
        }
        self.group(message, message.plan().root(), base, out);
        self.values.truncate(base);
    }

    fn group(&mut self, message: &Message, group: &Group, base: usize, out: &mut Vec<u8>) {
        for entry in &group.entries {
            if entry.rule == Rule::Group {
                put_key(entry.tag, DELIMITED, out);
                put_delimited(out, |out| self.group(message, message.plan().group(entry.index), base, out));
                continue;
            }
            let i = usize::from(entry.index);
            self.field(&message.fields[i], message.plan().fields[i].absent, self.values[base + i], out);
        }
    }

    fn field(&mut self, field: &Field, absent: Absent, value: Option<&'v Value>, out: &mut Vec<u8>) {
        let value = match value {
            None | Some(Value::Null) if matches!(absent, Absent::Nothing | Absent::Null) => return,
            None => &Value::Null,
            Some(value) => value,
        };
        match Shape::of(&field.ty) {
            Shape::List(element) => {
                for item in value.as_list().unwrap_or_default() {
                    self.record(field.tag, element, item, out);
                }
            }
            Shape::Map(values) => {
                let Some(object) = value.as_object() else { return };
                if object.iter().is_sorted_by(|a, b| a.0 < b.0) {
                    object.iter().for_each(|(key, value)| self.entry(field.tag, key, values, value, out));
                } else {
                    let mut members: Vec<_> = object.iter().collect();
                    members.sort_unstable_by(|a, b| a.0.cmp(b.0));
                    members.into_iter().for_each(|(key, value)| self.entry(field.tag, key, values, value, out));
                }
            }
            Shape::One(ty) => self.record(field.tag, ty, value, out),
        }
    }

    /// Writes an entry of a map.
    fn entry(&mut self, tag: u32, key: &str, values: &Ty, value: &'v Value, out: &mut Vec<u8>) {
        put_key(tag, DELIMITED, out);
        put_delimited(out, |out| {
            put_key(1, DELIMITED, out);
            put_bytes(key.as_bytes(), out);
            // A nil slice of bytes has no value record.
            if !(matches!(values, Ty::Bytes) && value.is_null()) {
                self.record(2, values, value, out);
            }
        });
    }

    /// Writes one record; `null` is the zero value of the type.
    fn record(&mut self, tag: u32, ty: &Ty, value: &'v Value, out: &mut Vec<u8>) {
        match ty {
            Ty::Bool | Ty::Int32 | Ty::Int64 | Ty::Uint32 => {
                put_key(tag, VARINT, out);
                put_varint(number(value), out);
            }
            Ty::Double => {
                put_key(tag, FIXED64, out);
                out.extend_from_slice(&value.as_f64().unwrap_or(0.0).to_le_bytes());
            }
            _ => {
                put_key(tag, DELIMITED, out);
                self.delimited(ty, value, out);
            }
        }
    }

    /// Writes a value with its length before it.
    fn delimited(&mut self, ty: &Ty, value: &'v Value, out: &mut Vec<u8>) {
        match ty {
            Ty::String => put_bytes(value.as_str().unwrap_or("").as_bytes(), out),
            Ty::Bytes => put_bytes(&STANDARD.decode(value.as_str().unwrap_or("")).unwrap_or_default(), out),
            Ty::Message(message) => put_delimited(out, |out| self.message(message, value.as_object(), out)),
            Ty::Time => {
                let time = value.as_str().and_then(|text| Time::parse(text).ok()).filter(|time| !time.is_zero());
                timestamp(time.map(|time| (time.unix_seconds(), 0)), out);
            }
            Ty::MicroTime => {
                let time = value.as_str().and_then(|text| MicroTime::parse(text).ok()).filter(|time| !time.is_zero());
                timestamp(time.map(|time| (time.unix_seconds(), time.nanos() / 1000 * 1000)), out);
            }
            Ty::Duration => put_delimited(out, |out| {
                let duration = value.as_str().and_then(|text| GoDuration::parse(text).ok());
                put_key(1, VARINT, out);
                put_varint(duration.map_or(0, |duration| duration.nanos()) as u64, out);
            }),
            Ty::Quantity => put_delimited(out, |out| {
                put_key(1, DELIMITED, out);
                put_bytes(value.as_str().unwrap_or("0").as_bytes(), out);
            }),
            Ty::IntOrString => put_delimited(out, |out| {
                put_key(1, VARINT, out);
                put_varint(u64::from(value.as_str().is_some()), out);
                put_key(2, VARINT, out);
                put_varint(value.as_i64().unwrap_or(0) as u64, out);
                put_key(3, DELIMITED, out);
                put_bytes(value.as_str().unwrap_or("").as_bytes(), out);
            }),
            Ty::RawExtension | Ty::Json | Ty::FieldsV1 => put_delimited(out, |out| {
                if !value.is_null() {
                    put_key(1, DELIMITED, out);
                    match (ty, value) {
                        // Written as the client sent it.
                        (Ty::RawExtension, Value::Raw(text)) => put_bytes(text.as_bytes(), out),
                        _ => put_delimited(out, |out| json::write(value, out)),
                    }
                }
            }),
            Ty::SchemaOrBool(schema) => put_delimited(out, |out| {
                put_key(1, VARINT, out);
                put_varint(u64::from(value.as_bool().unwrap_or(value.as_object().is_some())), out);
                self.schema(2, schema, value, out);
            }),
            Ty::SchemaOrArray(schema) => put_delimited(out, |out| {
                self.schema(1, schema, value, out);
                for item in value.as_list().unwrap_or_default() {
                    put_key(2, DELIMITED, out);
                    put_delimited(out, |out| self.message(schema, item.as_object(), out));
                }
            }),
            Ty::SchemaOrStrings(schema) => put_delimited(out, |out| {
                self.schema(1, schema, value, out);
                for item in value.as_list().unwrap_or_default() {
                    self.record(2, &Ty::String, item, out);
                }
            }),
            // A list in place of a single value, which protobuf wraps in a message.
            Ty::StaticWrappedList(element) => self.wrapped(element, value, out),
            Ty::List(_) | Ty::ListOf(_) | Ty::StaticList(_) | Ty::Map(_) | Ty::StaticMap(_) => put_varint(0, out),
            Ty::Bool | Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double => unreachable!("numbers are not delimited"),
        }
    }

    fn wrapped(&mut self, element: &Ty, value: &'v Value, out: &mut Vec<u8>) {
        put_delimited(out, |out| {
            for item in value.as_list().unwrap_or_default() {
                self.record(1, element, item, out);
            }
        });
    }

    fn schema(&mut self, tag: u32, schema: &Message, value: &'v Value, out: &mut Vec<u8>) {
        if let Some(object) = value.as_object() {
            put_key(tag, DELIMITED, out);
            put_delimited(out, |out| self.message(schema, Some(object), out));
        }
    }
}

fn number(value: &Value) -> u64 {
    match value {
        Value::Bool(b) => u64::from(*b),
        Value::Int(n) => *n as u64,
        _ => 0,
    }
}

/// Writes a `Timestamp`, empty for Go's zero time.
fn timestamp(time: Option<(i64, u32)>, out: &mut Vec<u8>) {
    put_delimited(out, |out| {
        if let Some((seconds, nanos)) = time {
            put_key(1, VARINT, out);
            put_varint(seconds as u64, out);
            put_key(2, VARINT, out);
            put_varint(u64::from(nanos), out);
        }
    });
}
