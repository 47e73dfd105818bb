//! Values in messages, in Go's format.

use std::fmt::{self, Write as _};

use super::{Val, duration_text};

impl fmt::Display for Val<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Str(text) => f.write_str(text),
            value => value.show(&mut BoundedWriter { out: f, remaining: MAX_SHOWN }),
        }
    }
}

/// The maximum number of bytes of a displayed value, since its parts may be shared.
const MAX_SHOWN: usize = 64 << 10;

/// A formatter that truncates its output at a limit.
struct BoundedWriter<'f, 'o> {
    out: &'f mut fmt::Formatter<'o>,
    remaining: usize,
}

impl fmt::Write for BoundedWriter<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let prefix = &text[..text.floor_char_boundary(self.remaining)];
        self.remaining = if prefix.len() < text.len() { 0 } else { self.remaining - prefix.len() };
        self.out.write_str(prefix)
    }
}

impl Val<'_> {
    fn show(&self, f: &mut BoundedWriter<'_, '_>) -> fmt::Result {
        if f.remaining == 0 {
            return Ok(());
        }
        binnacle_work::pace(1 + self.bytes() as u64 / 16);
        match self {
            Self::Null => f.write_str("NULL_VALUE"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Int(n) => write!(f, "{n}"),
            Self::Uint(n) => write!(f, "{n}"),
            Self::Double(n) => f.write_str(&go_double(*n)),
            Self::Str(text) => f.write_str(text),
            Self::Bytes(bytes) => write!(f, "{:?}", &bytes[..bytes.len().min(MAX_SHOWN)]),
            Self::Timestamp(time) => write!(f, "{time}"),
            Self::Duration(nanos) => f.write_str(&duration_text(*nanos)),
            Self::List(list) => {
                f.write_str("[")?;
                for (i, item) in list.iter().take(MAX_SHOWN_ELEMENTS).enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    match item {
                        Ok(item) => item.show_below(f)?,
                        Err(error) => write!(f, "{error}")?,
                    }
                }
                f.write_str("]")
            }
            Self::Map(map) => {
                f.write_str("{")?;
                for (i, key) in map.keys().iter().take(MAX_SHOWN_ELEMENTS).enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    key.show(f)?;
                    f.write_str(": ")?;
                    if let Ok(Some(value)) = map.find(key) {
                        value.show_below(f)?;
                    }
                }
                f.write_str("}")
            }
            Self::Optional(Some(value)) => {
                f.write_str("optional(")?;
                value.show_below(f)?;
                f.write_str(")")
            }
            Self::Optional(None) => f.write_str("optional.none()"),
            Self::Message(message) => write!(f, "{}", message.name),
            Self::Type(ty) => f.write_str(ty.name()),
            Self::Opaque(value) => write!(f, "{value}"),
        }
    }

    fn show_below(&self, f: &mut BoundedWriter<'_, '_>) -> fmt::Result {
        stacker::maybe_grow(64 * 1024, 1024 * 1024, || self.show(f))
    }
}

/// The maximum number of displayed elements of a list or map.
const MAX_SHOWN_ELEMENTS: usize = 100;

/// Formats a number like Go's `FormatFloat` with `g`: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
pub fn go_double(n: f64) -> String {
    if n.is_nan() {
        return "NaN".into();
    }
    if n.is_infinite() {
        return if n > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    if n == 0.0 {
        return if n.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let scientific = format!("{n:e}");
    let (digits, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("exponents are numbers");
    if (-4..6).contains(&exponent) {
        return format!("{n}");
    }
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}
