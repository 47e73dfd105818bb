//! From protobuf to the tree, as the decoded JSON of the same object has it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_meta::{GoDuration, MicroTime, Text, Time};

use super::error::ProtoError;
use super::free;
use super::plan::{Absent, FieldPlan, Group, Shape, Target};
use super::scalars::{self, IntOrString, Or, SchemaOr, shared_text};
use super::wire::{DELIMITED, FIXED64, Key, Reader, VARINT};
use crate::types::{Field, Message, Ty};
use crate::value::{Object, Value};

/// Messages within messages that are read unless the caller says otherwise. Only schemas of custom resources nest
/// without bound; a property costs one level.
pub const DEPTH: usize = 256;

/// Reads a message without envelope: fields in the order of the schema, zero values as the JSON of the object has them.
/// `apiVersion` and `kind` are the envelope's and not set.
pub fn decode(bytes: &[u8], message: &Message, depth: usize) -> Result<Value, ProtoError> {
    if u32::try_from(bytes.len()).is_err() {
        return Err(ProtoError::TooLarge);
    }
    Ok(Decoder { slots: Vec::new() }.message(bytes, message, depth)?.value)
}

/// Reads the message of an envelope: [`decode`] with `apiVersion` and `kind` set, where the message has them.
pub fn decode_object(
    bytes: &[u8],
    message: &Message,
    api_version: &str,
    kind: &str,
    depth: usize,
) -> Result<Value, ProtoError> {
    let decoded = decode(bytes, message, depth)?;
    let Value::Object(decoded) = decoded else { return Ok(decoded) };
    let mut object = Object::with_capacity(decoded.len() + 2);
    for field in message.fields.iter().filter(|field| field.tag == 0) {
        match field.name.as_str() {
            "apiVersion" if !api_version.is_empty() => object.push(field.name.clone(), api_version.into()),
            "kind" if !kind.is_empty() => object.push(field.name.clone(), kind.into()),
            _ => {}
        }
    }
    for (name, value) in decoded {
        object.insert(name, value);
    }
    Ok(Value::Object(object))
}

/// A value and whether it is more than Go's zero value.
struct Decoded {
    value: Value,
    nonzero: bool,
}

/// What was found of a field.
#[derive(Default)]
enum Slot<'a> {
    #[default]
    Absent,
    Value(Value),
    /// A map, and whether its keys came in order.
    Map(Object, bool),
    /// One value with a length, not yet read.
    Bytes(&'a [u8]),
    /// Several records of one message: together they are its records.
    Merged(Vec<u8>),
}

struct Decoder<'a> {
    /// For each message that is being read, what was found of its fields.
    slots: Vec<Slot<'a>>,
}

impl<'a> Decoder<'a> {
    fn message(&mut self, bytes: &'a [u8], message: &Message, depth: usize) -> Result<Decoded, ProtoError> {
        let depth = depth.checked_sub(1).ok_or(ProtoError::TooDeep)?;
        let plan = message.plan();
        let base = self.slots.len();
        self.slots.resize_with(base + message.fields.len(), Slot::default);
        self.group(bytes, message, &plan.root, base, depth)?;

        let members = (0..message.fields.len())
            .filter(|i| {
                !matches!(self.slots[base + i], Slot::Absent)
                    || matches!(plan.fields[*i].absent, Absent::Null | Absent::ShownZero)
            })
            .count();
        let mut object = Object::with_capacity(members);
        let mut nonzero = false;
        for (i, (field, plan)) in message.fields.iter().zip(&plan.fields).enumerate() {
            let slot = std::mem::take(&mut self.slots[base + i]);
            if field.tag == 0 {
                continue;
            }
            if let Some(decoded) = self.finish(slot, field, plan, depth)? {
                nonzero |= decoded.nonzero;
                object.push(field.name.clone(), decoded.value);
            }
        }
        self.slots.truncate(base);
        Ok(Decoded { value: Value::Object(object), nonzero })
    }

    /// Reads the records of one level of numbers into the slots from `base` on.
    fn group(
        &mut self,
        bytes: &'a [u8],
        message: &Message,
        group: &Group,
        base: usize,
        depth: usize,
    ) -> Result<(), ProtoError> {
        let mut reader = Reader::new(bytes);
        while let Some(key) = reader.key(&message.name)? {
            match group.find(key.tag).map(|entry| &entry.target) {
                None => reader.skip(key)?,
                Some(Target::Field(i)) => {
                    let slot = std::mem::take(&mut self.slots[base + i]);
                    let slot =
                        self.record(slot, key, &mut reader, &message.fields[*i], &message.plan().fields[*i], depth)?;
                    self.slots[base + i] = slot;
                }
                Some(Target::Group(inner)) => {
                    let bytes = scalars::delimited(key, &mut reader, "embedded struct")?;
                    self.group(bytes, message, inner, base, depth)?;
                }
            }
        }
        Ok(())
    }

