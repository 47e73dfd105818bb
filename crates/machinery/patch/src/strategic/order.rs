//! The order of merged lists: `$setElementOrder` precedes the order of the patch, and that precedes the order of the
//! live list.

use binnacle_schema::{Object, Value};

use super::index::Index;
use super::lists::{self, ElementKind};
use super::meta::{PatchMeta, Strategy};
use super::{DIRECTIVE, ELEMENT_ORDER, StrategicError, without_directives};

/// Merges the lists for which the patch has an order, and removes them from the patch.
pub(super) fn merge_ordered_lists(
    original: &mut Object,
    patch: &mut Object,
    meta: PatchMeta<'_>,
) -> Result<(), StrategicError> {
    let directives: Vec<_> = patch.keys().filter(|name| name.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let Some(order) = patch.remove(&directive) else { continue };
        let Value::List(order) = order else { return Err(StrategicError::not_a_list(&order)) };
        let name = directive.strip_prefix(ELEMENT_ORDER).and_then(|rest| rest.strip_prefix('/'));
        let name = name.ok_or_else(StrategicError::bad_element_order)?;
        let live = list(original.get(name))?;
        let change = list(patch.get(name))?;
        let (below, strategy, key) = meta.list(name)?;
        check_order(change.as_deref().unwrap_or_default(), &order, key)?;
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
        let elements = lists::element_type(&live, change.as_deref().unwrap_or_default())?;
        let merged = enforce(merged, &order, &live, key, elements)?;
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
    Ok(lists::keyed(item, key)?.get(key) == lists::keyed(next, key)?.get(key))
}

/// Sorts a merged list: elements of `order` in that order, the rest as in `live`, interleaved as in `live`.
pub(super) fn enforce(
    merged: Vec<Value>,
    order: &[Value],
    live: &[Value],
    key: &str,
    elements: ElementKind,
) -> Result<Vec<Value>, StrategicError> {
    if elements == ElementKind::Maps {
        for item in merged.iter().chain(order).chain(live) {
            lists::keyed(item, key)?;
        }
    }
    let (in_order, in_live) = (Index::new(order, key), Index::new(live, key));
    let (mut first, mut rest): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| in_order.find(item).is_some());
    first.sort_by_key(|item| in_order.find(item));
    rest.sort_by_key(|item| in_live.find(item));
    let mut out = Vec::with_capacity(first.len() + rest.len());
    let (mut first, mut rest) = (first.into_iter().peekable(), rest.into_iter().peekable());
    while let (Some(order), Some(other)) = (first.peek(), rest.peek()) {
        let earlier = match (in_live.find(other), in_live.find(order)) {
            (Some(other), Some(order)) => other < order,
            _ => false,
        };
        out.extend(if earlier { rest.next() } else { first.next() });
    }
    out.extend(first);
    out.extend(rest);
    Ok(out)
}
