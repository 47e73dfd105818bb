//! `"%s has %d".format([name, count])`.

use binnacle_meta::go_quote;

use crate::error::Error;
use crate::meter::Meter;
use crate::value::{Map, Val, duration_text, go_double};

type FormatResult = Result<String, Error>;

/// The default number of digits after the point.
const PRECISION: usize = 6;
const MAX_PRECISION: usize = 1000;
const MAX_LENGTH: usize = 32 * 1024 * 1024;

pub(super) fn format<'a>(meter: &Meter, args: &[Val<'a>]) -> Result<Val<'a>, Error> {
    let (Val::Str(pattern), Val::List(list)) = (&args[0], &args[1]) else { return Err(Error::no_such_overload()) };
    let mut out = String::with_capacity(pattern.len());
    let mut used = 0;
    for step in parts(pattern) {
        match step.map_err(Error::new)? {
            FormatPart::Text(text) => {
                meter.copy(text.len())?;
                out.push_str(text);
            }
            FormatPart::Clause { .. } if used >= list.len() => {
                return Err(Error::new(format!("index {used} out of range")));
            }
            FormatPart::Clause { letter, precision } => {
                out.push_str(&show(meter, letter, precision, &list.get(used)?)?);
                used += 1;
            }
        }
        if out.len() > MAX_LENGTH {
            return Err(Error::cost_limit());
        }
    }
    Ok(Val::str(out))
}

/// A part of a format string.
pub(crate) enum FormatPart<'p> {
    Text(&'p str),
    Clause { letter: char, precision: usize },
}

/// Returns the parts of a format string, up to the first invalid one.
pub(crate) fn parts(pattern: &str) -> impl Iterator<Item = Result<FormatPart<'_>, String>> {
    let mut rest = pattern;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some(clauses) = rest.strip_prefix('%') else {
            let (text, after) = rest.split_at(rest.find('%').unwrap_or(rest.len()));
            rest = after;
            return Some(Ok(FormatPart::Text(text)));
        };
        if let Some(after) = clauses.strip_prefix('%') {
            rest = after;
            return Some(Ok(FormatPart::Text("%")));
        }
        rest = "";
        if clauses.is_empty() {
            return Some(Err("unexpected end of string".to_owned()));
        }
        Some(clause(clauses).map(|(precision, letter, after)| {
            rest = after;
            FormatPart::Clause { letter, precision }
        }))
    })
}

/// Returns the error message with the types that a clause accepts.
pub(crate) fn accepted_types_message(letter: char) -> &'static str {
    match letter {
        's' => {
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
             timestamps"
        }
        'd' => "decimal clause can only be used on integers",
        'f' => "fixed-point clause can only be used on doubles",
        'e' => "scientific clause can only be used on doubles",
        'b' => "only integers and bools can be formatted as binary",
        'o' => "octal clause can only be used on integers",
        _ => "only integers, byte buffers, and strings can be formatted as hex",
    }
}

/// Parses the precision and the letter of a clause. Also returns the rest of the text.
fn clause(text: &str) -> Result<(usize, char, &str), String> {
    let failed = |why: String| format!("could not parse formatting clause: {why}");
    let mut rest = text;
    let mut precision = PRECISION;
    if let Some(after) = text.strip_prefix('.') {
        let end = after.find(|c: char| !c.is_ascii_digit()).ok_or_else(|| {
            failed("error while parsing precision: could not find end of precision specifier".to_owned())
        })?;
        let digits = &after[..end];
        precision = digits.parse().map_err(|_| {
            failed(format!(
                "error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing {}: \
                 invalid syntax",
                go_quote(digits)
            ))
        })?;
        rest = &after[end..];
    }
    let letter = rest.chars().next().ok_or_else(|| failed("unexpected end of string".to_owned()))?;
    if !"sdfebxXo".contains(letter) {
        return Err(failed(format!("unrecognized formatting clause \"{letter}\"")));
    }
    Ok((precision.min(MAX_PRECISION), letter, &rest[1..]))
}

fn show(meter: &Meter, clause: char, precision: usize, arg: &Val<'_>) -> FormatResult {
    // The longest results are sequences of digits, which are computed one at a time.
    let digits = if matches!(clause, 'f' | 'e') { 320 + precision } else { 0 };
    meter.copy(8 + 2 * arg.bytes() + digits)?;
    meter.work(2 * digits as u64)?;
    let shown = match (clause, arg) {
        ('s', arg) => return string(meter, arg).map_err(during),
        ('d', Val::Int(n)) => Some(n.to_string()),
        ('d', Val::Uint(n)) => Some(n.to_string()),
        ('b', Val::Int(n)) => Some(signed(*n, |n| format!("{n:b}"))),
        ('b', Val::Uint(n)) => Some(format!("{n:b}")),
        ('b', Val::Bool(b)) => Some(u8::from(*b).to_string()),
        ('o', Val::Int(n)) => Some(signed(*n, |n| format!("{n:o}"))),
        ('o', Val::Uint(n)) => Some(format!("{n:o}")),
        ('x', Val::Int(n)) => Some(signed(*n, |n| format!("{n:x}"))),
        ('X', Val::Int(n)) => Some(signed(*n, |n| format!("{n:X}"))),
        ('x', Val::Uint(n)) => Some(format!("{n:x}")),
        ('X', Val::Uint(n)) => Some(format!("{n:X}")),
        ('x' | 'X', Val::Str(text)) => Some(hex(text.as_bytes(), clause == 'X')),
        ('x' | 'X', Val::Bytes(bytes)) => Some(hex(bytes, clause == 'X')),
        ('f' | 'e', arg) => {
            double(arg).map(|n| if clause == 'f' { fixed(n, precision) } else { scientific(n, precision) })
        }
        _ => None,
    };
    shown
        .ok_or_else(|| during(Error::new(format!("{}, was given {}", accepted_types_message(clause), arg.type_name()))))
}

