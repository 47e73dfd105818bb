//! Validation of texts, and of enumerated values.

use binnacle_meta::{ErrorValue, FieldError};
use binnacle_schema::{Value, json};
use binnacle_work::pace;

use super::{Outcome, Validator};
use crate::path::Path;
use crate::structural::{Size, Values};
use crate::weight::{copy_charged, equal};

impl Validator<'_> {
    /// Reports only the first error of a string.
    pub(super) fn text(&self, text: &str, values: Option<&Values>, path: &Path<'_>, outcome: &mut Outcome) {
        let Some(values) = values else { return };
        // Strings are counted and formatted.
        pace(text.len() as u64 / 8);
        let length = || text.chars().count() as i64;
        // A string has at most as many characters as bytes, so most need not be counted.
        if let Some(max) = values.size(Size::MaxLength)
            && text.len() as i64 > max
            && length() > max
        {
            outcome.push(too_long(self, path, max));
            return;
        }
        if let Some(min) = values.size(Size::MinLength)
            && length() < min
        {
            outcome.push(self.invalid(path, ErrorValue::from(text), &format!("should be at least {min} chars long")));
            return;
        }
        if let Some(pattern) = &values.pattern {
            let message = match pattern.is_match(text) {
                Ok(true) => return,
                Ok(false) => format!("should match '{}'", pattern.as_str()),
                Err(problem) => format!("should match '{}, but pattern is invalid: {problem}'", pattern.as_str()),
            };
            outcome.push(self.invalid(path, ErrorValue::from(text), &message));
        }
    }
}

fn too_long(check: &Validator<'_>, path: &Path<'_>, max: i64) -> FieldError {
    match usize::try_from(max) {
        Ok(max) => FieldError::too_long(&check.at(path), max),
        Err(_) => FieldError::too_long_without_bound(&check.at(path)),
    }
}

/// Returns true if a value equals an enumerated one after Go's conversion to the type of the latter: a number loses its
/// fraction, and an integer becomes the text of that character.
pub(super) fn is_listed(value: &Value, supported: &Value) -> bool {
    match (value, supported) {
        (_, Value::Null) => false,
        (Value::Int(n), Value::Float(supported)) => *n as f64 == *supported,
        (Value::Float(n), Value::Int(supported)) => super::numbers::go_int(*n) == *supported,
        (Value::Int(n), Value::Str(supported)) => {
            let c = u32::try_from(*n).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
            supported.chars().eq([c])
        }
        (value, supported) => equal(value, supported),
    }
}

/// Formats a value for a list of supported values.
pub(super) fn listed(value: &Value) -> String {
    match value {
        Value::Str(text) => text.to_string(),
        value => {
            let Some(mut value) = copy_charged(value) else { return String::new() };
            binnacle_schema::sort_free_form(&mut value);
            json::to_string(&value)
        }
    }
}
