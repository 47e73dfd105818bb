//! The actual cost of a call, from its values.

use super::{LIST, MESSAGE, REGEX, STRING_TRAVERSAL, scaled};
use crate::error::Error;
use crate::meter::Meter;
use crate::value::Val;

#[derive(Clone, Copy, Debug)]
pub(crate) enum ActualCost {
    Fixed(u64),
    /// The cost of walking the first argument.
    Traversal,
    /// Computed from the arguments and the result.
    Of(fn(&[Val<'_>], Option<&Val<'_>>) -> u64),
}

/// Returns the cost of calling a function; the overload is empty if it depends on the values.
pub(crate) fn of_call(function: &str, overload: &str) -> ActualCost {
    use ActualCost::{Fixed, Of, Traversal};
    match function {
        "check" => Fixed(350_000),
        "fieldSelector" | "labelSelector" => Of(|args, _| selector(size(args, 1))),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => Traversal,
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => Of(|args, _| scaled(size(args, 0), STRING_TRAVERSAL)),
        "ip" if overload == "cidr_ip" => Fixed(1),
        "ip" => Of(|args, _| scaled(size(args, 0), STRING_TRAVERSAL)),
        "replace" | "split" | "ip.isCanonical" => Of(|args, _| scaled(size(args, 0), 2.0 * STRING_TRAVERSAL)),
        "join" => Of(|_, result| scaled(result.map_or(1, Val::size), 2.0 * STRING_TRAVERSAL)),
        "find" | "findAll" => Of(|args, _| {
            let text = scaled(size(args, 0) + 1, STRING_TRAVERSAL);
            text.saturating_mul(scaled(size(args, 1), REGEX))
        }),
        "containsIP" if overload == "cidr_contains_ip_string" => {
            Of(|args, _| within(args) + scaled(size(args, 1), STRING_TRAVERSAL))
        }
        "containsIP" => Of(|args, _| within(args)),
        "containsCIDR" if overload == "cidr_contains_cidr_string" => {
            Of(|args, _| within_network(args) + scaled(size(args, 1), STRING_TRAVERSAL))
        }
        "containsCIDR" => Of(|args, _| within_network(args)),
        "validate" => Of(|args, _| {
            let text = scaled(size(args, 1) + 1, STRING_TRAVERSAL);
            text.saturating_mul(scaled(crate::library::max_regex_size(&args[0]), REGEX))
        }),
        _ => standard(overload),
    }
}

fn standard(overload: &str) -> ActualCost {
    use ActualCost::{Fixed, Of};
    match overload {
        "starts_with_string" | "ends_with_string" | "string_to_bytes" | "bytes_to_string" | "strings_quote"
        | "string_format" => Of(|args, _| scaled(size(args, 0), STRING_TRAVERSAL)),
        "in_list" => Of(|args, _| size(args, 1)),
        "less_string"
        | "greater_string"
        | "less_equals_string"
        | "greater_equals_string"
        | "less_bytes"
        | "greater_bytes"
        | "less_equals_bytes"
        | "greater_equals_bytes" => Of(|args, _| scaled(size(args, 0).min(size(args, 1)), STRING_TRAVERSAL)),
        "add_string" | "add_bytes" => Of(|args, _| scaled(size(args, 0) + size(args, 1), STRING_TRAVERSAL)),
        "matches_string" => Of(|args, _| {
            let text = scaled(size(args, 0) + 1, STRING_TRAVERSAL);
            text.saturating_mul(scaled(size(args, 1), REGEX))
        }),
        "contains_string" => Of(|args, _| {
            scaled(size(args, 0), STRING_TRAVERSAL).saturating_mul(scaled(size(args, 1), STRING_TRAVERSAL))
        }),
        "list_sets_contains_list" | "list_sets_intersects_list" => {
            Of(|args, _| 1 + size(args, 0).saturating_mul(size(args, 1)))
        }
        "list_sets_equivalent_list" => Of(|args, _| 1 + size(args, 0).saturating_mul(size(args, 1)).saturating_mul(2)),
        "list_slice" | "lists_range" | "list_reverse" => Of(|_, result| allocated(1.0, result.map_or(1, Val::size))),
        "list_flatten" => Of(|args, _| allocated(1.0, size(args, 0))),
        "list_flatten_int" => Of(|args, _| {
            let depth = if let Some(Val::Int(depth)) = args.get(1) { *depth as f64 } else { 1.0 };
            allocated(depth, size(args, 0))
        }),
        "list_distinct" => Of(|args, _| pairwise_comparison(&args[0])),
        overload if overload.starts_with("list_") && overload.ends_with("_sort") => {
            Of(|args, _| pairwise_comparison(&args[0]))
        }
        overload if overload.ends_with("_sortByAssociatedKeys") => Of(|args, _| pairwise_comparison(&args[1])),
        _ => Fixed(1),
    }
}

fn allocated(factor: f64, size: u64) -> u64 {
    ((size as f64 * factor) as u64).saturating_add(1 + LIST)
}

/// Returns the cost of comparing each element with every other one.
fn pairwise_comparison(list: &Val<'_>) -> u64 {
    let Val::List(list) = list else { return 1 };
    let texts = !list.is_empty() && matches!(list.get(0), Ok(Val::Str(_) | Val::Bytes(_)));
    let factor = if texts { 2.0 + STRING_TRAVERSAL } else { 2.0 };
    allocated(factor, (list.len() as u64).saturating_mul(list.len() as u64))
}

fn size(args: &[Val<'_>], index: usize) -> u64 {
    args.get(index).map_or(1, Val::size)
}

/// Returns the cost of parsing a selector, and of a list with a requirement for every two bytes.
fn selector(length: u64) -> u64 {
    let requirements = scaled(length, 0.5);
    LIST + scaled(length, STRING_TRAVERSAL) + requirements * (LIST + MESSAGE)
}

fn within(args: &[Val<'_>]) -> u64 {
    scaled(2 * size(args, 0), STRING_TRAVERSAL)
}

fn within_network(args: &[Val<'_>]) -> u64 {
    within(args) + scaled(size(args, 0), STRING_TRAVERSAL) + 1
}

/// Returns the cost of walking a whole value. Values share parts, so the walk ends when the cost exceeds the limit.
pub(crate) fn traversal(meter: &Meter, value: &Val<'_>) -> Result<u64, Error> {
    let mut cost = 0;
    walk(meter, value, &mut cost)?;
    Ok(cost)
}

fn walk(meter: &Meter, value: &Val<'_>, cost: &mut u64) -> Result<(), Error> {
    // Some values cost nothing.
    meter.work(1)?;
    let own = match value {
        Val::Str(_) | Val::Bytes(_) => (value.bytes() as f64 * STRING_TRAVERSAL) as u64,
        Val::List(list) if list.len() > MAX_WALKED => list.len() as u64,
        Val::List(list) => {
            let height = list.height();
            return stacker::maybe_grow(64 * 1024, 1024 * 1024, || {
                list.iter().try_for_each(|item| {
                    meter.work(height)?;
                    // An element without a value costs as much as a number.
                    walk(meter, item.as_ref().unwrap_or(&Val::Null), cost)
                })
            });
        }
        Val::Map(map) => {
            return stacker::maybe_grow(64 * 1024, 1024 * 1024, || {
                for key in map.keys_charged(meter)? {
                    walk(meter, &key, cost)?;
                    meter.key(&key)?;
                    let value = map.find(&key).ok().flatten();
                    walk(meter, value.as_ref().unwrap_or(&Val::Null), cost)?;
                }
                Ok(())
            });
        }
        _ => 1,
    };
    *cost = cost.saturating_add(own);
    if *cost > meter.remaining() { meter.charge(*cost) } else { Ok(()) }
}

/// The limit on elements: longer lists cost more than any expression may.
const MAX_WALKED: usize = 1_000_000;
