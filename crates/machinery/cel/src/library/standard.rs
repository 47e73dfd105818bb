//! The functions of the language itself.

use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::library::Library;
use crate::meter::Meter;
use crate::regexp;
use crate::types::Type;
use crate::value::{Map, Str, Timestamp, Val, compare, duration_text, equal, go_double, parse_go_duration, unequal};
use crate::version::Version;
use std::cmp::Ordering;
use std::sync::Arc;

pub(super) fn library(version: Version) -> Library {
    // Before 1.28, numbers of different types could not be compared.
    let functions = if version.at_least(28) { FUNCTIONS } else { FUNCTIONS_WITHOUT_CROSS_TYPE_ORDER };
    Library { functions, types: &[] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

macro_rules! ordered {
    ($id:literal, $cross:expr) => {
        &[
            (concat!($id, "_bool"), "(bool, bool) -> bool", None),
            (concat!($id, "_int64"), "(int, int) -> bool", None),
            (concat!($id, "_int64_double"), "(int, double) -> bool", None),
            (concat!($id, "_int64_uint64"), "(int, uint) -> bool", None),
            (concat!($id, "_uint64"), "(uint, uint) -> bool", None),
            (concat!($id, "_uint64_double"), "(uint, double) -> bool", None),
            (concat!($id, "_uint64_int64"), "(uint, int) -> bool", None),
            (concat!($id, "_double"), "(double, double) -> bool", None),
            (concat!($id, "_double_int64"), "(double, int) -> bool", None),
            (concat!($id, "_double_uint64"), "(double, uint) -> bool", None),
            (concat!($id, "_string"), "(string, string) -> bool", None),
            (concat!($id, "_bytes"), "(bytes, bytes) -> bool", None),
            (concat!($id, "_timestamp"), "(timestamp, timestamp) -> bool", None),
            (concat!($id, "_duration"), "(duration, duration) -> bool", None),
        ]
    };
    ($id:literal) => {
        &[
            (concat!($id, "_bool"), "(bool, bool) -> bool", None),
            (concat!($id, "_int64"), "(int, int) -> bool", None),
            (concat!($id, "_uint64"), "(uint, uint) -> bool", None),
            (concat!($id, "_double"), "(double, double) -> bool", None),
            (concat!($id, "_string"), "(string, string) -> bool", None),
            (concat!($id, "_bytes"), "(bytes, bytes) -> bool", None),
            (concat!($id, "_timestamp"), "(timestamp, timestamp) -> bool", None),
            (concat!($id, "_duration"), "(duration, duration) -> bool", None),
        ]
    };
}

macro_rules! functions {
    ($($cross:expr)?) => {
        &[
            FunctionDecl::each("_?_:_", &[("conditional", "(bool, A, A) -> A", None)]),
            FunctionDecl::each("_&&_", &[("logical_and", "(bool, bool) -> bool", None)]),
            FunctionDecl::each("_||_", &[("logical_or", "(bool, bool) -> bool", None)]),
            FunctionDecl::all("!_", not, &[("logical_not", "(bool) -> bool", None)]),
            FunctionDecl::each("@not_strictly_false", &[("not_strictly_false", "(bool) -> bool", None)]),
            FunctionDecl::all("_==_", equals, &[("equals", "(A, A) -> bool", None)]),
            FunctionDecl::all("_!=_", not_equals, &[("not_equals", "(A, A) -> bool", None)]),
            FunctionDecl::all("_+_", add, &[
                ("add_bytes", "(bytes, bytes) -> bytes", None),
                ("add_double", "(double, double) -> double", None),
                ("add_duration_duration", "(duration, duration) -> duration", None),
                ("add_duration_timestamp", "(duration, timestamp) -> timestamp", None),
                ("add_timestamp_duration", "(timestamp, duration) -> timestamp", None),
                ("add_int64", "(int, int) -> int", None),
                ("add_list", "(list(A), list(A)) -> list(A)", None),
                ("add_string", "(string, string) -> string", None),
                ("add_uint64", "(uint, uint) -> uint", None),
            ]),
            FunctionDecl::all("_/_", divide, &[
                ("divide_double", "(double, double) -> double", None),
                ("divide_int64", "(int, int) -> int", None),
                ("divide_uint64", "(uint, uint) -> uint", None),
            ]),
            FunctionDecl::all("_%_", modulo, &[
                ("modulo_int64", "(int, int) -> int", None),
                ("modulo_uint64", "(uint, uint) -> uint", None),
            ]),
            FunctionDecl::all("_*_", multiply, &[
                ("multiply_double", "(double, double) -> double", None),
                ("multiply_int64", "(int, int) -> int", None),
                ("multiply_uint64", "(uint, uint) -> uint", None),
            ]),
            FunctionDecl::all("-_", negate, &[
                ("negate_double", "(double) -> double", None),
                ("negate_int64", "(int) -> int", None),
            ]),
            FunctionDecl::all("_-_", subtract, &[
                ("subtract_double", "(double, double) -> double", None),
                ("subtract_duration_duration", "(duration, duration) -> duration", None),
                ("subtract_int64", "(int, int) -> int", None),
                ("subtract_timestamp_duration", "(timestamp, duration) -> timestamp", None),
                ("subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration", None),
                ("subtract_uint64", "(uint, uint) -> uint", None),
            ]),
            FunctionDecl::all("_<_", less, ordered!("less" $(, $cross)?)),
            FunctionDecl::all("_<=_", less_equals, ordered!("less_equals" $(, $cross)?)),
            FunctionDecl::all("_>_", greater, ordered!("greater" $(, $cross)?)),
            FunctionDecl::all("_>=_", greater_equals, ordered!("greater_equals" $(, $cross)?)),
            FunctionDecl::each("_[_]", &[
                ("index_list", "(list(A), int) -> A", None),
                ("index_map", "(map(A, B), A) -> B", None),
            ]),
            FunctionDecl::all("@in", contains_value, &[
                ("in_list", "(A, list(A)) -> bool", None),
                ("in_map", "(A, map(A, B)) -> bool", None),
            ]),
            FunctionDecl::all("size", size, &[
                ("size_bytes", "(bytes) -> int", None),
                ("bytes_size", "bytes.() -> int", None),
                ("size_list", "(list(A)) -> int", None),
                ("list_size", "list(A).() -> int", None),
                ("size_map", "(map(A, B)) -> int", None),
                ("map_size", "map(A, B).() -> int", None),
                ("size_string", "(string) -> int", None),
                ("string_size", "string.() -> int", None),
            ]),
            FunctionDecl::all("type", type_of, &[("type", "(A) -> type(A)", None)]),
            FunctionDecl::each("bool", &[
                ("bool_to_bool", "(bool) -> bool", Some(identity)),
                ("string_to_bool", "(string) -> bool", Some(to_bool)),
            ]),
            FunctionDecl::each("bytes", &[
                ("bytes_to_bytes", "(bytes) -> bytes", Some(identity)),
                ("string_to_bytes", "(string) -> bytes", Some(to_bytes)),
            ]),
            FunctionDecl::each("double", &[
                ("double_to_double", "(double) -> double", Some(identity)),
                ("int64_to_double", "(int) -> double", Some(to_double)),
                ("string_to_double", "(string) -> double", Some(to_double)),
                ("uint64_to_double", "(uint) -> double", Some(to_double)),
            ]),
            FunctionDecl::each("duration", &[
                ("duration_to_duration", "(duration) -> duration", Some(identity)),
                ("int64_to_duration", "(int) -> duration", Some(to_duration)),
                ("string_to_duration", "(string) -> duration", Some(to_duration)),
            ]),
            FunctionDecl::all("dyn", identity, &[("to_dyn", "(A) -> dyn", None)]),
            FunctionDecl::each("int", &[
                ("int64_to_int64", "(int) -> int", Some(identity)),
                ("double_to_int64", "(double) -> int", Some(to_int)),
                ("duration_to_int64", "(duration) -> int", Some(to_int)),
                ("string_to_int64", "(string) -> int", Some(to_int)),
                ("timestamp_to_int64", "(timestamp) -> int", Some(to_int)),
                ("uint64_to_int64", "(uint) -> int", Some(to_int)),
            ]),
            FunctionDecl::each("string", &[
                ("string_to_string", "(string) -> string", Some(identity)),
                ("bool_to_string", "(bool) -> string", Some(to_string)),
                ("bytes_to_string", "(bytes) -> string", Some(to_string)),
                ("double_to_string", "(double) -> string", Some(to_string)),
                ("duration_to_string", "(duration) -> string", Some(to_string)),
                ("int64_to_string", "(int) -> string", Some(to_string)),
                ("timestamp_to_string", "(timestamp) -> string", Some(to_string)),
                ("uint64_to_string", "(uint) -> string", Some(to_string)),
            ]),
            FunctionDecl::each("timestamp", &[
                ("timestamp_to_timestamp", "(timestamp) -> timestamp", Some(identity)),
                ("int64_to_timestamp", "(int) -> timestamp", Some(to_timestamp)),
                ("string_to_timestamp", "(string) -> timestamp", Some(to_timestamp)),
            ]),
            FunctionDecl::each("uint", &[
                ("uint64_to_uint64", "(uint) -> uint", Some(identity)),
                ("double_to_uint64", "(double) -> uint", Some(to_uint)),
                ("int64_to_uint64", "(int) -> uint", Some(to_uint)),
                ("string_to_uint64", "(string) -> uint", Some(to_uint)),
            ]),
            FunctionDecl::all("contains", contains, &[("contains_string", "string.(string) -> bool", None)]),
            FunctionDecl::all("endsWith", ends_with, &[("ends_with_string", "string.(string) -> bool", None)]),
            FunctionDecl::all("startsWith", starts_with, &[("starts_with_string", "string.(string) -> bool", None)]),
            FunctionDecl::all("matches", matches_pattern, &[
                ("matches", "(string, string) -> bool", None),
                ("matches_string", "string.(string) -> bool", None),
            ]),
        ]
    };
}

const FUNCTIONS: &[FunctionDecl] = functions!(());
const FUNCTIONS_WITHOUT_CROSS_TYPE_ORDER: &[FunctionDecl] = functions!();

fn overflow(message: &'static str) -> Error {
    Error::new(message)
}

const INT: &str = "integer overflow";
const UINT: &str = "unsigned integer overflow";

/// Returns the error for an operator whose first operand does not support it (`supported` is false), or whose second
/// operand has a wrong type.
fn unsupported(name: &'static str, first: &Val<'_>, supported: bool) -> Error {
    if supported || is_receiver(first) { Error::no_such_overload() } else { Error::new(name) }
}

/// Returns true for values that implement cel-go's `Receiver`. cel-go dispatches a function without a matching overload
/// to them, and their error does not contain the function's name.
fn is_receiver(value: &Val<'_>) -> bool {
    matches!(value, Val::Str(_) | Val::Timestamp(_) | Val::Duration(_))
}

fn not<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Bool(b)] => Ok(Val::Bool(!b)),
        _ => Err(Error::no_such_overload()),
    }
}

