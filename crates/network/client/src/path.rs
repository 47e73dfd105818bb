//! Paths and queries, with the semantics of Go's `path` and `net/url`.

use std::fmt::Write as _;

/// Returns the shortest equivalent path: without empty, `.` or `..` segments and without a trailing slash. A rooted
/// path never leads above its root.
pub fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => match kept.last() {
                Some(&last) if last != ".." => drop(kept.pop()),
                None if rooted => {}
                _ => kept.push(".."),
            },
            other => kept.push(other),
        }
    }
    let joined = kept.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// Like [`clean`], but keeps a trailing slash and the empty path.
pub fn clean_keeping_slash(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    let mut cleans_paths_like_go = clean(path);
    if path.ends_with('/') && !cleans_paths_like_go.ends_with('/') {
        cleans_paths_like_go.push('/');
    }
    cleans_paths_like_go
}

/// Returns the path of a URL as Go's REST client sends it: without empty segments or a trailing slash, and re-escaped.
pub fn rest_path(raw: &str) -> String {
    let decoded = unescape(raw).and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded {
        Some(decoded) => escape_path(&clean(&format!("/{decoded}"))),
        None => clean(&format!("/{raw}")),
    }
}

/// Escapes a decoded path for a URL.
pub fn escape_path(path: &str) -> String {
    escape(path, PATH)
}

/// The bytes that are not escaped in paths, besides letters and digits.
const PATH: &[u8] = b"-_.~$&+,/:;=@";

/// Escapes the path of a request, including bytes that are not UTF-8. `raw` is used only if it decodes to `decoded`,
/// the path that was authorized.
pub fn escape_path_of(raw: &str, decoded: &str) -> String {
    match decoded.contains(char::REPLACEMENT_CHARACTER).then(|| unescape(raw)).flatten() {
        Some(bytes) if String::from_utf8_lossy(&bytes) == decoded => escape_bytes(&bytes, PATH),
        _ => escape_path(decoded),
    }
}

fn unescape(raw: &str) -> Option<Vec<u8>> {
    let mut bytes = raw.bytes();
    let mut unescaped = Vec::with_capacity(raw.len());
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    while let Some(byte) = bytes.next() {
        unescaped.push(match byte {
            b'%' => digit(bytes.next())? << 4 | digit(bytes.next())?,
            other => other,
        });
    }
    Some(unescaped)
}

/// Escapes all bytes but letters, digits and `plain` as `%XX`.
pub fn escape(text: &str, plain: &[u8]) -> String {
    escape_bytes(text.as_bytes(), plain)
}

