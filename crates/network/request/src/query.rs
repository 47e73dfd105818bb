//! The decoded query string: ordered pairs, parsed like Go's `url.ParseQuery`.

use binnacle_meta::Text;

/// Go rejects a query with more pairs (`urlmaxqueryparams`), which then counts as empty.
const MAX_PAIRS: usize = 10_000;

/// Decoded query parameters in the order of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pairs: Vec<(Text, Text)>,
}

impl Query {
    /// Parses the part of a URL after `?`. Malformed pairs (a bad escape, a semicolon) are skipped.
    pub fn parse(raw: &str) -> Self {
        if raw.is_empty() || raw.bytes().filter(|byte| *byte == b'&').count() >= MAX_PAIRS {
            return Self::default();
        }
        let pairs = raw
            .split('&')
            .filter(|pair| !pair.is_empty() && !pair.contains(';'))
            .filter_map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                Some((unescape(key, true)?, unescape(value, true)?))
            })
            .collect();
        Self { pairs }
    }

    /// Returns the first value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Returns all values of a key, in order.
    pub fn get_all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.iter().filter(move |(name, _)| *name == key).map(|(_, value)| value)
    }

    pub fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns a boolean parameter as kube-apiserver does: absent, `0` and `false` (ignoring case) are false; other
    /// values, including the empty one, are true.
    pub fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }
}

/// Decodes the percent escapes of a path. Returns `None` if one is invalid.
pub fn decode_path(raw: &str) -> Option<Text> {
    unescape(raw, false)
}

/// Decodes percent escapes, and `+` in queries. The result is never longer than the input. Bytes that are not UTF-8
/// become U+FFFD, which no name in the API may contain.
fn unescape(raw: &str, plus_is_space: bool) -> Option<Text> {
    if !raw.bytes().any(|byte| byte == b'%' || (plus_is_space && byte == b'+')) {
        return Some(Text::new(raw));
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let high = hex(bytes.next()?)?;
                let low = hex(bytes.next()?)?;
                out.push(high << 4 | low);
            }
            b'+' if plus_is_space => out.push(b' '),
            other => out.push(other),
        }
    }
    Some(Text::new(String::from_utf8_lossy(&out)))
}

fn hex(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_pairs_like_go() {
        let cases: &[(&str, &[(&str, &str)])] = &[
            ("", &[]),
            ("a=1&b=2&a=3", &[("a", "1"), ("b", "2"), ("a", "3")]),
            ("a", &[("a", "")]),
            ("&&a=&", &[("a", "")]),
            ("a=b=c", &[("a", "b=c")]),
            ("labelSelector=a+in+%28b%2Cc%29", &[("labelSelector", "a in (b,c)")]),
            ("a=%zz&b=%4", &[]),
            ("a;b=1&c=2", &[("c", "2")]),
            ("a=%ff", &[("a", "\u{fffd}")]),
        ];
        for (raw, want) in cases {
            assert_eq!(&Query::parse(raw).iter().collect::<Vec<_>>(), want, "{raw}");
        }
        assert!(Query::parse(&"a&".repeat(MAX_PAIRS)).is_empty());
    }

    #[test]
    fn parses_boolean_parameters_like_kube_apiserver() {
        for (raw, want) in [
            ("", false),
            ("watch", true),
            ("watch=", true),
            ("watch=FALSE", false),
            ("watch=0", false),
            ("watch=1", true),
        ] {
            assert_eq!(Query::parse(raw).flag("watch"), want, "{raw}");
        }
    }

    #[test]
    fn decodes_percent_escapes_but_not_plus() {
        assert_eq!(decode_path("/api/v1%2Fx+y").as_deref(), Some("/api/v1/x+y"));
        assert_eq!(decode_path("/%"), None);
        assert_eq!(decode_path("/%+1"), None);
    }
}