fn equals<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::Bool(equal(meter, &args[0], &args[1])?))
}

fn not_equals<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::Bool(unequal(meter, &args[0], &args[1])?))
}

pub(super) fn add<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(match (&args[0], &args[1]) {
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_add(*b).ok_or_else(|| overflow(INT))?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a.checked_add(*b).ok_or_else(|| overflow(UINT))?),
        (Val::Double(a), Val::Double(b)) => Val::Double(a + b),
        (Val::Str(a), Val::Str(b)) => {
            meter.copy(a.len() + b.len())?;
            let mut joined = String::with_capacity(a.len() + b.len());
            joined.push_str(a);
            joined.push_str(b);
            Val::str(joined)
        }
        (Val::Bytes(a), Val::Bytes(b)) => {
            meter.copy(a.len() + b.len())?;
            Val::Bytes([&**a, &**b].concat().into())
        }
        (Val::List(a), Val::List(b)) => Val::List(crate::value::add_lists(meter, a.clone(), b.clone())?),
        (Val::Duration(a), Val::Duration(b)) => Val::Duration(a.checked_add(*b).ok_or_else(|| overflow(INT))?),
        (Val::Duration(nanos), Val::Timestamp(time)) | (Val::Timestamp(time), Val::Duration(nanos)) => {
            Val::Timestamp(time.plus(*nanos)?)
        }
        (a, _) => {
            let supported = matches!(
                a,
                Val::Int(_)
                    | Val::Uint(_)
                    | Val::Double(_)
                    | Val::Str(_)
                    | Val::Bytes(_)
                    | Val::List(_)
                    | Val::Duration(_)
                    | Val::Timestamp(_)
            );
            return Err(unsupported("no such overload: _+_", a, supported));
        }
    })
}

