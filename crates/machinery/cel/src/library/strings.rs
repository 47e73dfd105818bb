//! Functions on strings. Positions count code points.

use super::{Library, format_string};
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::value::{Str, Val};

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &[] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

const FUNCTIONS: &[FunctionDecl] = &[
    FunctionDecl::each("charAt", &[("string_char_at_int", "string.(int) -> string", Some(char_at))]),
    FunctionDecl::each(
        "indexOf",
        &[
            ("string_index_of_string", "string.(string) -> int", Some(index_of)),
            ("string_index_of_string_int", "string.(string, int) -> int", Some(index_of)),
        ],
    ),
    FunctionDecl::each(
        "lastIndexOf",
        &[
            ("string_last_index_of_string", "string.(string) -> int", Some(last_index_of)),
            ("string_last_index_of_string_int", "string.(string, int) -> int", Some(last_index_of)),
        ],
    ),
    FunctionDecl::each("lowerAscii", &[("string_lower_ascii", "string.() -> string", Some(lower))]),
    FunctionDecl::each("upperAscii", &[("string_upper_ascii", "string.() -> string", Some(upper))]),
    FunctionDecl::each(
        "replace",
        &[
            ("string_replace_string_string", "string.(string, string) -> string", Some(replace)),
            ("string_replace_string_string_int", "string.(string, string, int) -> string", Some(replace)),
        ],
    ),
    FunctionDecl::each(
        "split",
        &[
            ("string_split_string", "string.(string) -> list(string)", Some(split)),
            ("string_split_string_int", "string.(string, int) -> list(string)", Some(split)),
        ],
    ),
    FunctionDecl::each(
        "substring",
        &[
            ("string_substring_int", "string.(int) -> string", Some(substring)),
            ("string_substring_int_int", "string.(int, int) -> string", Some(substring)),
        ],
    ),
    FunctionDecl::each("trim", &[("string_trim", "string.() -> string", Some(trim))]),
    FunctionDecl::each("format", &[("string_format", "string.(list(dyn)) -> string", Some(format_string::format))]),
    FunctionDecl::each("strings.quote", &[("strings_quote", "(string) -> string", Some(quote))]),
    FunctionDecl::each(
        "join",
        &[
            ("list_join", "list(string).() -> string", Some(join)),
            ("list_join_string", "list(string).(string) -> string", Some(join)),
        ],
    ),
];

fn text<'v, 'a>(value: &'v Val<'a>) -> std::result::Result<&'v Str<'a>, Error> {
    match value {
        Val::Str(text) => Ok(text),
        _ => Err(Error::no_such_overload()),
    }
}

fn int(value: &Val<'_>) -> std::result::Result<i64, Error> {
    match value {
        Val::Int(n) => Ok(*n),
        _ => Err(Error::no_such_overload()),
    }
}

fn out_of_range(index: i64) -> Error {
    Error::new(format!("index out of range: {index}"))
}

/// Returns the byte offset of a code point; `None` beyond the end.
fn byte_offset(text: &str, index: i64) -> Option<usize> {
    let index = usize::try_from(index).ok()?;
    if text.is_ascii() {
        return (index <= text.len()).then_some(index);
    }
    text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(index)
}

fn char_at<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (text, index) = (text(&args[0])?, int(&args[1])?);
    let at = byte_offset(text, index).ok_or_else(|| out_of_range(index))?;
    Ok(Val::str(text[at..].chars().next().map(String::from).unwrap_or_default()))
}

