//! Merging of lists.

use binnacle_schema::Value;

use super::elements::{ElementKind, element_type};
use super::index::Index;
use super::meta::PatchMeta;
use super::{DIRECTIVE, StrategicError, merge_map, order};

/// Merges by `key`, or as sets for lists of scalars; with `deletes`, removes the scalars of the patch instead.
pub(super) fn merge(
    mut original: Vec<Value>,
    mut patch: Vec<Value>,
    meta: PatchMeta<'_>,
    key: &str,
    deletes: bool,
) -> Result<Vec<Value>, StrategicError> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let elements = element_type(&original, &patch)?;
    if elements == ElementKind::Scalars {
        if deletes {
            let deleted = Index::new(&patch, "");
            original.retain(|item| deleted.find(item).is_none());
            return Ok(original);
        }
        let mut merged = original.clone();
        let mut met = Index::new(&[], "");
        merged.extend(patch.iter().cloned());
        merged.retain(|item| {
            let first = met.find(item).is_none();
            met.push(item, 0);
            first
        });
        return order::enforce(merged, &patch, &original, "", elements);
    }
    if key.is_empty() {
        let kind = meta.kind();
        return Err(StrategicError::other(format!("cannot merge lists without merge key for {kind}")));
    }
    apply_directives(&mut original, &mut patch, key)?;
    let merged = merge_maps(original.clone(), &patch, meta, key)?;
    order::enforce(merged, &patch, &original, key, elements)
}

/// Applies the directives among the elements of the patch and removes them from it.
fn apply_directives(original: &mut Vec<Value>, patch: &mut Vec<Value>, key: &str) -> Result<(), StrategicError> {
    let mut replace = false;
    let mut deleted = Vec::new();
    let mut failure = None;
    patch.retain(|item| {
        let Value::Object(map) = item else { return true };
        let Some(directive) = map.get(DIRECTIVE) else { return true };
        let error = match directive.as_str() {
            Some("delete") => match map.get(key) {
                Some(value) => {
                    deleted.push(value.clone());
                    None
                }
                None => Some(StrategicError::no_merge_key(map, key)),
            },
            Some("replace") => {
                replace = true;
                None
            }
            Some("merge") => Some(StrategicError::other("merging lists cannot yet be specified in the patch")),
            _ => Some(StrategicError::unknown_directive(directive, map)),
        };
        failure = failure.take().or(error);
        false
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    if replace {
        *original = std::mem::take(patch);
    } else if !deleted.is_empty() {
        let deleted = Index::new(&deleted, "");
        original.retain(|item| item.get(key).is_none_or(|value| deleted.find(value).is_none()));
    }
    Ok(())
}

fn merge_maps(
    mut merged: Vec<Value>,
    patch: &[Value],
    meta: PatchMeta<'_>,
    key: &str,
) -> Result<Vec<Value>, StrategicError> {
    let mut index = Index::new(&merged, key);
    for item in patch {
        let Value::Object(change) = item else { return Err(StrategicError::not_a_map(item)) };
        let value = change.get(key).ok_or_else(|| StrategicError::no_merge_key(change, key))?;
        match index.position_of(value) {
            Some(at) => {
                let live = std::mem::take(&mut merged[at]).into_object().unwrap_or_default();
                merged[at] = Value::Object(merge_map(live, change.clone(), meta)?);
            }
            None => {
                index.push(item, merged.len());
                merged.push(item.clone());
            }
        }
    }
    Ok(merged)
}