fn during(error: Error) -> Error {
    if error.is_cost_limit() { error } else { Error::new(format!("error during formatting: {error}")) }
}

fn signed(n: i64, digits: fn(u64) -> String) -> String {
    format!("{}{}", if n < 0 { "-" } else { "" }, digits(n.unsigned_abs()))
}

fn hex(bytes: &[u8], upper: bool) -> String {
    let digits = if upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    let pair = |b: &u8| [digits[usize::from(b >> 4)], digits[usize::from(b & 15)]].map(char::from);
    bytes.iter().flat_map(pair).collect()
}

/// Returns a double, also from the name of infinity or NaN.
fn double(arg: &Val<'_>) -> Option<f64> {
    match arg {
        Val::Double(n) => Some(*n),
        Val::Str(text) => match &**text {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

fn special(n: f64) -> Option<&'static str> {
    match n {
        n if n.is_nan() => Some("NaN"),
        n if n == f64::INFINITY => Some("∞"),
        n if n == f64::NEG_INFINITY => Some("-∞"),
        _ => None,
    }
}

/// Formats a number with its digits in groups, as in English.
fn fixed(n: f64, precision: usize) -> String {
    if let Some(name) = special(n) {
        return name.to_owned();
    }
    let text = format!("{n:.precision$}");
    let (whole, fraction) = text.split_once('.').map_or((&*text, ""), |(whole, fraction)| (whole, fraction));
    let (sign, digits) = whole.strip_prefix('-').map_or(("", whole), |digits| ("-", digits));
    let mut out = String::from(sign);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if !fraction.is_empty() {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Formats `1.5×10⁰³`, with at least two digits of exponent.
fn scientific(n: f64, precision: usize) -> String {
    if let Some(name) = special(n) {
        return format!("{name:>precision$}");
    }
    let text = format!("{n:.precision$e}");
    let (digits, exponent) = text.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("exponents are numbers");
    let raised: String = format!("{}{:02}", if exponent < 0 { "-" } else { "" }, exponent.abs())
        .chars()
        .map(|c| match c {
            '-' => '⁻',
            '1' => '¹',
            '2' => '²',
            '3' => '³',
            c => char::from_u32('⁰' as u32 + c as u32 - '0' as u32).unwrap_or(c),
        })
        .collect();
    format!("{digits}×10{raised}")
}

fn string(meter: &Meter, arg: &Val<'_>) -> FormatResult {
    Ok(match arg {
        Val::Str(text) => text.to_string(),
        Val::Int(n) => n.to_string(),
        Val::Uint(n) => n.to_string(),
        Val::Double(n) => go_double(*n),
        Val::Bool(b) => b.to_string(),
        Val::Null => "null".to_owned(),
        Val::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Val::Timestamp(time) => time.to_string(),
        Val::Duration(nanos) => duration_text(*nanos),
        Val::Type(ty) => ty.name().to_owned(),
        Val::List(_) | Val::Map(_) => aggregate(meter, arg)?,
        arg => {
            return Err(Error::new(format!("{}, was given {}", accepted_types_message('s'), arg.type_name())));
        }
    })
}

fn aggregate(meter: &Meter, arg: &Val<'_>) -> FormatResult {
    match arg {
        Val::List(list) => {
            let mut items = Vec::new();
            for item in list.iter() {
                meter.work(list.height())?;
                items.push(element(meter, &item?)?);
            }
            let shown = items.join(", ");
            meter.copy(2 * shown.len())?;
            Ok(format!("[{shown}]"))
        }
        Val::Map(map) => entries(meter, map),
        arg => element(meter, arg),
    }
}

fn entries(meter: &Meter, map: &Map<'_>) -> FormatResult {
    let mut pairs = Vec::new();
    for key in map.keys_charged(meter)? {
        meter.key(&key)?;
        let shown = match &key {
            Val::Str(_) | Val::Bool(_) | Val::Int(_) | Val::Uint(_) => element(meter, &key)?,
            key => {
                return Err(Error::new(format!("no formatting function for map key of type {}", key.type_name())));
            }
        };
        if let Some(value) = map.find(&key)? {
            pairs.push((shown, element(meter, &value)?));
        }
    }
    meter.copy(2 * pairs.iter().map(|(key, value): &(String, String)| key.len() + value.len()).sum::<usize>())?;
    meter.work(pairs.len() as u64 * 16)?;
    pairs.sort();
    let pairs: Vec<String> = pairs.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", pairs.join(", ")))
}

/// Formats a value within a list or map.
fn element(meter: &Meter, value: &Val<'_>) -> FormatResult {
    // Each enclosing list or map copies it again.
    meter.work(8)?;
    meter.copy(16 + 2 * value.bytes())?;
    Ok(match value {
        Val::Str(text) => go_quote(text),
        Val::Bytes(bytes) => format!("b{}", go_quote(&String::from_utf8_lossy(bytes))),
        Val::Double(n) if !n.is_finite() => go_quote(&go_double(*n)),
        Val::Double(n) => format!("{n:.6}"),
        Val::Timestamp(time) => format!("timestamp({})", go_quote(&time.to_string())),
        Val::Duration(nanos) => format!("duration({})", go_quote(&duration_text(*nanos))),
        Val::List(_) | Val::Map(_) => stacker::maybe_grow(64 * 1024, 1024 * 1024, || aggregate(meter, value))?,
        Val::Int(_) | Val::Uint(_) | Val::Bool(_) | Val::Null | Val::Type(_) => string(meter, value)?,
        value => return Err(Error::new(format!("no formatting function for {}", value.type_name()))),
    })
}
