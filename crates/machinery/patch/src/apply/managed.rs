//! The entries of `metadata.managedFields`.

use binnacle_meta::{Text, Time, bounded_text, go_quote};
use binnacle_schema::{Object, Value, json};

use super::compare::Comparison;
use super::fields;
use super::set::Set;
use super::shape::Shape;

/// The fields that one manager owns in one version of the object.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) manager: Text,
    /// True for server-side apply, false for other writes.
    pub(super) applied: bool,
    pub(super) api_version: Text,
    pub(super) subresource: Text,
    pub(super) time: Option<Text>,
    pub(super) owned: OwnedFields,
}

/// A set of fields that is parsed on demand, and encoded only if it was changed.
#[derive(Clone, Debug)]
pub(super) enum OwnedFields {
    /// As the server wrote it.
    Text(Text),
    Set(Set),
}

/// The maximum number of `Update` entries in an object.
const MAX_UPDATERS: usize = 10;

/// The manager that owns the fields of older managers.
const OLD_UPDATES: &str = "ancient-changes";

/// The number of bytes of a set in an error.
const MAX_SHOWN: usize = 1024;

/// The manager of requests without a field manager.
const UNKNOWN: &str = "unknown";

/// The error of an invalid list of managed fields.
pub(super) struct InvalidManagedFields(pub(super) String);

impl Entry {
    pub(super) fn new(manager: &str, applied: bool, api_version: &str, subresource: &str) -> Self {
        Self {
            manager: Text::new(if manager.is_empty() { UNKNOWN } else { manager }),
            applied,
            api_version: Text::new(api_version),
            subresource: Text::new(subresource),
            time: None,
            owned: OwnedFields::Set(Set::default()),
        }
    }

    /// Returns true if both entries belong to the same manager. An applier has one entry for all versions.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.applied == other.applied
            && (self.applied || self.api_version == other.api_version)
            && self.subresource == other.subresource
    }

    /// Returns the set, parsed if needed. An invalid text, which the server never writes, counts as empty.
    pub(super) fn set(&mut self) -> &mut Set {
        if let OwnedFields::Text(text) = &self.owned {
            self.owned = OwnedFields::Set(fields::parse(text).unwrap_or_default());
        }
        match &mut self.owned {
            OwnedFields::Set(set) => set,
            OwnedFields::Text(_) => unreachable!("was read above"),
        }
    }

    pub(super) fn into_set(mut self) -> Set {
        std::mem::take(self.set())
    }

    pub(super) fn owns_nothing(&self) -> bool {
        match &self.owned {
            OwnedFields::Text(text) => text == "{}",
            OwnedFields::Set(set) => set.is_empty(),
        }
    }

    /// Returns true if the changes leave the manager's set as it is: it owns the changed fields and none of the removed
    /// ones.
    pub(super) fn is_unaffected_by(&self, changes: &Comparison) -> bool {
        match &self.owned {
            OwnedFields::Text(text) => {
                fields::contains_all(text, &changes.changed) && !fields::intersects(text, &changes.removed)
            }
            // Updating a parsed set is as cheap as comparing it.
            OwnedFields::Set(_) => false,
        }
    }

    /// Adapts the set to fields that have become atomic, if there are any.
    pub(super) fn adapt(&mut self, shape: Shape<'_>) {
        if matches!(&self.owned, OwnedFields::Text(text) if !fields::splits_atomic(text, shape)) {
            return;
        }
        self.set().reconcile(shape);
    }

    /// Removes fields from the manager's set. With the `shape` of the object, the set is first adapted to fields that
    /// have become atomic.
    pub(super) fn take(&mut self, fields: &Set, shape: Option<Shape<'_>>) {
        if fields.is_empty() {
            return;
        }
        match &mut self.owned {
            OwnedFields::Set(set) => {
                set.subtract(fields);
            }
            // A text without these fields does not change.
            OwnedFields::Text(text) => {
                if fields::intersects(text, fields) {
                    let mut set = fields::parse(text).unwrap_or_default();
                    if let Some(shape) = shape {
                        set.reconcile(shape);
                    }
                    set.subtract(fields);
                    self.owned = OwnedFields::Set(set);
                }
            }
        }
    }

    fn seconds(&self) -> i64 {
        self.time.as_deref().and_then(|time| Time::parse(time).ok()).map_or(0, |time| time.unix_seconds())
    }

    pub(super) fn operation(&self) -> &'static str {
        if self.applied { "Apply" } else { "Update" }
    }

    fn into_value(self) -> Value {
        let mut object = Object::with_capacity(7);
        let text = |text: &'static str| Value::Str(Text::new_static(text));
        if !self.manager.is_empty() {
            object.push(Text::new_static("manager"), Value::Str(self.manager.clone()));
        }
        object.push(Text::new_static("operation"), text(self.operation()));
        object.push(Text::new_static("apiVersion"), Value::Str(self.api_version));
        if let Some(time) = self.time {
            object.push(Text::new_static("time"), Value::Str(time));
        }
        object.push(Text::new_static("fieldsType"), text("FieldsV1"));
        let owned = match self.owned {
            OwnedFields::Text(text) => text,
            OwnedFields::Set(set) => fields::to_text(&set),
        };
        object.push(Text::new_static("fieldsV1"), Value::Raw(owned));
        if !self.subresource.is_empty() {
            object.push(Text::new_static("subresource"), Value::Str(self.subresource));
        }
        Value::Object(object)
    }
}

