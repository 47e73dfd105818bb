//! Durations: `metav1.Duration` in Go's notation, and the ages in table columns.

use std::fmt;

use crate::time::quote;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// A duration in nanoseconds, in Go's notation: `1h15m30.5s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub i64);

/// An invalid duration, with Go's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseDurationError(String);

impl GoDuration {
    /// Parses a duration like Go's `time.ParseDuration`.
    pub fn parse(text: &str) -> Result<Self, ParseDurationError> {
        let invalid = || ParseDurationError(format!("time: invalid duration {}", quote(text.as_bytes())));
        let mut rest = text.as_bytes();
        let negative = rest.first() == Some(&b'-');
        if matches!(rest.first(), Some(b'-' | b'+')) {
            rest = &rest[1..];
        }
        // Zero is the only number without a unit.
        if rest == b"0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total = 0u64;
        while let Some(first) = rest.first() {
            if !(*first == b'.' || first.is_ascii_digit()) {
                return Err(invalid());
            }
            let digits = digits(rest);
            let whole = leading_int(&rest[..digits]).ok_or_else(invalid)?;
            rest = &rest[digits..];
            let mut seen = digits > 0;
            let (mut fraction, mut scale) = (0u64, 1f64);
            if rest.first() == Some(&b'.') {
                rest = &rest[1..];
                let digits = self::digits(rest);
                (fraction, scale) = leading_fraction(&rest[..digits]);
                rest = &rest[digits..];
                seen |= digits > 0;
            }
            if !seen {
                return Err(invalid());
            }
            let end = rest.iter().position(|b| *b == b'.' || b.is_ascii_digit()).unwrap_or(rest.len());
            if end == 0 {
                return Err(ParseDurationError(format!("time: missing unit in duration {}", quote(text.as_bytes()))));
            }
            let unit = unit(&rest[..end]).ok_or_else(|| {
                ParseDurationError(format!(
                    "time: unknown unit {} in duration {}",
                    quote(&rest[..end]),
                    quote(text.as_bytes())
                ))
            })?;
            rest = &rest[end..];
            const LIMIT: u64 = 1 << 63;
            let mut value = whole.checked_mul(unit).filter(|v| *v <= LIMIT).ok_or_else(invalid)?;
            if fraction > 0 {
                // Go computes the fraction in floating point, so that nanoseconds are exact for long units.
                value += (fraction as f64 * (unit as f64 / scale)) as u64;
                if value > LIMIT {
                    return Err(invalid());
                }
            }
            total = total.checked_add(value).filter(|t| *t <= LIMIT).ok_or_else(invalid)?;
        }
        match i64::try_from(total) {
            Ok(nanos) => Ok(Self(if negative { -nanos } else { nanos })),
            Err(_) if negative => Ok(Self(i64::MIN)),
            Err(_) => Err(invalid()),
        }
    }

    pub fn nanos(&self) -> i64 {
        self.0
    }
}

impl fmt::Display for GoDuration {
    /// Formats the duration like Go's `Duration.String`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanos {
            0 => f.write_str("0s"),
            _ if nanos < MICROSECOND => write!(f, "{nanos}ns"),
            _ if nanos < MILLISECOND => write_decimal(f, nanos, MICROSECOND, "µs"),
            _ if nanos < SECOND => write_decimal(f, nanos, MILLISECOND, "ms"),
            _ => {
                if nanos >= HOUR {
                    write!(f, "{}h", nanos / HOUR)?;
                }
                if nanos >= MINUTE {
                    write!(f, "{}m", nanos % HOUR / MINUTE)?;
                }
                write_decimal(f, nanos % MINUTE, SECOND, "s")
            }
        }
    }
}

/// Formats a duration for humans with two or three significant figures: `42s`, `3m20s`, `5d12h`, `2y45d`.
pub fn human_duration(nanos: i128) -> String {
    let seconds = nanos / i128::from(SECOND);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let days = hours / 24;
    let two = |big: i128, big_unit: &str, small: i128, small_unit: &str| {
        if small == 0 { format!("{big}{big_unit}") } else { format!("{big}{big_unit}{small}{small_unit}") }
    };
    match () {
        // Clocks differ between machines: up to two seconds in the future count as now.
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => two(days, "d", hours % 24, "h"),
        () if hours < 24 * 365 * 2 => format!("{days}d"),
        () if hours < 24 * 365 * 8 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

/// Formats a duration for humans in one unit: `42s`, `3m`, `5d`.
pub fn short_human_duration(nanos: i128) -> String {
    let seconds = nanos / i128::from(SECOND);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 60 => format!("{seconds}s"),
        () if minutes < 60 => format!("{minutes}m"),
        () if hours < 24 => format!("{hours}h"),
        () if hours < 24 * 365 => format!("{}d", hours / 24),
        () => format!("{}y", hours / 24 / 365),
    }
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|b| b.is_ascii_digit()).count()
}

