//! Differences between two objects, as sets of fields.

use std::cmp::Ordering;

use binnacle_meta::Text;
use binnacle_schema::{Object, Ty, Value};
use binnacle_work::pace;

use super::element::PathElement;
use super::schema_error::SchemaErrors;
use super::set::{Node, Set};
use super::shape::{Relation, Shape, ValueShape, zero};
use crate::order::same;

/// The fields in which an object differs from an earlier one.
#[derive(Clone, Debug, Default)]
pub(super) struct Comparison {
    /// Fields that were added or have different values.
    pub(super) changed: Set,
    pub(super) removed: Set,
}

impl Comparison {
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.removed.is_empty()
    }

    pub(super) fn exclude(&mut self, fields: &Set) {
        self.changed.subtract_recursively(fields);
        self.removed.subtract_recursively(fields);
    }
}

/// Fields of `metadata` that never have a manager.
pub(super) const UNTRACKED_METADATA: [&str; 9] = [
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
];

/// Compares whole objects, without untracked fields and those in `skip`.
pub(super) fn objects(shape: Shape<'_>, old: &Value, new: &Value, skip: &[Text]) -> Result<Comparison, SchemaErrors> {
    let difference = compare_members(shape, old.as_object(), new.as_object(), Level::Root(skip))?;
    Ok(Comparison {
        changed: Set::from_nodes(difference.changed.children),
        removed: Set::from_nodes(difference.removed.children),
    })
}

/// The position of a struct in an object.
#[derive(Clone, Copy)]
enum Level<'l> {
    Root(&'l [Text]),
    Metadata,
    Below,
}

impl<'l> Level<'l> {
    fn skips(self, name: &str) -> bool {
        match self {
            Self::Root(skip) => name == "apiVersion" || name == "kind" || skip.iter().any(|skipped| skipped == name),
            Self::Metadata => UNTRACKED_METADATA.contains(&name),
            Self::Below => false,
        }
    }

    fn of_member(self, name: &str) -> Self {
        match self {
            Self::Root(_) if name == "metadata" => Self::Metadata,
            _ => Self::Below,
        }
    }
}

/// The differences at one path and below it.
#[derive(Default)]
struct Difference {
    changed: Part,
    removed: Part,
}

#[derive(Default)]
struct Part {
    member: bool,
    children: Vec<Node>,
}

impl Part {
    fn push(&mut self, element: impl Fn() -> PathElement, part: Part) {
        if part.member || !part.children.is_empty() {
            let children = Set::from_nodes(part.children);
            self.children.push(Node { element: element(), member: part.member, children });
        }
    }

    fn join(&mut self, mut other: Part) {
        self.member |= other.member;
        self.children.append(&mut other.children);
    }
}

impl Difference {
    fn changed() -> Self {
        Self { changed: Part { member: true, ..Part::default() }, ..Self::default() }
    }

