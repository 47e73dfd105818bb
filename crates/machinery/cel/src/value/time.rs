//! Timestamps and durations, parsed and formatted as in Go.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_meta::{Base64, GoDuration};
use binnacle_validation::scala_duration;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::error::Error;

/// A point in time, with the UTC offset of its text.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    pub nanos: i32,
    /// Seconds east of UTC.
    offset: i32,
}

/// The years 1 to 9999.
const MIN_SECONDS: i64 = -62_135_596_800;
const MAX_SECONDS: i64 = 253_402_300_799;

impl Timestamp {
    /// # Errors
    /// If the time is outside of the years 1 to 9999.
    pub fn new(seconds: i64, nanos: i32) -> Result<Self, Error> {
        if !(MIN_SECONDS..=MAX_SECONDS).contains(&seconds) {
            return Err(Error::new("timestamp overflow"));
        }
        Ok(Self { seconds, nanos, offset: 0 })
    }

    /// Parses RFC 3339 like Go's `time.Parse`; `None` for other text.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, Error>> {
        // The hour may have a single digit.
        let padded;
        let text = match text.as_bytes() {
            [_, _, _, _, _, _, _, _, _, _, b'T', b'0'..=b'9', b':', ..] => {
                padded = format!("{}0{}", &text[..11], &text[11..]);
                &padded
            }
            _ => text,
        };
        let bytes = text.as_bytes();
        let number = |from: usize, to: usize| -> Option<i64> {
            let digits = bytes.get(from..to)?;
            digits.iter().all(u8::is_ascii_digit).then(|| digits.iter().fold(0, |n, d| n * 10 + i64::from(d - b'0')))
        };
        let is = |at: usize, c: u8| bytes.get(at) == Some(&c);
        if !(is(4, b'-') && is(7, b'-') && is(10, b'T') && is(13, b':') && is(16, b':')) {
            return None;
        }
        let date = Date::new(number(0, 4)? as i16, number(5, 7)? as i8, number(8, 10)? as i8).ok()?;
        let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let mut at = 19;
        let mut nanos = 0;
        if is(at, b'.') || is(at, b',') {
            let digits = bytes[at + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
            if digits == 0 {
                return None;
            }
            let significant = digits.min(9);
            nanos = number(at + 1, at + 1 + significant)? as i32 * 10_i32.pow(9 - significant as u32);
            at += 1 + digits;
        }
        let offset = match bytes.get(at)? {
            b'Z' if bytes.len() == at + 1 => 0,
            sign @ (b'+' | b'-') if bytes.len() == at + 6 && is(at + 3, b':') => {
                let (hours, minutes) = (number(at + 1, at + 3)?, number(at + 4, at + 6)?);
                if hours > 24 || minutes > 60 {
                    return None;
                }
                let seconds = (hours * 3600 + minutes * 60) as i32;
                if *sign == b'-' { -seconds } else { seconds }
            }
            _ => return None,
        };
        let days = days_of_civil(date.year().into(), date.month().into(), date.day().into());
        let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - i64::from(offset);
        Some(Self::new(seconds, nanos).map(|time| Self { offset, ..time }))
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.seconds == MIN_SECONDS && self.nanos == 0
    }

    pub(crate) fn plus(&self, nanos: i64) -> Result<Self, Error> {
        let total = i64::from(self.nanos) + nanos.rem_euclid(1_000_000_000);
        let carry = total.div_euclid(1_000_000_000);
        let seconds = self.seconds + nanos.div_euclid(1_000_000_000) + carry;
        let time = Self::new(seconds, total.rem_euclid(1_000_000_000) as i32)?;
        Ok(Self { offset: self.offset, ..time })
    }

    /// Returns the nanoseconds from another time to this one.
    pub(crate) fn since(&self, other: &Self) -> Result<i64, Error> {
        let seconds = i128::from(self.seconds) - i128::from(other.seconds);
        let nanos = seconds * 1_000_000_000 + i128::from(self.nanos) - i128::from(other.nanos);
        i64::try_from(nanos).map_err(|_| Error::new("integer overflow"))
    }

    /// Returns date and time of day in a zone: its name, or an offset such as `-08:00`.
    pub(crate) fn civil(&self, zone: &str) -> Result<Civil, Error> {
        let Some((hours, minutes)) = zone.split_once(':') else {
            let unknown = || Error::new(format!("unknown time zone {zone}"));
            let zone = match zone {
                "" | "UTC" => TimeZone::UTC,
                zone => TimeZone::get(zone).map_err(|_| unknown())?,
            };
            // The last hours of the year 9999 are beyond jiff's range, but its time zone rules still apply.
            let instant = jiff::Timestamp::new(self.seconds, self.nanos).unwrap_or(jiff::Timestamp::MAX);
            return Ok(Civil::new(self, zone.to_offset(instant).seconds().into()));
        };
        let number = |text: &str| {
            let invalid =
                |what: &str| Error::new(format!("strconv.Atoi: parsing {}: {what}", binnacle_meta::go_quote(text)));
            text.parse::<i64>().map_err(|_| invalid("invalid syntax"))
        };
        let (h, m) = (number(hours)?, number(minutes)?);
        let minutes =
            if zone.starts_with('-') { h.saturating_mul(60) - m } else { h.saturating_mul(60).saturating_add(m) };
        Ok(Civil::new(self, minutes.saturating_mul(60)))
    }
}

