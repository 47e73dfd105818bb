//! Timestamps of the API: `metav1.Time` with whole seconds and `metav1.MicroTime` with six digits.
//!
//! Parsing follows Go's `time.Parse` for the two layouts, including the messages of errors.

use std::fmt;

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
const MICRO_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Seconds from 1970 to Go's zero time, 0001-01-01T00:00:00Z.
const ZERO_SECONDS: i64 = -62_135_596_800;

/// `metav1.Time`. Formatted in UTC with whole seconds; a fraction is parsed and kept, but never formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    seconds: i64,
    nanos: u32,
}

/// `metav1.MicroTime`. Formatted in UTC with microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroTime(Time);

/// An invalid time, with the message of Go's `time.ParseError`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseTimeError(String);

impl Time {
    /// Creates a time from seconds since 1970 and nanoseconds within the second.
    pub fn from_unix(seconds: i64, nanos: u32) -> Self {
        Self { seconds: seconds.saturating_add(i64::from(nanos / 1_000_000_000)), nanos: nanos % 1_000_000_000 }
    }

    /// Parses RFC 3339; a fraction of a second is allowed.
    pub fn parse(text: &str) -> Result<Self, ParseTimeError> {
        parse(text, LAYOUT, false)
    }

    pub fn unix_seconds(&self) -> i64 {
        self.seconds
    }

    pub fn nanos(&self) -> u32 {
        self.nanos
    }

    /// Returns true for Go's zero time, which is encoded as `null`.
    pub fn is_zero(&self) -> bool {
        self.seconds == ZERO_SECONDS && self.nanos == 0
    }

    /// Returns the nanoseconds from `earlier` to this time.
    pub fn nanos_since(&self, earlier: &Self) -> i128 {
        (i128::from(self.seconds) - i128::from(earlier.seconds)) * 1_000_000_000 + i128::from(self.nanos)
            - i128::from(earlier.nanos)
    }
}

impl MicroTime {
    pub fn from_unix(seconds: i64, nanos: u32) -> Self {
        Self(Time::from_unix(seconds, nanos))
    }

    /// Parses RFC 3339 with exactly six fractional digits.
    pub fn parse(text: &str) -> Result<Self, ParseTimeError> {
        parse(text, MICRO_LAYOUT, true).map(Self)
    }

    pub fn unix_seconds(&self) -> i64 {
        self.0.seconds
    }

    pub fn nanos(&self) -> u32 {
        self.0.nanos
    }

    pub fn is_zero(&self) -> bool {
        self.0.is_zero()
    }

    /// Returns the same instant as a [`Time`].
    pub fn as_time(&self) -> Time {
        self.0
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_seconds(f, self.seconds)?;
        f.write_str("Z")
    }
}

impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_seconds(f, self.0.seconds)?;
        write!(f, ".{:06}Z", self.0.nanos / 1000)
    }
}