    fn removed() -> Self {
        Self { removed: Part { member: true, ..Part::default() }, ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        let nothing = |part: &Part| !part.member && part.children.is_empty();
        nothing(&self.changed) && nothing(&self.removed)
    }

    fn push(&mut self, element: impl Fn() -> PathElement, below: Self) {
        self.changed.push(&element, below.changed);
        self.removed.push(element, below.removed);
    }
}

fn compare(
    shape: Shape<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    level: Level<'_>,
) -> Result<Difference, SchemaErrors> {
    let mut difference = match shape {
        shape if shape.is_leaf() => return Ok(leaf(old, new)),
        Shape::List { element, relation } => {
            let (old, new_items) = (old.and_then(Value::as_list), new.and_then(Value::as_list));
            compare_lists(element, relation, old.unwrap_or(&[]), new_items.unwrap_or(&[]))?
        }
        _ if shape.is_deduced() => compare_deduced(shape, old, new, level)?,
        _ => compare_members(shape, old.and_then(Value::as_object), new.and_then(Value::as_object), level)?,
    };
    let nothing_below = |value: Option<&Value>| match value {
        Some(Value::List(items)) => items.is_empty(),
        Some(Value::Object(object)) => object.is_empty(),
        Some(Value::Null) | None => true,
        Some(_) => matches!(shape, Shape::List { .. } | Shape::Struct { .. } | Shape::Map { .. }),
    };
    match (old, new) {
        // If neither has children, null and empty differ.
        (Some(_), Some(_)) if nothing_below(old) && nothing_below(new) => return Ok(leaf(old, new)),
        (Some(_), Some(_)) | (None, None) => {}
        (None, Some(_)) => difference.changed.member = true,
        (Some(_), None) => difference.removed.member = true,
    }
    Ok(difference)
}

fn leaf(old: Option<&Value>, new: Option<&Value>) -> Difference {
    match (old, new) {
        (None, None) => Difference::default(),
        (None, Some(_)) => Difference::changed(),
        (Some(_), None) => Difference::removed(),
        (Some(old), Some(new)) if same(old, new) => Difference::default(),
        (Some(_), Some(_)) => Difference::changed(),
    }
}

/// Compares untyped values: the value determines the kind of each side, and a change of kind changes both.
fn compare_deduced(
    shape: Shape<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    level: Level<'_>,
) -> Result<Difference, SchemaErrors> {
    let as_kind = |kind: ValueShape| match kind {
        ValueShape::Map | ValueShape::Any => {
            let (old_members, new_members) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            if old_members.is_none_or(Object::is_empty) && new_members.is_none_or(Object::is_empty) {
                return Ok(leaf(old, new));
            }
            compare_members(shape, old_members, new_members, level)
        }
        ValueShape::Scalar | ValueShape::List => Ok(leaf(old, new)),
    };
    match (old.map(ValueShape::of), new.map(ValueShape::of)) {
        (None, None) => Ok(Difference::default()),
        (Some(kind), None) | (None, Some(kind)) => as_kind(kind),
        (Some(old), Some(new)) if old == new => as_kind(new),
        (Some(old), Some(new)) => {
            let mut difference = as_kind(old)?;
            let other = as_kind(new)?;
            difference.changed.join(other.changed);
            difference.removed.join(other.removed);
            Ok(difference)
        }
    }
}

/// Compares structs, maps, and objects without schema, member by member.
fn compare_members(
    shape: Shape<'_>,
    old: Option<&Object>,
    new: Option<&Object>,
    level: Level<'_>,
) -> Result<Difference, SchemaErrors> {
    pace(4 * (old.map_or(0, Object::len) + new.map_or(0, Object::len)) as u64);
    let mut difference = Difference::default();
    match (old, new) {
        (None, Some(new)) => difference.changed.children.reserve(new.len()),
        (Some(old), None) => difference.removed.children.reserve(old.len()),
        _ => {}
    }
    let typed = (old.is_some(), new.is_some());
    let mut members = Members { shape, level, typed, hint: 0, difference: &mut difference };
    let mut met = 0;
    if let Some(new) = new {
        let mut in_step = old.map(|old| old.iter());
        for (name, value) in new.iter() {
            // Usually both have the same members in the same order.
            let before = match in_step.as_mut().and_then(Iterator::next) {
                Some((other, before)) if other == name => Some(before),
                _ => old.and_then(|old| old.get(name)),
            };
            met += usize::from(before.is_some());
            members.compare(name, before, Some(value))?;
        }
    }
    if let Some(old) = old
        && met < old.len()
    {
        members.hint = 0;
        for (name, value) in old.iter() {
            if new.is_none_or(|new| !new.contains(name)) {
                members.compare(name, Some(value), None)?;
            }
        }
    }
    Ok(difference)
}

struct Members<'w, 's> {
    shape: Shape<'s>,
    level: Level<'w>,
    /// For the old and the new side: true if the struct is present, with the fields that Go always encodes.
    typed: (bool, bool),
    /// The index at which the next field of a struct is expected.
    hint: usize,
    difference: &'w mut Difference,
}

impl Members<'_, '_> {
    fn compare(&mut self, name: &Text, old: Option<&Value>, new: Option<&Value>) -> Result<(), SchemaErrors> {
        if self.level.skips(name) {
            return Ok(());
        }
        let (shape, old, new) = match self.shape {
            Shape::Struct { message, .. } | Shape::Untyped { message, .. } => match message.field(name, self.hint) {
                Some((index, field)) => {
                    self.hint = index + 1;
                    let shown = |there: bool| if there { zero(field) } else { None };
                    let (old, new) = (old.or_else(|| shown(self.typed.0)), new.or_else(|| shown(self.typed.1)));
                    (Shape::of_field(field), old, new)
                }
                None => (message.additional.as_deref().map_or(Shape::Deduced, Shape::of_type), old, new),
            },
            Shape::Map { value, .. } => (Shape::of_type(value), old, new),
            _ => (Shape::Deduced, old, new),
        };
        // Most members are leaves, which need only their name.
        if shape.is_leaf() {
            let part = match (old, new) {
                (None, None) => return Ok(()),
                (Some(_), None) => &mut self.difference.removed,
                (Some(old), Some(new)) if same(old, new) => return Ok(()),
                (_, Some(_)) => &mut self.difference.changed,
            };
            let element = PathElement::Field(name.clone());
            part.children.push(Node { element, member: true, children: Set::default() });
            return Ok(());
        }
        let level = self.level.of_member(name);
        let mut below = compare(shape, old, new, level).map_err(|errors| errors.below(&format!(".{name}")))?;
        if matches!(level, Level::Metadata) {
            below.changed.member = false;
            below.removed.member = false;
        }
        if !below.is_empty() {
            self.difference.push(|| PathElement::Field(name.clone()), below);
        }
        Ok(())
    }
}

/// An element of the old or the new list.
struct Item<'v> {
    element: PathElement,
    new: bool,
    value: &'v Value,
}

