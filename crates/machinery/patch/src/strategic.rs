//! Strategic merge patch: a merge patch in which the schema determines which lists are merged as sets or maps.
//! Directives in the patch override the schema.

use binnacle_schema::{Message, Object, Value};
use binnacle_work::pace;

mod elements;
mod error;
mod format;
mod index;
mod lists;
mod meta;
mod order;
mod ordered_lists;

pub use error::StrategicError;
pub use format::go_print;
pub(crate) use format::{go_float, go_type};

use meta::{PatchMeta, Strategy};

/// The directive of a map or list element that is not merged.
const DIRECTIVE: &str = "$patch";
/// The prefix of deletions from a list of scalars: `$deleteFromPrimitiveList/finalizers`.
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
/// The prefix of the order of a list: `$setElementOrder/containers`.
const ELEMENT_ORDER: &str = "$setElementOrder";
/// The directive that lists the members of a map to retain.
const RETAIN_KEYS: &str = "$retainKeys";

/// Applies `patch`, an object, to `live`, an object of the type `message`. The result is not validated.
pub fn apply(live: Value, patch: &Value, message: &Message) -> Result<Value, StrategicError> {
    let patch = patch.as_object().cloned().unwrap_or_default();
    merge_map(live.into_object().unwrap_or_default(), patch, PatchMeta::Struct(message)).map(Value::Object)
}

/// Returns the patch as [`apply`] modifies it in kube-apiserver: replace directives, nulls and directives within new
/// values, and orders of lists are removed.
pub fn left(patch: &Value, live: &Value) -> Value {
    let Value::Object(members) = patch else { return patch.clone() };
    if let Some(directive) = members.get(DIRECTIVE) {
        let replaces = directive.as_str() == Some("replace");
        let remaining = members.iter().filter(|(name, _)| !replaces || *name != DIRECTIVE);
        return Value::Object(remaining.map(|(name, member)| (name.clone(), member.clone())).collect());
    }
    let ordered = |name: &str| members.get(&format!("{ELEMENT_ORDER}/{name}")).is_some();
    let remaining =
        members.iter().filter(|(name, _)| *name != RETAIN_KEYS && !name.starts_with(ELEMENT_ORDER) && !ordered(name));
    let remaining = remaining.map(|(name, change)| {
        let left = match (live.get(name), change) {
            (_, Value::Null) => Value::Null,
            (Some(live @ Value::Object(_)), Value::Object(_)) => left(change, live),
            (Some(Value::List(_)), Value::List(_)) => change.clone(),
            _ => taken(without_nulls(change.clone())),
        };
        (name.clone(), left)
    });
    Value::Object(remaining.collect())
}

/// Returns a new value as the patch has it after kube-apiserver took it over without the directives in it: a map is
/// modified in place, unless it is a directive itself; a list is copied, and only its maps are modified.
fn taken(value: Value) -> Value {
    match value {
        Value::Object(map) if map.contains(DIRECTIVE) => Value::Object(map),
        map @ Value::Object(_) => without_directives(map).unwrap_or_default(),
        Value::List(items) => Value::List(items.into_iter().map(taken).collect()),
        other => other,
    }
}

fn merge_map(mut original: Object, mut patch: Object, meta: PatchMeta<'_>) -> Result<Object, StrategicError> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(StrategicError::unknown_directive(directive, &patch)),
        };
    }
    pace(8 * (original.len() + patch.len()) as u64);
    retain_keys(&mut original, &mut patch)?;
    ordered_lists::merge_ordered_lists(&mut original, &mut patch, meta)?;
    for (name, change) in patch {
        merge_member(&mut original, &name, change, meta)?;
    }
    Ok(original)
}

/// Merges one member of a patch, except directives of its map.
fn merge_member(original: &mut Object, name: &str, change: Value, meta: PatchMeta<'_>) -> Result<(), StrategicError> {
    let (name, deletes) = match name.strip_prefix(DELETE_FROM_LIST) {
        // Without a name, Go looks for a member with that of the directive.
        Some("/") => (name, true),
        Some(rest) => (rest.strip_prefix('/').ok_or_else(StrategicError::bad_deletion_list)?, true),
        None => (name, false),
    };
    if change.is_null() {
        original.remove(name);
        return Ok(());
    }
    let Some(value) = original.get_mut(name) else {
        if !deletes {
            set(original, name, without_nulls(change));
        }
        return Ok(());
    };
    match (std::mem::take(value), change) {
        (Value::Object(live), Value::Object(change)) => {
            let (below, strategy, _) = meta.member(name)?;
            // The map is put back in either case.
            let merged = if strategy == Strategy::Replace { change } else { merge_map(live, change, below)? };
            original.insert(name, merged);
        }
        (Value::List(live), Value::List(change)) => {
            let (below, strategy, key) = meta.list(name)?;
            let merged = if strategy == Strategy::Merge || deletes {
                lists::merge(live, change, below, key, deletes)?
            } else {
                change
            };
            original.insert(name, Value::List(merged));
        }
        (live, change) => match std::mem::discriminant(&live) == std::mem::discriminant(&change) {
            // This includes the deletion of a text from a text, which replaces it.
            true => set(original, name, change),
            // Other deletions from a member that is no list have no effect.
            false if deletes => drop(original.insert(name, live)),
            false => set(original, name, without_nulls(change)),
        },
    }
    Ok(())
}

fn set(original: &mut Object, name: &str, value: Value) {
    match without_directives(value) {
        Some(value) => {
            original.insert(name, value);
        }
        None => {
            original.remove(name);
        }
    }
}

/// Removes the members that `$retainKeys` does not name. It must list all members that the patch sets.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), StrategicError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::List(retained) = retained else { return Err(StrategicError::bad_retain_keys()) };
    let names: std::collections::HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    let directive = |name: &str| name.starts_with(DELETE_FROM_LIST) || name.starts_with(ELEMENT_ORDER);
    for (name, value) in patch.iter() {
        if !value.is_null() && !directive(name) && !names.contains(name.as_str()) {
            return Err(StrategicError::bad_retain_keys());
        }
    }
    original.retain(|name, _| names.contains(name.as_str()));
    Ok(())
}

/// Removes directives from a value without a counterpart in the object: a map with a directive is removed as a whole.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.contains(DIRECTIVE) => None,
        Value::Object(object) => {
            let remaining = object.into_iter().filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(remaining.collect()))
        }
        Value::List(items) => Some(Value::List(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

/// Copies a value without members that are null, at any depth.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let remaining = object.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(remaining.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::List(items) => Value::List(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
