//! Values that may be absent.

use super::Library;
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::value::Val;

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &[] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

/// `or` and `orValue` evaluate their argument only if needed, and indexing is part of attributes: the evaluator
/// implements both itself.
const FUNCTIONS: &[FunctionDecl] = &[
    FunctionDecl::each("optional.of", &[("optional_of", "(V) -> optional_type(V)", Some(of))]),
    FunctionDecl::each(
        "optional.ofNonZeroValue",
        &[("optional_ofNonZeroValue", "(V) -> optional_type(V)", Some(of_non_zero))],
    ),
    FunctionDecl::each(
        "optional.none",
        &[("optional_none", "() -> optional_type(V)", Some(|_, _| Ok(Val::Optional(None))))],
    ),
    FunctionDecl::each("value", &[("optional_value", "optional_type(V).() -> V", Some(value))]),
    FunctionDecl::each("hasValue", &[("optional_hasValue", "optional_type(V).() -> bool", Some(has_value))]),
    FunctionDecl::each(
        "or",
        &[("optional_or_optional", "optional_type(V).(optional_type(V)) -> optional_type(V)", None)],
    ),
    FunctionDecl::each("orValue", &[("optional_orValue_value", "optional_type(V).(V) -> V", None)]),
    FunctionDecl::each(
        "_[?_]",
        &[
            ("list_optindex_optional_int", "(list(V), int) -> optional_type(V)", None),
            ("optional_list_optindex_optional_int", "(optional_type(list(V)), int) -> optional_type(V)", None),
            ("map_optindex_optional_value", "(map(K, V), K) -> optional_type(V)", None),
            ("optional_map_optindex_optional_value", "(optional_type(map(K, V)), K) -> optional_type(V)", None),
        ],
    ),
    FunctionDecl::each(
        "_[_]",
        &[
            ("optional_list_index_int", "(optional_type(list(V)), int) -> optional_type(V)", None),
            ("optional_map_index_value", "(optional_type(map(K, V)), K) -> optional_type(V)", None),
        ],
    ),
    FunctionDecl::each("last", &[("list_last", "list(V).() -> optional_type(V)", Some(last))]),
    FunctionDecl::each("first", &[("list_first", "list(V).() -> optional_type(V)", Some(first))]),
    FunctionDecl::each("optional.unwrap", &[("optional_unwrap", "(list(optional_type(V))) -> list(V)", Some(unwrap))]),
    FunctionDecl::each("unwrapOpt", &[("optional_unwrapOpt", "list(optional_type(V)).() -> list(V)", Some(unwrap))]),
];

fn of<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::some(args[0].clone()))
}

fn of_non_zero<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(if args[0].is_zero() { Val::Optional(None) } else { Val::some(args[0].clone()) })
}

fn value<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    match &args[0] {
        Val::Optional(Some(value)) => Ok((**value).clone()),
        _ => Err(Error::new("optional.none() dereference")),
    }
}

fn has_value<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::Bool(matches!(args[0], Val::Optional(Some(_)))))
}

fn last<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    match &args[0] {
        Val::List(list) if !list.is_empty() => Ok(Val::some(list.get(list.len() - 1)?)),
        _ => Ok(Val::Optional(None)),
    }
}

fn first<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    match &args[0] {
        Val::List(list) if !list.is_empty() => Ok(Val::some(list.get(0)?)),
        _ => Ok(Val::Optional(None)),
    }
}

fn unwrap<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let Val::List(list) = &args[0] else { return Err(Error::no_such_overload()) };
    meter.work((list.len() as u64).saturating_mul(list.height()))?;
    meter.list(list.len())?;
    let mut values = Vec::new();
    for item in list.iter() {
        match item? {
            Val::Optional(Some(value)) => values.push((*value).clone()),
            Val::Optional(None) => {}
            value => return Err(Error::new(format!("value {value} is not optional"))),
        }
    }
    Ok(Val::list(values))
}
