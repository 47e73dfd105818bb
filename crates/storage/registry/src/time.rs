//! Timestamps of metadata.

use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_meta::{Text, Time};

/// Formats a time as `metav1.Time`.
pub fn rfc3339(at: SystemTime) -> Text {
    from_seconds(at.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64))
}

/// Formats seconds since the epoch as `metav1.Time`.
pub fn from_seconds(seconds: i64) -> Text {
    Text::from(Time::from_unix(seconds, 0).to_string())
}

/// Returns the seconds since the epoch, or `None` for an invalid timestamp.
pub(crate) fn to_seconds(text: &str) -> Option<i64> {
    Time::parse(text).ok().map(|time| time.unix_seconds())
}