fn index_of<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (string, part) = (text(&args[0])?, text(&args[1])?);
    let offset = args.get(2).map_or(Ok(0), int)?;
    if part.is_empty() {
        return Ok(Val::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let found = byte_offset(string, offset).and_then(|at| Some(at + string[at..].find(&**part)?));
    Ok(Val::Int(found.map_or(-1, |at| string[..at].chars().count() as i64)))
}

fn last_index_of<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (string, part) = (text(&args[0])?, text(&args[1])?);
    let count = string.char_count() as i64;
    let Some(offset) = args.get(2) else {
        let found = string.rfind(&**part);
        return Ok(Val::Int(found.map_or(-1, |at| string[..at].chars().count() as i64)));
    };
    let offset = int(offset)?;
    if part.is_empty() {
        return Ok(Val::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    if offset >= count {
        return Ok(Val::Int(-1));
    }
    // The match may extend beyond the offset, but not begin after it.
    let end = byte_offset(string, offset + part.char_count() as i64).unwrap_or(string.len());
    let found = string[..end].rfind(&**part);
    Ok(Val::Int(found.map_or(-1, |at| string[..at].chars().count() as i64)))
}

fn lower<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::str(text(&args[0])?.to_ascii_lowercase()))
}

fn upper<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::str(text(&args[0])?.to_ascii_uppercase()))
}

fn replace<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (string, old, new) = (text(&args[0])?, text(&args[1])?, text(&args[2])?);
    let count = args.get(3).map_or(Ok(-1), int)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    // With an empty `old`, the text is inserted at every position, also between the characters.
    let max_matches = if old.is_empty() { string.char_count() + 1 } else { string.len() / old.len() };
    let max_matches =
        if old.is_empty() || new.len() <= old.len() { max_matches } else { string.matches(&**old).count() };
    meter.copy(string.len().saturating_add(max_matches.min(count).saturating_mul(new.len())))?;
    Ok(Val::str(string.replacen(&**old, new, count)))
}

fn split<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (string, separator) = (text(&args[0])?, text(&args[1])?);
    let limit = args.get(2).map_or(Ok(-1), int)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = Vec::new();
    if limit > 0 && separator.is_empty() {
        let mut rest: &str = string;
        while let Some(c) = rest.chars().next() {
            if parts.len() + 1 == limit {
                parts.push(rest);
                break;
            }
            let (first, after) = rest.split_at(c.len_utf8());
            parts.push(first);
            rest = after;
        }
    } else if limit > 0 {
        parts.extend(string.splitn(limit, &**separator));
    }
    meter.copy(parts.len().saturating_mul(PART) + string.len())?;
    Ok(Val::list(parts.into_iter().map(Val::str).collect()))
}

/// The memory overhead of a string in a list.
const PART: usize = size_of::<Val<'_>>() + 4 * size_of::<usize>();

fn substring<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (string, start) = (text(&args[0])?, int(&args[1])?);
    let end = args.get(2).map(int).transpose()?;
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(Error::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = byte_offset(string, start).ok_or_else(|| out_of_range(start))?;
    let to = match end {
        Some(end) => byte_offset(string, end).ok_or_else(|| out_of_range(end))?,
        None => string.len(),
    };
    Ok(Val::str(&string[from..to]))
}

fn trim<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::str(text(&args[0])?.trim()))
}

fn join<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let Val::List(list) = &args[0] else { return Err(Error::no_such_overload()) };
    let separator = args.get(1).map(text).transpose()?;
    let mut out = String::new();
    let height = list.height();
    for (i, item) in list.iter().enumerate() {
        meter.work(height)?;
        if let Some(separator) = separator.filter(|_| i > 0) {
            // A list can hold one long string many times.
            meter.copy(separator.len())?;
            out.push_str(separator);
        }
        match &item? {
            Val::Str(text) => {
                meter.copy(text.len())?;
                out.push_str(text);
            }
            other => return Err(Error::new(format!("join: invalid input: {other}"))),
        }
        if out.len() > MAX_JOINED {
            return Err(Error::cost_limit());
        }
    }
    Ok(Val::str(out))
}

/// The limit on joined strings: longer ones cost more than any expression may.
const MAX_JOINED: usize = 32 * 1024 * 1024;

fn quote<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let mut out = String::from("\"");
    for c in text(&args[0])?.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    Ok(Val::str(out))
}
