//! Schedules of cron jobs, such as `0 3 * * mon-fri` or `@daily`, as Go's cron library parses them.

use binnacle_meta::{go_quote, int_error};

use super::time_zone;

/// The values of one field of a schedule.
struct Field {
    min: i64,
    max: i64,
    /// The names of the values, beginning with the lowest.
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Minute, hour, day of the month, month, day of the week.
const FIELDS: [Field; 5] = [
    Field { min: 0, max: 59, names: &[] },
    Field { min: 0, max: 23, names: &[] },
    Field { min: 1, max: 31, names: &[] },
    Field { min: 1, max: 12, names: &MONTHS },
    Field { min: 0, max: 6, names: &DAYS },
];

/// Validates a non-empty schedule.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let schedule = without_zone(schedule)?;
    if schedule.starts_with('@') {
        return descriptor(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let (count, found) = (FIELDS.len(), fields.len());
        return Err(format!("expected exactly {count} fields, found {found}: [{}]", fields.join(" ")));
    }
    fields.iter().zip(&FIELDS).try_for_each(|(text, field)| {
        text.split(',').filter(|range| !range.is_empty()).try_for_each(|range| field.range(range))
    })
}

/// Returns the schedule without a leading `TZ=zone` or `CRON_TZ=zone`.
fn without_zone(schedule: &str) -> Result<&str, String> {
    let Some(rest) = schedule.strip_prefix("TZ=").or_else(|| schedule.strip_prefix("CRON_TZ=")) else {
        return Ok(schedule);
    };
    // kube-apiserver panics if nothing follows the zone, and reports the panic.
    let Some((zone, rest)) = rest.split_once(' ') else {
        return Err("invalid schedule format: runtime error: slice bounds out of range [:-1]".to_owned());
    };
    time_zone::check(zone).map_err(|why| format!("provided bad location {zone}: {why}"))?;
    Ok(rest.trim())
}

fn descriptor(text: &str) -> Result<(), String> {
    if ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"].contains(&text) {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(duration) => {
            check_duration(duration).map_err(|why| format!("failed to parse duration {text}: time: {why}"))
        }
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

impl Field {
    fn range(&self, text: &str) -> Result<(), String> {
        let (range, steps) = text.split_once('/').map_or((text, None), |(range, steps)| (range, Some(steps)));
        let (first, last) = range.split_once('-').map_or((range, None), |(first, last)| (first, Some(last)));
        let any = first == "*" || first == "?";
        let start = if any { self.min } else { self.value(first)? };
        let mut end = match last {
            _ if any => self.max,
            Some(last) if last.contains('-') => return Err(format!("too many hyphens: {text}")),
            Some(last) => self.value(last)?,
            None => start,
        };
        let mut step = 1;
        if let Some(steps) = steps {
            if steps.contains('/') {
                return Err(format!("too many slashes: {text}"));
            }
            step = number(steps)?;
            if last.is_none() {
                end = self.max;
            }
        }
        let Self { min, max, .. } = self;
        if start < *min {
            return Err(format!("beginning of range ({start}) below minimum ({min}): {text}"));
        }
        if end > *max {
            return Err(format!("end of range ({end}) above maximum ({max}): {text}"));
        }
        if start > end {
            return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
        }
        if step == 0 {
            return Err(format!("step of range should be a positive number: {text}"));
        }
        Ok(())
    }

    fn value(&self, text: &str) -> Result<i64, String> {
        match (self.min..).zip(self.names).find(|(_, name)| text.eq_ignore_ascii_case(name)) {
            Some((value, _)) => Ok(value),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<i64, String> {
    let number: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        let why = int_error(&error);
        format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {why}", go_quote(text))
    })?;
    if number < 0 { Err(format!("negative number ({number}) not allowed: {text}")) } else { Ok(number) }
}

/// Validates a duration in Go's format: `1h30m`, `1.5s`, `-2ms`, `0`.
fn check_duration(text: &str) -> Result<(), String> {
    let invalid = || format!("invalid duration {}", go_quote(text));
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(());
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    while !rest.is_empty() {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let whole = digits(rest);
        rest = &rest[whole..];
        let mut fraction = 0;
        if let Some(after) = rest.strip_prefix('.') {
            fraction = digits(after);
            rest = &after[fraction..];
        }
        if whole + fraction == 0 {
            return Err(invalid());
        }
        let unit = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
        let (unit, after) = rest.split_at(unit);
        match unit {
            "" => return Err(format!("missing unit in duration {}", go_quote(text))),
            "ns" | "us" | "µs" | "μs" | "ms" | "s" | "m" | "h" => rest = after,
            _ => return Err(format!("unknown unit {} in duration {}", go_quote(unit), go_quote(text))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_schedules() {
        for good in [
            "* * * * *",
            "*/5 0-12/2 1,15 jan-MAR mon",
            "0 0 ? * 5/2",
            "@daily",
            "@every 1h30m",
            "@every -1.5s",
            "TZ=UTC 0 0 * * *",
            "CRON_TZ=Europe/Berlin @hourly",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for (bad, want) in [
            ("every day", "expected exactly 5 fields, found 2: [every day]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-3 * * * *", "beginning of range (5) beyond end of range (3): 5-3"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("-1 * * * *", "failed to parse int from : strconv.Atoi: parsing \"\": invalid syntax"),
            ("@often", "unrecognized descriptor: @often"),
            ("@every day", "failed to parse duration @every day: time: invalid duration \"day\""),
            ("@every 5", "failed to parse duration @every 5: time: missing unit in duration \"5\""),
            ("@every 5d", "failed to parse duration @every 5d: time: unknown unit \"d\" in duration \"5d\""),
            ("TZ=0", "invalid schedule format: runtime error: slice bounds out of range [:-1]"),
            ("TZ=Mars * * * * *", "provided bad location Mars: unknown time zone Mars"),
        ] {
            assert_eq!(check(bad), Err(want.to_owned()), "{bad}");
        }
    }
}
