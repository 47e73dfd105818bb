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
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte);
        if plain {
            escaped.push(byte as char);
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
