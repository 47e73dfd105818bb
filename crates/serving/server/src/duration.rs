//! Durations in Go's format (`1h2m3.5s`), for query parameters and flags.

use std::time::Duration;

use binnacle_meta::go_quote;

/// Parses a duration; negative ones are valid and return `None`.
///
/// # Errors
///
/// Returns Go's message.
pub(crate) fn parse_go(text: &str) -> Result<Option<Duration>, String> {
    let invalid = || format!("time: invalid duration {}", go_quote(text));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(Some(Duration::ZERO));
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    // In nanoseconds, in the range of Go's int64.
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(number_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(invalid());
        }
        let unit_end = tail.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, after) = tail.split_at(unit_end);
        let scale: u128 = match unit {
            "" => return Err(format!("time: missing unit in duration {}", go_quote(text))),
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => {
                return Err(format!("time: unknown unit {} in duration {}", go_quote(unit), go_quote(text)));
            }
        };
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        // Digits below a nanosecond are ignored.
        let digits = &fraction[..fraction.len().min(18)];
        let part = if digits.is_empty() { 0 } else { digits.parse::<u64>().map_err(|_| invalid())? };
        total += u128::from(whole) * scale + u128::from(part) * scale / 10u128.pow(digits.len() as u32);
        if total > i64::MAX as u128 {
            return Err(invalid());
        }
        rest = after;
    }
    Ok((!negative).then(|| Duration::from_nanos(total as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_go_durations() {
        for (text, want) in [
            ("0", Ok(Some(Duration::ZERO))),
            ("5s", Ok(Some(Duration::from_secs(5)))),
            ("1h2m3.5s", Ok(Some(Duration::from_millis(3_723_500)))),
            (".5ms", Ok(Some(Duration::from_micros(500)))),
            ("+1s", Ok(Some(Duration::from_secs(1)))),
            ("-1s", Ok(None)),
            ("", Err(r#"time: invalid duration """#)),
            ("abc", Err(r#"time: invalid duration "abc""#)),
            ("5", Err(r#"time: missing unit in duration "5""#)),
            ("5x", Err(r#"time: unknown unit "x" in duration "5x""#)),
            ("1.2.3s", Err(r#"time: invalid duration "1.2.3s""#)),
            ("9999999999h", Err(r#"time: invalid duration "9999999999h""#)),
            ("99999999999999999999s", Err(r#"time: invalid duration "99999999999999999999s""#)),
        ] {
            assert_eq!(parse_go(text), want.map_err(str::to_owned), "{text}");
        }
    }
}
