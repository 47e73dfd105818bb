//! Validation steps that many kinds share.

use binnacle_fields::types::{List, Str};
use binnacle_fields::{Field, FieldRef, Message};
use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::metadata::{IMMUTABLE, shown};

use crate::equality::equal;
use crate::internal;
use crate::prepare::semantically_equal;

/// Returns the items of the list under `name`, each with its path.
pub(crate) fn items<'a>(
    object: &'a Value,
    name: &str,
    path: &FieldPath,
) -> impl Iterator<Item = (FieldPath, &'a Value)> + use<'a> {
    let list = path.child(name);
    object.list_at(&[name]).iter().enumerate().map(move |(i, item)| (list.index(i), item))
}

/// Reports a change of an immutable field, which the message shows as JSON.
pub(crate) fn immutable<T>(new: FieldRef<T>, old: FieldRef<T>, errors: &mut FieldErrors) {
    if !semantically_equal(new.get(), old.get()) {
        errors.push(new.invalid_as(new.value(), IMMUTABLE));
    }
}

/// Reports a change of an immutable structure, which the message shows in its internal form.
pub(crate) fn immutable_struct<M: Message>(new: FieldRef<M>, old: FieldRef<M>, errors: &mut FieldErrors) {
    if !equal(new, old) {
        errors.push(new.invalid_as(internal::shown(new), IMMUTABLE));
    }
}

/// Reports a change of an immutable member, which the message shows as JSON.
pub(crate) fn immutable_value(path: &FieldPath, new: Option<&Value>, old: Option<&Value>, errors: &mut FieldErrors) {
    immutable_as(path, new, old, || shown(new), errors);
}

/// Reports a change of an immutable member; `shown` returns it for the message.
pub(crate) fn immutable_as(
    path: &FieldPath,
    new: Option<&Value>,
    old: Option<&Value>,
    shown: impl FnOnce() -> ErrorValue,
    errors: &mut FieldErrors,
) {
    if !semantically_equal(new, old) {
        errors.push(FieldError::invalid(path, shown(), IMMUTABLE));
    }
}

/// Requires a text to be one of the supported values.
pub(crate) fn one_of(path: &FieldPath, value: &str, supported: &[&str], errors: &mut FieldErrors) {
    if !supported.contains(&value) {
        errors.push(FieldError::not_supported(path, value, supported));
    }
}

/// Returns a member that is present and not null; it may be empty.
pub(crate) fn present<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// Returns the texts of the list under `name`.
pub(crate) fn texts<'a>(object: &'a Value, name: &str) -> Vec<&'a str> {
    object.list_at(&[name]).iter().filter_map(Value::as_str).collect()
}

/// `spec` as a path.
pub(crate) fn spec_path() -> FieldPath {
    FieldPath::new("spec")
}

/// Returns the member of an object, or null if absent.
pub(crate) fn member<'a>(object: &'a Value, name: &str) -> &'a Value {
    static NULL: Value = Value::Null;
    object.get(name).unwrap_or(&NULL)
}

/// Returns for each item of a list true if an earlier one has the same text in a field.
pub(crate) fn repeated<M>(list: FieldRef<List<M>>, field: Field<M, Str>) -> Vec<bool> {
    let items: Vec<&str> = list.items().map(|item| item.at(field).str()).collect();
    binnacle_validation::repeated(&items, |text| *text)
}

/// Requires a text that is a valid path segment.
pub(crate) fn path_segment(field: FieldRef<Str>, errors: &mut FieldErrors) {
    if field.is_empty() {
        errors.push(field.required(""));
    } else {
        let messages = binnacle_validation::names::path_segment(field.str(), false);
        errors.extend(messages.iter().map(|message| field.invalid(message)));
    }
}
