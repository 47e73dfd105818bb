//! `resource.Quantity`: fixed-point numbers with a suffix, as in `500m`, `1536Mi`, `12e6`.
//!
//! Small amounts are an `i64` with a decimal scale, others a big integer with a scale. The choice follows
//! kube-apiserver, because the results of [`Quantity::value`] in edge cases depend on it.

mod amount;
mod text;

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use num_bigint::BigInt;

use self::amount::{Amount, big_scaled_value, small_round_up, small_times_power};
use self::text::{Parts, binary, decimal, parse_small, read_suffix, split};
use crate::Text;

/// The format of a quantity's suffix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySI,
    /// `12M`
    #[default]
    DecimalSI,
}

/// A number with the format of its text. Equality and order only compare the number.
#[derive(Clone, Debug, Default)]
pub struct Quantity {
    amount: Amount,
    format: Format,
    /// The parsed text, if it is also the canonical form.
    text: Option<Text>,
}

/// Parse errors, with kube-apiserver's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseQuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    FormatWrong,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

const NANO: i32 = -9;
const MILLI: i32 = -3;

/// Limits on the cost of one quantity. kube-apiserver has none, but real amounts are far smaller.
const MAX_DIGITS: usize = 4096;
const MAX_EXPONENT: i32 = 10_000;

impl Quantity {
    pub fn new(value: i64, format: Format) -> Self {
        Self::scaled(value, 0, format)
    }

    /// Returns `value / 1000`.
    pub fn milli(value: i64, format: Format) -> Self {
        Self::scaled(value, MILLI, format)
    }

    /// Returns `value * 10^scale`.
    pub fn scaled(value: i64, scale: i32, format: Format) -> Self {
        Self { amount: Amount::Small { value, scale }, format, text: None }
    }

    pub fn parse(text: &str) -> Result<Self, ParseQuantityError> {
        if text.is_empty() {
            return Err(ParseQuantityError::FormatWrong);
        }
        let Parts { positive, number, whole, fraction, suffix } = split(text)?;
        if whole.len() + fraction.len() > MAX_DIGITS {
            return Err(ParseQuantityError::Numeric);
        }
        let (base, exponent, format) = read_suffix(suffix).ok_or(ParseQuantityError::Suffix)?;
        if let Some(small) = parse_small(text, positive, whole, fraction, exponent, format)? {
            return Ok(small);
        }

        if exponent.abs() > MAX_EXPONENT {
            return Err(ParseQuantityError::Numeric);
        }
        let digits: String = number.bytes().filter(u8::is_ascii_digit).map(char::from).collect();
        let mut value = digits.parse::<BigInt>().map_err(|_| ParseQuantityError::Numeric)?;
        let mut scale = -(fraction.len() as i32);
        if base == 10 {
            scale += exponent;
        } else {
            value <<= exponent.unsigned_abs();
        }
        let mut format = format;
        // Smaller amounts are rounded up to the smallest possible one.
        let mut amount = Amount::Big { value, scale };
        if !amount.is_zero() {
            amount = amount.round_up(NANO).0;
        }
        if format == Format::BinarySI {
            let cap = Amount::Small { value: i64::MAX, scale: 0 };
            if amount.compare(&cap) == Ordering::Greater {
                amount = cap.into_big();
            }
            if !amount.is_zero() && amount.compare(&Amount::Small { value: 1, scale: 0 }) == Ordering::Less {
                format = Format::DecimalSI;
            }
        }
        if !positive {
            amount = amount.negated();
        }
        Ok(Self { amount, format, text: None })
    }

    /// Adds in place. Zero takes the format of the other quantity.
    pub fn add(&mut self, other: &Self) {
        self.text = None;
        if self.is_zero() {
            self.format = other.format;
        }
        self.amount = self.amount.sum(&other.amount);
    }

    /// Subtracts in place. Zero takes the format of the other quantity.
    pub fn sub(&mut self, other: &Self) {
        self.text = None;
        if self.is_zero() {
            self.format = other.format;
        }
        self.amount = self.amount.sum(&other.amount.negated());
    }

