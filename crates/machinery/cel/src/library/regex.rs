//! Searches with regular expressions.

use super::Library;
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::regexp::{self, GoRegex};
use crate::value::Val;

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &[] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

const FUNCTIONS: &[FunctionDecl] = &[
    FunctionDecl::each("find", &[("string_find_string", "string.(string) -> string", Some(find))]),
    FunctionDecl::each(
        "findAll",
        &[
            ("string_find_all_string", "string.(string) -> list(string)", Some(find_all)),
            ("string_find_all_string_int", "string.(string, int) -> list(string)", Some(find_all)),
        ],
    ),
];

fn compile(pattern: &str) -> std::result::Result<GoRegex, Error> {
    regexp::get(pattern)
        .map_err(|error| if error.is_cost_limit() { error } else { Error::new(format!("Illegal regex: {error}")) })
}

fn find<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let [Val::Str(text), Val::Str(pattern)] = args else { return Err(Error::no_such_overload()) };
    let found = compile(pattern)?.find(text)?.map_or("", |range| &text[range]);
    meter.copy(found.len())?;
    Ok(Val::str(found))
}

fn find_all<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (Val::Str(text), Val::Str(pattern)) = (&args[0], &args[1]) else { return Err(Error::no_such_overload()) };
    let count = match args.get(2) {
        Some(Val::Int(count)) if *count >= 0 => *count as usize,
        _ => usize::MAX,
    };
    let found = compile(pattern)?.find_all(text, count)?;
    meter.list(found.len())?;
    meter.copy(found.iter().map(|found| STRING + found.len()).sum())?;
    Ok(Val::list(found.into_iter().map(Val::str).collect()))
}

/// The memory overhead of a string.
const STRING: usize = 2 * size_of::<usize>();