fn write_seconds(f: &mut fmt::Formatter<'_>, seconds: i64) -> fmt::Result {
    let (year, month, day) = civil(seconds.div_euclid(86_400));
    if let Some(digits) = digits(year, month, day, seconds.rem_euclid(86_400))
        && let Ok(text) = std::str::from_utf8(&digits)
    {
        return f.write_str(text);
    }
    let of_day = seconds.rem_euclid(86_400);
    let sign = if year < 0 { "-" } else { "" };
    write!(
        f,
        "{sign}{:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
        year.unsigned_abs(),
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

/// Formats a time in a year of four digits, up to the second. Ten times as fast as `format!`.
fn digits(year: i64, month: i64, day: i64, of_day: i64) -> Option<[u8; 19]> {
    if !(0..=9999).contains(&year) {
        return None;
    }
    let mut text = *b"0000-00-00T00:00:00";
    let pairs = [
        (0, year / 100),
        (2, year % 100),
        (5, month),
        (8, day),
        (11, of_day / 3600),
        (14, of_day / 60 % 60),
        (17, of_day % 60),
    ];
    for (at, value) in pairs {
        text[at] += (value / 10) as u8;
        text[at + 1] += (value % 10) as u8;
    }
    Some(text)
}

/// The error of a layout element.
enum ElementError {
    /// The text does not have the form of the element.
    Shape,
    /// The text has the right form, but its value is out of range.
    Range(&'static str),
}

impl From<()> for ElementError {
    fn from((): ()) -> Self {
        Self::Shape
    }
}

/// Parses `value` by one of the two layouts, element by element like Go.
fn parse(text: &str, layout: &'static str, micro: bool) -> Result<Time, ParseTimeError> {
    let bytes = text.as_bytes();
    let fail = |element: &str, rest: &[u8]| {
        ParseTimeError(format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(bytes),
            quote(layout.as_bytes()),
            quote(rest),
            quote(element.as_bytes())
        ))
    };
    let invalid = |why: String| ParseTimeError(format!("parsing time {}: {why}", quote(bytes)));
    let mut rest = bytes;
    let mut element = |name: &'static str, read: &mut dyn FnMut(&mut &[u8]) -> Result<(), ElementError>| {
        let hold = rest;
        read(&mut rest).map_err(|error| match error {
            ElementError::Shape => fail(name, hold),
            ElementError::Range(what) => invalid(format!("{what} out of range")),
        })
    };

    let (mut year, mut month, mut day, mut hour, mut minute, mut second) = (0i64, 0, 0, 0, 0, 0);
    let (mut nanos, mut offset) = (0u32, 0i64);
    element("2006", &mut |rest| {
        if rest.len() < 4 || !rest[0].is_ascii_digit() {
            return Err(ElementError::Shape);
        }
        year = atoi(&rest[..4])?;
        *rest = &rest[4..];
        Ok(())
    })?;
    element("-", &mut |rest| literal(rest, b'-'))?;
    element("01", &mut |rest| {
        month = number(rest, true)?;
        if (1..=12).contains(&month) { Ok(()) } else { Err(ElementError::Range("month")) }
    })?;
    element("-", &mut |rest| literal(rest, b'-'))?;
    element("02", &mut |rest| {
        day = number(rest, true)?;
        Ok(())
    })?;
    element("T", &mut |rest| literal(rest, b'T'))?;
    element("15", &mut |rest| {
        hour = number(rest, false)?;
        if hour < 24 { Ok(()) } else { Err(ElementError::Range("hour")) }
    })?;
    element(":", &mut |rest| literal(rest, b':'))?;
    element("04", &mut |rest| {
        minute = number(rest, true)?;
        if minute < 60 { Ok(()) } else { Err(ElementError::Range("minute")) }
    })?;
    element(":", &mut |rest| literal(rest, b':'))?;
    element("05", &mut |rest| {
        second = number(rest, true)?;
        if second >= 60 {
            return Err(ElementError::Range("second"));
        }
        // A fraction is parsed even if the layout has none.
        if !micro && rest.len() >= 2 && matches!(rest[0], b'.' | b',') && rest[1].is_ascii_digit() {
            let n = 1 + rest[1..].iter().take_while(|b| b.is_ascii_digit()).count();
            nanos = fraction(&rest[..n])?;
            *rest = &rest[n..];
        }
        Ok(())
    })?;
    if micro {
        element(".000000", &mut |rest| {
            if rest.len() < 7 {
                return Err(ElementError::Shape);
            }
            nanos = fraction(&rest[..7])?;
            *rest = &rest[7..];
            Ok(())
        })?;
    }
    element("Z07:00", &mut |rest| {
        offset = zone(rest)?;
        Ok(())
    })?;
    if !rest.is_empty() {
        return Err(invalid(format!("extra text: {}", quote(rest))));
    }
    if day < 1 || day > days_in(month, year) {
        return Err(invalid("day out of range".to_owned()));
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Ok(Time { seconds, nanos })
}

fn literal(rest: &mut &[u8], byte: u8) -> Result<(), ElementError> {
    match rest.split_first() {
        Some((first, tail)) if *first == byte => {
            *rest = tail;
            Ok(())
        }
        _ => Err(ElementError::Shape),
    }
}

/// Parses one or two digits, or exactly two if `fixed`.
fn number(rest: &mut &[u8], fixed: bool) -> Result<i64, ()> {
    let digit = |i: usize| rest.get(i).filter(|b| b.is_ascii_digit()).map(|b| i64::from(b - b'0'));
    let first = digit(0).ok_or(())?;
    let (value, used) = match digit(1) {
        Some(second) => (first * 10 + second, 2),
        None if fixed => return Err(()),
        None => (first, 1),
    };
    *rest = &rest[used..];
    Ok(value)
}

/// Parses an optional sign and at most nine digits.
fn atoi(text: &[u8]) -> Result<i64, ()> {
    let (negative, digits) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let mut value = 0i64;
    for b in digits {
        if !b.is_ascii_digit() {
            return Err(());
        }
        value = value * 10 + i64::from(b - b'0');
    }
    Ok(if negative { -value } else { value })
}

/// Parses `.123` to nanoseconds; digits after the ninth are dropped.
fn fraction(text: &[u8]) -> Result<u32, ElementError> {
    if !matches!(text[0], b'.' | b',') {
        return Err(ElementError::Shape);
    }
    let digits = &text[1..text.len().min(10)];
    let value = atoi(digits)?;
    let scale = 10i64.pow(9 - digits.len() as u32);
    u32::try_from(value * scale).map_err(|_| ElementError::Range("fractional second"))
}

/// Parses `Z` or `+01:00` to seconds east of UTC.
fn zone(rest: &mut &[u8]) -> Result<i64, ElementError> {
    if rest.first() == Some(&b'Z') {
        *rest = &rest[1..];
        return Ok(0);
    }
    if rest.len() < 6 || rest[3] != b':' {
        return Err(ElementError::Shape);
    }
    let hours = number(&mut &rest[1..3], true);
    let minutes = hours.and_then(|_| number(&mut &rest[4..6], true));
    if hours.is_ok_and(|h| h > 24) {
        return Err(ElementError::Range("time zone offset hour"));
    }
    if minutes.is_ok_and(|m| m > 60) {
        return Err(ElementError::Range("time zone offset minute"));
    }
    let offset = hours? * 3600 + minutes? * 60;
    let sign = rest[0];
    *rest = &rest[6..];
    match sign {
        b'+' => Ok(offset),
        b'-' => Ok(-offset),
        _ => Err(ElementError::Shape),
    }
}

/// Quotes a text like Go's `time` package: everything except printable ASCII as `\xNN`.
pub(crate) fn quote(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for &b in text {
        match b {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(b));
            }
            b' '..=0x7f => out.push(char::from(b)),
            _ => out.push_str(&format!("\\x{b:02x}")),
        }
    }
    out.push('"');
    out
}