/// Date and time of day.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Civil {
    /// Days since 1970.
    days: i64,
    seconds: i64,
    nanos: i32,
}

impl Civil {
    fn new(time: &Timestamp, offset: i64) -> Self {
        let local = time.seconds.saturating_add(offset);
        Self { days: local.div_euclid(86_400), seconds: local.rem_euclid(86_400), nanos: time.nanos }
    }

    pub(crate) fn year(&self) -> i64 {
        civil_of_days(self.days).0
    }

    pub(crate) fn month(&self) -> i64 {
        civil_of_days(self.days).1
    }

    pub(crate) fn day(&self) -> i64 {
        civil_of_days(self.days).2
    }

    /// Counted from 0.
    pub(crate) fn day_of_year(&self) -> i64 {
        self.days - days_of_civil(self.year(), 1, 1)
    }

    /// Counted from Sunday, which is 0.
    pub(crate) fn weekday(&self) -> i64 {
        // The first day of 1970 was a Thursday.
        self.days.saturating_add(4).rem_euclid(7)
    }

    pub(crate) fn hour(&self) -> i64 {
        self.seconds / 3600
    }

    pub(crate) fn minute(&self) -> i64 {
        self.seconds / 60 % 60
    }

    pub(crate) fn second(&self) -> i64 {
        self.seconds % 60
    }

    pub(crate) fn millisecond(&self) -> i64 {
        i64::from(self.nanos) / 1_000_000
    }
}

impl PartialEq for Timestamp {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Timestamp {}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.seconds, self.nanos).cmp(&(other.seconds, other.nanos))
    }
}

impl fmt::Display for Timestamp {
    /// Formats RFC 3339 with the necessary digits of a second.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let local = self.seconds + i64::from(self.offset);
        let days = local.div_euclid(86_400);
        let of_day = local.rem_euclid(86_400);
        let (year, month, day) = civil_of_days(days);
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)?;
        if self.nanos > 0 {
            write!(f, ".{}", format!("{:09}", self.nanos).trim_end_matches('0'))?;
        }
        if self.offset == 0 {
            return f.write_str("Z");
        }
        let minutes = self.offset.abs() / 60;
        write!(f, "{}{:02}:{:02}", if self.offset < 0 { '-' } else { '+' }, minutes / 60, minutes % 60)
    }
}

/// Returns the number of days since 1970.
fn days_of_civil(year: i64, month: i64, day: i64) -> i64 {
    // Counted from March of year 0, so that leap days end a year.
    let year = if month > 2 { year } else { year - 1 };
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns year, month and day from the number of days since 1970.
fn civil_of_days(days: i64) -> (i64, i64, i64) {
    // Counted from March of year 0, so that leap days end a year.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

/// Formats the seconds of a duration, `5400s`, `0.5s`.
pub(crate) fn duration_text(nanos: i64) -> String {
    let seconds = (nanos / 1_000_000_000) as f64 + (nanos % 1_000_000_000) as f64 / 1e9;
    format!("{seconds}s")
}

/// Parses `1h30m` like Go's `time.ParseDuration`.
pub(crate) fn parse_go_duration(text: &str) -> Option<i64> {
    GoDuration::parse(text).ok().map(|duration| duration.nanos())
}

pub(super) fn duration(text: &str) -> Result<i64, Error> {
    scala_duration(text)
        .ok_or_else(|| Error::new(format!("Invalid duration {text}: unable to parse {text} as duration")))
}

pub(super) fn date(text: &str) -> Result<Timestamp, Error> {
    let midnight = format!("{text}T00:00:00Z");
    match Timestamp::parse(&midnight) {
        Some(time) if text.len() == 10 => time,
        _ => Err(Error::new(format!("Invalid date formatted string {text}: cannot parse {text:?} as \"2006-01-02\""))),
    }
}

pub(super) fn date_time(text: &str) -> Result<Timestamp, Error> {
    match Timestamp::parse(text) {
        Some(time) => time,
        None => Err(Error::new(format!("Invalid date-time formatted string {text}: cannot parse {text:?}"))),
    }
}

/// Decodes the text of a field with the format `byte`. Format validation requires the standard alphabet and expressions
/// require the URL alphabet, so a text with characters that only one of them has fails in one of the two.
pub(super) fn base64(text: &str) -> Result<Arc<[u8]>, Error> {
    Base64::Url.decode(text).map(Arc::from).map_err(|at| {
        Error::new(format!("Invalid byte formatted string {text}: illegal base64 data at input byte {at}"))
    })
}

pub(super) fn to_base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
