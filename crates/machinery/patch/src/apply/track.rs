//! Tracking of the manager of the fields that a create, update or patch changes.

use std::fmt;

use binnacle_meta::{Text, Time};
use binnacle_schema::{Message, Object, Value};

use super::compare::{self, Comparison};
use super::element::PathElement;
use super::managed::{self, Entry, OwnedFields};
use super::schema_error::SchemaErrors;
use super::set::Set;
use super::shape::{Shape, empty};
use super::validate::{validate_converted, validate_stored};
use super::{Update, Versions};

/// Writes `metadata.managedFields` of an object that is to be created (`live` is `None`) or updated; both are in the
/// version of the request.
///
/// Entries of other versions lose the changed fields at the same paths; use [`track_update_converting`] for versions
/// with different fields.
pub fn track_update(update: &Update<'_>, live: Option<&Value>, object: &mut Value) {
    track(update, live, object, None);
}

/// As [`track_update`], but finds other managers' fields in the versions of their entries, and removes entries of
/// versions that are no longer served.
pub fn track_update_converting(update: &Update<'_>, live: Option<&Value>, object: &mut Value, versions: &dyn Versions) {
    track(update, live, object, Some(versions));
}

fn track(update: &Update<'_>, live: Option<&Value>, object: &mut Value, versions: Option<&dyn Versions>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let sent = metadata.remove("managedFields");
    let entries = known_entries(update, live, sent.as_ref());
    // An existing object without managers gets none.
    if entries.is_empty() && live.is_some_and(|live| !live.str_at(&["metadata", "uid"]).is_empty()) {
        return;
    }
    let old = live.unwrap_or_else(|| empty());
    // kube-apiserver also clears the list if one of the objects violates its schema, in the version of any manager.
    let is_valid = [&*object, old].into_iter().all(|object| validate_stored(update.message, object).is_ok());
    if is_valid && let Ok(entries) = updated(update, entries, old, object, versions) {
        store(object, entries);
    }
}

/// Stores the entries in the object.
pub(super) fn store(object: &mut Value, entries: Vec<Entry>) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    match managed::encode(entries) {
        Some(list) => {
            metadata.insert(Text::new_static("managedFields"), list);
        }
        None => {
            metadata.remove("managedFields");
        }
    }
}

/// Returns the initial entries: from the client's object, or else from the live object.
fn known_entries(update: &Update<'_>, live: Option<&Value>, sent: Option<&Value>) -> Vec<Entry> {
    let list = live.map_or(&[] as &[Value], |live| live.list_at(&["metadata", "managedFields"]));
    let of_live = || managed::decode(list, true).unwrap_or_default();
    let Some(sent) = sent.and_then(Value::as_list) else { return of_live() };
    // The list in a write of a subresource is ignored.
    if !update.subresource.is_empty() || sent == list && !sent.is_empty() {
        return of_live();
    }
    if is_reset(sent) {
        return Vec::new();
    }
    // Clients that are not aware of the list must not delete it by accident.
    managed::decode(sent, false).ok().filter(|entries| !entries.is_empty()).unwrap_or_else(of_live)
}

/// Returns true if a list removes all managers: it is empty or has one empty entry.
fn is_reset(sent: &[Value]) -> bool {
    match sent {
        [] => true,
        [only] => only.as_object().is_some_and(Object::is_empty),
        _ => false,
    }
}

/// Returns the entries after a write that changed `old` into `new`.
pub(super) fn updated(
    update: &Update<'_>,
    mut entries: Vec<Entry>,
    old: &Value,
    new: &Value,
    versions: Option<&dyn Versions>,
) -> Result<Vec<Entry>, CompareError> {
    let changes = changes(update, old, new)?;
    if update.message.is_of_definition() {
        let shape = Shape::of_message(update.message);
        entries.iter_mut().filter(|entry| entry.api_version == update.api_version).for_each(|entry| entry.adapt(shape));
    }
    let mut own = Entry::new(update.manager, false, update.api_version, update.subresource);
    own.time = Some(Time::from_unix(update.now, 0).to_string().into());
    // The set of a manager that writes the same fields repeatedly, like a controller, is not parsed.
    let is_unaffected_by =
        |entry: &Entry| !changes.changed.is_empty() && entry.is_same(&own) && entry.is_unaffected_by(&changes);
    let unaffected = entries.iter().position(is_unaffected_by).map(|at| entries.swap_remove(at));
    disown_changed_fields(update, &mut entries, &changes, old, new, versions)?;
    entries.retain(|entry| !entry.owns_nothing());
    if let Some(unaffected) = unaffected {
        entries.push(Entry { owned: unaffected.owned, ..own });
    } else if !changes.changed.is_empty() {
        own.owned = OwnedFields::Set(changes.changed);
        match entries.iter_mut().find(|entry| entry.is_same(&own)) {
            Some(previous) => {
                let union = previous.set().union(own.set());
                *previous = Entry { owned: OwnedFields::Set(union), ..own };
            }
            None => entries.push(own),
        }
    }
    managed::cap_updaters(&mut entries);
    Ok(entries)
}

