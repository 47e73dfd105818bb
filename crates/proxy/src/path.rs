//! Paths as Go's `path` and `net/url` treat them.

use std::fmt::Write as _;

/// The shortest path that means the same: no empty, `.` or `..` segments, no slash at the end. A rooted path never leads
/// above its root.
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

/// [`clean`], but a slash at the end stays, and nothing stays nothing.
pub(crate) fn clean_keeping_slash(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    let mut cleaned = clean(path);
    if path.ends_with('/') && !cleaned.ends_with('/') {
        cleaned.push('/');
    }
    cleaned
}

/// Escapes a decoded path for a URL.
pub fn escape_path(path: &str) -> String {
    escape(path, PATH)
}

/// What need not be escaped in paths.
const PATH: &[u8] = b"-_.~$&+,/:;=@";

/// Escapes the path of a request anew, bytes that are no text among it. `raw` counts only while it says the same as
/// `decoded`, which is what was allowed.
pub(crate) fn escape_path_of(raw: &str, decoded: &str) -> String {
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

/// Writes all bytes but letters, digits and those that may stand there as `%XX`.
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

/// A query of pairs, sorted by key and escaped as Go's `url.Values.Encode` does, with what introduces it; nothing for no
/// pairs.
pub fn encode_query(mut pairs: Vec<(&str, &str)>) -> String {
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

fn escape_query(text: &str) -> String {
    escape(text, b"-_.~ ").replace(' ', "+")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text() {
        for (raw, decoded, want) in [
            ("/a/%ff/b", "/a/\u{fffd}/b", "/a/%FF/b"),
            ("/a/%EF%BF%BD", "/a/\u{fffd}", "/a/%EF%BF%BD"),
            // It says something else than what was allowed.
            ("/other/%ff", "/a/\u{fffd}", "/a/%EF%BF%BD"),
            ("/a/%f", "/a/\u{fffd}", "/a/%EF%BF%BD"),
            ("/b", "/a b", "/a%20b"),
        ] {
            assert_eq!(escape_path_of(raw, decoded), want, "{raw}");
        }
    }

    #[test]
    fn cleaned() {
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
    fn escaped() {
        assert_eq!(escape_path("/a b/ü;x=1@?#%"), "/a%20b/%C3%BC;x=1@%3F%23%25");
    }

    #[test]
    fn queries_are_escaped_anew() {
        for (text, want) in [("a b", "a+b"), ("a/b?c&d=e", "a%2Fb%3Fc%26d%3De"), ("ü~", "%C3%BC~")] {
            assert_eq!(escape_query(text), want);
        }
    }
}
