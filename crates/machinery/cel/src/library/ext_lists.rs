//! cel-go's functions for lists: slices, sorting, ranges.

use super::Library;
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::value::{List, Val, compare, equal};
use std::cmp::Ordering;

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &[] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

const FUNCTIONS: &[FunctionDecl] = &[
    FunctionDecl::each("slice", &[("list_slice", "list(T).(int, int) -> list(T)", Some(slice))]),
    // Elements that are not lists are kept, despite the signature.
    FunctionDecl::all(
        "flatten",
        flatten,
        &[
            ("list_flatten", "list(list(T)).() -> list(T)", None),
            ("list_flatten_int", "list(dyn).(int) -> list(dyn)", None),
        ],
    ),
    FunctionDecl::all(
        "sort",
        sort,
        &[
            ("list_int_sort", "list(int).() -> list(int)", None),
            ("list_uint_sort", "list(uint).() -> list(uint)", None),
            ("list_double_sort", "list(double).() -> list(double)", None),
            ("list_bool_sort", "list(bool).() -> list(bool)", None),
            ("list_google.protobuf.Duration_sort", "list(duration).() -> list(duration)", None),
            ("list_google.protobuf.Timestamp_sort", "list(timestamp).() -> list(timestamp)", None),
            ("list_string_sort", "list(string).() -> list(string)", None),
            ("list_bytes_sort", "list(bytes).() -> list(bytes)", None),
        ],
    ),
    FunctionDecl::all(
        "@sortByAssociatedKeys",
        sort_by,
        &[
            ("list_int_sortByAssociatedKeys", "list(T).(list(int)) -> list(T)", None),
            ("list_uint_sortByAssociatedKeys", "list(T).(list(uint)) -> list(T)", None),
            ("list_double_sortByAssociatedKeys", "list(T).(list(double)) -> list(T)", None),
            ("list_bool_sortByAssociatedKeys", "list(T).(list(bool)) -> list(T)", None),
            ("list_google.protobuf.Duration_sortByAssociatedKeys", "list(T).(list(duration)) -> list(T)", None),
            ("list_google.protobuf.Timestamp_sortByAssociatedKeys", "list(T).(list(timestamp)) -> list(T)", None),
            ("list_string_sortByAssociatedKeys", "list(T).(list(string)) -> list(T)", None),
            ("list_bytes_sortByAssociatedKeys", "list(T).(list(bytes)) -> list(T)", None),
        ],
    ),
    FunctionDecl::each("lists.range", &[("lists_range", "(int) -> list(int)", Some(range))]),
    FunctionDecl::each("reverse", &[("list_reverse", "list(T).() -> list(T)", Some(reverse))]),
    FunctionDecl::each("distinct", &[("list_distinct", "list(T).() -> list(T)", Some(distinct))]),
];

fn list<'v, 'a>(meter: &Meter, value: &'v Val<'a>) -> std::result::Result<&'v List<'a>, Error> {
    match value {
        Val::List(list) => {
            meter.work((list.len() as u64).saturating_mul(1 + list.height()))?;
            Ok(list)
        }
        _ => Err(Error::no_such_overload()),
    }
}

fn slice<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let [Val::List(list), Val::Int(start), Val::Int(end)] = args else { return Err(Error::no_such_overload()) };
    let (start, end) = (*start, *end);
    let fail = |why: &str| Err(Error::new(format!("cannot slice({start}, {end}), {why}")));
    if start < 0 || end < 0 {
        return fail("negative indexes not supported");
    }
    if start > end {
        return fail("start index must be less than or equal to end index");
    }
    if (list.len() as i64) < end {
        return fail(&format!("list is length {}", list.len()));
    }
    meter.work(((end - start) as u64).saturating_mul(list.height()))?;
    meter.list((end - start) as usize)?;
    let values: std::result::Result<Vec<_>, _> = (start..end).map(|i| list.get(i as usize)).collect();
    Ok(Val::list(values?))
}

fn flatten<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    if !matches!(args[0], Val::List(_)) {
        let depth = args.get(1).map(Val::type_name).unwrap_or_default();
        return Err(Error::new(format!("no such overload: {}.flatten({depth})", args[0].type_name())));
    }
    let depth = match args.get(1) {
        Some(Val::Int(depth)) if *depth < 0 => return Err(Error::new("level must be non-negative")),
        Some(Val::Int(depth)) => *depth,
        _ => 1,
    };
    let mut values = Vec::new();
    collect(meter, list(meter, &args[0])?, depth, &mut values)?;
    Ok(Val::list(values))
}

fn collect<'a>(
    meter: &Meter,
    list: &List<'a>,
    depth: i64,
    values: &mut Vec<Val<'a>>,
) -> std::result::Result<(), Error> {
    let height = list.height();
    for item in list.iter() {
        meter.work(height)?;
        meter.list(1)?;
        match item? {
            Val::List(inner) if depth > 0 => {
                stacker::maybe_grow(64 * 1024, 1024 * 1024, || collect(meter, &inner, depth - 1, values))?;
            }
            value => values.push(value),
        }
    }
    Ok(())
}

fn sort<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let list = list(meter, &args[0])?;
    sorted(meter, list, list)
}

fn sort_by<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    sorted(meter, list(meter, &args[0])?, list(meter, &args[1])?)
}

fn sorted<'a>(meter: &Meter, values: &List<'a>, keys: &List<'a>) -> Result<'a> {
    if values.len() != keys.len() {
        return Err(Error::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            values.len(),
            keys.len()
        )));
    }
    meter.list(3 * keys.len())?;
    let keys = keys.iter().collect::<std::result::Result<Vec<_>, _>>()?;
    let Some(first) = keys.first() else { return Ok(Val::List(values.clone())) };
    if compare(first, first).is_err() && !matches!(first, Val::Double(_)) {
        return Err(Error::new("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.ty() != first.ty()) {
        return Err(Error::new("list elements must have the same type"));
    }
    // Each comparison reads at most the length of the shorter string.
    let longest = keys.iter().map(Val::bytes).max().unwrap_or(0) as u64;
    let bytes = (keys.iter().map(Val::bytes).sum::<usize>() as u64).min(longest.saturating_mul(keys.len() as u64));
    let rounds = u64::from(usize::BITS - keys.len().leading_zeros());
    meter.work((2 * keys.len() as u64 + bytes / 16) * rounds)?;
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| compare(&keys[*a], &keys[*b]).unwrap_or(Ordering::Equal));
    let values: std::result::Result<Vec<_>, _> = order.into_iter().map(|i| values.get(i)).collect();
    Ok(Val::list(values?))
}

fn range<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let Val::Int(end) = args[0] else { return Err(Error::no_such_overload()) };
    meter.list(usize::try_from(end).unwrap_or(0))?;
    Ok(Val::list((0..end).map(Val::Int).collect()))
}

fn reverse<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let list = list(meter, &args[0])?;
    meter.list(list.len())?;
    let values: std::result::Result<Vec<_>, _> = (0..list.len()).rev().map(|i| list.get(i)).collect();
    Ok(Val::list(values?))
}

fn distinct<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let mut values: Vec<Val<'a>> = Vec::new();
    'items: for item in list(meter, &args[0])?.iter() {
        let item = item?;
        for other in &values {
            if equal(meter, &item, other)? {
                continue 'items;
            }
        }
        values.push(item);
    }
    meter.list(values.len())?;
    Ok(Val::list(values))
}
