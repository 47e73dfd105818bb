//! Accessors for timestamps and durations.

use super::Library;
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::value::{Civil, Val};

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &[] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

macro_rules! part {
    ($name:literal, $id:literal, $part:expr) => {
        FunctionDecl::each(
            $name,
            &[
                (concat!("timestamp_to_", $id), "timestamp.() -> int", Some(|_, args| of_time(args, $part))),
                (
                    concat!("timestamp_to_", $id, "_with_tz"),
                    "timestamp.(string) -> int",
                    Some(|_, args| of_time(args, $part)),
                ),
            ],
        )
    };
    ($name:literal, $id:literal, $part:expr, $duration:literal, $nanos:expr) => {
        FunctionDecl::each(
            $name,
            &[
                (concat!("timestamp_to_", $id), "timestamp.() -> int", Some(|_, args| of_time(args, $part))),
                (
                    concat!("timestamp_to_", $id, "_with_tz"),
                    "timestamp.(string) -> int",
                    Some(|_, args| of_time(args, $part)),
                ),
                ($duration, "duration.() -> int", Some(|meter, args| of_duration(meter, args, $nanos))),
            ],
        )
    };
}

const FUNCTIONS: &[FunctionDecl] = &[
    part!("getFullYear", "year", |t| t.year()),
    part!("getMonth", "month", |t| t.month() - 1),
    part!("getDayOfYear", "day_of_year", |t| t.day_of_year()),
    part!("getDayOfMonth", "day_of_month", |t| t.day() - 1),
    part!("getDate", "day_of_month_1_based", |t| t.day()),
    part!("getDayOfWeek", "day_of_week", |t| t.weekday()),
    part!("getHours", "hours", |t| t.hour(), "duration_to_hours", 3_600_000_000_000),
    part!("getMinutes", "minutes", |t| t.minute(), "duration_to_minutes", 60_000_000_000),
    part!("getSeconds", "seconds_tz", |t| t.second(), "duration_to_seconds", 1_000_000_000),
    part!("getMilliseconds", "milliseconds", |t| t.millisecond(), "duration_to_milliseconds", 1_000_000),
];

fn of_time<'a>(args: &[Val<'a>], part: fn(Civil) -> i64) -> Result<'a> {
    match args {
        [Val::Timestamp(time)] => Ok(Val::Int(part(time.civil("UTC")?))),
        [Val::Timestamp(time), Val::Str(zone)] => Ok(Val::Int(part(time.civil(zone)?))),
        _ => Err(Error::no_such_overload()),
    }
}

fn of_duration<'a>(_: &Meter, args: &[Val<'a>], unit: i64) -> Result<'a> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / unit)),
        _ => Err(Error::no_such_overload()),
    }
}
