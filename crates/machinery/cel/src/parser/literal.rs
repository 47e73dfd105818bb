//! Values of literals.

use crate::ast::Literal;

type LiteralResult = Result<Literal, &'static str>;

pub(super) fn int(text: &str, negative: bool) -> LiteralResult {
    let (digits, radix) = radix(text);
    let signed = if negative { format!("-{digits}") } else { digits.to_owned() };
    i64::from_str_radix(&signed, radix).map(Literal::Int).map_err(|_| "invalid int literal")
}

pub(super) fn uint(text: &str) -> LiteralResult {
    let (digits, radix) = radix(&text[..text.len() - 1]);
    u64::from_str_radix(digits, radix).map(Literal::Uint).map_err(|_| "invalid uint literal")
}

pub(super) fn double(text: &str, negative: bool) -> LiteralResult {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(Literal::Double(if negative { -value } else { value })),
        _ => Err("invalid double literal"),
    }
}

pub(super) fn string(text: &str) -> LiteralResult {
    let bytes = unescape(text, false)?;
    String::from_utf8(bytes).map(|text| Literal::String(text.into())).map_err(|_| "unable to unescape string")
}

pub(super) fn bytes(text: &str) -> LiteralResult {
    unescape(&text[1..], true).map(Literal::Bytes)
}

fn radix(text: &str) -> (&str, u32) {
    match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    }
}

/// Returns the content of a quoted text; in bytes literals, numeric escapes are bytes, in strings they are characters.
fn unescape(text: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let (raw, quoted) = match text.strip_prefix(['r', 'R']) {
        Some(rest) => (true, rest),
        None => (false, text.as_str()),
    };
    let body = ["'''", "\"\"\""]
        .iter()
        .filter(|quotes| quoted.len() >= 6 && quoted.starts_with(**quotes))
        .find_map(|quotes| quoted.strip_prefix(quotes)?.strip_suffix(quotes))
        .unwrap_or(&quoted[1..quoted.len() - 1]);
    if raw {
        return Ok(body.as_bytes().to_vec());
    }
    let mut out = Vec::with_capacity(body.len());
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            push(&mut out, c);
            continue;
        }
        let escape = chars.next().ok_or("unable to unescape string, found '\\' as last character")?;
        let (digits, radix, first) = match escape {
            'a' => (0, 0, 7),
            'b' => (0, 0, 8),
            'f' => (0, 0, 12),
            'n' => (0, 0, 10),
            'r' => (0, 0, 13),
            't' => (0, 0, 9),
            'v' => (0, 0, 11),
            '\\' | '\'' | '"' | '`' | '?' => (0, 0, escape as u32),
            'x' | 'X' => (2, 16, 0),
            'u' if !is_bytes => (4, 16, 0),
            'U' if !is_bytes => (8, 16, 0),
            '0'..='3' => (2, 8, escape as u32 - '0' as u32),
            _ => return Err("unable to unescape string"),
        };
        if digits == 0 {
            out.push(first as u8);
            continue;
        }
        let mut value = first;
        for _ in 0..digits {
            let digit = chars.next().and_then(|c| c.to_digit(radix)).ok_or("unable to unescape string")?;
            value = value.wrapping_mul(radix).wrapping_add(digit);
        }
        if is_bytes {
            out.push(value as u8);
        } else {
            push(&mut out, char::from_u32(value).ok_or("invalid unicode code point")?);
        }
    }
    Ok(out)
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}
