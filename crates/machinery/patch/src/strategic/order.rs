//! The order of merged lists: `$setElementOrder` precedes the order of the patch, and that precedes the order of the
//! live list.

use binnacle_schema::Value;

use super::StrategicError;
use super::elements::{ElementKind, keyed};
use super::index::Index;

/// The size of the blocks in which Go's stable sort inserts elements.
const BLOCK: usize = 20;

/// Sorts the elements that the order does not have. Of an element that the live list does not have either, Go's
/// comparison says that it is before any other, and any other before it, so the result depends on the algorithm. That of
/// longer lists is not reproduced: such elements come first there.
fn sort_rest(rest: &mut [Value], place: impl Fn(&Value) -> Option<usize>) {
    if rest.len() > BLOCK || rest.iter().all(|item| place(item).is_some()) {
        return rest.sort_by_key(place);
    }
    let is_before = |item: &Value, other: &Value| match (place(item), place(other)) {
        (Some(item), Some(other)) => item < other,
        _ => true,
    };
    for end in 1..rest.len() {
        for index in (1..=end).rev() {
            if !is_before(&rest[index], &rest[index - 1]) {
                break;
            }
            rest.swap(index, index - 1);
        }
    }
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
            keyed(item, key)?;
        }
    }
    let (in_order, in_live) = (Index::new(order, key), Index::new(live, key));
    let (mut first, mut rest): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| in_order.find(item).is_some());
    first.sort_by_key(|item| in_order.find(item));
    sort_rest(&mut rest, |item| in_live.find(item));
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
