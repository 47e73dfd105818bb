//! How long ago something was, in the words of `kubectl get`.

use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_schema::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

const UNKNOWN: &str = "<unknown>";

/// The moment that ages are measured from.
#[derive(Clone, Copy, Debug)]
pub struct Now(i128);

impl Now {
    pub fn from_unix_seconds(seconds: i64) -> Self {
        Self(i128::from(seconds) * NANOSECONDS)
    }
}

impl From<SystemTime> for Now {
    fn from(time: SystemTime) -> Self {
        // Before 1970 every age is `<invalid>`, as is fit.
        Self(time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i128))
    }
}

/// How long ago a time field says something was: `3m12s`. `<unknown>` where it is absent or Go's zero time.
pub fn age(timestamp: Option<&Value>, now: Now) -> String {
    match timestamp.and_then(parse) {
        Some(then) => since(then, now),
        None => UNKNOWN.into(),
    }
}

pub(crate) fn since(then: Timestamp, now: Now) -> String {
    human(now.0 - then.0)
}

pub(crate) fn between(start: Timestamp, end: Timestamp) -> String {
    human(end.0 - start.0)
}

/// A moment, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timestamp(i128);

/// The moment of a `Time` or `MicroTime` field, `None` where it is absent or zero.
pub(crate) fn parse(timestamp: &Value) -> Option<Timestamp> {
    let then = OffsetDateTime::parse(timestamp.as_str()?, &Rfc3339).ok()?.unix_timestamp_nanos();
    (then != ZERO_TIME).then_some(Timestamp(then))
}

/// A duration of whole seconds with two or three significant figures: `119s`, `2m`, `7h59m`, `2d`, `3y41d`.
pub fn human_duration(seconds: i64) -> String {
    human(i128::from(seconds) * NANOSECONDS)
}

fn human(nanoseconds: i128) -> String {
    // Go's durations end at 292 years.
    let seconds = nanoseconds.clamp(i64::MIN.into(), i64::MAX.into()) / NANOSECONDS;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        // Clocks of two machines may differ by a second.
        ..=-2 => "<invalid>".into(),
        -1 => "0s".into(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => pair(minutes, 'm', seconds % 60, 's'),
        _ if minutes < 3 * 60 => format!("{minutes}m"),
        _ if hours < 8 => pair(hours, 'h', minutes % 60, 'm'),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => pair(days, 'd', hours % 24, 'h'),
        _ if days < 2 * 365 => format!("{days}d"),
        _ if days < 8 * 365 => pair(days / 365, 'y', days % 365, 'd'),
        _ => format!("{}y", days / 365),
    }
}

fn pair(large: i128, large_unit: char, small: i128, small_unit: char) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    }
}

const NANOSECONDS: i128 = 1_000_000_000;

/// 0001-01-01T00:00:00Z, the zero value of Go's time.
const ZERO_TIME: i128 = -62_135_596_800 * NANOSECONDS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        const YEAR: i64 = 365 * DAY;
        let cases = [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * MINUTE, "2m"),
            (2 * MINUTE + 1, "2m1s"),
            (10 * MINUTE - 1, "9m59s"),
            (10 * MINUTE + 59, "10m"),
            (3 * HOUR - 1, "179m"),
            (3 * HOUR, "3h"),
            (3 * HOUR + MINUTE, "3h1m"),
            (8 * HOUR - 1, "7h59m"),
            (8 * HOUR + 59 * MINUTE, "8h"),
            (48 * HOUR - 1, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + HOUR, "2d1h"),
            (8 * DAY - 1, "7d23h"),
            (8 * DAY + 23 * HOUR, "8d"),
            (2 * YEAR - 1, "729d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + DAY, "2y1d"),
            (8 * YEAR - 1, "7y364d"),
            (8 * YEAR + 364 * DAY, "8y"),
            (i64::MAX, "292y"),
            (i64::MIN, "<invalid>"),
        ];
        for (seconds, want) in cases {
            assert_eq!(human_duration(seconds), want, "{seconds}");
        }
    }

    #[test]
    fn ages() {
        let now = Now::from_unix_seconds(1_700_000_000); // 2023-11-14T22:13:20Z
        let cases = [
            (Value::from("2023-11-14T22:13:10Z"), "10s"),
            (Value::from("2023-11-14T22:13:09.999999Z"), "10s"),
            (Value::from("2023-11-14T23:13:10+01:00"), "10s"),
            (Value::from("2023-11-14T22:13:21.999999Z"), "0s"),
            (Value::from("2023-11-14T22:13:22Z"), "<invalid>"),
            (Value::from("0001-01-01T00:00:00Z"), "<unknown>"),
            (Value::Null, "<unknown>"),
        ];
        for (timestamp, want) in cases {
            assert_eq!(age(Some(&timestamp), now), want, "{timestamp:?}");
        }
        assert_eq!(age(None, now), "<unknown>");
    }
}
