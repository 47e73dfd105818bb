//! Functions for loops that create maps.

use super::Library;
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::value::Val;

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &[] }
}

const FUNCTIONS: &[FunctionDecl] = &[FunctionDecl::each(
    "cel.@mapInsert",
    &[
        ("@mapInsert_map_key_value", "(map(K, V), K, V) -> map(K, V)", Some(insert)),
        ("@mapInsert_map_map", "(map(K, V), map(K, V)) -> map(K, V)", Some(insert_all)),
    ],
)];

fn insert<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let [Val::Map(map), key, value] = args else { return Err(Error::no_such_overload()) };
    Ok(Val::Map(map.clone().inserted(meter, key.clone(), value.clone())?))
}

fn insert_all<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let [Val::Map(map), Val::Map(more)] = args else { return Err(Error::no_such_overload()) };
    Ok(Val::Map(map.clone().with_all(meter, more)?))
}
