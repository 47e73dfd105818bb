//! IP addresses parsed like Go's `net/netip`, with its errors.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use binnacle_meta::go_quote;

/// Parses an address. Also returns the zone of an IPv6 address, without its `%`.
///
/// # Errors
/// Go's error: `ParseAddr("x"): unable to parse IP`.
pub fn parse_addr(text: &str) -> Result<(IpAddr, Option<&str>), String> {
    let parsed = match text.bytes().find(|b| matches!(b, b'.' | b':' | b'%')) {
        Some(b'.') => v4(text).map(|octets| (Ipv4Addr::from(octets).into(), None)),
        Some(b':') => v6(text).map(|(octets, zone)| (Ipv6Addr::from(octets).into(), zone)),
        // The address before a zone is missing.
        Some(_) => Err(ParseAddrError("missing IPv6 address", "")),
        None => Err(ParseAddrError("unable to parse IP", "")),
    };
    parsed.map_err(|ParseAddrError(why, at)| {
        let at = if at.is_empty() { String::new() } else { format!(" (at {})", go_quote(at)) };
        format!("ParseAddr({}): {why}{at}", go_quote(text))
    })
}

/// The message, and the remaining text, if the error contains it.
struct ParseAddrError<'a>(&'static str, &'a str);

fn v4(text: &str) -> Result<[u8; 4], ParseAddrError<'_>> {
    let bytes = text.as_bytes();
    let mut octets = [0; 4];
    let (mut octet, mut digits, mut value) = (0, 0, 0_u32);
    for (i, b) in bytes.iter().enumerate() {
        match b {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err(ParseAddrError("IPv4 field has octet with leading zero", ""));
                }
                value = value * 10 + u32::from(b - b'0');
                digits += 1;
                if value > 255 {
                    return Err(ParseAddrError("IPv4 field has value >255", ""));
                }
            }
            b'.' if i == 0 || i == bytes.len() - 1 || bytes[i - 1] == b'.' => {
                return Err(ParseAddrError("IPv4 field must have at least one digit", &text[i..]));
            }
            b'.' if octet == 3 => return Err(ParseAddrError("IPv4 address too long", "")),
            b'.' => {
                octets[octet] = value as u8;
                octet += 1;
                (digits, value) = (0, 0);
            }
            // All characters before it are ASCII.
            _ => return Err(ParseAddrError("unexpected character", &text[i..])),
        }
    }
    if octet < 3 {
        return Err(ParseAddrError("IPv4 address too short", ""));
    }
    octets[3] = value as u8;
    Ok(octets)
}

fn v6(text: &str) -> Result<([u8; 16], Option<&str>), ParseAddrError<'_>> {
    let (mut rest, zone) = match text.split_once('%') {
        Some((_, "")) => return Err(ParseAddrError("zone must be a non-empty string", "")),
        Some((address, zone)) => (address, Some(zone)),
        None => (text, None),
    };
    let mut octets = [0; 16];
    // The position of `::` in the octets.
    let mut gap = None;
    let mut at = 0;
    if let Some(after) = rest.strip_prefix("::") {
        gap = Some(0);
        rest = after;
        if rest.is_empty() {
            return Ok((octets, zone));
        }
    }
    while at < 16 {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        if digits > 4 {
            return Err(ParseAddrError("each group must have 4 or less digits", rest));
        }
        let Ok(group) = u16::from_str_radix(&rest[..digits], 16) else {
            return Err(ParseAddrError("each colon-separated field must have at least one digit", rest));
        };
        if rest.as_bytes().get(digits) == Some(&b'.') {
            if gap.is_none() && at != 12 {
                return Err(ParseAddrError(
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                ));
            }
            if at + 4 > 16 {
                let why = "too many hex fields to fit an embedded IPv4 at the end of the address";
                return Err(ParseAddrError(why, rest));
            }
            octets[at..at + 4].copy_from_slice(&v4(rest)?);
            rest = "";
            at += 4;
            break;
        }
        octets[at..at + 2].copy_from_slice(&group.to_be_bytes());
        at += 2;
        rest = &rest[digits..];
        if rest.is_empty() {
            break;
        }
        rest = match rest.strip_prefix(':') {
            None => return Err(ParseAddrError("unexpected character, want colon", rest)),
            Some("") => return Err(ParseAddrError("colon must be followed by more characters", rest)),
            Some(after) => after,
        };
        if let Some(after) = rest.strip_prefix(':') {
            if gap.is_some() {
                return Err(ParseAddrError("multiple :: in address", rest));
            }
            gap = Some(at);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    if !rest.is_empty() {
        return Err(ParseAddrError("trailing garbage after address", rest));
    }
    match gap {
        None if at < 16 => return Err(ParseAddrError("address string too short", "")),
        Some(_) if at == 16 => return Err(ParseAddrError("the :: must expand to at least one field of zeros", "")),
        Some(gap) => {
            octets.copy_within(gap..at, gap + 16 - at);
            octets[gap..gap + 16 - at].fill(0);
        }
        None => {}
    }
    Ok((octets, zone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_addresses() {
        for text in
            ["1.2.3.4", "0.0.0.0", "::", "::1", "1::", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", "fe80::1", "a::b:0:c"]
        {
            assert_eq!(parse_addr(text), Ok((text.parse().expect("valid"), None)), "{text}");
        }
        assert_eq!(parse_addr("fe80::1%eth0"), Ok(("fe80::1".parse().expect("valid"), Some("eth0"))));
    }

    #[test]
    fn errors_match_go() {
        for (text, why) in [
            ("", "unable to parse IP"),
            ("abc", "unable to parse IP"),
            ("%d", "missing IPv6 address"),
            ("1.2.3", "IPv4 address too short"),
            ("1.2.3.4.5", "IPv4 address too long"),
            ("1.2.3.400", "IPv4 field has value >255"),
            ("01.2.3.4", "IPv4 field has octet with leading zero"),
            ("1..2.3", "IPv4 field must have at least one digit (at \".2.3\")"),
            ("1.2.3.", "IPv4 field must have at least one digit (at \".\")"),
            ("^a.*", "unexpected character (at \"^a.*\")"),
            ("1.2é.3.4", "unexpected character (at \"é.3.4\")"),
            (":", "each colon-separated field must have at least one digit (at \":\")"),
            (":::", "each colon-separated field must have at least one digit (at \":\")"),
            ("::x", "each colon-separated field must have at least one digit (at \"x\")"),
            ("2020-01-02T03:04", "unexpected character, want colon (at \"-01-02T03:04\")"),
            ("1:", "colon must be followed by more characters (at \":\")"),
            ("1::2::3", "multiple :: in address (at \":3\")"),
            ("12345::", "each group must have 4 or less digits (at \"12345::\")"),
            ("1:2:3", "address string too short"),
            ("1:2:3:4:5:6:7:8:9", "trailing garbage after address (at \"9\")"),
            ("1:2:3:4::5:6:7:8", "the :: must expand to at least one field of zeros"),
            ("1:2.3.4.5", "embedded IPv4 address must replace the final 2 fields of the address (at \"2.3.4.5\")"),
            ("::1%", "zone must be a non-empty string"),
        ] {
            assert_eq!(parse_addr(text), Err(format!("ParseAddr({}): {why}", go_quote(text))), "{text}");
        }
    }
}
