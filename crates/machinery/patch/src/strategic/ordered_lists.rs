//! Merging of the lists for which a patch has an order.

use binnacle_schema::{Object, Value};

use super::elements::{element_type, keyed};
use super::meta::{PatchMeta, Strategy};
use super::{DIRECTIVE, ELEMENT_ORDER, StrategicError, lists, order, without_directives};

/// Merges the lists for which the patch has an order, and removes them from the patch.
pub(super) fn merge_ordered_lists(
    original: &mut Object,
    patch: &mut Object,
    meta: PatchMeta<'_>,
) -> Result<(), StrategicError> {
    let directives: Vec<_> = patch.keys().filter(|name| name.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let Some(stated) = patch.remove(&directive) else { continue };
        let Value::List(stated) = stated else { return Err(StrategicError::not_a_list(&stated)) };
        let name = directive.strip_prefix(ELEMENT_ORDER).and_then(|rest| rest.strip_prefix('/'));
        let name = name.ok_or_else(StrategicError::bad_element_order)?;
        let live = list(original.get(name))?;
        let change = list(patch.get(name))?;
        let (below, strategy, key) = meta.list(name)?;
        check_order(change.as_deref().unwrap_or_default(), &stated, key)?;
        let merged = match (&live, &change) {
            (None, None) => continue,
            (Some(live), None) => live.clone(),
            (None, Some(change)) => change.iter().cloned().filter_map(without_directives).collect(),
            (Some(live), Some(change)) if strategy == Strategy::Merge => {
                lists::merge(live.clone(), change.clone(), below, key, false)?
            }
            (Some(_), Some(change)) => change.clone(),
        };
        let live = live.unwrap_or_default();
        let elements = element_type(&live, change.as_deref().unwrap_or_default())?;
        let merged = order::enforce(merged, &stated, &live, key, elements)?;
        original.insert(name, Value::List(merged));
        patch.remove(name);
    }
    Ok(())
}

fn list(value: Option<&Value>) -> Result<Option<Vec<Value>>, StrategicError> {
    match value {
        None => Ok(None),
        Some(Value::List(items)) => Ok(Some(items.clone())),
        Some(other) => Err(StrategicError::not_a_list(other)),
    }
}

/// Checks that the elements of the patch, except deletions, are in the stated order.
fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), StrategicError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    if !key.is_empty()
        && let Some(other) = patch.iter().find(|item| !matches!(item, Value::Object(_)))
    {
        return Err(StrategicError::not_a_map(other));
    }
    let mut order_left = order.iter();
    for item in patch.iter().filter(|item| item.get(DIRECTIVE).is_none()) {
        loop {
            let Some(next) = order_left.next() else {
                return Err(StrategicError::order_mismatch(patch, order));
            };
            if equal(item, next, key)? {
                break;
            }
        }
    }
    Ok(())
}

fn equal(item: &Value, next: &Value, key: &str) -> Result<bool, StrategicError> {
    if key.is_empty() {
        return Ok(item == next);
    }
    Ok(keyed(item, key)?.get(key) == keyed(next, key)?.get(key))
}
