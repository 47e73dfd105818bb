//! Searches with regular expressions.

use super::Library;
use crate::error::Error;
use crate::functions::Decl;
use crate::meter::Meter;
use crate::regexp;
use crate::value::Val;

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &[] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

const FUNCTIONS: &[Decl] = &[
    Decl::each("find", &[("string_find_string", "string.(string) -> string", Some(find))]),
    Decl::each(
        "findAll",
        &[
            ("string_find_all_string", "string.(string) -> list(string)", Some(find_all)),
            ("string_find_all_string_int", "string.(string, int) -> list(string)", Some(find_all)),
        ],
    ),
];

fn compile(meter: &Meter, pattern: &str) -> std::result::Result<::regex::Regex, Error> {
    meter.work(1_000 + pattern.len() as u64 * 100)?;
    regexp::compile(pattern).map_err(|error| Error::new(format!("Illegal regex: {error}")))
}

fn find<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let [Val::Str(text), Val::Str(pattern)] = args else { return Err(Error::no_such_overload()) };
    let found = compile(meter, pattern)?.find(text).map_or("", |found| found.as_str()).to_owned();
    Ok(Val::str(found))
}

fn find_all<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (Val::Str(text), Val::Str(pattern)) = (&args[0], &args[1]) else { return Err(Error::no_such_overload()) };
    let count = match args.get(2) {
        Some(Val::Int(count)) if *count >= 0 => *count as usize,
        _ => usize::MAX,
    };
    let regex = compile(meter, pattern)?;
    Ok(Val::list(regex.find_iter(text).take(count).map(|found| Val::str(found.as_str())).collect()))
}
