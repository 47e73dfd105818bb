//! Numbers in the form of Go's `strconv.FormatFloat(n, 'g', -1, ...)`.

/// Formats the shortest digits, with an exponent of at least two digits below 1e-4 and from 1e6 on.
pub(super) fn format_g(n: f64) -> String {
    from_scientific(&format!("{n:e}"))
}

/// Like [`format_g`], for the nearest 32-bit number.
pub(super) fn format_g32(n: f64) -> String {
    from_scientific(&format!("{:e}", n as f32))
}

/// Converts `1.25e-7` to Go's form.
fn from_scientific(text: &str) -> String {
    let (sign, unsigned) = text.strip_prefix('-').map_or(("", text), |unsigned| ("-", unsigned));
    let Some((mantissa, exponent)) = unsigned.split_once('e') else {
        // Infinity and NaN have no exponent.
        return match text {
            "inf" => "+Inf".to_owned(),
            "-inf" => "-Inf".to_owned(),
            _ => "NaN".to_owned(),
        };
    };
    let digits = mantissa.replace('.', "");
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        let direction = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{direction}{:02}", exponent.abs());
    }
    if exponent < 0 {
        return format!("{sign}0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    }
    let integer_digits = exponent.unsigned_abs() as usize + 1;
    if digits.len() <= integer_digits {
        return format!("{sign}{digits}{}", "0".repeat(integer_digits - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..integer_digits], &digits[integer_digits..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_numbers_like_go_yaml() {
        for (n, want) in [
            (0.0, "0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (100000.0, "100000"),
            (1e6, "1e+06"),
            (1234567.0, "1.234567e+06"),
            (0.0001, "0.0001"),
            (0.00012, "0.00012"),
            (0.00001, "1e-05"),
            (1e21, "1e+21"),
            (1.5e-300, "1.5e-300"),
            (12.75, "12.75"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(format_g(n), want);
        }
        assert_eq!(format_g32(0.1), "0.1");
    }
}