    /// Adds one record to what was found of its field.
    fn record(
        &mut self,
        slot: Slot<'a>,
        key: Key,
        reader: &mut Reader<'a>,
        field: &Field,
        plan: &FieldPlan,
        depth: usize,
    ) -> Result<Slot<'a>, ProtoError> {
        let wrong = || ProtoError::wrong_wire_type(key.wire, &field.name);
        Ok(match Shape::of(&field.ty) {
            Shape::List(element) => {
                let mut items = match slot {
                    Slot::Value(Value::List(items)) => items,
                    _ => Vec::new(),
                };
                self.items(key, reader, element, &mut items, depth, wrong)?;
                Slot::Value(Value::List(items))
            }
            Shape::Map(values) => {
                let (mut object, mut sorted) = match slot {
                    Slot::Map(object, sorted) => (object, sorted),
                    _ => (Object::new(), true),
                };
                let (name, value) = self.entry(scalars::delimited(key, reader, &field.name)?, values, depth)?;
                sorted &= object.iter().next_back().is_none_or(|(last, _)| *last < name);
                if sorted {
                    object.push(name, value);
                } else {
                    object.insert(name, value);
                }
                Slot::Map(object, sorted)
            }
            Shape::One(ty) => match wire_type(ty) {
                wire if wire != key.wire => return Err(wrong()),
                VARINT | FIXED64 => match number(ty, reader)? {
                    value if plan.omits_zero && is_zero(&value) => Slot::Absent,
                    value => Slot::Value(value),
                },
                _ => {
                    let bytes = reader.delimited()?;
                    match (ty, slot) {
                        (Ty::String, _) if bytes.is_empty() && plan.omits_zero => Slot::Absent,
                        (Ty::String, _) => Slot::Value(Value::Str(shared_text(bytes))),
                        // These read as a whole: the last record counts. All others grow with every record.
                        (Ty::Bytes | Ty::Time | Ty::MicroTime, _)
                        | (_, Slot::Absent | Slot::Value(_) | Slot::Map(..)) => Slot::Bytes(bytes),
                        (_, Slot::Bytes(before)) => Slot::Merged([before, bytes].concat()),
                        (_, Slot::Merged(mut before)) => {
                            before.extend_from_slice(bytes);
                            Slot::Merged(before)
                        }
                    }
                }
            },
        })
    }

    /// The member of the object, `None` where it has none.
    fn finish(
        &mut self,
        slot: Slot<'a>,
        field: &Field,
        plan: &FieldPlan,
        depth: usize,
    ) -> Result<Option<Decoded>, ProtoError> {
        let slot = match slot {
            // Records that pack no numbers at all make no list.
            Slot::Value(Value::List(items)) if items.is_empty() => Slot::Absent,
            slot => slot,
        };
        let decoded = match slot {
            Slot::Value(value) => {
                let nonzero = matches!(plan.absent, Absent::Nothing | Absent::Null) || !is_zero(&value);
                return Ok(Some(Decoded { value, nonzero }));
            }
            Slot::Map(mut object, sorted) => {
                if !sorted {
                    object.sort_by_name();
                }
                return Ok(Some(Decoded { value: Value::Object(object), nonzero: true }));
            }
            Slot::Bytes(bytes) => self.delimited(bytes, &field.ty, depth)?,
            Slot::Merged(bytes) => Decoder { slots: Vec::new() }.delimited(&bytes, &field.ty, depth)?,
            Slot::Absent => match plan.absent {
                Absent::Nothing | Absent::HiddenZero => return Ok(None),
                Absent::Null => return Ok(Some(Decoded { value: Value::Null, nonzero: false })),
                Absent::ShownZero => return self.zero(&field.ty, depth).map(Some),
            },
        };
        Ok(match plan.absent {
            // What a pointer points to is there even if it is zero; only what JSON shows as `null` reads as absent.
            Absent::Nothing if matches!(field.ty, Ty::Bytes) => {
                (!plan.omits_zero || decoded.nonzero).then_some(decoded)
            }
            Absent::Nothing if decoded.value.is_null() => None,
            Absent::Nothing | Absent::Null => Some(Decoded { nonzero: !decoded.value.is_null(), ..decoded }),
            Absent::HiddenZero => decoded.nonzero.then_some(decoded),
            Absent::ShownZero => Some(decoded),
        })
    }

    /// The zero value of a type that Go holds without pointer.
    fn zero(&mut self, ty: &Ty, depth: usize) -> Result<Decoded, ProtoError> {
        let value = match ty {
            Ty::Bool => Value::Bool(false),
            Ty::Int32 | Ty::Int64 | Ty::Uint32 => Value::Int(0),
            Ty::Double => Value::Float(0.0),
            Ty::String => Value::Str(Text::default()),
            _ => return self.delimited(&[], ty, depth),
        };
        Ok(Decoded { value, nonzero: false })
    }

    /// Elements of a list: one, or several numbers packed into one record.
    fn items(
        &mut self,
        key: Key,
        reader: &mut Reader<'a>,
        element: &Ty,
        items: &mut Vec<Value>,
        depth: usize,
        wrong: impl Fn() -> ProtoError,
    ) -> Result<(), ProtoError> {
        match (wire_type(element), key.wire) {
            (DELIMITED, DELIMITED) => items.push(self.delimited(reader.delimited()?, element, depth)?.value),
            (want, wire) if want == wire => items.push(number(element, reader)?),
            (_, DELIMITED) => {
                let packed = reader.delimited()?;
                let mut reader = Reader::new(packed);
                while reader.position() < packed.len() {
                    items.push(number(element, &mut reader)?);
                }
            }
            _ => return Err(wrong()),
        }
        Ok(())
    }

    /// An entry of a map. Go does not look at the wire types of its two fields.
    fn entry(&mut self, bytes: &'a [u8], values: &Ty, depth: usize) -> Result<(Text, Value), ProtoError> {
        let (mut name, mut value) = (Text::default(), None);
        let mut reader = Reader::new(bytes);
        while let Some(key) = reader.key("map entry")? {
            match key.tag {
                1 => name = shared_text(reader.delimited()?),
                2 if wire_type(values) == DELIMITED => {
                    value = Some(self.delimited(reader.delimited()?, values, depth)?.value);
                }
                2 => value = Some(number(values, &mut reader)?),
                _ => reader.skip(key)?,
            }
        }
        let value = match value {
            Some(value) => value,
            None => self.zero(values, depth)?.value,
        };
        // What is no pointer cannot be nil.
        let value =
            if matches!(values, Ty::StaticWrappedList(_)) && value.is_null() { Value::List(vec![]) } else { value };
        Ok((name, value))
    }

    /// A value that has a length.
    fn delimited(&mut self, bytes: &'a [u8], ty: &Ty, depth: usize) -> Result<Decoded, ProtoError> {
        let shown = |value: Value, nonzero: bool| Ok(Decoded { value, nonzero });
        match ty {
            Ty::String => shown(Value::Str(shared_text(bytes)), !bytes.is_empty()),
            Ty::Bytes => shown(Value::Str(STANDARD.encode(bytes).into()), !bytes.is_empty()),
            Ty::Message(message) => self.message(bytes, message, depth),
            Ty::Time => match scalars::timestamp(bytes)? {
                Some((seconds, _)) => shown(Value::Str(Time::from_unix(seconds, 0).to_string().into()), true),
                None => shown(Value::Null, false),
            },
            Ty::MicroTime => match scalars::timestamp(bytes)? {
                Some((seconds, nanos)) => shown(Value::Str(micro_time(seconds, nanos).to_string().into()), true),
                None => shown(Value::Null, false),
            },
            Ty::Duration => {
                let nanos = scalars::duration(bytes)?;
                shown(Value::Str(GoDuration(nanos).to_string().into()), nanos != 0)
            }
            Ty::Quantity => {
                let text = scalars::quantity(bytes)?;
                let nonzero = text != "0";
                shown(Value::Str(text.into()), nonzero)
            }
            Ty::IntOrString => match scalars::int_or_string(bytes)? {
                IntOrString::Int(n) => shown(Value::Int(n.into()), n != 0),
                IntOrString::Str(text) => shown(Value::Str(shared_text(text)), true),
            },
            Ty::RawExtension | Ty::Json => match scalars::carried(bytes, "RawExtension")? {
                Some(raw) => shown(free::read(raw)?, true),
                None => shown(Value::Null, false),
            },
            Ty::FieldsV1 => match scalars::carried(bytes, "FieldsV1")? {
                Some(raw) => shown(free::carry(raw)?, true),
                None => shown(Value::Null, false),
            },
            Ty::SchemaOrBool(schema) => self.schema_or(bytes, Or::Bool, schema, depth),
            Ty::SchemaOrArray(schema) => self.schema_or(bytes, Or::Array, schema, depth),
            Ty::SchemaOrStrings(schema) => self.schema_or(bytes, Or::Strings, schema, depth),
            Ty::StaticWrappedList(element) => self.wrapped(bytes, element, depth),
            Ty::List(_) | Ty::StaticList(_) | Ty::Map(_) | Ty::StaticMap(_) => Err(nested()),
            Ty::Bool | Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double => unreachable!("numbers are not delimited"),
        }
    }

    /// A list in a message of its own, `null` where it has no elements.
    fn wrapped(&mut self, bytes: &'a [u8], element: &Ty, depth: usize) -> Result<Decoded, ProtoError> {
        let mut items = Vec::new();
        let mut reader = Reader::new(bytes);
        while let Some(key) = reader.key("items")? {
            match key.tag {
                1 => {
                    let wrong = || ProtoError::wrong_wire_type(key.wire, "items");
                    self.items(key, &mut reader, element, &mut items, depth, wrong)?;
                }
                _ => reader.skip(key)?,
            }
        }
        let nonzero = !items.is_empty();
        Ok(Decoded { value: if nonzero { Value::List(items) } else { Value::Null }, nonzero })
    }

    fn schema_or(&mut self, bytes: &'a [u8], or: Or, schema: &Message, depth: usize) -> Result<Decoded, ProtoError> {
        let SchemaOr { allows, schema: records, list } = scalars::schema_or(bytes, or)?;
        let value = if !list.is_empty() {
            let items = list.into_iter().map(|item| match or {
                Or::Strings => Ok(Value::Str(shared_text(item))),
                _ => self.message(item, schema, depth).map(|decoded| decoded.value),
            });
            Value::List(items.collect::<Result<_, _>>()?)
        } else {
            match records[..] {
                [] if or == Or::Bool => Value::Bool(allows),
                [] => Value::Null,
                [only] => self.message(only, schema, depth)?.value,
                _ => Decoder { slots: Vec::new() }.message(&records.concat(), schema, depth)?.value,
            }
        };
        let nonzero = !matches!(value, Value::Null | Value::Bool(false));
        Ok(Decoded { value, nonzero })
    }
}

