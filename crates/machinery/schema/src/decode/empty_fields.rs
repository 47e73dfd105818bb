//! Explicitly empty fields: lists and maps of a document that Go's `omitempty` drops. They are not part of the object,
//! but validation can distinguish them from absent fields, and messages contain them.

use std::hash::{DefaultHasher, Hash, Hasher};

use binnacle_meta::Text;

use crate::path::{Path, Step};
use crate::{Field, Object, Presence, Value};

/// The maximum number of recorded fields: further ones count as absent in validation.
const MAX_EMPTY_FIELDS: usize = 256;

/// The paths of a document's empty lists and maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EmptyFields(Vec<Empty>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Empty {
    steps: Vec<OwnedStep>,
    list: bool,
    /// True below an item of a list that server-side apply treats as a whole.
    in_atomic_list: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum OwnedStep {
    Member(Text),
    Item { at: usize, mark: Option<Mark> },
}

/// A mark that identifies an item of a list after reordering.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mark {
    /// The item's name: items with the same name are the same item, regardless of other changes.
    Name(Text),
    /// The hash of the item's contents.
    Contents(u64),
}

/// The maximum number of an item's values that are hashed, which bounds the cost of a mark.
const MAX_HASHED: usize = 64;

impl EmptyFields {
    /// Records an empty value that is dropped.
    pub(super) fn note(&mut self, field: &Field, value: &Value, path: Option<&Path<'_>>) {
        let list = match value {
            Value::List(items) if items.is_empty() => true,
            Value::Object(map) if map.is_empty() && field.ty.map_value().is_some() => false,
            _ => return,
        };
        if field.presence == Presence::OmitZero && self.0.len() < MAX_EMPTY_FIELDS {
            let step = |step: &Step<'_>| match step {
                Step::Field(_, field) => OwnedStep::Member(field.name.clone()),
                Step::Key(key) => OwnedStep::Member(Text::new(*key)),
                Step::Index(index) => OwnedStep::Item { at: *index, mark: None },
            };
            let path = Path::steps(path);
            let in_atomic_list = path.windows(2).any(|steps| match steps {
                [Step::Field(_, field), Step::Index(_)] => field.is_atomic_list(),
                _ => false,
            });
            self.0.push(Empty { steps: path.iter().map(step).collect(), list, in_atomic_list });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Records the marks of list items in this object. Afterwards, items are found even if a list is reordered, and
    /// removed items are ignored.
    pub fn mark_items(&mut self, object: &Value) {
        self.0.iter_mut().for_each(|empty| empty.mark_items(object));
    }

    /// Restores the empty lists and maps where the object has no value.
    pub fn restore(&self, object: &mut Value) {
        self.0.iter().for_each(|empty| empty.restore(object));
    }

    /// Restores only the empty lists.
    pub fn restore_lists(&self, object: &mut Value) {
        self.0.iter().filter(|empty| empty.list).for_each(|empty| empty.restore(object));
    }

    /// Restores only the empty lists and maps in items of atomic lists. Server-side apply compares such a list by
    /// `reflect.DeepEqual` in kube-apiserver, which distinguishes empty values from absent ones.
    pub fn restore_in_atomic_lists(&self, object: &mut Value) {
        self.0.iter().filter(|empty| empty.in_atomic_list).for_each(|empty| empty.restore(object));
    }

    /// Restores only the empty maps.
    pub fn restore_maps(&self, object: &mut Value) {
        self.0.iter().filter(|empty| !empty.list).for_each(|empty| empty.restore(object));
    }

    /// Returns true if there was an empty map at the path. The path must not contain lists.
    pub fn holds_map(&self, path: &[&str]) -> bool {
        let is_there = |steps: &[OwnedStep]| {
            steps.len() == path.len()
                && steps
                    .iter()
                    .zip(path)
                    .all(|(step, name)| matches!(step, OwnedStep::Member(member) if member == name))
        };
        self.0.iter().any(|empty| !empty.list && is_there(&empty.steps))
    }

    pub fn has_maps(&self) -> bool {
        self.0.iter().any(|empty| !empty.list)
    }

    /// Removes the lists and maps that are still empty.
    pub fn remove(&self, object: &mut Value) {
        self.0.iter().for_each(|empty| empty.remove(object));
    }
}

impl Empty {
    fn mark_items(&mut self, object: &Value) {
        let mut object = Some(object);
        for step in &mut self.steps {
            let Some(at) = object else { return };
            object = match step {
                OwnedStep::Member(name) => at.get(name),
                OwnedStep::Item { at: index, mark } => {
                    let item = at.as_list().and_then(|items| items.get(*index));
                    *mark = item.map(Mark::of);
                    item
                }
            };
        }
    }

    /// Returns the field's name, and the struct that it belongs to.
    fn parent<'o>(&self, object: &'o mut Value) -> Option<(&Text, &'o mut Object)> {
        let (OwnedStep::Member(name), parents) = self.steps.split_last()? else { return None };
        let parent = parents.iter().try_fold(object, |at, step| match step {
            OwnedStep::Member(name) => at.as_object_mut()?.get_mut(name),
            OwnedStep::Item { at: index, mark } => {
                let items = at.as_list_mut()?;
                let index = match mark {
                    None => *index,
                    Some(mark) if items.get(*index).is_some_and(|item| mark.is_of(item)) => *index,
                    Some(mark) => items.iter().position(|item| mark.is_of(item))?,
                };
                items.get_mut(index)
            }
        });
        Some((name, parent?.as_object_mut()?))
    }

    fn remove(&self, object: &mut Value) {
        let Some((name, members)) = self.parent(object) else { return };
        let still_empty = match members.get(name) {
            Some(Value::List(items)) => items.is_empty(),
            Some(Value::Object(map)) => map.is_empty(),
            _ => false,
        };
        if still_empty {
            members.remove(name);
        }
    }

