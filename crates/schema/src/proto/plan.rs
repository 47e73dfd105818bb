//! The fields of a message as protobuf wants them: by ascending number, embedded structs as groups of their own, and
//! found by number in one step.

use crate::types::{Field, Presence, Ty};

/// What protobuf derives from the fields of a [`crate::Message`].
#[derive(Debug)]
pub(crate) struct Plan {
    pub(super) root: Group,
    pub(super) fields: Box<[FieldPlan]>,
}

/// One level of numbers: the message itself, or a struct embedded in it.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// By ascending number.
    pub(super) entries: Vec<Entry>,
    /// The entry of a number, plus one; 0 for numbers that are unknown.
    dense: Vec<u16>,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) tag: u32,
    pub(super) target: Target,
}

#[derive(Debug)]
pub(super) enum Target {
    /// The index of a field of the message.
    Field(usize),
    Group(Group),
}

/// What is asked of a field again and again.
#[derive(Debug)]
pub(super) struct FieldPlan {
    /// `,"name":` as JSON has it.
    pub(super) json_key: Box<[u8]>,
    /// What the absence of the field in the bytes means.
    pub(super) absent: Absent,
    /// Stored bytes that hold the zero value read as absent.
    pub(super) omits_zero: bool,
}

/// What a field is that the bytes or the tree do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absent {
    /// Nothing stands in the tree, nothing in protobuf: pointers, lists and maps with `omitempty`.
    Nothing,
    /// `null` stands in the tree, nothing in protobuf: pointers, lists and maps without `omitempty`.
    Null,
    /// A value that protobuf writes and the tree leaves out.
    HiddenZero,
    /// A value that protobuf writes and the tree has.
    ShownZero,
}

/// How the records of a field make its value.
pub(super) enum Shape<'t> {
    /// Each record is an element.
    List(&'t Ty),
    /// Each record is an entry.
    Map(&'t Ty),
    One(&'t Ty),
}

impl<'t> Shape<'t> {
    pub(super) fn of(ty: &'t Ty) -> Self {
        match ty {
            Ty::List(element) => Self::List(element),
            Ty::StaticList(element) => Self::List(element),
            Ty::Map(values) => Self::Map(values),
            Ty::StaticMap(values) => Self::Map(values),
            ty => Self::One(ty),
        }
    }
}

/// Numbers beyond this are searched for: no Kubernetes message has them.
const DENSE: usize = 4096;

impl Plan {
    pub(crate) fn new(fields: &[Field]) -> Self {
        let mut root = Group::default();
        for (i, field) in fields.iter().enumerate().filter(|(_, field)| field.tag != 0) {
            let group = field.embedded_in.iter().fold(&mut root, |group, tag| group.embedded(*tag));
            group.entries.push(Entry { tag: field.tag, target: Target::Field(i) });
        }
        root.finish();
        Self { root, fields: fields.iter().map(FieldPlan::new).collect() }
    }
}

impl Group {
    fn embedded(&mut self, tag: u32) -> &mut Group {
        let found = self.entries.iter().position(|e| e.tag == tag && matches!(e.target, Target::Group(_)));
        let i = found.unwrap_or_else(|| {
            self.entries.push(Entry { tag, target: Target::Group(Group::default()) });
            self.entries.len() - 1
        });
        match &mut self.entries[i].target {
            Target::Group(group) => group,
            Target::Field(_) => unreachable!("the entry was found or made as a group"),
        }
    }

    fn finish(&mut self) {
        self.entries.sort_by_key(|entry| entry.tag);
        for (i, entry) in self.entries.iter_mut().enumerate() {
            if let Target::Group(group) = &mut entry.target {
                group.finish();
            }
            let tag = entry.tag as usize;
            if let (true, Ok(i)) = (tag < DENSE, u16::try_from(i + 1)) {
                if self.dense.len() <= tag {
                    self.dense.resize(tag + 1, 0);
                }
                self.dense[tag] = i;
            }
        }
    }

    /// The entry of a field number.
    pub(super) fn find(&self, tag: u32) -> Option<&Entry> {
        match self.dense.get(tag as usize) {
            Some(0) => None,
            Some(i) => Some(&self.entries[usize::from(*i) - 1]),
            None if (tag as usize) < DENSE => None,
            None => self.entries.iter().find(|entry| entry.tag == tag),
        }
    }
}

impl FieldPlan {
    fn new(field: &Field) -> Self {
        // Of slices and maps the zero value is nil.
        let by_value =
            matches!(Shape::of(&field.ty), Shape::One(ty) if !matches!(ty, Ty::StaticWrappedList(_) | Ty::Bytes));
        let absent = match (field.presence, by_value) {
            (Presence::Optional, _) | (Presence::OmitZero, false) => Absent::Nothing,
            (Presence::AlwaysNull, _) | (Presence::Always, false) => Absent::Null,
            (Presence::OmitZero, true) => Absent::HiddenZero,
            (Presence::Always, true) => Absent::ShownZero,
        };
        let mut json_key = b",\"".to_vec();
        json_key.extend(field.name.bytes());
        json_key.extend(b"\":");
        Self { json_key: json_key.into(), absent, omits_zero: field.presence == Presence::OmitZero }
    }
}