/// Returns the differences, without the fields that the endpoint resets.
pub(super) fn changes(update: &Update<'_>, old: &Value, new: &Value) -> Result<Comparison, CompareError> {
    let mut changes = compare::objects(Shape::of_message(update.message), old, new, update.reset)?;
    if !changes.is_empty() {
        changes.exclude(&reset_fields(update.reset));
    }
    Ok(changes)
}

/// Returns the fields that never have a manager.
pub(super) fn untracked() -> Set {
    let field = |name: &str| PathElement::Field(name.into());
    let mut set = reset_fields(&["apiVersion", "kind", "metadata"]);
    for name in compare::UNTRACKED_METADATA {
        set.insert(&[field("metadata"), field(name)]);
    }
    set
}

/// Returns the fields of dotted paths.
pub(super) fn reset_fields(paths: &[impl AsRef<str>]) -> Set {
    let mut set = Set::default();
    for path in paths {
        let path: Vec<PathElement> = path.as_ref().split('.').map(|name| PathElement::Field(name.into())).collect();
        set.insert(&path);
    }
    set
}

/// The error of two objects that cannot be compared, with the message of structured-merge-diff.
#[derive(Debug)]
pub(super) struct CompareError(String);

impl CompareError {
    fn of(context: &str) -> impl Fn(SchemaErrors) -> Self {
        move |errors| Self(format!("{context}: {errors}"))
    }
}

impl From<SchemaErrors> for CompareError {
    fn from(errors: SchemaErrors) -> Self {
        Self::of("failed to compare objects")(errors)
    }
}

impl fmt::Display for CompareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns an object in the version of a manager, and the schema there; `None` if that is no longer served.
pub(super) fn converted<'v>(
    versions: &'v dyn Versions,
    object: &Value,
    api_version: &str,
) -> Result<Option<(Value, &'v Message)>, SchemaErrors> {
    // kube-apiserver has the schemas of the core group apart from those of all others, and drops the managers of events
    // that were written through the other group.
    let is_core = |version: &str| !version.contains('/');
    if is_core(object.str_at(&["apiVersion"])) != is_core(api_version) {
        return Ok(None);
    }
    let Some((value, message)) = versions.convert(object, api_version) else { return Ok(None) };
    if object.str_at(&["apiVersion"]) != api_version {
        validate_converted(message, &value)?;
    }
    Ok(Some((value, message)))
}

fn disown_changed_fields(
    update: &Update<'_>,
    entries: &mut Vec<Entry>,
    changes: &Comparison,
    old: &Value,
    new: &Value,
    versions: Option<&dyn Versions>,
) -> Result<(), CompareError> {
    // One conversion for each version, however many managers wrote through it.
    let mut comparisons: Vec<(Text, Option<(Comparison, &Message)>)> = Vec::new();
    let mut failure = None;
    entries.retain_mut(|entry| {
        let changes = match versions {
            Some(versions) if entry.api_version != update.api_version => {
                let existing = comparisons.iter().position(|(version, _)| *version == entry.api_version);
                let at = existing.unwrap_or_else(|| {
                    let comparison = in_version(update, versions, &entry.api_version, old, new);
                    let comparison = comparison.unwrap_or_else(|error| {
                        failure = Some(error);
                        None
                    });
                    comparisons.push((entry.api_version.clone(), comparison));
                    comparisons.len() - 1
                });
                match &comparisons[at].1 {
                    Some((comparison, message)) => {
                        if message.is_of_definition() {
                            entry.adapt(Shape::of_message(message));
                        }
                        comparison
                    }
                    None => return false,
                }
            }
            _ => changes,
        };
        let shape = (entry.api_version == update.api_version).then(|| Shape::of_message(update.message));
        entry.take(&changes.changed, shape);
        entry.take(&changes.removed, shape);
        true
    });
    failure.map_or(Ok(()), Err)
}

/// Returns the differences in another version, and its schema; `None` if that is no longer served.
pub(super) fn in_version<'v>(
    update: &Update<'_>,
    versions: &'v dyn Versions,
    api_version: &str,
    old: &Value,
    new: &Value,
) -> Result<Option<(Comparison, &'v Message)>, CompareError> {
    // A created object has no old one to convert.
    let old = match old.as_object().is_some_and(Object::is_empty) {
        true => old.clone(),
        false => {
            match converted(versions, old, api_version).map_err(CompareError::of("failed to convert old object"))? {
                Some((old, _)) => old,
                None => return Ok(None),
            }
        }
    };
    let new = converted(versions, new, api_version).map_err(CompareError::of("failed to convert new object"))?;
    let Some((new, message)) = new else { return Ok(None) };
    // For versions of a custom resource, the reset fields are those of their own endpoint and of the status of all
    // versions.
    let resets = !message.is_of_definition() || update.subresource == "status" && versions.has_status(api_version);
    let reset: &[Text] = if resets { update.reset } else { &[] };
    let changes = changes(&Update { message, api_version, reset, ..*update }, &old, &new)?;
    Ok(Some((changes, message)))
}
