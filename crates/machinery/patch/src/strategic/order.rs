//! The order of merged lists: `$setElementOrder` precedes the order of the patch, and that precedes the order of the
//! live list.

use binnacle_schema::Value;

use super::StrategicError;
use super::elements::{ElementKind, keyed};
use super::index::Index;

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
            keyed(item, key)?;
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