fn compare_lists(
    element: &Ty,
    relation: Relation<'_>,
    old: &[Value],
    new: &[Value],
) -> Result<Difference, SchemaErrors> {
    let mut difference = Difference::default();
    if old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new)) {
        return Ok(difference);
    }
    pace(20 * (old.len() + new.len()) as u64);
    let mut items = Vec::with_capacity(old.len() + new.len());
    for (list, new) in [(old, false), (new, true)] {
        for (at, value) in list.iter().enumerate() {
            let element =
                relation.identify(element, value).map_err(|why| SchemaErrors::new(format!("element {at}: {why}")))?;
            items.push(Item { element, new, value });
        }
    }
    // The sort is stable: of equal elements the old ones come first, each side in its order.
    items.sort_by(|a, b| a.element.cmp(&b.element).then_with(|| a.new.cmp(&b.new)));
    let shape = Shape::of_type(element);
    for group in items.chunk_by(|a, b| a.element.cmp(&b.element) == Ordering::Equal) {
        let (old, new) = group.split_at(group.partition_point(|item| !item.new));
        let below = compare_duplicates(shape, old, new);
        let below = below.map_err(|errors| errors.below(&group[0].element.to_string()))?;
        if !below.is_empty() {
            difference.push(|| group[0].element.clone(), below);
        }
    }
    Ok(difference)
}

/// Compares elements of the same identity; duplicates count as one leaf.
fn compare_duplicates(shape: Shape<'_>, old: &[Item<'_>], new: &[Item<'_>]) -> Result<Difference, SchemaErrors> {
    let compare = |old, new| compare(shape, old, new, Level::Below);
    match (old.len(), new.len()) {
        (0..=1, 0..=1) => compare(old.first().map(|item| item.value), new.first().map(|item| item.value)),
        (2.., 2..) => {
            let equal = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old.value, new.value));
            Ok(if equal { Difference::default() } else { Difference::changed() })
        }
        // The single element counts as new, the leaf of the duplicates as removed, and vice versa.
        (2.., _) => {
            let mut difference =
                if new.is_empty() { Difference::default() } else { compare(None, new.first().map(|item| item.value))? };
            difference.removed.member = true;
            Ok(difference)
        }
        _ => {
            let mut difference =
                if old.is_empty() { Difference::default() } else { compare(old.first().map(|item| item.value), None)? };
            difference.changed.member = true;
            Ok(difference)
        }
    }
}
