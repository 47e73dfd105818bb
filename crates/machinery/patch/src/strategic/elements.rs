//! The elements of lists.

use binnacle_schema::{Object, Value};

use super::StrategicError;

/// The common type of a list's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElementKind {
    Maps,
    Scalars,
}

/// Returns the type of all elements of two lists.
pub(super) fn element_type(original: &[Value], patch: &[Value]) -> Result<ElementKind, StrategicError> {
    let mut all = original.iter().chain(patch);
    let Some(first) = all.next() else {
        return Err(StrategicError::other("no elements in any of the given slices"));
    };
    if matches!(first, Value::List(_)) {
        return Err(StrategicError::list_of_lists());
    }
    let kind = std::mem::discriminant(first);
    if first.is_null() || all.any(|item| std::mem::discriminant(item) != kind) {
        return Err(StrategicError::mixed_elements(original, patch));
    }
    Ok(if matches!(first, Value::Object(_)) { ElementKind::Maps } else { ElementKind::Scalars })
}

/// Returns the element as a map with its merge key.
pub(super) fn keyed<'v>(item: &'v Value, key: &str) -> Result<&'v Object, StrategicError> {
    match item {
        Value::Object(map) if map.contains(key) => Ok(map),
        Value::Object(map) => Err(StrategicError::no_merge_key(map, key)),
        other => Err(StrategicError::not_a_map(other)),
    }
}
