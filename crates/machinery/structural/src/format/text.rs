//! Checks for single formats, with the oddities of Go's registry.

use binnacle_validation::url::Url;

/// Returns true for an absolute URI or an absolute path.
pub(super) fn request_uri(text: &str) -> bool {
    Url::parse_request(text).is_ok()
}

/// Returns true for one address, with or without a name, as Go's `net/mail` parses it.
pub(super) fn email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    if let Some(open) = text.rfind('<').filter(|_| text.ends_with('>')) {
        let (name, address) = (text[..open].trim(), &text[open + 1..text.len() - 1]);
        return display_name(name) && address_spec(address);
    }
    let text = strip_comment(text);
    address_spec(text)
}

/// Removes the comment that may follow an address.
fn strip_comment(text: &str) -> &str {
    match text.split_once('(') {
        Some((before, comment)) if comment.ends_with(')') => before.trim_end(),
        _ => text,
    }
}

fn display_name(name: &str) -> bool {
    if let Some(quoted) = name.strip_prefix('"') {
        return quoted.strip_suffix('"').is_some_and(quoted_content);
    }
    name.split_ascii_whitespace().all(|word| word.chars().all(|c| is_atext(c) || c == '.'))
}

fn quoted_content(text: &str) -> bool {
    let mut escaped = false;
    for c in text.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return false,
            c if c.is_control() && c != '\t' => return false,
            _ => {}
        }
    }
    !escaped
}

fn address_spec(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let local = match local.strip_prefix('"') {
        Some(quoted) => quoted.strip_suffix('"').is_some_and(quoted_content),
        None => dot_atom(local),
    };
    let domain = match domain.strip_prefix('[') {
        Some(literal) => literal.strip_suffix(']').is_some_and(|ip| ip.parse::<std::net::IpAddr>().is_ok()),
        None => dot_atom(domain),
    };
    local && domain
}

fn dot_atom(text: &str) -> bool {
    text.split('.').all(|part| !part.is_empty() && part.chars().all(is_atext))
}

fn is_atext(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(c) || (!c.is_ascii() && !c.is_control())
}

/// Returns true for labels of letters, digits and symbols; the last of several has at least two letters and no digits.
pub(super) fn hostname(text: &str) -> bool {
    if text.len() > 255 || text.split('.').any(|label| label.len() > 63) {
        return false;
    }
    let letter = |c: char| c.is_alphanumeric() && !c.is_numeric() || c.is_ascii_digit() || is_symbol(c);
    let label = |label: &str| {
        let inner = label.chars().all(|c| letter(c) || c == '-');
        inner && !label.starts_with('-') && !label.ends_with('-') && !label.is_empty()
    };
    match text.rsplit_once('.') {
        // A dash is accepted in one position only.
        None => {
            text.chars().next().is_some_and(letter) && {
                let rest = &text[text.chars().next().map_or(0, char::len_utf8)..];
                let rest = rest.strip_prefix('-').unwrap_or(rest);
                rest.chars().all(letter) && rest.chars().count() <= 62
            }
        }
        Some((names, top)) => {
            let of_letters = top.chars().all(char::is_alphabetic);
            names.split('.').all(label) && of_letters && (2..=63).contains(&top.chars().count())
        }
    }
}

/// Returns true for Unicode symbols: currency, mathematics, modifiers and pictures. The categories are approximated by
/// blocks that contain hardly anything else.
fn is_symbol(c: char) -> bool {
    matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~' | '¢'..='©' | '¬' | '®'..='±' | '´' | '¸' | '×' | '÷')
        || matches!(c as u32, 0x20a0..=0x20cf | 0x2100..=0x214f | 0x2190..=0x23ff | 0x2400..=0x27bf | 0x27c0..=0x2bff)
        || matches!(c as u32, 0x1f000..=0x1faff)
}

/// Returns true for six, eight or twenty bytes between colons or dashes, or pairs of them between dots.
pub(super) fn mac(text: &str) -> bool {
    let hex = |group: &str, len: usize| group.len() == len && group.bytes().all(|b| b.is_ascii_hexdigit());
    let separator = match (text.as_bytes().get(2), text.as_bytes().get(4)) {
        (Some(b':'), _) => ':',
        (Some(b'-'), _) => '-',
        (_, Some(b'.')) => '.',
        _ => return false,
    };
    let len = if separator == '.' { 4 } else { 2 };
    let groups: Vec<&str> = text.split(separator).collect();
    [6, 8, 20].contains(&(groups.len() * len / 2)) && groups.iter().all(|group| hex(group, len))
}

/// Returns true for hexadecimal digits with or without dashes, of one version or any.
pub(super) fn uuid(text: &str, version: Option<char>) -> bool {
    let mut rest = text;
    let mut groups = Vec::with_capacity(5);
    for (i, len) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(len) else { return false };
        if !group.bytes().all(|b| b.is_ascii_hexdigit()) {
            return false;
        }
        groups.push(group);
        rest = after;
    }
    let of_version = version.is_none_or(|version| groups[2].starts_with(version));
    // Version three does not check the variant.
    let of_variant = matches!(version, None | Some('3')) || groups[3].starts_with(['8', '9', 'a', 'b', 'A', 'B']);
    rest.is_empty() && of_version && of_variant
}

