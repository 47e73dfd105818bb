//! Structs and maps as a decoder assembles them, and Go's zero values.

use std::collections::{BTreeSet, HashSet};

use binnacle_meta::Text;

use crate::{Field, Message, Object, Presence, Ty, Value};

/// The set of a struct's fields that were met, by index.
#[derive(Debug, Default)]
pub(super) struct Seen {
    low: u128,
    /// Fields from the 129th on: of custom resources only.
    high: BTreeSet<usize>,
}

impl Seen {
    /// Inserts a field, and returns true if it was met before.
    pub(super) fn insert(&mut self, index: usize) -> bool {
        if index < 128 {
            let bit = 1u128 << index;
            let before = self.low & bit != 0;
            self.low |= bit;
            return before;
        }
        !self.high.insert(index)
    }
}

/// The fields of one struct under construction, at the end of a stack that all structs of a document share.
pub(super) type Slots = Vec<(usize, Value)>;

/// Returns true if a decoded member stays: zero is dropped where Go would not write it.
pub(super) fn keeps(field: &Field, value: &Value) -> bool {
    match field.presence {
        Presence::OmitZero => !is_zero(&field.ty, value) || resets_managers(field, value),
        Presence::Optional => !value.is_null(),
        // Filled in again where it is null.
        Presence::Always | Presence::AlwaysNull => !value.is_null(),
    }
}

/// An empty `metadata.managedFields` asks to forget all managers (KEP-555): the one list that the server tells apart
/// from an absent one although it is never written.
fn resets_managers(field: &Field, value: &Value) -> bool {
    field.name == "managedFields" && matches!(value, Value::List(items) if items.is_empty())
}

/// Makes the struct of the slots from `base` on: fields in schema order, those that Go always writes filled in.
pub(super) fn finish_struct(message: &Message, slots: &mut Slots, base: usize) -> Object {
    let met = &mut slots[base..];
    if !met.is_sorted_by_key(|(index, _)| *index) {
        met.sort_by_key(|(index, _)| *index);
    }
    let fields = &message.fields;
    let always = &message.lookup().always;
    let mut entries = Vec::with_capacity(slots.len() - base + always.len());
    let mut always = always.iter().map(|index| *index as usize).peekable();
    for (index, value) in slots.drain(base..) {
        while let Some(missing) = always.next_if(|missing| *missing < index) {
            entries.push(absent(&fields[missing]));
        }
        always.next_if_eq(&index);
        entries.push((fields[index].name.clone(), value));
    }
    entries.extend(always.map(|missing| absent(&fields[missing])));
    Object::from_distinct(entries)
}

/// A field that is written though it was not set.
fn absent(field: &Field) -> (Text, Value) {
    let value = if field.presence == Presence::AlwaysNull { Value::Null } else { zero_value(&field.ty) };
    (field.name.clone(), value)
}

/// Returns the value that Go writes for a field that was not set.
pub(crate) fn absent_value(field: &Field) -> Option<Value> {
    matches!(field.presence, Presence::Always | Presence::AlwaysNull).then(|| absent(field).1)
}

/// Go's zero value as it encodes.
pub(crate) fn zero_value(ty: &Ty) -> Value {
    match ty {
        Ty::String => Value::Str(Text::new_static("")),
        Ty::Bool | Ty::SchemaOrBool(_) => Value::Bool(false),
        Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::IntOrString => Value::Int(0),
        Ty::Double => Value::Float(0.0),
        Ty::Duration => Value::Str(Text::new_static("0s")),
        Ty::Quantity => Value::Str(Text::new_static("0")),
        Ty::Message(message) => Value::Object(finish_struct(message, &mut Vec::new(), 0)),
        _ => Value::Null,
    }
}

/// Returns true if Go would call a value of that type zero and leave it out under `omitempty` or `omitzero`.
pub(crate) fn is_zero(ty: &Ty, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Int(n) => *n == 0,
        Value::Float(n) => *n == 0.0,
        Value::Str(text) => match ty {
            Ty::Duration => text == "0s",
            // The empty text is a value of its own beside the number.
            Ty::IntOrString => false,
            _ => text.is_empty(),
        },
        Value::List(items) => items.is_empty(),
        Value::Raw(text) => text.is_empty(),
        Value::Object(object) => match ty.message() {
            Some(message) => object.is_empty() || is_zero_struct(message, object),
            // An empty object that is no map of ours is a value.
            None => object.is_empty() && ty.map_value().is_some(),
        },
    }
}

pub(super) fn is_zero_struct(message: &Message, object: &Object) -> bool {
    let mut hint = 0;
    object.iter().all(|(name, value)| {
        let Some((index, field)) = message.field(name, hint) else { return false };
        hint = index + 1;
        match field.presence {
            Presence::Optional => value.is_null(),
            Presence::Always | Presence::OmitZero => is_zero(&field.ty, value),
            Presence::AlwaysNull => value.is_null(),
        }
    })
}

/// A map under construction: Go writes maps by ascending key, and of a repeated key the last value counts.
#[derive(Debug, Default)]
pub(super) struct MapBuilder {
    entries: Vec<(Text, Value)>,
    /// A key came that was not greater than all before.
    unsorted: bool,
    /// All keys, kept once a large map comes out of order.
    keys: Option<HashSet<Text>>,
}

/// The number of keys up to which they are compared one by one.
const SCANNED: usize = 32;

impl MapBuilder {
    /// A builder with the members of an earlier occurrence of the map.
    pub(super) fn of(object: Object) -> Self {
        Self { entries: object.into_iter().collect(), ..Self::default() }
    }

    pub(super) fn contains(&mut self, key: &str) -> bool {
        if !self.unsorted && self.entries.last().is_none_or(|(last, _)| last.as_str() < key) {
            return false;
        }
        if self.entries.len() <= SCANNED {
            return self.entries.iter().any(|(name, _)| name == key);
        }
        let entries = &self.entries;
        let keys = self.keys.get_or_insert_with(|| entries.iter().map(|(name, _)| name.clone()).collect());
        keys.contains(key)
    }

    pub(super) fn push(&mut self, key: Text, value: Value) {
        self.unsorted |= self.entries.last().is_some_and(|(last, _)| *last >= key);
        if let Some(keys) = &mut self.keys {
            keys.insert(key.clone());
        }
        self.entries.push((key, value));
    }

    pub(super) fn finish(mut self) -> Object {
        if self.unsorted {
            // The sort is stable: of equal keys the last one came last.
            self.entries.sort_by(|a, b| a.0.cmp(&b.0));
            self.entries.reverse();
            self.entries.dedup_by(|earlier, kept| earlier.0 == kept.0);
            self.entries.reverse();
        }
        Object::from_distinct(self.entries)
    }
}