/// Parses digits up to 2^63, the magnitude of the smallest `i64`.
fn leading_int(digits: &[u8]) -> Option<u64> {
    digits
        .iter()
        .try_fold(0u64, |value, b| value.checked_mul(10)?.checked_add(u64::from(b - b'0')).filter(|v| *v <= 1 << 63))
}

/// Parses the digits after the point, and returns them with the power of ten to divide by; excess digits are dropped.
fn leading_fraction(digits: &[u8]) -> (u64, f64) {
    let (mut value, mut scale) = (0u64, 1f64);
    for b in digits {
        let Some(next) = value.checked_mul(10).and_then(|v| v.checked_add(u64::from(b - b'0'))) else { break };
        if next > 1 << 63 {
            break;
        }
        value = next;
        scale *= 10.0;
    }
    (value, scale)
}

fn unit(name: &[u8]) -> Option<u64> {
    Some(match name {
        b"ns" => 1,
        // Micro sign and Greek letter mu.
        b"us" | b"\xc2\xb5s" | b"\xce\xbcs" => MICROSECOND,
        b"ms" => MILLISECOND,
        b"s" => SECOND,
        b"m" => MINUTE,
        b"h" => HOUR,
        _ => return None,
    })
}

fn write_decimal(f: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, name: &str) -> fmt::Result {
    write!(f, "{}", nanos / unit)?;
    let mut fraction = nanos % unit;
    if fraction > 0 {
        let mut width = unit.ilog10() as usize;
        while fraction.is_multiple_of(10) {
            fraction /= 10;
            width -= 1;
        }
        write!(f, ".{fraction:0width$}")?;
    }
    f.write_str(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_durations_like_go() {
        for (text, want) in [
            ("0", Ok("0s")),
            ("-0", Ok("0s")),
            ("1m30s", Ok("1m30s")),
            ("90s", Ok("1m30s")),
            ("1.5h", Ok("1h30m0s")),
            ("-1.5h", Ok("-1h30m0s")),
            ("3600s", Ok("1h0m0s")),
            (".5s", Ok("500ms")),
            ("1.5us", Ok("1.5µs")),
            ("1ns", Ok("1ns")),
            ("1h1ms", Ok("1h0m0.001s")),
            ("2562047h47m16.854775807s", Ok("2562047h47m16.854775807s")),
            ("-2562047h47m16.854775808s", Ok("-2562047h47m16.854775808s")),
            ("2562047h47m16.854775808s", Err(r#"time: invalid duration "2562047h47m16.854775808s""#)),
            ("", Err(r#"time: invalid duration """#)),
            ("x", Err(r#"time: invalid duration "x""#)),
            ("3", Err(r#"time: missing unit in duration "3""#)),
            ("3d", Err(r#"time: unknown unit "d" in duration "3d""#)),
            (".s", Err(r#"time: invalid duration ".s""#)),
            ("9999999999999999999s", Err(r#"time: invalid duration "9999999999999999999s""#)),
        ] {
            assert_eq!(
                GoDuration::parse(text).map(|d| d.to_string()).map_err(|e| e.to_string()),
                want.map(str::to_owned).map_err(str::to_owned),
                "{text}"
            );
        }
    }

    #[test]
    fn formats_human_durations_like_kubectl() {
        for (seconds, long, short) in [
            (-2, "<invalid>", "<invalid>"),
            (-1, "0s", "0s"),
            (0, "0s", "0s"),
            (119, "119s", "1m"),
            (120, "2m", "2m"),
            (150, "2m30s", "2m"),
            (600, "10m", "10m"),
            (10_799, "179m", "2h"),
            (10_800, "3h", "3h"),
            (11_100, "3h5m", "3h"),
            (8 * 3600, "8h", "8h"),
            (48 * 3600, "2d", "2d"),
            (50 * 3600, "2d2h", "2d"),
            (8 * 86_400, "8d", "8d"),
            (729 * 86_400, "729d", "1y"),
            (730 * 86_400, "2y", "2y"),
            (775 * 86_400, "2y45d", "2y"),
            (8 * 365 * 86_400, "8y", "8y"),
        ] {
            assert_eq!(human_duration(seconds * 1_000_000_000), long, "{seconds}");
            assert_eq!(short_human_duration(seconds * 1_000_000_000), short, "{seconds}");
        }
        assert_eq!(human_duration(-1_500_000_000), "0s");
    }
}
