//! Kubernetes' functions for lists.

use super::Library;
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::value::{List, Val, compare, equal};
use std::cmp::Ordering;

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &[] }
}

/// Returns the library with `includes`.
pub(super) fn with_includes() -> Library {
    Library { functions: &[INCLUDES], types: &[] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

const FUNCTIONS: &[FunctionDecl] = &[
    FunctionDecl::each(
        "isSorted",
        &[
            ("list_int_is_sorted_bool", "list(int).() -> bool", Some(is_sorted)),
            ("list_uint_is_sorted_bool", "list(uint).() -> bool", Some(is_sorted)),
            ("list_double_is_sorted_bool", "list(double).() -> bool", Some(is_sorted)),
            ("list_bool_is_sorted_bool", "list(bool).() -> bool", Some(is_sorted)),
            ("list_duration_is_sorted_bool", "list(duration).() -> bool", Some(is_sorted)),
            ("list_timestamp_is_sorted_bool", "list(timestamp).() -> bool", Some(is_sorted)),
            ("list_string_is_sorted_bool", "list(string).() -> bool", Some(is_sorted)),
            ("list_bytes_is_sorted_bool", "list(bytes).() -> bool", Some(is_sorted)),
        ],
    ),
    FunctionDecl::each(
        "sum",
        &[
            ("list_int_sum_int", "list(int).() -> int", Some(|m, args| sum(m, args, Val::Int(0)))),
            ("list_uint_sum_uint", "list(uint).() -> uint", Some(|m, args| sum(m, args, Val::Uint(0)))),
            ("list_double_sum_double", "list(double).() -> double", Some(|m, args| sum(m, args, Val::Double(0.0)))),
            (
                "list_duration_sum_duration",
                "list(duration).() -> duration",
                Some(|m, args| sum(m, args, Val::Duration(0))),
            ),
        ],
    ),
    FunctionDecl::each(
        "max",
        &[
            ("list_int_max_int", "list(int).() -> int", Some(max)),
            ("list_uint_max_uint", "list(uint).() -> uint", Some(max)),
            ("list_double_max_double", "list(double).() -> double", Some(max)),
            ("list_bool_max_bool", "list(bool).() -> bool", Some(max)),
            ("list_duration_max_duration", "list(duration).() -> duration", Some(max)),
            ("list_timestamp_max_timestamp", "list(timestamp).() -> timestamp", Some(max)),
            ("list_string_max_string", "list(string).() -> string", Some(max)),
            ("list_bytes_max_bytes", "list(bytes).() -> bytes", Some(max)),
        ],
    ),
    FunctionDecl::each(
        "min",
        &[
            ("list_int_min_int", "list(int).() -> int", Some(min)),
            ("list_uint_min_uint", "list(uint).() -> uint", Some(min)),
            ("list_double_min_double", "list(double).() -> double", Some(min)),
            ("list_bool_min_bool", "list(bool).() -> bool", Some(min)),
            ("list_duration_min_duration", "list(duration).() -> duration", Some(min)),
            ("list_timestamp_min_timestamp", "list(timestamp).() -> timestamp", Some(min)),
            ("list_string_min_string", "list(string).() -> string", Some(min)),
            ("list_bytes_min_bytes", "list(bytes).() -> bytes", Some(min)),
        ],
    ),
    FunctionDecl::each("indexOf", &[("list_a_index_of_int", "list(A).(A) -> int", Some(index_of))]),
    FunctionDecl::each("lastIndexOf", &[("list_a_last_index_of_int", "list(A).(A) -> int", Some(last_index_of))]),
];

const INCLUDES: FunctionDecl =
    FunctionDecl::each("includes", &[("list_includes_dyn_dyn", "dyn.(dyn) -> bool", Some(includes))]);

fn list<'v, 'a>(meter: &Meter, args: &'v [Val<'a>]) -> std::result::Result<&'v List<'a>, Error> {
    match &args[0] {
        Val::List(list) => {
            meter.work((list.len() as u64).saturating_mul(1 + list.height()))?;
            Ok(list)
        }
        _ => Err(Error::no_such_overload()),
    }
}

fn is_sorted<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let mut before = None;
    for item in list(meter, args)?.iter() {
        let item = item?;
        meter.work(item.bytes() as u64 / 16)?;
        if let Some(before) = &before
            && compare(before, &item)?.is_gt()
        {
            return Ok(Val::Bool(false));
        }
        before = Some(item);
    }
    Ok(Val::Bool(true))
}

fn sum<'a>(meter: &Meter, args: &[Val<'a>], zero: Val<'a>) -> Result<'a> {
    let mut sum = zero;
    for item in list(meter, args)?.iter() {
        sum = super::standard::add(meter, &[sum, item?])?;
    }
    Ok(sum)
}

fn max<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    extreme(meter, args, Ordering::Less, "max called on empty list")
}

fn min<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    extreme(meter, args, Ordering::Greater, "min called on empty list")
}

fn extreme<'a>(meter: &Meter, args: &[Val<'a>], worse: Ordering, empty: &'static str) -> Result<'a> {
    let mut best: Option<Val<'a>> = None;
    for item in list(meter, args)?.iter() {
        let item = item?;
        meter.work(item.bytes() as u64 / 16)?;
        match &best {
            Some(other) if compare(other, &item)? != worse => {}
            _ => best = Some(item),
        }
    }
    best.ok_or_else(|| Error::new(empty))
}

fn index_of<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    for (i, item) in list(meter, args)?.iter().enumerate() {
        if equal(meter, &item?, &args[1])? {
            return Ok(Val::Int(i as i64));
        }
    }
    Ok(Val::Int(-1))
}

fn last_index_of<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let list = list(meter, args)?;
    for i in (0..list.len()).rev() {
        if equal(meter, &list.get(i)?, &args[1])? {
            return Ok(Val::Int(i as i64));
        }
    }
    Ok(Val::Int(-1))
}

fn includes<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    if !matches!(args[0], Val::List(_)) {
        return Ok(Val::Bool(equal(meter, &args[0], &args[1])?));
    }
    let list = list(meter, args)?;
    for item in list.iter() {
        if equal(meter, &item?, &args[1])? {
            return Ok(Val::Bool(true));
        }
    }
    Ok(Val::Bool(false))
}
