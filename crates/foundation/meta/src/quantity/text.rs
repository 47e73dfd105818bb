//! Parsing of quantities, and their canonical form.

use std::borrow::Cow;

use num_bigint::BigInt;

use super::amount::{Amount, small_times_power};
use super::{Format, MAX_EXPONENT, NANO, ParseQuantityError, Quantity};
use crate::Text;

/// Numbers with this many decimal digits always fit an `i64`.
const SAFE_DIGITS: i64 = 18;

// === Reading ===

/// A text split into sign, digits before and after the point, and suffix.
pub(super) struct Parts<'a> {
    pub(super) positive: bool,
    /// Sign, digits and point.
    pub(super) number: &'a str,
    /// Without leading zeros; `0` if nothing is left.
    pub(super) whole: &'a str,
    pub(super) fraction: &'a str,
    pub(super) suffix: &'a str,
}

pub(super) fn split(text: &str) -> Result<Parts<'_>, ParseQuantityError> {
    let bytes = text.as_bytes();
    let digits = |from: usize| from + bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let positive = bytes[0] != b'-';
    let mut pos = usize::from(matches!(bytes[0], b'-' | b'+'));
    pos += bytes[pos..].iter().take_while(|b| **b == b'0').count();
    let end = digits(pos);
    let whole = if end == pos { "0" } else { &text[pos..end] };
    pos = end;
    let mut fraction = "";
    if bytes.get(pos) == Some(&b'.') {
        let end = digits(pos + 1);
        fraction = &text[pos + 1..end];
        pos = end;
    }
    let number = &text[..pos];
    let start = pos;
    pos += bytes[pos..].iter().take_while(|b| b"eEinumkKMGTP".contains(b)).count();
    if matches!(bytes.get(pos), Some(b'-' | b'+')) {
        pos += 1;
    }
    if digits(pos) != bytes.len() {
        return Err(ParseQuantityError::FormatWrong);
    }
    Ok(Parts { positive, number, whole, fraction, suffix: &text[start..] })
}

/// Returns the base, exponent and format of a suffix.
pub(super) fn read_suffix(suffix: &str) -> Option<(u32, i32, Format)> {
    if let Some((_, exponent)) = DECIMAL.iter().find(|(name, _)| *name == suffix) {
        return Some((10, *exponent, Format::DecimalSI));
    }
    if let Some((_, exponent)) = BINARY.iter().find(|(name, _)| *name == suffix) {
        return Some((2, *exponent, Format::BinarySI));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).filter(|e| !e.is_empty())?;
    // Go truncates the parsed 64 bits to 32.
    let exponent = exponent.parse::<i64>().ok()? as i32;
    (exponent.abs_diff(0) <= MAX_EXPONENT.unsigned_abs()).then_some((10, exponent, Format::DecimalExponent))
}

/// Returns the amount if it is small and needs no rounding.
pub(super) fn parse_small(
    text: &str,
    positive: bool,
    whole: &str,
    fraction: &str,
    exponent: i32,
    format: Format,
) -> Result<Option<Quantity>, ParseQuantityError> {
    if text == "0" {
        return Ok(Some(Quantity { text: Some(Text::new_static("0")), ..Quantity::default() }));
    }
    let digits = whole.len() as i64;
    let (room, mantissa, mut scale) = match format {
        Format::BinarySI if fraction.is_empty() => {
            // 2^20 has about six decimal digits.
            (15 - digits - i64::from(exponent * 3 / 10) - 1, 1i64 << exponent, 0)
        }
        Format::BinarySI => return Ok(None),
        _ => (SAFE_DIGITS - digits - fraction.len() as i64, 1, exponent),
    };
    scale -= fraction.len() as i32;
    if room < 0 || scale < NANO {
        return Ok(None);
    }
    let shifted = if fraction.is_empty() { Cow::Borrowed(whole) } else { Cow::Owned(format!("{whole}{fraction}")) };
    let value = shifted.parse::<i64>().map_err(|_| ParseQuantityError::Numeric)?;
    let Some(result) = value.checked_mul(mantissa) else { return Ok(None) };
    let canonical = match format {
        Format::BinarySI => value & 7 != 0,
        _ => scale % 3 == 0 && !shifted.ends_with("000") && !shifted.starts_with('0'),
    };
    Ok(Some(Quantity {
        amount: Amount::Small { value: if positive { result } else { -result }, scale },
        format,
        text: canonical.then(|| text.into()),
    }))
}

// === Writing ===

pub(super) fn decimal(amount: &Amount, format: Format) -> String {
    let mut mantissa = match amount {
        Amount::Small { value, .. } => value.to_string(),
        Amount::Big { value, .. } => value.to_string(),
    };
    let digits = mantissa.len();
    mantissa.truncate(mantissa.trim_end_matches('0').len());
    let mut exponent = amount.scale() + (digits - mantissa.len()) as i32;
    // Only multiples of three have suffixes.
    while exponent % 3 != 0 {
        mantissa.push('0');
        exponent -= 1;
    }
    match format {
        Format::DecimalExponent if exponent == 0 => mantissa,
        Format::DecimalExponent => format!("{mantissa}e{exponent}"),
        // Above the largest suffix kube-apiserver writes none, although that is wrong.
        _ => format!("{mantissa}{}", DECIMAL.iter().find(|(_, e)| *e == exponent).map_or("", |(name, _)| name)),
    }
}

/// Formats a whole number with a binary suffix.
pub(super) fn binary(whole: &Amount) -> String {
    let (mantissa, times) = match whole {
        Amount::Small { value, scale } => match small_times_power(*value, *scale) {
            Some(value) => {
                let (value, times) = remove_factors(value, 1024);
                (BigInt::from(value), times)
            }
            None => remove_big_factors(whole.rescaled(0)),
        },
        Amount::Big { .. } => remove_big_factors(whole.rescaled(0)),
    };
    format!("{mantissa}{}", BINARY.iter().find(|(_, e)| *e == times * 10).map_or("", |(name, _)| name))
}

fn remove_factors(mut value: i64, base: i64) -> (i64, i32) {
    let mut times = 0;
    while value != 0 && value % base == 0 {
        value /= base;
        times += 1;
    }
    (value, times)
}

fn remove_big_factors(mut value: BigInt) -> (BigInt, i32) {
    let mut times = 0;
    let zero = BigInt::ZERO;
    while value != zero && &value % 1024 == zero {
        value /= 1024;
        times += 1;
    }
    (value, times)
}

const DECIMAL: [(&str, i32); 10] =
    [("", 0), ("m", -3), ("k", 3), ("M", 6), ("G", 9), ("n", -9), ("u", -6), ("T", 12), ("P", 15), ("E", 18)];

const BINARY: [(&str, i32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];
