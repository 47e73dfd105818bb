//! Construction of structs and maps by a decoder.

use std::collections::{BTreeSet, HashSet};

use binnacle_meta::Text;

use crate::zero::{absent, is_zero};
use crate::{Field, Message, Object, Presence, Value};

/// The set of a struct's fields that have been decoded, by index.
#[derive(Debug, Default)]
pub(super) struct SeenFields {
    low: u128,
    /// Fields from the 129th on, which only custom resources have.
    high: BTreeSet<usize>,
}

impl SeenFields {
    /// Inserts a field, and returns true if it was in the set already.
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

/// The fields of the struct that is being decoded, at the end of a stack shared by all structs of a document.
pub(super) type Slots = Vec<(usize, Value)>;

/// Returns true if a decoded member is kept. Zero values that Go would not encode are dropped.
pub(super) fn is_kept(field: &Field, value: &Value) -> bool {
    match field.presence {
        Presence::OmitZero => !is_zero(&field.ty, value) || resets_managers(field, value),
        Presence::Optional => !value.is_null(),
        // `finish_struct` fills in `null` again.
        Presence::Always | Presence::AlwaysNull => !value.is_null(),
    }
}

/// Returns true for an empty `metadata.managedFields`, which resets all managers (KEP-555): it is the only list that
/// encoding omits when empty although it differs from an absent one.
fn resets_managers(field: &Field, value: &Value) -> bool {
    field.name == "managedFields" && matches!(value, Value::List(items) if items.is_empty())
}

/// Builds the struct of the slots from `base` on: fields in schema order, absent ones filled in if always written.
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

/// A map that is being decoded: Go encodes maps sorted by key, and the last value of a duplicate key wins.
#[derive(Debug, Default)]
pub(super) struct MapBuilder {
    entries: Vec<(Text, Value)>,
    /// True if a key was not greater than all before it.
    unsorted: bool,
    /// All keys, kept from the first unsorted key of a large map on.
    keys: Option<HashSet<Text>>,
}

/// The maximum number of keys that are compared one by one.
const SCANNED: usize = 32;

impl MapBuilder {
    /// Returns a builder with the members of an earlier occurrence of the map.
    pub(super) fn of(object: Object) -> Self {
        Self { entries: object.into_iter().collect(), ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
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
            // The sort is stable: the last of equal keys was added last.
            self.entries.sort_by(|a, b| a.0.cmp(&b.0));
            self.entries.reverse();
            self.entries.dedup_by(|earlier, later| earlier.0 == later.0);
            self.entries.reverse();
        }
        Object::from_distinct(self.entries)
    }
}
