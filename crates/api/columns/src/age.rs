//! Ages in the notation of `kubectl get`.

use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_fields::{FieldRef, types};
use binnacle_meta::{Time, human_duration};
use binnacle_schema::Value;

pub(crate) const UNKNOWN: &str = "<unknown>";

/// The moment from which ages are measured.
#[derive(Clone, Copy, Debug)]
pub struct Now(Time);

impl Now {
    pub fn from_unix(seconds: i64, nanoseconds: u32) -> Self {
        Self(Time::from_unix(seconds, nanoseconds))
    }
}

impl From<SystemTime> for Now {
    fn from(time: SystemTime) -> Self {
        // If the clock is before 1970, every age is `<invalid>`.
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
    }
}

/// Formats the age of a time: `3m12s`; `<unknown>` if it is absent or Go's zero time.
pub fn age(time: Option<&Value>, now: Now) -> String {
    time.and_then(parse).map_or_else(|| UNKNOWN.into(), |then| since(then, now))
}

/// Formats the age of a time field as [`age`] does.
pub(crate) fn age_of(time: FieldRef<types::Time>, now: Now) -> String {
    age(time.get(), now)
}

/// Parses a `Time` or `MicroTime` field; `None` if it is absent or zero.
pub(crate) fn time_of(time: FieldRef<types::Time>) -> Option<Time> {
    parse(time.value())
}

fn parse(time: &Value) -> Option<Time> {
    Time::parse(time.as_str()?).ok().filter(|time| !time.is_zero())
}

pub(crate) fn since(then: Time, now: Now) -> String {
    between(then, now.0)
}

pub(crate) fn between(start: Time, end: Time) -> String {
    // Go's durations are at most 292 years.
    human_duration(end.nanos_since(&start).clamp(i64::MIN.into(), i64::MAX.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::noon;

    #[test]
    fn formats_ages() {
        let cases = [
            (Value::from("2024-03-10T11:59:50Z"), "10s"),
            (Value::from("2024-03-10T11:59:49.999999Z"), "10s"),
            (Value::from("2024-03-10T12:59:50+01:00"), "10s"),
            (Value::from("2024-03-10T09:30:00Z"), "150m"),
            (Value::from("2024-03-10T12:00:01.999999Z"), "0s"),
            (Value::from("2024-03-10T12:00:02Z"), "<invalid>"),
            (Value::from("0001-01-01T00:00:01Z"), "292y"),
            (Value::from("0001-01-01T00:00:00Z"), "<unknown>"),
            (Value::from("yesterday"), "<unknown>"),
            (Value::Null, "<unknown>"),
        ];
        for (time, want) in cases {
            assert_eq!(age(Some(&time), noon()), want, "{time:?}");
        }
        assert_eq!(age(None, noon()), "<unknown>");
    }
}