    /// Multiplies in place.
    pub fn mul(&mut self, factor: i64) {
        self.text = None;
        let scale = self.amount.scale();
        self.amount = match &self.amount {
            Amount::Small { value, scale } if value.checked_mul(factor).is_some() => {
                Amount::Small { value: value * factor, scale: *scale }
            }
            amount => Amount::Big { value: amount.unscaled() * factor, scale },
        };
    }

    pub fn neg(&mut self) {
        self.text = None;
        self.amount = self.amount.negated();
    }

    /// Rounds away from zero to a multiple of `10^scale`; returns false if that changed the number.
    pub fn round_up(&mut self, scale: i32) -> bool {
        let (rounded, exact) = self.amount.round_up(scale);
        if !exact {
            self.text = None;
        }
        self.amount = rounded;
        exact
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.amount.is_zero()
    }

    /// Returns -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        match self.amount.unscaled_sign() {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    /// Returns the number as an integer, rounded up.
    pub fn value(&self) -> i64 {
        self.scaled_value(0)
    }

    /// Returns a thousand times the number as an integer, rounded up.
    pub fn milli_value(&self) -> i64 {
        self.scaled_value(MILLI)
    }

    /// Returns the number divided by `10^scale`, rounded up. Overflows as in kube-apiserver.
    pub fn scaled_value(&self, scale: i32) -> i64 {
        match &self.amount {
            Amount::Small { value, scale: own } if *own < scale => small_round_up(*value, scale.saturating_sub(*own)).0,
            Amount::Small { value, scale: own } => small_times_power(*value, own.saturating_sub(scale)).unwrap_or(0),
            Amount::Big { value, scale: own } => big_scaled_value(value, scale.saturating_sub(*own)),
        }
    }

    /// Returns the number if it is an integer that is not stored as a big integer.
    pub fn as_i64(&self) -> Option<i64> {
        match &self.amount {
            Amount::Small { value, scale: 0 } => Some(*value),
            Amount::Small { value, scale } if *scale > 0 => small_times_power(*value, *scale),
            _ => None,
        }
    }

    pub fn as_approximate_f64(&self) -> f64 {
        let (base, scale) = match &self.amount {
            Amount::Small { value, scale } => (*value as f64, *scale),
            Amount::Big { value, scale } => (value.to_string().parse().unwrap_or(f64::INFINITY), *scale),
        };
        base * 10f64.powi(scale)
    }

    fn canonical(&self) -> String {
        if self.is_zero() {
            return "0".to_owned();
        }
        let mut format = self.format;
        if format == Format::BinarySI {
            let kilo = |value| Amount::Small { value, scale: 0 };
            let below = self.amount.compare(&kilo(1024)) == Ordering::Less
                && self.amount.compare(&kilo(-1024)) == Ordering::Greater;
            // In a binary format, small numbers and fractions would lose precision or be confusing.
            match self.amount.round_up(0) {
                (whole, true) if !below => return binary(&whole),
                _ => format = Format::DecimalSI,
            }
        }
        decimal(&self.amount, format)
    }
}

impl FromStr for Quantity {
    type Err = ParseQuantityError;

    fn from_str(text: &str) -> Result<Self, ParseQuantityError> {
        Self::parse(text)
    }
}