fn subtract<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(match (&args[0], &args[1]) {
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_sub(*b).ok_or_else(|| overflow(INT))?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a.checked_sub(*b).ok_or_else(|| overflow(UINT))?),
        (Val::Double(a), Val::Double(b)) => Val::Double(a - b),
        (Val::Duration(a), Val::Duration(b)) => Val::Duration(a.checked_sub(*b).ok_or_else(|| overflow(INT))?),
        (Val::Timestamp(time), Val::Duration(nanos)) => {
            Val::Timestamp(time.plus(nanos.checked_neg().ok_or_else(|| overflow(INT))?)?)
        }
        (Val::Timestamp(a), Val::Timestamp(b)) => Val::Duration(a.since(b)?),
        (a, _) => {
            let supported =
                matches!(a, Val::Int(_) | Val::Uint(_) | Val::Double(_) | Val::Duration(_) | Val::Timestamp(_));
            return Err(unsupported("no such overload: _-_", a, supported));
        }
    })
}

fn multiply<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(match (&args[0], &args[1]) {
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_mul(*b).ok_or_else(|| overflow(INT))?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a.checked_mul(*b).ok_or_else(|| overflow(UINT))?),
        (Val::Double(a), Val::Double(b)) => Val::Double(a * b),
        (a, _) => return Err(unsupported("no such overload: _*_", a, is_number(a))),
    })
}

