//! Values in messages, in Go's format.

use std::fmt;

use super::{Val, duration_text};

impl fmt::Display for Val<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL_VALUE"),
            Self::Bool(b) => b.fmt(f),
            Self::Int(n) => n.fmt(f),
            Self::Uint(n) => n.fmt(f),
            Self::Double(n) => f.write_str(&go_double(*n)),
            Self::Str(text) => f.write_str(text),
            Self::Bytes(bytes) => write!(f, "{bytes:?}").map(drop),
            Self::Timestamp(time) => time.fmt(f),
            Self::Duration(nanos) => f.write_str(&duration_text(*nanos)),
            Self::List(list) => {
                f.write_str("[")?;
                for (i, item) in list.iter().take(SHOWN).enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    match item {
                        Ok(item) => item.fmt(f)?,
                        Err(error) => error.fmt(f)?,
                    }
                }
                f.write_str("]")
            }
            Self::Map(map) => {
                f.write_str("{")?;
                for (i, key) in map.keys().iter().take(SHOWN).enumerate() {
                    f.write_str(if i == 0 { "" } else { ", " })?;
                    write!(f, "{key}: ")?;
                    if let Ok(Some(value)) = map.find(key) {
                        value.fmt(f)?;
                    }
                }
                f.write_str("}")
            }
            Self::Optional(Some(value)) => write!(f, "optional({value})"),
            Self::Optional(None) => f.write_str("optional.none()"),
            Self::Message(message) => write!(f, "{}", message.name),
            Self::Type(ty) => f.write_str(ty.name()),
            Self::Opaque(value) => value.fmt(f),
        }
    }
}

/// The limit on shown elements; lists and maps only occur in messages.
const SHOWN: usize = 100;

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
