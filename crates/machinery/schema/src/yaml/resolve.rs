//! The type of a plain scalar, by the rules of `yaml.v2`.

use super::YamlError;

/// A scalar with its type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// Beyond `i64`.
    Uint(u64),
    Float(f64),
    Str,
}

pub(super) const PREFIX: &str = "tag:yaml.org,2002:";

/// Resolves a scalar with this tag (in full, empty for none).
pub(super) fn resolve(tag: &str, text: &str) -> Result<Scalar, YamlError> {
    let short = match (tag, tag.strip_prefix(PREFIX)) {
        ("", _) => return Ok(plain(text)),
        (_, Some("str" | "timestamp")) => return Ok(Scalar::Str),
        (_, Some(short @ ("bool" | "int" | "float" | "null"))) => short,
        // Scalars with unknown tags are strings.
        _ => return Ok(Scalar::Str),
    };
    let scalar = plain(text);
    match (short, &scalar) {
        ("bool", Scalar::Bool(_)) | ("null", Scalar::Null) | ("int", Scalar::Int(_) | Scalar::Uint(_)) => Ok(scalar),
        ("float", Scalar::Float(_)) => Ok(scalar),
        ("float", Scalar::Int(n)) => Ok(Scalar::Float(*n as f64)),
        (_, scalar) => {
            let is = scalar.name();
            Err(YamlError::document(format!("cannot decode !!{is} `{text}` as a !!{short}")))
        }
    }
}

/// Returns true if a text, written plain, is read as the same text.
pub(super) fn is_plain_string(text: &str) -> bool {
    plain(text) == Scalar::Str && text != "<<" && !is_timestamp(text) && !is_base60(text)
}

impl Scalar {
    fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Uint(_) => "int",
            Self::Float(_) => "float",
            Self::Str => "str",
        }
    }
}

fn plain(text: &str) -> Scalar {
    match text.as_bytes().first() {
        None => Scalar::Null,
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => word(text),
        Some(b'.') => match text {
            ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
            ".inf" | ".Inf" | ".INF" => Scalar::Float(f64::INFINITY),
            _ => float(text).map_or(Scalar::Str, Scalar::Float),
        },
        Some(b'+' | b'-' | b'0'..=b'9') => match text {
            "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
            "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
            _ => numeric(text),
        },
        _ => Scalar::Str,
    }
}

/// Resolves the words of YAML 1.1.
fn word(text: &str) -> Scalar {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        _ => Scalar::Str,
    }
}

fn numeric(text: &str) -> Scalar {
    let digits = text.replace('_', "");
    let (negative, unsigned) = match digits.as_bytes().first() {
        Some(b'-') => (true, &digits[1..]),
        Some(b'+') => (false, &digits[1..]),
        _ => (false, digits.as_str()),
    };
    let signed = !std::ptr::eq(unsigned, digits.as_str());
    if let Some(magnitude) = integer(unsigned) {
        if let Ok(n) = i64::try_from(if negative { -i128::from(magnitude) } else { i128::from(magnitude) }) {
            return Scalar::Int(n);
        }
        if !signed {
            return Scalar::Uint(magnitude);
        }
    }
    float(&digits).map_or(Scalar::Str, Scalar::Float)
}

/// Parses Go's integer literals: a leading `0` means octal.
fn integer(text: &str) -> Option<u64> {
    let (radix, digits) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &text[2..]),
        [b'0', b'o' | b'O', ..] => (8, &text[2..]),
        [b'0', b'b' | b'B', ..] => (2, &text[2..]),
        [b'0', _, ..] => (8, &text[1..]),
        _ => (10, text),
    };
    // Rust would accept another sign here.
    if !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

/// Parses `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?` within floating point's range.
fn float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let formed = all_digits(integer)
        && all_digits(fraction)
        && !(integer.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|e| !e.is_empty() && all_digits(e));
    text.parse().ok().filter(|n: &f64| formed && n.is_finite())
}

/// Returns true for dates and times, which Go quotes when it writes them as texts.
fn is_timestamp(text: &str) -> bool {
    let mut rest = text.as_bytes();
    let year = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    if year != 4 || rest.get(4) != Some(&b'-') {
        return false;
    }
    rest = &rest[5..];
    let Some(month) = short_number(&mut rest, 1, 12) else { return false };
    if !eat(&mut rest, b"-") {
        return false;
    }
    let Some(day) = short_number(&mut rest, 1, 31) else { return false };
    let year: u32 = text[..4].parse().unwrap_or(0);
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let last = match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if day > last {
        return false;
    }
    if rest.is_empty() {
        return true;
    }
    let zoned = rest[0] != b' ';
    if !eat(&mut rest, b"Tt ") {
        return false;
    }
    let clock = short_number(&mut rest, 0, 23).is_some()
        && eat(&mut rest, b":")
        && short_number(&mut rest, 0, 59).is_some()
        && eat(&mut rest, b":")
        && short_number(&mut rest, 0, 59).is_some();
    if !clock {
        return false;
    }
    if matches!(rest, [b'.' | b',', b'0'..=b'9', ..]) {
        rest = &rest[1..];
        rest = &rest[rest.iter().take_while(|b| b.is_ascii_digit()).count()..];
    }
    if !zoned {
        return rest.is_empty();
    }
    match rest {
        [b'Z'] => true,
        [b'+' | b'-', h @ .., b':', m1, m2] => {
            let two = |digits: &[u8], max| short_number(&mut &*digits, 0, max).is_some() && digits.len() == 2;
            two(h, 24) && two(&[*m1, *m2], 60)
        }
        _ => false,
    }
}