fn without_spaces_and_dashes(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, ' ' | '\t' | '\n' | '\x0c' | '\r' | '-')).collect()
}

pub(super) fn isbn10(text: &str) -> bool {
    let text = without_spaces_and_dashes(text);
    let Some((digits, last)) = text.split_at_checked(9) else { return false };
    if last.len() != 1 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let last = match last.as_bytes()[0] {
        b'X' => 10,
        digit @ b'0'..=b'9' => u32::from(digit - b'0'),
        _ => return false,
    };
    let sum: u32 = (1..).zip(digits.bytes()).map(|(factor, digit)| factor * u32::from(digit - b'0')).sum();
    (sum + 10 * last).is_multiple_of(11)
}

pub(super) fn isbn13(text: &str) -> bool {
    let text = without_spaces_and_dashes(text);
    if text.len() != 13 || !text.bytes().all(|b| b.is_ascii_digit()) {
        return false;
    }
    let sum: u32 = text.bytes().zip([1, 3].into_iter().cycle()).map(|(d, factor)| factor * u32::from(d - b'0')).sum();
    sum.is_multiple_of(10)
}

/// Returns true for numbers of known issuers with a correct check digit; other characters between the digits are
/// ignored.
pub(super) fn credit_card(text: &str) -> bool {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).map(|b| b - b'0').collect();
    let starts = |prefixes: &[&[u8]]| prefixes.iter().any(|prefix| digits.starts_with(prefix));
    let of_issuer = match digits.len() {
        13 => starts(&[&[4]]),
        14 => starts(&[&[3, 0, 0], &[3, 0, 1], &[3, 0, 2], &[3, 0, 3], &[3, 0, 4], &[3, 0, 5], &[3, 6], &[3, 8]]),
        15 => starts(&[&[3, 4], &[3, 7], &[2, 1, 3, 1], &[1, 8, 0, 0]]),
        16 => {
            starts(&[&[4], &[5, 1], &[5, 2], &[5, 3], &[5, 4], &[5, 5], &[6, 0, 1, 1], &[6, 5]]) || starts(&[&[3, 5]])
        }
        _ => false,
    };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, digit)| match u32::from(*digit) * if i % 2 == 1 { 2 } else { 1 } {
            sum @ 10.. => sum - 9,
            digit => digit,
        })
        .sum();
    of_issuer && sum.is_multiple_of(10)
}

pub(super) fn ssn(text: &str) -> bool {
    let bytes = text.as_bytes();
    // With eleven bytes there are both separators.
    bytes.len() == 11
        && bytes.iter().enumerate().all(|(i, b)| match i {
            3 | 6 => matches!(b, b'-' | b' '),
            _ => b.is_ascii_digit(),
        })
}

pub(super) fn hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

pub(super) fn rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|inner| inner.strip_suffix(')')) else { return false };
    let parts: Vec<&str> = inner.split(',').collect();
    let space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\x0c' | '\r');
    parts.len() == 3
        && parts.iter().all(|part| {
            let part = part.trim_matches(space);
            let plain = part.bytes().all(|b| b.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
            plain && part.parse::<u8>().is_ok()
        })
}

/// Returns true for padded, non-empty text of the standard alphabet.
pub(super) fn base64(text: &str) -> bool {
    let data = text.trim_end_matches('=');
    let padding = text.len() - data.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && data.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/')
}

/// Returns true for an existing day such as `2006-01-02`.
pub(super) fn date(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shape = bytes.len() == 10
        && bytes.iter().enumerate().all(|(i, b)| if matches!(i, 4 | 7) { *b == b'-' } else { b.is_ascii_digit() });
    if !shape {
        return false;
    }
    let number = |range: std::ops::Range<usize>| text[range].parse::<u32>().unwrap_or(0);
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return false,
    };
    (1..=days).contains(&day)
}

/// Returns true for a date, a `t` and a time of day with a zone. Any character can separate the fraction.
pub(super) fn date_time(text: &str) -> bool {
    let text = text.to_lowercase();
    let mut parts = text.split('t');
    let (Some(day), Some(time)) = (parts.next(), parts.next()) else { return false };
    date(day) && time_of_day(time)
}

fn time_of_day(text: &str) -> bool {
    let two = |text: &str| text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
    let Some((clock, rest)) = text.split_at_checked(8) else { return false };
    let [Some(hour), Some(minute), Some(second)] = [clock.get(0..2), clock.get(3..5), clock.get(6..8)] else {
        return false;
    };
    let colons = clock.as_bytes()[2] == b':' && clock.as_bytes()[5] == b':';
    if !colons || !two(hour) || !two(minute) || !two(second) || hour > "23" || minute > "59" || second > "59" {
        return false;
    }
    let zone = |text: &str| {
        text == "z"
            || text
                .strip_prefix(['+', '-'])
                .and_then(|zone| zone.split_once(':'))
                .is_some_and(|(h, m)| two(h) && two(m))
    };
    let mut letters = rest.chars();
    let fraction = match letters.next() {
        Some('\n') | None => return false,
        Some(_) => letters.as_str(),
    };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    zone(rest) || (1..=digits).any(|end| zone(&fraction[end..]))
}

/// Returns true for lower-case letters, digits and dashes, without a dash at either end.
pub(super) fn dns_segment(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}
