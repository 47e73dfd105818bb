//! Numbers and their bounds. Bounds are floats; integers are compared with Go's conversions of them to integers.

use binnacle_cel::go_double;
use binnacle_meta::ErrorValue;
use binnacle_schema::Value;

use super::{Outcome, Types, Validator};
use crate::error_value::error_value;
use crate::format::Format;
use crate::path::Path;
use crate::structural::{SchemaType, Structural, Values};

/// The largest integer up to which all integers are exact as floats.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;

/// Returns true for a float that is a whole number, except for rounding.
pub(super) fn is_whole(n: f64) -> bool {
    if !n.is_finite() || n.abs() > MAX_SAFE {
        return false;
    }
    let rounded = n.round();
    n == rounded || rounded != 0.0 && (n - rounded).abs() < 1e-9 * rounded.abs()
}

/// Integers are below this, and not below its negative.
const INTEGERS: f64 = 9_223_372_036_854_775_808.0;

/// Converts a float to an integer; if it does not fit, to the smallest one, as on the platforms of Go servers.
pub(super) fn go_int(n: f64) -> i64 {
    if (-INTEGERS..INTEGERS).contains(&n) { n as i64 } else { i64::MIN }
}

#[derive(Clone, Copy)]
enum Bound {
    Maximum,
    Minimum,
}

/// The type and format that a number must have.
struct Range<'s> {
    kind: &'s str,
    format: &'s str,
}

impl Range<'_> {
    /// Returns true if a number fits the type.
    fn holds(&self, n: &Value) -> bool {
        match (self.kind, self.format, n) {
            ("integer", "int32", Value::Int(n)) => i32::try_from(*n).is_ok(),
            ("integer", "int32", Value::Float(n)) => n.fract() == 0.0 && i32::try_from(go_int(*n)).is_ok(),
            ("integer", _, Value::Float(n)) => n.fract() == 0.0 && (-INTEGERS..INTEGERS).contains(n),
            (_, "float", Value::Float(n)) => !n.is_finite() || (*n as f32).is_finite(),
            _ => true,
        }
    }
}

impl Validator<'_> {
    pub(super) fn number(
        &self,
        value: &Value,
        schema: &Structural,
        format: Option<&Format>,
        path: &Path<'_>,
        outcome: &mut Outcome,
    ) {
        let kind = match self.types(schema) {
            Types::One(SchemaType::Integer) => "integer",
            Types::One(SchemaType::Number) => "number",
            _ => "",
        };
        let format = format.map(Format::as_str).filter(|format| match kind {
            "integer" => matches!(*format, "int32" | "int64"),
            "number" => matches!(*format, "float" | "double"),
            _ => false,
        });
        let range = Range { kind, format: format.unwrap_or("") };
        self.fits(value, &range, "Checked", path, outcome);
        let Some(numbers) = schema.values.as_deref().and_then(Values::numbers) else { return };
        if let Some(factor) = numbers.multiple_of {
            self.multiple(value, factor, &range, path, outcome);
        }
        if let Some(min) = numbers.minimum {
            self.bound(value, min, Bound::Minimum, numbers.exclusive_minimum, &range, path, outcome);
        }
        if let Some(max) = numbers.maximum {
            self.bound(value, max, Bound::Maximum, numbers.exclusive_maximum, &range, path, outcome);
        }
    }

    /// Returns true if a number fits the type; otherwise adds an error without a path.
    fn fits(&self, n: &Value, range: &Range<'_>, subject: &str, path: &Path<'_>, outcome: &mut Outcome) -> bool {
        let fits = range.holds(n);
        if !fits {
            let format = match range.format {
                "" => "(default format)".to_owned(),
                format => format!("with format {format}"),
            };
            let message = format!("{subject} value must be of type {} {format} in {}", range.kind, path.dotted());
            outcome.push(self.of_none(message));
        }
        fits
    }

    fn multiple(&self, value: &Value, factor: f64, range: &Range<'_>, path: &Path<'_>, outcome: &mut Outcome) {
        let native = self.fits(&Value::Float(factor), range, "MultipleOf", path, outcome);
        let (is_multiple, positive, shown_factor, value) = match value {
            Value::Int(n) if native => {
                let factor = go_int(factor);
                (factor > 0 && n % factor == 0, factor > 0, factor.to_string(), Value::Int(*n))
            }
            value => {
                let n = value.as_f64().unwrap_or(0.0);
                let quotient = if factor < 1.0 { 1.0 / factor * n } else { n / factor };
                (is_whole(quotient), factor > 0.0, go_double(factor), Value::Float(n))
            }
        };
        if !positive {
            let message = format!("factor MultipleOf declared for {} must be positive: {shown_factor}", path.dotted());
            let at = self.at(path);
            outcome.push(binnacle_meta::FieldError::invalid(&at, ErrorValue::raw(shown_factor), message));
        } else if !is_multiple {
            outcome.push(self.invalid(path, error_value(&value), &format!("should be a multiple of {shown_factor}")));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one bound in all its parts")]
    fn bound(
        &self,
        value: &Value,
        limit: f64,
        bound: Bound,
        exclusive: bool,
        range: &Range<'_>,
        path: &Path<'_>,
        outcome: &mut Outcome,
    ) {
        let name = match bound {
            Bound::Maximum => "Maximum boundary",
            Bound::Minimum => "Minimum boundary",
        };
        let native = self.fits(&Value::Float(limit), range, name, path, outcome);
        let (order, shown_limit, value) = match value {
            Value::Int(n) if native => {
                let limit = go_int(limit);
                (n.partial_cmp(&limit), limit.to_string(), Value::Int(*n))
            }
            value => {
                let n = value.as_f64().unwrap_or(0.0);
                (n.partial_cmp(&limit), go_double(limit), Value::Float(n))
            }
        };
        let beyond = match bound {
            Bound::Maximum => order.is_some_and(|order| order.is_gt() || exclusive && order.is_eq()),
            Bound::Minimum => order.is_some_and(|order| order.is_lt() || exclusive && order.is_eq()),
        };
        if beyond {
            let relation = match (bound, exclusive) {
                (Bound::Maximum, false) => "less than or equal to",
                (Bound::Maximum, true) => "less than",
                (Bound::Minimum, false) => "greater than or equal to",
                (Bound::Minimum, true) => "greater than",
            };
            outcome.push(self.invalid(path, error_value(&value), &format!("should be {relation} {shown_limit}")));
        }
    }
}
