//! Durations in schemas of custom resources.

use binnacle_meta::GoDuration;

/// Returns the nanoseconds of a duration in Go's notation, or the sum of all pairs of number and unit in other texts.
pub fn scala_duration(text: &str) -> Option<i64> {
    if let Ok(duration) = GoDuration::parse(text) {
        return Some(duration.nanos());
    }
    let mut sum = None;
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[start..].bytes().take_while(u8::is_ascii_digit).count();
        let number = &rest[start..start + digits];
        rest = &rest[start + digits..];
        let spaced = rest.trim_start_matches([' ', '\t', '\n', '\x0c', '\r']);
        let letters = spaced.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(spaced.len());
        if letters == 0 {
            continue;
        }
        let unit = spaced[..letters].to_lowercase();
        rest = &spaced[letters..];
        let number: i64 = number.parse().ok()?;
        for nanos in units(&unit) {
            sum = Some(sum.unwrap_or(0_i64).wrapping_add(number.wrapping_mul(nanos)));
        }
    }
    sum
}

/// Returns the units that match a word: exact abbreviations, and long names by their prefix.
fn units(word: &str) -> impl Iterator<Item = i64> + '_ {
    const SECOND: i64 = 1_000_000_000;
    const UNITS: [(&[&str], &str, i64); 8] = [
        (&["ns"], "nano", 1),
        (&["us", "µs"], "micro", 1_000),
        (&["ms"], "milli", 1_000_000),
        (&["s"], "sec", SECOND),
        (&["m"], "min", 60 * SECOND),
        (&["h", "hr"], "hour", 3_600 * SECOND),
        (&["d"], "day", 86_400 * SECOND),
        (&["w", "wk"], "week", 7 * 86_400 * SECOND),
    ];
    let found = UNITS.iter().filter(move |(short, long, _)| short.contains(&word) || word.starts_with(long));
    found.map(|(_, _, nanos)| *nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_scala_durations() {
        for (text, want) in [
            ("1h30m", Some(5_400_000_000_000)),
            ("22 ns", Some(22)),
            ("1 day 2 hours", Some(93_600_000_000_000)),
            ("3 minutes", Some(180_000_000_000)),
            ("1 hr", Some(3_600_000_000_000)),
            ("5", None),
            ("5 parsecs", None),
            ("", None),
        ] {
            assert_eq!(scala_duration(text), want, "{text}");
        }
    }
}