fn escape_bytes(bytes: &[u8], plain: &[u8]) -> String {
    let mut escaped = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            escaped.push(byte as char);
        } else {
            // Writing to a string does not fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// Returns `?` and the pairs, sorted by key and escaped as by Go's `url.Values.Encode`; the empty string if there are
/// none.
pub fn encode_query(pairs: Vec<(&str, &str)>) -> String {
    encode_pairs(pairs.into_iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect())
}

/// Escapes the query of a request, including bytes that are not UTF-8. `raw` is used only if it decodes to `pairs`, the
/// parsed query.
pub fn encode_query_of(raw: Option<&str>, pairs: Vec<(&str, &str)>) -> String {
    let unclear = |text: &str| text.contains(char::REPLACEMENT_CHARACTER);
    if !pairs.iter().any(|(key, value)| unclear(key) || unclear(value)) {
        return encode_query(pairs);
    }
    let sent: Vec<(Vec<u8>, Vec<u8>)> = raw.unwrap_or_default().split('&').filter_map(unescape_pair).collect();
    let says = |bytes: &[u8], text: &str| String::from_utf8_lossy(bytes) == text;
    let is_same = sent.len() == pairs.len()
        && sent.iter().zip(&pairs).all(|((key, value), pair)| says(key, pair.0) && says(value, pair.1));
    match is_same {
        true => encode_pairs(sent.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect()),
        false => encode_query(pairs),
    }
}

fn encode_pairs(mut pairs: Vec<(&[u8], &[u8])>) -> String {
    pairs.sort_by_key(|(key, _)| *key);
    let mut query = String::new();
    for (key, value) in pairs {
        query.push(if query.is_empty() { '?' } else { '&' });
        query.push_str(&escape_query(key));
        query.push('=');
        query.push_str(&escape_query(value));
    }
    query
}

fn escape_query(bytes: &[u8]) -> String {
    escape_bytes(bytes, b"-_.~ ").replace(' ', "+")
}

/// Returns the key and value of a part of a query, or `None` if Go ignores it.
fn unescape_pair(pair: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    if pair.is_empty() || pair.contains(';') {
        return None;
    }
    let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
    let unescape = |text: &str| unescape(&text.replace('+', " "));
    Some((unescape(key)?, unescape(value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_paths_that_are_not_utf8() {
        for (raw, decoded, want) in [
            ("/a/%ff/b", "/a/\u{fffd}/b", "/a/%FF/b"),
            ("/a/%EF%BF%BD", "/a/\u{fffd}", "/a/%EF%BF%BD"),
            // Does not decode to the authorized path.
            ("/other/%ff", "/a/\u{fffd}", "/a/%EF%BF%BD"),
            ("/a/%f", "/a/\u{fffd}", "/a/%EF%BF%BD"),
            ("/b", "/a b", "/a%20b"),
        ] {
            assert_eq!(escape_path_of(raw, decoded), want, "{raw}");
        }
    }

    #[test]
    fn encodes_queries_that_are_not_utf8() {
        for (raw, pairs, want) in [
            ("b=%ff&a=%FE+x", vec![("b", "\u{fffd}"), ("a", "\u{fffd} x")], "?a=%FE+x&b=%FF"),
            ("a=%EF%BF%BD", vec![("a", "\u{fffd}")], "?a=%EF%BF%BD"),
            // Does not decode to the parsed query.
            ("a=%ff&b=1", vec![("a", "\u{fffd}")], "?a=%EF%BF%BD"),
            ("c=%ff", vec![("a", "\u{fffd}")], "?a=%EF%BF%BD"),
            ("a=%ff&;&%zz=1&&b", vec![("a", "\u{fffd}"), ("b", "")], "?a=%FF&b="),
            ("", vec![], ""),
            ("b=2&a=1&b=1", vec![("b", "2"), ("a", "1"), ("b", "1")], "?a=1&b=2&b=1"),
        ] {
            assert_eq!(encode_query_of(Some(raw), pairs), want, "{raw}");
        }
    }

    #[test]
    fn cleans_paths_like_go() {
        for (path, want) in [
            ("/a/b/", "/a/b"),
            ("/a//b/./c/..", "/a/b"),
            ("/../../etc/passwd", "/etc/passwd"),
            ("/", "/"),
            ("", "."),
            ("a/../..", ".."),
            ("a/..", "."),
        ] {
            assert_eq!(clean(path), want, "{path}");
        }
        for (path, want) in [("", ""), ("/", "/"), ("/a/", "/a/"), ("/a/../", "/"), ("/a", "/a")] {
            assert_eq!(clean_keeping_slash(path), want, "{path}");
        }
    }

    #[test]
    fn cleans_and_escapes_paths_like_rest_clients() {
        for (path, want) in [
            ("", "/"),
            ("/", "/"),
            ("//failing", "/failing"),
            ("/a/b/", "/a/b"),
            ("/a/./b/../c", "/a/c"),
            ("/a%20b%2Fc", "/a%20b/c"),
            ("/%ff//x", "/%ff/x"),
        ] {
            assert_eq!(rest_path(path), want, "{path}");
        }
    }

    #[test]
    fn escapes_reserved_characters_in_paths() {
        assert_eq!(escape_path("/a b/ü;x=1@?#%"), "/a%20b/%C3%BC;x=1@%3F%23%25");
    }

    #[test]
    fn escapes_query_values_like_go() {
        for (text, want) in [("a b", "a+b"), ("a/b?c&d=e", "a%2Fb%3Fc%26d%3De"), ("ü~", "%C3%BC~")] {
            assert_eq!(escape_query(text.as_bytes()), want);
        }
    }
}
