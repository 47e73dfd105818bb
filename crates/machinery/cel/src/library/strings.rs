//! Functions on strings. Positions count code points.

use super::{Library, format_string};
use crate::error::Error;
use crate::functions::Decl;
use crate::meter::Meter;
use crate::value::{Str, Val};

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &[] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

const FUNCTIONS: &[Decl] = &[
    Decl::each("charAt", &[("string_char_at_int", "string.(int) -> string", Some(char_at))]),
    Decl::each(
        "indexOf",
        &[
            ("string_index_of_string", "string.(string) -> int", Some(index_of)),
            ("string_index_of_string_int", "string.(string, int) -> int", Some(index_of)),
        ],
    ),
    Decl::each(
        "lastIndexOf",
        &[
            ("string_last_index_of_string", "string.(string) -> int", Some(last_index_of)),
            ("string_last_index_of_string_int", "string.(string, int) -> int", Some(last_index_of)),
        ],
    ),
    Decl::each("lowerAscii", &[("string_lower_ascii", "string.() -> string", Some(lower))]),
    Decl::each("upperAscii", &[("string_upper_ascii", "string.() -> string", Some(upper))]),
    Decl::each(
        "replace",
        &[
            ("string_replace_string_string", "string.(string, string) -> string", Some(replace)),
            ("string_replace_string_string_int", "string.(string, string, int) -> string", Some(replace)),
        ],
    ),
    Decl::each(
        "split",
        &[
            ("string_split_string", "string.(string) -> list(string)", Some(split)),
            ("string_split_string_int", "string.(string, int) -> list(string)", Some(split)),
        ],
    ),
    Decl::each(
        "substring",
        &[
            ("string_substring_int", "string.(int) -> string", Some(substring)),
            ("string_substring_int_int", "string.(int, int) -> string", Some(substring)),
        ],
    ),
    Decl::each("trim", &[("string_trim", "string.() -> string", Some(trim))]),
    Decl::each("format", &[("string_format", "string.(list(dyn)) -> string", Some(format_string::format))]),
    Decl::each("strings.quote", &[("strings_quote", "(string) -> string", Some(quote))]),
    Decl::each(
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
    let (whole, part) = (text(&args[0])?, text(&args[1])?);
    let offset = args.get(2).map_or(Ok(0), int)?;
    if part.is_empty() {
        return Ok(Val::Int(offset));
    }
    if offset < 0 {
        return Err(out_of_range(offset));
    }
    let found = byte_offset(whole, offset).and_then(|at| Some(at + whole[at..].find(&**part)?));
    Ok(Val::Int(found.map_or(-1, |at| whole[..at].chars().count() as i64)))
}

fn last_index_of<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (whole, part) = (text(&args[0])?, text(&args[1])?);
    let count = whole.char_count() as i64;
    let Some(offset) = args.get(2) else {
        let found = whole.rfind(&**part);
        return Ok(Val::Int(found.map_or(-1, |at| whole[..at].chars().count() as i64)));
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
    let end = byte_offset(whole, offset + part.char_count() as i64).unwrap_or(whole.len());
    let found = whole[..end].rfind(&**part);
    Ok(Val::Int(found.map_or(-1, |at| whole[..at].chars().count() as i64)))
}

fn lower<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::str(text(&args[0])?.to_ascii_lowercase()))
}

fn upper<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::str(text(&args[0])?.to_ascii_uppercase()))
}

fn replace<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (whole, old, new) = (text(&args[0])?, text(&args[1])?, text(&args[2])?);
    let count = args.get(3).map_or(Ok(-1), int)?;
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    // With an empty `old`, the text is inserted at every position, also between the characters.
    let places = if old.is_empty() { whole.char_count() + 1 } else { whole.len() / old.len() };
    let places = if old.is_empty() || new.len() <= old.len() { places } else { whole.matches(&**old).count() };
    meter.copy(whole.len().saturating_add(places.min(count).saturating_mul(new.len())))?;
    Ok(Val::str(whole.replacen(&**old, new, count)))
}

fn split<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (whole, separator) = (text(&args[0])?, text(&args[1])?);
    let limit = args.get(2).map_or(Ok(-1), int)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut parts: Vec<&str> = Vec::new();
    if limit > 0 && separator.is_empty() {
        let mut rest: &str = whole;
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
        parts.extend(whole.splitn(limit, &**separator));
    }
    meter.copy(parts.len().saturating_mul(PART) + whole.len())?;
    Ok(Val::list(parts.into_iter().map(Val::str).collect()))
}

/// The memory of an element of a list with its text, besides the bytes of the text.
const PART: usize = size_of::<Val<'_>>() + 4 * size_of::<usize>();

fn substring<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let (whole, start) = (text(&args[0])?, int(&args[1])?);
    let end = args.get(2).map(int).transpose()?;
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(Error::new(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let from = byte_offset(whole, start).ok_or_else(|| out_of_range(start))?;
    let to = match end {
        Some(end) => byte_offset(whole, end).ok_or_else(|| out_of_range(end))?,
        None => whole.len(),
    };
    Ok(Val::str(&whole[from..to]))
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