fn days_in(month: i64, year: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days since 1970-01-01, computed in eras of 400 years that begin in March.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns year, month and day; the inverse of [`days`].
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let of_era = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * of_era + of_era / 4 - of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = of_era + era * 400 + i64::from(month <= 2);
    (year, month, of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_rfc3339_like_go() {
        for (text, want) in [
            ("2024-02-29T12:34:56Z", Ok("2024-02-29T12:34:56Z")),
            ("2024-02-29T12:34:56.789Z", Ok("2024-02-29T12:34:56Z")),
            ("2024-02-29T12:34:56,789123456789Z", Ok("2024-02-29T12:34:56Z")),
            ("2024-03-01T00:30:00+01:00", Ok("2024-02-29T23:30:00Z")),
            ("2024-12-31T23:30:00-01:00", Ok("2025-01-01T00:30:00Z")),
            ("1960-01-01T1:00:00Z", Ok("1960-01-01T01:00:00Z")),
            ("0001-01-01T00:00:00Z", Ok("0001-01-01T00:00:00Z")),
            ("yesterday", Err(r#"as "2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006""#)),
            ("", Err(r#"as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006""#)),
            ("2024-13-01T00:00:00Z", Err("month out of range")),
            ("2023-02-29T00:00:00Z", Err("day out of range")),
            ("2023-02-20T24:00:00Z", Err("hour out of range")),
            ("2023-02-20T23:60:00Z", Err("minute out of range")),
            ("2023-02-20T23:59:60Z", Err("second out of range")),
            ("2023-02-20T23:59:50Zx", Err(r#"extra text: "x""#)),
            ("2023-02-20T23:59:50", Err(r#"cannot parse "" as "Z07:00""#)),
            ("2023-02-20T23:59:50+0100", Err(r#"cannot parse "+0100" as "Z07:00""#)),
            ("2023-02-20T23:59:50+25:00", Err("time zone offset hour out of range")),
            ("2023-02-20 23:59:50Z", Err(r#"cannot parse " 23:59:50Z" as "T""#)),
            ("2023-2-20T23:59:50Z", Err(r#"cannot parse "2-20T23:59:50Z" as "01""#)),
            ("é", Err(r#"cannot parse "\xc3\xa9" as "2006""#)),
        ] {
            match (Time::parse(text), want) {
                (Ok(time), Ok(want)) => assert_eq!(time.to_string(), want, "{text}"),
                (Err(error), Err(want)) => {
                    let error = error.to_string();
                    assert!(error.starts_with("parsing time "), "{text}: {error}");
                    assert!(error.ends_with(want), "{text}: {error}");
                }
                (got, want) => panic!("{text}: {got:?}, want {want:?}"),
            }
        }
        assert!(Time::parse("0001-01-01T00:00:00Z").is_ok_and(|t| t.is_zero()));
        assert_eq!(Time::parse("2024-02-29T12:34:56.5Z").map(|t| t.nanos()), Ok(500_000_000));
    }

    #[test]
    fn parses_micro_times_like_go() {
        for (text, want) in [
            ("2024-02-29T12:34:56.123456Z", Ok("2024-02-29T12:34:56.123456Z")),
            ("2024-02-29T12:34:56.000000+01:00", Ok("2024-02-29T11:34:56.000000Z")),
            (
                "yesterday",
                Err(
                    r#"parsing time "yesterday" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "yesterday" as "2006""#,
                ),
            ),
            (
                "2024-02-29T12:34:56Z",
                Err(
                    r#"parsing time "2024-02-29T12:34:56Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
                ),
            ),
            (
                "2024-02-29T12:34:56.1234567Z",
                Err(
                    r#"parsing time "2024-02-29T12:34:56.1234567Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "7Z" as "Z07:00""#,
                ),
            ),
        ] {
            assert_eq!(
                MicroTime::parse(text).map(|t| t.to_string()).map_err(|e| e.to_string()),
                want.map(str::to_owned).map_err(str::to_owned),
                "{text}"
            );
        }
    }

    #[test]
    fn converts_dates_both_ways() {
        for day in (-800_000..3_000_000).step_by(97) {
            let (year, month, of_month) = civil(day);
            assert_eq!(days(year, month, of_month), day);
            assert!((1..=days_in(month, year)).contains(&of_month));
        }
    }
}
