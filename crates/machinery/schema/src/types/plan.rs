//! The fields of a message for protobuf: by ascending number, with embedded structs as groups of their own, and found
//! by number in one step. The data that readers need for each record is computed once.

use super::{Field, Presence, Ty};

/// The wire types, which determine where the value of a record ends.
pub(crate) const VARINT: u8 = 0;
pub(crate) const FIXED64: u8 = 1;
pub(crate) const DELIMITED: u8 = 2;

/// The fields of a [`crate::Message`], prepared for protobuf.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The message itself first, then the structs embedded in it.
    groups: Vec<Group>,
    pub(crate) fields: Box<[FieldPlan]>,
    /// The fields that JSON contains even if they are absent in the bytes.
    pub(crate) always_shown: FieldSet,
}

/// A set of fields by index; messages with more than [`FieldSet::MAX`] fields do not use it.
pub(crate) type FieldSet = u128;

/// The number of fields that fit a [`FieldSet`].
pub(crate) const MAX_FIELDS: usize = FieldSet::BITS as usize;

/// One level of field numbers: the message itself, or a struct embedded in it.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// By ascending number.
    pub(crate) entries: Vec<Entry>,
    /// The entries by number, for numbers below [`DENSE`].
    dense: Vec<Entry>,
}

/// A field number and its field or group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) tag: u32,
    pub(crate) rule: Rule,
    /// The index of the field, or of the group.
    pub(crate) index: u16,
}

/// The rule for reading a record by its field number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// No field has this number.
    Unknown,
    /// An embedded struct.
    Group,
    /// A number; the last record counts.
    Varint,
    Fixed64,
    /// A string that counts as absent if it is empty.
    OmittedText,
    /// A value with a length; the last record counts.
    Last,
    /// A message; several records are read as one message.
    Merged,
    /// A list of values with a length.
    List,
    /// A list of numbers, single or packed.
    Varints,
    Fixed64s,
    Map,
}

/// The data of a field that readers need for each record.
#[derive(Debug)]
pub(crate) struct FieldPlan {
    /// `,"name":` as in JSON, if it fits.
    pub(crate) key: [u8; KEY],
    pub(crate) key_len: usize,
    pub(crate) rule: Rule,
    /// The meaning of a field that is absent in the bytes.
    pub(crate) absent: Absent,
    /// True when a stored zero value counts as absent.
    pub(crate) omits_zero: bool,
}

/// The size of a key: most names fit with quotes and colon, and copying a fixed size is faster.
const KEY: usize = 32;

/// The meaning of a field that is absent in the bytes or the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// Absent in the tree and in protobuf: pointers, lists and maps with `omitempty`.
    Nothing,
    /// `null` in the tree, absent in protobuf: pointers, lists and maps without `omitempty`.
    Null,
    /// A value that is written in protobuf and omitted in the tree.
    HiddenZero,
    /// A value that is written in protobuf and in the tree.
    ShownZero,
    /// [`Field::constant`] in the tree, absent in protobuf.
    Constant,
}

