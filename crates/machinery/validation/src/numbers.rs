//! Numbers, quantities and percentages.

use binnacle_meta::{FieldError, FieldErrors, Location, Quantity};
use binnacle_schema::Value;

use crate::checks::of_named_type;
use crate::metadata::shown;
use crate::names::regex_error;

const NEGATIVE: &str = "must be greater than or equal to 0";

/// Checks that a number is not negative.
pub fn non_negative(path: &dyn Location, value: i64, errors: &mut FieldErrors) {
    if value < 0 {
        errors.push(FieldError::invalid(path, value, NEGATIVE));
    }
}

/// Checks that a quantity is not negative.
pub fn non_negative_quantity(path: &dyn Location, text: &str, errors: &mut FieldErrors) {
    if Quantity::parse(text).is_ok_and(|quantity| quantity.sign() < 0) {
        errors.push(FieldError::invalid(path, text, NEGATIVE));
    }
}

/// Checks that a number or percentage is not negative.
pub fn int_or_percent(path: &dyn Location, value: &Value, errors: &mut FieldErrors) {
    match value {
        Value::Str(text) if percent(text).is_none() => {
            let message = regex_error(
                "a valid percent string must be a numeric string followed by an ending '%'",
                "[0-9]+%",
                &["1%", "93%"],
            );
            errors.push(FieldError::invalid(path, of_named_type(text), message));
        }
        Value::Int(n) => non_negative(path, *n, errors),
        _ => {}
    }
}

/// Checks that a percentage is at most 100.
pub fn not_more_than_100_percent(path: &dyn Location, value: &Value, errors: &mut FieldErrors) {
    if value.as_str().and_then(percent).is_some_and(|percent| percent > 100) {
        errors.push(FieldError::invalid(path, shown(Some(value)), "must not be greater than 100%"));
    }
}

/// Returns the number of a percentage (`25%`), or the largest number if it does not fit.
pub fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let valid = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    valid.then(|| digits.parse().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_meta::FieldPath;

    #[test]
    fn validates_percentages() {
        for (value, want) in [
            (Value::from("50%"), vec![]),
            (Value::from("101%"), vec!["x: Invalid value: \"101%\": must not be greater than 100%"]),
            (Value::from(-1i64), vec!["x: Invalid value: -1: must be greater than or equal to 0"]),
            (
                Value::from("%"),
                vec![
                    "x: Invalid value: \"%\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                ],
            ),
        ] {
            let mut errors = FieldErrors::new();
            int_or_percent(&FieldPath::new("x"), &value, &mut errors);
            not_more_than_100_percent(&FieldPath::new("x"), &value, &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
    }
}
