//! `intstr.IntOrString`: a number or a string, which may be a percentage of a total.

use crate::{Text, go_quote};

/// A port, a number of replicas or a percentage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntOrString {
    Int(i32),
    Str(Text),
}

/// Errors of scaling, with kube-apiserver's messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    #[error("invalid value for IntOrString: {0}")]
    Invalid(String),
}

impl IntOrString {
    /// Parses a number if it fits in 32 bits; otherwise keeps the string.
    pub fn parse(text: &str) -> Self {
        go_int(text).and_then(|n| i32::try_from(n).ok()).map_or_else(|| Self::Str(text.into()), Self::Int)
    }

    /// Returns the number, or the number that the string parses to, or 0.
    pub fn int_value(&self) -> i64 {
        match self {
            Self::Int(n) => i64::from(*n),
            Self::Str(text) => go_int(text).unwrap_or(0),
        }
    }

    /// Returns the number, or the percentage of `total`, rounded up or down.
    pub fn scaled(&self, total: i64, round_up: bool) -> Result<i64, ScaleError> {
        let text = match self {
            Self::Int(n) => return Ok(i64::from(*n)),
            Self::Str(text) => text,
        };
        let Some(digits) = text.strip_suffix('%') else {
            return Err(ScaleError::Invalid("invalid type: string is not a percentage".to_owned()));
        };
        let percent = go_int(digits).ok_or_else(|| {
            let unsigned = digits.strip_prefix(['+', '-']).unwrap_or(digits);
            let number = !unsigned.is_empty() && unsigned.bytes().all(|b| b.is_ascii_digit());
            let why = if number { "value out of range" } else { "invalid syntax" };
            let (text, digits) = (go_quote(text), go_quote(digits));
            ScaleError::Invalid(format!("invalid value {text}: strconv.Atoi: parsing {digits}: {why}"))
        })?;
        // Go computes this in floating point, too.
        let share = percent as f64 * total as f64 / 100.0;
        Ok(if round_up { share.ceil() } else { share.floor() } as i64)
    }
}

impl std::fmt::Display for IntOrString {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Int(n) => n.fmt(f),
            Self::Str(text) => f.write_str(text),
        }
    }
}

/// Parses an optional sign and digits like Go's `strconv.Atoi`.
fn go_int(text: &str) -> Option<i64> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_numbers_and_keeps_other_texts() {
        for (text, want) in [
            ("80", IntOrString::Int(80)),
            ("-1", IntOrString::Int(-1)),
            ("+5", IntOrString::Int(5)),
            ("http", IntOrString::Str("http".into())),
            ("3000000000", IntOrString::Str("3000000000".into())),
            ("", IntOrString::Str("".into())),
        ] {
            assert_eq!(IntOrString::parse(text), want, "{text}");
        }
        assert_eq!(IntOrString::Str("17".into()).int_value(), 17);
        assert_eq!(IntOrString::Str("x".into()).int_value(), 0);
    }

    #[test]
    fn scales_percentages_of_a_total() {
        let text = |t: &str| IntOrString::Str(t.into());
        for (value, total, up, want) in [
            (IntOrString::Int(3), 10, true, Ok(3)),
            (text("25%"), 10, true, Ok(3)),
            (text("25%"), 10, false, Ok(2)),
            (text("100%"), 7, true, Ok(7)),
            (
                text("x%"),
                7,
                true,
                Err(r#"invalid value for IntOrString: invalid value "x%": strconv.Atoi: parsing "x": invalid syntax"#),
            ),
            (text("5"), 7, true, Err("invalid value for IntOrString: invalid type: string is not a percentage")),
        ] {
            assert_eq!(value.scaled(total, up).map_err(|e| e.to_string()), want.map_err(str::to_owned), "{value}");
        }
    }
}