pub(super) fn wire_type(ty: &Ty) -> u8 {
    match ty {
        Ty::Bool | Ty::Int32 | Ty::Int64 | Ty::Uint32 => VARINT,
        Ty::Double => FIXED64,
        _ => DELIMITED,
    }
}

/// A value without length.
fn number(ty: &Ty, reader: &mut Reader<'_>) -> Result<Value, ProtoError> {
    Ok(match ty {
        Ty::Bool => Value::Bool(reader.varint()? != 0),
        Ty::Int32 => Value::Int((reader.varint()? as i32).into()),
        Ty::Double => Value::Float(finite(f64::from_bits(reader.fixed64()?))?),
        _ => Value::Int(reader.varint()? as i64),
    })
}

/// A number that JSON can show.
pub(super) fn finite(number: f64) -> Result<f64, ProtoError> {
    match number.is_finite() {
        true => Ok(number),
        false => {
            let text = if number.is_nan() {
                "NaN"
            } else if number > 0.0 {
                "+Inf"
            } else {
                "-Inf"
            };
            Err(ProtoError::malformed(format!("json: unsupported value: {text}")))
        }
    }
}

/// No message has a list or map right within another: protobuf wraps the inner one ([`Ty::StaticWrappedList`]).
#[cold]
pub(super) fn nested() -> ProtoError {
    ProtoError::malformed("proto: a list or map within a list or map")
}

/// Microseconds of a time; what a hostile client sent beyond a second is cut off.
pub(super) fn micro_time(seconds: i64, nanos: i32) -> MicroTime {
    MicroTime::from_unix(seconds, u32::try_from(nanos).unwrap_or(0))
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) | Value::Int(0) => true,
        Value::Float(n) => *n == 0.0,
        Value::Str(text) => text.is_empty(),
        _ => false,
    }
}