fn divide<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(match (&args[0], &args[1]) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => return Err(Error::new("division by zero")),
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_div(*b).ok_or_else(|| overflow(INT))?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a / b),
        (Val::Double(a), Val::Double(b)) => Val::Double(a / b),
        (a, _) => return Err(unsupported("no such overload: _/_", a, is_number(a))),
    })
}

fn modulo<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(match (&args[0], &args[1]) {
        (Val::Int(_), Val::Int(0)) | (Val::Uint(_), Val::Uint(0)) => return Err(Error::new("modulus by zero")),
        (Val::Int(a), Val::Int(b)) => Val::Int(a.checked_rem(*b).ok_or_else(|| overflow(INT))?),
        (Val::Uint(a), Val::Uint(b)) => Val::Uint(a % b),
        (a, _) => return Err(unsupported("no such overload: _%_", a, matches!(a, Val::Int(_) | Val::Uint(_)))),
    })
}

fn is_number(value: &Val<'_>) -> bool {
    matches!(value, Val::Int(_) | Val::Uint(_) | Val::Double(_))
}

fn negate<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    match &args[0] {
        Val::Int(n) => n.checked_neg().map(Val::Int).ok_or_else(|| overflow(INT)),
        Val::Double(n) => Ok(Val::Double(-n)),
        Val::Duration(n) => n.checked_neg().map(Val::Duration).ok_or_else(|| overflow(INT)),
        value => Err(unsupported("no such overload: -_", value, matches!(value, Val::Bool(_)))),
    }
}

fn order(args: &[Val<'_>], name: &'static str) -> std::result::Result<Ordering, Error> {
    let comparable = is_number(&args[0])
        || matches!(args[0], Val::Bool(_) | Val::Str(_) | Val::Bytes(_) | Val::Timestamp(_) | Val::Duration(_));
    if !comparable {
        return Err(Error::new(name));
    }
    compare(&args[0], &args[1])
}

fn less<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::Bool(order(args, "no such overload: _<_")?.is_lt()))
}

fn less_equals<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::Bool(order(args, "no such overload: _<=_")?.is_le()))
}

fn greater<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::Bool(order(args, "no such overload: _>_")?.is_gt()))
}

fn greater_equals<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::Bool(order(args, "no such overload: _>=_")?.is_ge()))
}

/// `value in container`
fn contains_value<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    match &args[1] {
        Val::List(list) => {
            let height = list.height();
            for item in list.iter() {
                meter.work(height)?;
                if equal(meter, &args[0], &item?)? {
                    return Ok(Val::Bool(true));
                }
            }
            Ok(Val::Bool(false))
        }
        // Computed members can only be accessed, not enumerated.
        Val::Map(Map::Fields(_)) => Err(Error::no_such_overload()),
        Val::Map(map) => {
            meter.key(&args[0])?;
            Ok(Val::Bool(map.find(&args[0])?.is_some()))
        }
        _ => Err(Error::no_such_overload()),
    }
}

fn size<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    match &args[0] {
        value @ (Val::Str(_) | Val::Bytes(_) | Val::List(_) | Val::Map(_)) => Ok(Val::Int(value.size() as i64)),
        Val::Opaque(value) if value.size().is_some() => Ok(Val::Int(args[0].size() as i64)),
        value => Err(unsupported("no such overload: size", value, false)),
    }
}

fn type_of<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::Type(Arc::new(args[0].ty())))
}

fn identity<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(args[0].clone())
}

fn conversion<'a>(value: &Val<'a>, to: &Type) -> Error {
    Error::new(format!("type conversion error from '{}' to '{to}'", value.type_name()))
}

fn to_bool<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    match args[0].as_str() {
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => Ok(Val::Bool(true)),
        Some("0" | "f" | "F" | "false" | "FALSE" | "False") => Ok(Val::Bool(false)),
        _ => Err(conversion(&args[0], &Type::Bool)),
    }
}