fn eat(rest: &mut &[u8], any: &[u8]) -> bool {
    let found = rest.first().is_some_and(|b| any.contains(b));
    if found {
        *rest = &rest[1..];
    }
    found
}

/// Parses one or two digits within bounds.
fn short_number(rest: &mut &[u8], min: u32, max: u32) -> Option<u32> {
    let digits = rest.iter().take(2).take_while(|b| b.is_ascii_digit()).count();
    let value = rest[..digits].iter().fold(0, |value, b| value * 10 + u32::from(b - b'0'));
    *rest = &rest[digits..];
    (digits > 0 && (min..=max).contains(&value)).then_some(value)
}

/// Returns true for `1:30:59` of YAML 1.1, which other parsers read as a number.
fn is_base60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (body, fraction) = match unsigned.rfind(':') {
        Some(colon) => match unsigned[colon..].find('.') {
            Some(point) => unsigned.split_at(colon + point),
            None => (unsigned, ""),
        },
        None => return false,
    };
    let mut parts = body.split(':');
    let first = parts.next().unwrap_or_default();
    first.starts_with(|c: char| c.is_ascii_digit())
        && first.bytes().all(|b| b.is_ascii_digit() || b == b'_')
        && parts.all(|part| matches!(part.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']))
        && fraction.bytes().skip(1).all(|b| b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolves_plain_scalars() {
        for (text, want) in [
            ("", Scalar::Null),
            ("~", Scalar::Null),
            ("Null", Scalar::Null),
            ("yes", Scalar::Bool(true)),
            ("Off", Scalar::Bool(false)),
            ("y", Scalar::Bool(true)),
            ("yEs", Scalar::Str),
            ("0", Scalar::Int(0)),
            ("-0", Scalar::Int(0)),
            ("+12", Scalar::Int(12)),
            ("1_000", Scalar::Int(1000)),
            ("0x1F", Scalar::Int(31)),
            ("-0x1F", Scalar::Int(-31)),
            ("0o17", Scalar::Int(15)),
            ("017", Scalar::Int(15)),
            ("0b11", Scalar::Int(3)),
            ("-0b11", Scalar::Int(-3)),
            ("08", Scalar::Float(8.0)),
            ("9223372036854775807", Scalar::Int(i64::MAX)),
            ("-9223372036854775808", Scalar::Int(i64::MIN)),
            ("9223372036854775808", Scalar::Uint(1 << 63)),
            ("18446744073709551616", Scalar::Float(18446744073709551616.0)),
            ("1.5", Scalar::Float(1.5)),
            ("-.5", Scalar::Float(-0.5)),
            (".5", Scalar::Float(0.5)),
            ("1.", Scalar::Float(1.0)),
            ("1e3", Scalar::Float(1000.0)),
            ("1e999", Scalar::Str),
            ("1e", Scalar::Str),
            (".", Scalar::Str),
            ("-", Scalar::Str),
            ("+-1", Scalar::Str),
            ("1:30", Scalar::Str),
            ("2001-01-01", Scalar::Str),
            ("1.2.3", Scalar::Str),
            ("0x", Scalar::Str),
            ("inf", Scalar::Str),
            (".inf", Scalar::Float(f64::INFINITY)),
            ("-.INF", Scalar::Float(f64::NEG_INFINITY)),
            ("<<", Scalar::Str),
            ("text", Scalar::Str),
            ("1 2", Scalar::Str),
        ] {
            assert_eq!(plain(text), want, "{text:?}");
        }
    }

    #[test]
    fn resolves_tags() {
        let tag = |short: &str| format!("{PREFIX}{short}");
        for (short, text, want) in [
            ("str", "1", Ok(Scalar::Str)),
            ("int", "7", Ok(Scalar::Int(7))),
            ("float", "7", Ok(Scalar::Float(7.0))),
            ("bool", "on", Ok(Scalar::Bool(true))),
            ("int", "x", Err("yaml: cannot decode !!str `x` as a !!int")),
            ("null", "1.5", Err("yaml: cannot decode !!float `1.5` as a !!null")),
            ("custom", "1", Ok(Scalar::Str)),
        ] {
            assert_eq!(resolve(&tag(short), text).map_err(|e| e.to_string()), want.map_err(str::to_owned), "{short}");
        }
    }

    #[test]
    fn detects_strings_that_need_quotes() {
        for text in [
            "",
            "null",
            "yes",
            "1",
            "1.5",
            "0x1",
            "2001-01-01",
            "2001-1-1",
            "2008-01-01T01:01:01Z",
            "2001-12-14 21:59:43.1",
            "2001-12-14t21:59:43+01:00",
            "1:30",
            "1:30:59.5",
            "-1:00",
            "<<",
        ] {
            assert!(!is_plain_string(text), "{text}");
        }
        for text in
            ["a", "1:60", "a:1", "2001-13-01", "2001-02-30", "v1.2.3", "1:", "100m", "1:30x", "2008-01-01T01:01Z"]
        {
            assert!(is_plain_string(text), "{text}");
        }
    }
}