/// The mapping of a field's records to its value.
pub(crate) enum Shape<'t> {
    /// Each record is an element.
    List(&'t Ty),
    /// Each record is an entry.
    Map(&'t Ty),
    One(&'t Ty),
}

/// Greater numbers are found by a search: no Kubernetes message has them.
const DENSE: usize = 4096;

impl<'t> Shape<'t> {
    pub(crate) fn of(ty: &'t Ty) -> Self {
        match ty {
            Ty::List(element) => Self::List(element),
            Ty::StaticList(element) => Self::List(element),
            Ty::Map(values) => Self::Map(values),
            Ty::StaticMap(values) => Self::Map(values),
            ty => Self::One(ty),
        }
    }
}

impl Plan {
    pub(crate) fn new(fields: &[Field]) -> Self {
        let mut groups = vec![Group::default()];
        for (index, field) in fields.iter().enumerate().filter(|(_, field)| field.tag != 0) {
            let group = field.embedded_in.iter().fold(0, |group, tag| embedded(&mut groups, group, *tag));
            // The build rejects messages with far fewer fields.
            let Ok(index) = u16::try_from(index) else { break };
            groups[group].entries.push(Entry { tag: field.tag, rule: Rule::of(field), index });
        }
        groups.iter_mut().for_each(Group::finish);
        let fields: Box<[FieldPlan]> = fields.iter().map(FieldPlan::new).collect();
        let always_shown = fields.iter().enumerate().take(MAX_FIELDS).fold(0, |set, (i, field)| {
            set | FieldSet::from(matches!(field.absent, Absent::Null | Absent::ShownZero | Absent::Constant)) << i
        });
        Self { groups, fields, always_shown }
    }

    pub(crate) fn root(&self) -> &Group {
        &self.groups[0]
    }

    pub(crate) fn group(&self, index: u16) -> &Group {
        &self.groups[usize::from(index)]
    }
}

/// Returns the group of an embedded struct, created if it is new.
fn embedded(groups: &mut Vec<Group>, within: usize, tag: u32) -> usize {
    if let Some(entry) = groups[within].entries.iter().find(|e| e.tag == tag && e.rule == Rule::Group) {
        return usize::from(entry.index);
    }
    let index = groups.len();
    groups.push(Group::default());
    // A message embeds only a few structs.
    groups[within].entries.push(Entry { tag, rule: Rule::Group, index: index as u16 });
    index
}

impl Group {
    fn finish(&mut self) {
        self.entries.sort_by_key(|entry| entry.tag);
        for entry in self.entries.iter().filter(|entry| (entry.tag as usize) < DENSE) {
            let tag = entry.tag as usize;
            if self.dense.len() <= tag {
                self.dense.resize(tag + 1, Entry::unknown(0));
            }
            self.dense[tag] = *entry;
        }
    }

    /// Returns the entry of a field number.
    #[inline]
    pub(crate) fn find(&self, tag: u32) -> Entry {
        match self.dense.get(tag as usize) {
            Some(entry) => *entry,
            None if (tag as usize) < DENSE => Entry::unknown(tag),
            None => self.entries.iter().find(|entry| entry.tag == tag).copied().unwrap_or(Entry::unknown(tag)),
        }
    }
}

impl Entry {
    fn unknown(tag: u32) -> Self {
        Self { tag, rule: Rule::Unknown, index: 0 }
    }
}

impl Rule {
    fn of(field: &Field) -> Self {
        match Shape::of(&field.ty) {
            Shape::Map(_) => Self::Map,
            Shape::List(element) => match wire_type(element) {
                VARINT => Self::Varints,
                FIXED64 => Self::Fixed64s,
                _ => Self::List,
            },
            Shape::One(ty) => match (wire_type(ty), ty) {
                (VARINT, _) => Self::Varint,
                (FIXED64, _) => Self::Fixed64,
                (_, Ty::String) if field.presence == Presence::OmitZero => Self::OmittedText,
                (_, Ty::String | Ty::Bytes | Ty::Time | Ty::MicroTime) => Self::Last,
                _ => Self::Merged,
            },
        }
    }
}

impl FieldPlan {
    fn new(field: &Field) -> Self {
        // The zero value of slices and maps is nil.
        let by_value =
            matches!(Shape::of(&field.ty), Shape::One(ty) if !matches!(ty, Ty::StaticWrappedList(_) | Ty::Bytes));
        let absent = match (field.presence, by_value) {
            _ if !field.constant.is_empty() => Absent::Constant,
            _ if field.tag == 0 => Absent::Nothing,
            (Presence::Optional, _) | (Presence::OmitZero, false) => Absent::Nothing,
            (Presence::AlwaysNull, _) | (Presence::Always, false) => Absent::Null,
            (Presence::OmitZero, true) => Absent::HiddenZero,
            (Presence::Always, true) => Absent::ShownZero,
        };
        let mut key = [0; KEY];
        let text = format!(",\"{}\":", field.name);
        let fits = text.len().min(KEY);
        key[..fits].copy_from_slice(&text.as_bytes()[..fits]);
        Self {
            key,
            key_len: text.len(),
            rule: Rule::of(field),
            absent,
            omits_zero: field.presence == Presence::OmitZero,
        }
    }

    /// Appends `,"name":`.
    #[inline]
    pub(crate) fn put_key(&self, field: &Field, out: &mut Vec<u8>) {
        let end = out.len() + self.key_len;
        if self.key_len <= KEY {
            out.extend_from_slice(&self.key);
            out.truncate(end);
        } else {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(field.name.as_bytes());
            out.extend_from_slice(b"\":");
        }
    }
}

/// Returns the wire type of values of a type.
pub(crate) fn wire_type(ty: &Ty) -> u8 {
    match ty {
        Ty::Bool | Ty::Int32 | Ty::Int64 | Ty::Uint32 => VARINT,
        Ty::Double => FIXED64,
        _ => DELIMITED,
    }
}