fn to_bytes<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    match args[0].as_str() {
        Some(text) => Ok(Val::Bytes(text.as_bytes().into())),
        None => Err(conversion(&args[0], &Type::Bytes)),
    }
}

fn to_double<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let converted = match &args[0] {
        Val::Int(n) => Some(*n as f64),
        Val::Uint(n) => Some(*n as f64),
        Val::Str(text) => parse_double(text),
        _ => None,
    };
    converted.map(Val::Double).ok_or_else(|| conversion(&args[0], &Type::Double))
}

/// Parses decimal texts like Go's `strconv.ParseFloat`: a number that is too large is an error.
fn parse_double(text: &str) -> Option<f64> {
    let n: f64 = text.parse().ok()?;
    let named = text.bytes().any(|b| matches!(b, b'i' | b'I' | b'n' | b'N'));
    (n.is_finite() || named).then_some(n)
}

fn to_duration<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    match &args[0] {
        Val::Str(text) => {
            parse_go_duration(text).map(Val::Duration).ok_or_else(|| conversion(&args[0], &Type::Duration))
        }
        value => Err(conversion(value, &Type::Duration)),
    }
}

fn to_int<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    match &args[0] {
        Val::Uint(n) => i64::try_from(*n).map(Val::Int).map_err(|_| overflow(INT)),
        Val::Double(n) if *n > i64::MIN as f64 && *n < i64::MAX as f64 => Ok(Val::Int(*n as i64)),
        Val::Double(_) => Err(overflow(INT)),
        Val::Duration(nanos) => Ok(Val::Int(*nanos)),
        Val::Timestamp(time) => Ok(Val::Int(time.seconds)),
        Val::Str(text) => text.parse().map(Val::Int).map_err(|_| conversion(&args[0], &Type::Int)),
        value => Err(conversion(value, &Type::Int)),
    }
}

fn to_uint<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    match &args[0] {
        Val::Int(n) => u64::try_from(*n).map(Val::Uint).map_err(|_| overflow(UINT)),
        Val::Double(n) if *n >= 0.0 && *n < u64::MAX as f64 => Ok(Val::Uint(*n as u64)),
        Val::Double(_) => Err(overflow(UINT)),
        // A sign is not accepted, unlike in Rust.
        Val::Str(text) if !text.starts_with('+') => {
            text.parse().map(Val::Uint).map_err(|_| conversion(&args[0], &Type::Uint))
        }
        value => Err(conversion(value, &Type::Uint)),
    }
}

fn to_string<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::str(match &args[0] {
        Val::Bool(b) => b.to_string(),
        Val::Int(n) => n.to_string(),
        Val::Uint(n) => n.to_string(),
        Val::Double(n) => go_double(*n),
        Val::Duration(nanos) => duration_text(*nanos),
        Val::Timestamp(time) => time.to_string(),
        Val::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => return Err(Error::new("invalid UTF-8 in bytes, cannot convert to string")),
        },
        value => return Err(conversion(value, &Type::String)),
    }))
}

fn to_timestamp<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let time = match &args[0] {
        Val::Int(seconds) => Timestamp::new(*seconds, 0)?,
        Val::Str(text) => match Timestamp::parse(text) {
            Some(time) => time?,
            None => return Err(conversion(&args[0], &Type::Timestamp)),
        },
        value => return Err(conversion(value, &Type::Timestamp)),
    };
    Ok(Val::Timestamp(time))
}

fn two_strings<'v, 'a>(args: &'v [Val<'a>]) -> std::result::Result<(&'v Str<'a>, &'v Str<'a>), Error> {
    match args {
        [Val::Str(a), Val::Str(b)] => Ok((a, b)),
        _ => Err(Error::no_such_overload()),
    }
}

fn contains<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (text, part) = two_strings(args)?;
    Ok(Val::Bool(text.contains(&**part)))
}

fn ends_with<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (text, suffix) = two_strings(args)?;
    Ok(Val::Bool(text.ends_with(&**suffix)))
}

fn starts_with<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (text, prefix) = two_strings(args)?;
    Ok(Val::Bool(text.starts_with(&**prefix)))
}

fn matches_pattern<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    if !matches!(args[0], Val::Str(_)) {
        return Err(unsupported("no such overload: matches", &args[0], false));
    }
    let (text, pattern) = two_strings(args)?;
    Ok(Val::Bool(regexp::is_match(pattern, text)?))
}