    fn restore(&self, object: &mut Value) {
        let Some((name, members)) = self.parent(object) else { return };
        if members.get(name).is_none_or(Value::is_null) {
            let empty = if self.list { Value::List(Vec::new()) } else { Value::Object(Object::new()) };
            members.insert(name.clone(), empty);
        }
    }
}

impl Mark {
    fn of(item: &Value) -> Self {
        match item.get("name").and_then(Value::as_str) {
            Some(name) if !name.is_empty() => Self::Name(Text::new(name)),
            _ => Self::Contents(hash_item(item)),
        }
    }

    fn is_of(&self, item: &Value) -> bool {
        match self {
            Self::Name(name) => item.get("name").and_then(Value::as_str) == Some(name.as_str()),
            Self::Contents(contents) => hash_item(item) == *contents,
        }
    }
}

/// Returns the hash of the first values of an item, without empty lists and maps, which are removed and restored here.
fn hash_item(item: &Value) -> u64 {
    fn add(value: &Value, left: &mut usize, hasher: &mut DefaultHasher) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        std::mem::discriminant(value).hash(hasher);
        match value {
            Value::Null => {}
            Value::Bool(value) => value.hash(hasher),
            Value::Int(value) => value.hash(hasher),
            Value::Float(value) => value.to_bits().hash(hasher),
            Value::Str(text) | Value::Raw(text) => text.as_str().hash(hasher),
            Value::List(items) => items.iter().for_each(|item| add(item, left, hasher)),
            Value::Object(members) => {
                for (name, member) in members.iter().filter(|(_, member)| !is_empty(member)) {
                    name.as_str().hash(hasher);
                    add(member, left, hasher);
                }
            }
        }
    }
    let (mut hasher, mut left) = (DefaultHasher::new(), MAX_HASHED);
    add(item, &mut left, &mut hasher);
    hasher.finish()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::List(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{json, value as from_value};
    use crate::json::parse;
    use crate::{Limits, Message, MessageRef, Ty, value};

    #[test]
    fn restores_explicitly_empty_fields() {
        let field = |name: &'static str, ty| Field { presence: Presence::OmitZero, ..Field::new(name, ty) };
        let strings = || Ty::List(Box::new(Ty::String));
        let map = || Ty::Map(Box::new(Ty::String));
        let rule = Message::new("x.Rule", vec![field("names", strings()), field("labels", map())]);
        let rules = Ty::List(Box::new(Ty::Message(MessageRef::Shared(rule.into()))));
        let message =
            Message::new("x.Kind", vec![field("rules", rules), field("labels", map()), field("a", strings())]);
        let text = r#"{"rules": [{"names": ["n"]}, {"names": [], "labels": {}}], "labels": {}, "a": null}"#;
        let tree = parse(text.as_bytes(), &Limits::default()).unwrap();
        for decoded in [json(text.as_bytes(), &message, &Limits::default()), from_value(tree, &message)] {
            let mut decoded = decoded.unwrap();
            assert_eq!(decoded.value, value!({"rules": [{"names": ["n"]}, {}]}));
            decoded.empty_fields.restore(&mut decoded.value);
            let want = value!({"rules": [{"names": ["n"]}, {"names": [], "labels": {}}], "labels": {}});
            assert_eq!(decoded.value, want);
        }
    }

    #[test]
    fn restores_empty_fields_of_reordered_items() {
        let field = |name: &'static str, ty| Field { presence: Presence::OmitZero, ..Field::new(name, ty) };
        let strings = || Ty::List(Box::new(Ty::String));
        let item =
            Message::new("x.Item", vec![field("name", Ty::String), field("a", strings()), field("b", strings())]);
        let items = Ty::List(Box::new(Ty::Message(MessageRef::Shared(item.into()))));
        let message = Message::new("x.Kind", vec![field("items", items)]);
        for (sent, changed, want) in [
            // Nothing has changed.
            (
                r#"[{"b": ["1"]}, {"a": [], "b": ["2"]}]"#,
                value!([{"b": ["1"]}, {"b": ["2"]}]),
                value!([{"b": ["1"]}, {"b": ["2"], "a": []}]),
            ),
            // Items are reordered, and one is inserted before them.
            (
                r#"[{"b": ["1"]}, {"a": [], "b": ["2"]}]"#,
                value!([{"b": ["2"]}, {"b": ["1"]}]),
                value!([{"b": ["2"], "a": []}, {"b": ["1"]}]),
            ),
            (
                r#"[{"a": [], "b": ["2"]}]"#,
                value!([{"b": ["0"]}, {"b": ["2"]}]),
                value!([{"b": ["0"]}, {"b": ["2"], "a": []}]),
            ),
            // The item was removed or replaced.
            (r#"[{"a": [], "b": ["2"]}]"#, value!([{"b": ["3"]}]), value!([{"b": ["3"]}])),
            // A name is sufficient.
            (
                r#"[{"name": "x"}, {"name": "y", "a": []}]"#,
                value!([{"name": "y", "b": ["new"]}, {"name": "x"}]),
                value!([{"name": "y", "b": ["new"], "a": []}, {"name": "x"}]),
            ),
        ] {
            let text = format!("{{\"items\": {sent}}}");
            let mut decoded = json(text.as_bytes(), &message, &Limits::default()).unwrap();
            decoded.empty_fields.mark_items(&decoded.value);
            let mut object = value!({"items": (changed.clone())});
            decoded.empty_fields.restore(&mut object);
            assert_eq!(object, value!({"items": want}), "{sent}");
            decoded.empty_fields.remove(&mut object);
            assert_eq!(object, value!({"items": changed}), "{sent}");
        }
    }
}
