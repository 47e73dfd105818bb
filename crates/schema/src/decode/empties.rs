//! Lists and maps that a document holds empty where Go's `omitempty` drops them: they are no part of the object, but
//! the rules of a kind can tell them from absent ones, and messages show them.

use binnacle_meta::Text;

use super::path::{Path, Step};
use crate::{Field, Object, Presence, Value};

/// No more are kept: a document of many empty lists is checked as if the others were absent.
const KEPT: usize = 256;

/// Where empty lists and maps stood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Empties(Vec<Empty>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Empty {
    way: Vec<OwnStep>,
    list: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum OwnStep {
    Member(Text),
    Index(usize),
}

impl Empties {
    /// Notes a value that is dropped although it was there.
    pub(super) fn note(&mut self, field: &Field, value: &Value, path: Option<&Path<'_>>) {
        let list = match value {
            Value::List(items) if items.is_empty() => true,
            Value::Object(map) if map.is_empty() && field.ty.map_value().is_some() => false,
            _ => return,
        };
        if field.presence == Presence::OmitZero && self.0.len() < KEPT {
            let step = |step: &Step<'_>| match step {
                Step::Field(_, field) => OwnStep::Member(field.name.clone()),
                Step::Key(key) => OwnStep::Member(Text::new(*key)),
                Step::Index(index) => OwnStep::Index(*index),
            };
            self.0.push(Empty { way: Path::steps(path).iter().map(step).collect(), list });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts them back where nothing stands now.
    pub fn restore(&self, object: &mut Value) {
        self.0.iter().for_each(|empty| empty.restore(object));
    }

    /// Puts the lists among them back where nothing stands now.
    pub fn restore_lists(&self, object: &mut Value) {
        self.0.iter().filter(|empty| empty.list).for_each(|empty| empty.restore(object));
    }

    /// Puts the maps among them back where nothing stands now.
    pub fn restore_maps(&self, object: &mut Value) {
        self.0.iter().filter(|empty| !empty.list).for_each(|empty| empty.restore(object));
    }

    pub fn has_maps(&self) -> bool {
        self.0.iter().any(|empty| !empty.list)
    }

    /// Takes them out where they are still empty.
    pub fn withdraw(&self, object: &mut Value) {
        self.0.iter().for_each(|empty| empty.withdraw(object));
    }
}

impl Empty {
    /// The field's name, and the struct that it belongs to.
    fn place<'o>(&self, object: &'o mut Value) -> Option<(&Text, &'o mut Object)> {
        let (OwnStep::Member(name), parents) = self.way.split_last()? else { return None };
        let parent = parents.iter().try_fold(object, |at, step| match step {
            OwnStep::Member(name) => at.as_object_mut()?.get_mut(name),
            OwnStep::Index(index) => at.as_list_mut()?.get_mut(*index),
        });
        Some((name, parent?.as_object_mut()?))
    }

    fn withdraw(&self, object: &mut Value) {
        let Some((name, members)) = self.place(object) else { return };
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
        let Some((name, members)) = self.place(object) else { return };
        if members.get(name).is_none_or(Value::is_null) {
            let empty = if self.list { Value::List(Vec::new()) } else { Value::Object(Object::new()) };
            members.insert(name.clone(), empty);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::{json, value as from_value};
    use crate::json::parse;
    use crate::{Limits, Message, MessageRef, Ty, value};

    #[test]
    fn what_was_empty_can_be_put_back() {
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
            decoded.empties.restore(&mut decoded.value);
            let want = value!({"rules": [{"names": ["n"]}, {"names": [], "labels": {}}], "labels": {}});
            assert_eq!(decoded.value, want);
        }
    }
}
