//! Lists as sets.

use super::Library;
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::value::{List, Val, equal};

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &[] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

const FUNCTIONS: &[FunctionDecl] = &[
    FunctionDecl::each("sets.contains", &[("list_sets_contains_list", "(list(T), list(T)) -> bool", Some(contains))]),
    FunctionDecl::each(
        "sets.equivalent",
        &[("list_sets_equivalent_list", "(list(T), list(T)) -> bool", Some(equivalent))],
    ),
    FunctionDecl::each(
        "sets.intersects",
        &[("list_sets_intersects_list", "(list(T), list(T)) -> bool", Some(intersects))],
    ),
];

fn lists<'v, 'a>(args: &'v [Val<'a>]) -> std::result::Result<(&'v List<'a>, &'v List<'a>), Error> {
    match args {
        [Val::List(a), Val::List(b)] => Ok((a, b)),
        _ => Err(Error::no_such_overload()),
    }
}

fn holds(meter: &Meter, list: &List<'_>, value: &Val<'_>) -> std::result::Result<bool, Error> {
    let height = list.height();
    for item in list.iter() {
        meter.work(height)?;
        if equal(meter, value, &item?)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holds_all(meter: &Meter, list: &List<'_>, values: &List<'_>) -> std::result::Result<bool, Error> {
    for value in values.iter() {
        meter.work(values.height())?;
        if !holds(meter, list, &value?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (list, part) = lists(args)?;
    Ok(Val::Bool(holds_all(meter, list, part)?))
}

fn equivalent<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (a, b) = lists(args)?;
    Ok(Val::Bool(holds_all(meter, a, b)? && holds_all(meter, b, a)?))
}

fn intersects<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (a, b) = lists(args)?;
    for value in a.iter() {
        meter.work(a.height())?;
        if holds(meter, b, &value?)? {
            return Ok(Val::Bool(true));
        }
    }
    Ok(Val::Bool(false))
}
