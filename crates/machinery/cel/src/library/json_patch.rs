//! The function that escapes keys in paths of JSON patches, for mutating policies.

use super::Library;
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::value::Val;

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &[] }
}

const FUNCTIONS: &[FunctionDecl] = &[FunctionDecl::each(
    "jsonpatch.escapeKey",
    &[("string_jsonpatch_escapeKey_string", "(string) -> string", Some(escape_key))],
)];

fn escape_key<'a>(_: &Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let text = args[0].as_str().ok_or_else(Error::no_such_overload)?;
    Ok(Val::str(text.replace('~', "~0").replace('/', "~1")))
}