/// Decodes the entries. If `trusted`, the server wrote them, and their sets are parsed when needed.
pub(super) fn decode(list: &[Value], trusted: bool) -> Result<Vec<Entry>, InvalidManagedFields> {
    let mut entries: Vec<Entry> = Vec::with_capacity(list.len() + 1);
    for (i, value) in list.iter().enumerate() {
        let bad = |why: String| InvalidManagedFields(why);
        let applied = match value.str_at(&["operation"]) {
            "Apply" => true,
            "Update" => false,
            _ => return Err(bad("operation must be `Apply` or `Update`".to_owned())),
        };
        let text = |name: &str| match value.get(name) {
            Some(Value::Str(text)) => text.clone(),
            _ => Text::default(),
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() {
            return Err(bad("apiVersion must not be empty".to_owned()));
        }
        match value.str_at(&["fieldsType"]) {
            "FieldsV1" => {}
            "" => return Err(bad(format!("missing fieldsType in managed fields entry {i}"))),
            other => return Err(bad(format!("invalid fieldsType {} in managed fields entry {i}", go_quote(other)))),
        }
        let parse = |text: &str| fields::parse(text).map_err(|_| bad(unreadable_set(value, text)));
        let owned = match value.get("fieldsV1") {
            Some(Value::Raw(text)) if trusted => OwnedFields::Text(text.clone()),
            Some(Value::Raw(text) | Value::Str(text)) => OwnedFields::Set(parse(text)?),
            Some(Value::Null) | None => OwnedFields::Set(Set::default()),
            Some(tree) => OwnedFields::Set(parse(&json::to_string(tree))?),
        };
        let time = Some(text("time")).filter(|time| !time.is_empty());
        let (manager, subresource) = (text("manager"), text("subresource"));
        let entry = Entry { manager, applied, api_version, subresource, time, owned };
        match entries.iter_mut().find(|other| other.is_same(&entry)) {
            Some(other) => *other = entry,
            None => entries.push(entry),
        }
    }
    Ok(entries)
}

/// Returns the error of an entry with an invalid set, which Go prints as a struct.
fn unreadable_set(entry: &Value, fields: &str) -> String {
    let text = |member: &str| entry.str_at(&[member]).to_owned();
    let time = Some(text("time")).filter(|time| !time.is_empty()).unwrap_or_else(|| "<nil>".to_owned());
    format!(
        "error decoding versioned set from {{{} {} {} {time} FieldsV1 {} {}}}: error decoding set",
        text("manager"),
        text("operation"),
        text("apiVersion"),
        bounded_text(fields, MAX_SHOWN),
        text("subresource")
    )
}

/// Returns the sorted list as it is stored; `None` if it is empty.
pub(super) fn encode(mut entries: Vec<Entry>) -> Option<Value> {
    if entries.is_empty() {
        return None;
    }
    entries.sort_by(|a, b| {
        let by_identity = |entry: &Entry| (entry.manager.clone(), entry.api_version.clone(), entry.subresource.clone());
        (a.operation(), a.seconds())
            .cmp(&(b.operation(), b.seconds()))
            .then_with(|| by_identity(a).cmp(&by_identity(b)))
    });
    Some(Value::List(entries.into_iter().map(Entry::into_value).collect()))
}

/// Merges the oldest updates of each version until no more than ten are left.
pub(super) fn cap_updaters(entries: &mut Vec<Entry>) {
    let mut count = entries.iter().filter(|entry| !entry.applied).count();
    if count <= MAX_UPDATERS {
        return;
    }
    let mut updaters: Vec<Entry> = entries.extract_if(.., |entry| !entry.applied).collect();
    updaters.sort_by_cached_key(|entry| {
        (entry.seconds(), entry.manager.clone(), entry.api_version.clone(), entry.subresource.clone())
    });
    let mut slots: Vec<Option<Entry>> = updaters.into_iter().map(Some).collect();
    // The oldest entry of each version becomes the bucket when a second one is merged into it.
    let mut firsts: Vec<usize> = Vec::new();
    for at in 0..slots.len() {
        if count <= MAX_UPDATERS {
            break;
        }
        let Some(entry) = slots[at].take() else { continue };
        let bucket = Entry::new(OLD_UPDATES, false, &entry.api_version, "");
        let same_version = |first: &usize| slots[*first].as_ref().is_some_and(|f| f.api_version == entry.api_version);
        let Some(first) = firsts.iter().copied().find(same_version) else {
            firsts.push(at);
            slots[at] = Some(entry);
            continue;
        };
        let into = slots.iter().position(|slot| slot.as_ref().is_some_and(|slot| slot.is_same(&bucket)));
        let into = into.unwrap_or_else(|| {
            if let Some(oldest) = slots[first].take() {
                slots[first] = Some(Entry { owned: oldest.owned, ..bucket });
            }
            first
        });
        if let Some(into) = &mut slots[into] {
            into.time = entry.time.clone();
            into.owned = OwnedFields::Set(into.set().union(&entry.into_set()));
            count -= 1;
        }
    }
    entries.extend(slots.into_iter().flatten());
}