impl fmt::Display for Quantity {
    /// Writes the canonical form: no fraction, and the largest suffix without loss.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            Some(text) => f.write_str(text),
            None => f.write_str(&self.canonical()),
        }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.amount.compare(&other.amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn q(text: &str) -> Quantity {
        Quantity::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn formats_canonically() {
        for (text, want) in [
            ("0", "0"),
            ("00", "0"),
            (".", "0"),
            ("-0", "0"),
            ("0Mi", "0"),
            ("0.0", "0"),
            ("1", "1"),
            ("+1", "+1"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("1.5", "1500m"),
            ("1.500", "1.500"),
            ("100m", "100m"),
            ("1000m", "1"),
            ("0.1", "100m"),
            ("0.1n", "1n"),
            ("1.1n", "2n"),
            ("-0.1n", "-1n"),
            ("0.0000000001", "1n"),
            ("1Ki", "1Ki"),
            ("1024Ki", "1Mi"),
            ("1024", "1024"),
            ("1.5Gi", "1536Mi"),
            ("0.5Ki", "512"),
            ("0.0001Ki", "102400u"),
            ("1000Ki", "1000Ki"),
            ("2047Ki", "2047Ki"),
            ("10000000Ki", "10000000Ki"),
            ("8Ei", "9223372036854775807"),
            ("100Ei", "9223372036854775807"),
            ("7Ei", "7Ei"),
            ("12e6", "12e6"),
            // Some texts are formatted unchanged.
            ("12E6", "12E6"),
            ("12e7", "120e6"),
            ("1e-3", "1e-3"),
            ("100e-3", "100e-3"),
            ("1e2", "100"),
            ("1E", "1E"),
            ("1000E", "1"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9223372036854775808"),
            ("99999999999999999999999", "99999999999999999999999"),
            ("123456789012345678901000", "123456789012345678901k"),
            ("5.", "5."),
            (".5", "500m"),
            ("5.Mi", "5.Mi"),
        ] {
            let got = q(text).to_string();
            assert_eq!(got, want, "{text}");
            assert_eq!(q(&got).to_string(), want, "{text} again");
        }
    }

    #[test]
    fn rejects_invalid_texts() {
        use ParseQuantityError::{FormatWrong, Suffix};
        for (text, want) in [
            ("", FormatWrong),
            (" 1", FormatWrong),
            ("1 ", FormatWrong),
            ("abc", FormatWrong),
            ("1.5.5", FormatWrong),
            ("1,5", FormatWrong),
            ("--1", Suffix),
            ("1Kii", Suffix),
            ("1ki", Suffix),
            ("1KM", Suffix),
            ("1i", Suffix),
            ("1e", Suffix),
            ("1ee5", Suffix),
            ("1m5", Suffix),
            ("1e99999999999999999999", Suffix),
        ] {
            assert_eq!(Quantity::parse(text).err(), Some(want), "{text}");
        }
    }

    #[test]
    fn rounds_values_up() {
        for (text, value, milli) in [
            ("1", 1, 1000),
            ("1.5", 2, 1500),
            ("-1.5", -2, -1500),
            ("100m", 1, 100),
            ("1u", 1, 1),
            ("1Gi", 1 << 30, 1000 << 30),
            ("1e3", 1000, 1_000_000),
            ("9223372036854775807", i64::MAX, -1000),
            ("0", 0, 0),
        ] {
            assert_eq!(q(text).value(), value, "{text}");
            assert_eq!(q(text).milli_value(), milli, "{text}");
        }
        assert_eq!(q("5k").as_i64(), Some(5000));
        assert_eq!(q("5m").as_i64(), None);
        assert_eq!(q("-5").sign(), -1);
    }

    #[test]
    fn orders_by_amount() {
        for (a, b, want) in [
            ("1", "1000m", Ordering::Equal),
            ("1Ki", "1024", Ordering::Equal),
            ("1", "1001m", Ordering::Less),
            ("-1", "-1001m", Ordering::Greater),
            ("1e1000", "1e999", Ordering::Greater),
            ("-1e1000", "1n", Ordering::Less),
            ("1e30", "1000000000000000000000000000000", Ordering::Equal),
            ("1.0000000000000000001", "1", Ordering::Greater),
        ] {
            assert_eq!(q(a).cmp(&q(b)), want, "{a} {b}");
            assert_eq!(q(b).cmp(&q(a)), want.reverse(), "{b} {a}");
        }
    }

    #[test]
    fn adds_and_subtracts() {
        for (a, b, sum, difference) in [
            ("1", "500m", "1500m", "500m"),
            ("0", "1Gi", "1Gi", "-1Gi"),
            ("1Gi", "512Mi", "1536Mi", "512Mi"),
            ("1Gi", "1", "1073741825", "1073741823"),
            ("9223372036854775807", "1", "9223372036854775808", "9223372036854775806"),
            ("1e20", "1", "100000000000000000001", "99999999999999999999"),
        ] {
            let mut x = q(a);
            x.add(&q(b));
            assert_eq!(x.to_string(), sum, "{a} + {b}");
            let mut x = q(a);
            x.sub(&q(b));
            assert_eq!(x.to_string(), difference, "{a} - {b}");
        }
        let mut x = q("3");
        x.mul(500);
        assert_eq!(x.to_string(), "1500");
    }
}
