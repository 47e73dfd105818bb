//! Checks that many kinds share.

use binnacle_fields::types::{List, Str};
use binnacle_fields::{Field, FieldRef, Message};
use binnacle_meta::FieldErrors;
use binnacle_validation::checks::{IMMUTABLE, of_named_type};

use crate::equality::equal;
use crate::internal;
use crate::prepare::semantically_equal;

/// Reports a change of an immutable field, which the message shows as JSON.
pub(crate) fn immutable<T>(new: FieldRef<T>, old: FieldRef<T>, errors: &mut FieldErrors) {
    if !semantically_equal(new.get(), old.get()) {
        errors.push(new.invalid_as(new.value(), IMMUTABLE));
    }
}

/// Reports a change of an immutable text whose type in Go has a name of its own.
pub(crate) fn immutable_enum(new: FieldRef<Str>, old: FieldRef<Str>, errors: &mut FieldErrors) {
    if !semantically_equal(new.get(), old.get()) {
        let shown = new.value().as_str().map_or_else(|| new.value().into(), of_named_type);
        errors.push(new.invalid_as(shown, IMMUTABLE));
    }
}

/// Reports a change of an immutable structure, which the message shows in its internal form.
pub(crate) fn immutable_struct<M: Message>(new: FieldRef<M>, old: FieldRef<M>, errors: &mut FieldErrors) {
    if !equal(new, old) {
        errors.push(new.invalid_as(internal::shown(new), IMMUTABLE));
    }
}

/// Reports a change of an immutable structure that is a pointer in Go: an empty one differs from none.
pub(crate) fn immutable_pointer<M: Message>(new: FieldRef<M>, old: FieldRef<M>, errors: &mut FieldErrors) {
    if new.is_set() != old.is_set() || !equal(new, old) {
        errors.push(new.invalid_as(internal::shown(new), IMMUTABLE));
    }
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
