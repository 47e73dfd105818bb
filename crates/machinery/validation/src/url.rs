//! URLs, parsed like Go's `net/url`, with its errors and the components that rules need.

use std::borrow::Cow;
use std::net::IpAddr;

use binnacle_meta::go_quote;

use crate::netip::parse_addr;

/// The parts of a URL.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Url<'a> {
    /// In lower case.
    pub scheme: String,
    /// The rest after a scheme without a slash, as in `mailto:a@b`: such a URL has neither host nor path.
    pub opaque: &'a str,
    /// As written; Go keeps it unescaped.
    pub user: Option<&'a str>,
    /// Unescaped, including the port.
    pub host: Cow<'a, str>,
    /// As written.
    pub path: &'a str,
    pub query: &'a str,
    /// As written.
    pub fragment: &'a str,
}

/// The component of a URL, which determines the characters that may or must be escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Host,
    Zone,
    Other,
}

impl<'a> Url<'a> {
    /// Parses a URL, which may be relative, like Go's `url.Parse`, with its errors.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let (before, fragment) = text.split_once('#').unwrap_or((text, ""));
        let url = Self::read(before, false).map_err(|why| failed(before, &why))?;
        check(fragment, Part::Other).map_err(|why| failed(text, &why))?;
        Ok(Self { fragment, ..url })
    }

    /// Parses the URL of a request like Go's `url.ParseRequestURI`: absolute, or a path from the root. It has no
    /// fragment: `#` is an ordinary character.
    pub fn parse_request(text: &'a str) -> Result<Self, String> {
        Self::read(text, true).map_err(|why| failed(text, &why))
    }

    fn read(text: &'a str, of_request: bool) -> Result<Self, String> {
        if text.bytes().any(|b| b < b' ' || b == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        match text {
            "" if of_request => return Err("empty url".to_owned()),
            "*" => return Ok(Self { path: text, ..Self::default() }),
            _ => {}
        }
        let (scheme, rest) = split_scheme(text)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = Self { scheme: scheme.to_ascii_lowercase(), query, ..Self::default() };
        if !rest.starts_with('/') {
            if !scheme.is_empty() {
                url.opaque = rest;
                return Ok(url);
            }
            if of_request {
                return Err("invalid URI for request".to_owned());
            }
            if rest.split('/').next().is_some_and(|first| first.contains(':')) {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let authority = rest.strip_prefix("//").filter(|after| {
            // An absolute path may begin with several slashes.
            !scheme.is_empty() || !of_request && !after.starts_with('/')
        });
        url.path = match authority {
            Some(after) => {
                let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
                url.authority(authority)?;
                path
            }
            None => rest,
        };
        check(url.path, Part::Other)?;
        Ok(url)
    }

    fn authority(&mut self, authority: &'a str) -> Result<(), String> {
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        self.host = host_of(&self.scheme, host)?;
        if let Some(user) = user {
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
            if !user.bytes().all(allowed) {
                return Err("net/url: invalid userinfo".to_owned());
            }
            user.splitn(2, ':').try_for_each(|part| check(part, Part::Other))?;
        }
        self.user = user;
        Ok(())
    }

    /// Returns the escaped path, like Go's `EscapedPath`: the original text if that is a valid encoding.
    pub fn escaped_path(&self) -> Cow<'a, str> {
        let valid = |b: u8| unescaped_in_path(b) || b"!'()*[]%".contains(&b);
        if self.path == "*" || self.path.bytes().all(valid) {
            return Cow::Borrowed(self.path);
        }
        let mut out = String::new();
        for b in unescape(self.path) {
            match unescaped_in_path(b) {
                true => out.push(b as char),
                false => out.push_str(&format!("%{b:02X}")),
            }
        }
        Cow::Owned(out)
    }
}

fn failed(text: &str, why: &str) -> String {
    format!("parse {}: {why}", go_quote(text))
}

/// Returns true for bytes that Go does not escape in a path.
fn unescaped_in_path(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&b)
}

/// Returns the unescaped host with its port.
fn host_of<'a>(scheme: &str, host: &'a str) -> Result<Cow<'a, str>, String> {
    match host.rfind('[') {
        Some(0) => {
            let (inner, port) = host[1..].rsplit_once(']').ok_or("missing ']' in host")?;
            check_port(port)?;
            let (address, zone) = inner.split_at(inner.find("%25").unwrap_or(inner.len()));
            check(address, Part::Host)?;
            check(zone, Part::Zone)?;
            // The zone is written with an escaped percent sign.
            let inner = String::from_utf8_lossy(&unescape(inner)).into_owned();
            match parse_addr(&inner) {
                Ok((IpAddr::V6(_), _)) => return Ok(Cow::Owned(format!("[{inner}]{port}"))),
                Ok(_) => return Err("invalid IP-literal".to_owned()),
                Err(why) => return Err(format!("invalid host: {why}")),
            }
        }
        Some(_) => return Err("invalid IP-literal".to_owned()),
        None => {}
    }
    // Colons in host names are an error of http and https only (https://go.dev/issue/75223).
    let colon = if matches!(scheme, "http" | "https") { host.find(':') } else { host.rfind(':') };
    check_port(colon.map_or("", |at| &host[at..]))?;
    check(host, Part::Host)?;
    Ok(match host.contains('%') {
        true => Cow::Owned(String::from_utf8_lossy(&unescape(host)).into_owned()),
        false => Cow::Borrowed(host),
    })
}

fn check_port(port: &str) -> Result<(), String> {
    match port.strip_prefix(':').unwrap_or(port).bytes().all(|b| b.is_ascii_digit()) {
        true if port.is_empty() || port.starts_with(':') => Ok(()),
        _ => Err(format!("invalid port {} after host", go_quote(port))),
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (i, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if i > 0 => {}
            ':' if i == 0 => return Err("missing protocol scheme".to_owned()),
            ':' => return Ok((&text[..i], &text[i + 1..])),
            _ => return Ok(("", text)),
        }
    }
    Ok(("", text))
}

/// Checks the escapes of a part, and the characters of a host.
fn check(text: &str, part: Part) -> Result<(), String> {
    // `<`, `>` and `"` are accepted, because a host cannot escape them: RFC 3986 only allows escapes of non-ASCII bytes
    // there.
    let in_host = |b: u8| b.is_ascii_alphanumeric() || b"-_.~!$&'()*+,;=:[]<>\"".contains(&b);
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'%' {
            if part != Part::Other && bytes[at].is_ascii() && !in_host(bytes[at]) {
                return Err(format!("invalid character {} in host name", go_quote(&text[at..=at])));
            }
            at += 1;
            continue;
        }
        let escaped = bytes.get(at + 1..at + 3).and_then(hex);
        let allowed = escaped.is_some_and(|b| match part {
            Part::Host => !b.is_ascii() || b == b'%',
            // RFC 6874 allows any escape in a zone; Go only allows those of bytes that are valid in a host, and of
            // spaces.
            Part::Zone => b == b'%' || b == b' ' || in_host(b),
            Part::Other => true,
        });
        if !allowed {
            let end = bytes.len().min(at + 3);
            return Err(format!("invalid URL escape {}", go_quote(&String::from_utf8_lossy(&bytes[at..end]))));
        }
        at += 3;
    }
    Ok(())
}

fn hex(digits: &[u8]) -> Option<u8> {
    let digit = |b: u8| (b as char).to_digit(16);
    // Two digits are at most 255.
    Some((digit(digits[0])? * 16 + digit(digits[1])?) as u8)
}

/// Unescapes a component of a query, like Go's `QueryUnescape`. Returns `None` if an escape is invalid.
pub fn unescape_query(text: &str) -> Option<String> {
    check(text, Part::Other).ok()?;
    Some(String::from_utf8_lossy(&unescape(&text.replace('+', " "))).into_owned())
}

/// Unescapes a text whose escapes have been checked.
fn unescape(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1..at + 3).and_then(hex)) {
            (b'%', Some(b)) => {
                out.push(b);
                at += 3;
            }
            (b, _) => {
                out.push(b);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_urls() {
        let url = Url::parse("https://u:p@x.test:8443/a?b=c#d").expect("valid");
        assert_eq!(
            url,
            Url {
                scheme: "https".to_owned(),
                opaque: "",
                host: "x.test:8443".into(),
                user: Some("u:p"),
                path: "/a",
                query: "b=c",
                fragment: "d"
            }
        );
        for (text, why) in [
            ("https://x:port/", "parse \"https://x:port/\": invalid port \":port\" after host"),
            (":x", "parse \":x\": missing protocol scheme"),
            ("a/%zz", "parse \"a/%zz\": invalid URL escape \"%zz\""),
            ("1a:b", "parse \"1a:b\": first path segment in URL cannot contain colon"),
            ("https://[::1", "parse \"https://[::1\": missing ']' in host"),
            (
                "https://[:::1]:5/",
                "parse \"https://[:::1]:5/\": invalid host: ParseAddr(\":::1\"): each colon-separated field must have at least \
                 one digit (at \":1\")",
            ),
            ("https://[1.2.3.4]/", "parse \"https://[1.2.3.4]/\": invalid IP-literal"),
            ("https://x[::1]/", "parse \"https://x[::1]/\": invalid IP-literal"),
            ("https://a/#%zz", "parse \"https://a/#%zz\": invalid URL escape \"%zz\""),
            ("https://[::1]:x/#a", "parse \"https://[::1]:x/\": invalid port \":x\" after host"),
            ("https://a%41/", "parse \"https://a%41/\": invalid URL escape \"%41\""),
            ("https://a b/", "parse \"https://a b/\": invalid character \" \" in host name"),
            ("https://a%b@c/", "parse \"https://a%b@c/\": invalid URL escape \"%b\""),
            ("https://a:1:2/", "parse \"https://a:1:2/\": invalid port \":1:2\" after host"),
        ] {
            assert_eq!(Url::parse(text), Err(why.to_owned()));
        }
        for text in [
            "https://[::1]:5/",
            "https://[fe80::1%25en0]/",
            "https://[::ffff:1.2.3.4]",
            "postgres://a:1:2/",
            "a:%zz",
            "*",
        ] {
            assert!(Url::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn validates_request_uris() {
        for (text, why) in [
            ("", Some("empty url")),
            ("a/b", Some("invalid URI for request")),
            ("http://#%blah$#@", Some("net/url: invalid userinfo")),
            ("http://a#b/", Some("invalid character \"#\" in host name")),
            ("http://a/#%bl", Some("invalid URL escape \"%bl\"")),
            ("http://a/#b", None),
            ("//a b/c", None),
            ("mailto:%zz", None),
            ("*", None),
        ] {
            let want = why.map_or(Ok(()), |why| Err(format!("parse {}: {why}", go_quote(text))));
            assert_eq!(Url::parse_request(text).map(drop), want);
        }
    }

    #[test]
    fn unescapes_query_components() {
        for (text, want) in [
            ("a+b%2Bc", Some("a b+c")),
            ("%C3%A9%ff", Some("\u{e9}\u{fffd}")),
            ("", Some("")),
            ("%", None),
            ("a%4", None),
            ("%zz", None),
        ] {
            assert_eq!(unescape_query(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn unescapes_hosts_and_escapes_paths() {
        for (text, host, path) in [
            ("https://x%C3%A9/a b", "xé", "/a%20b"),
            ("https://[fe80::1%25en0]:1/(a)%2fb", "[fe80::1%en0]:1", "/(a)%2fb"),
            ("https://x/%41 \u{e9}", "x", "/A%20%C3%A9"),
            ("mailto:a b", "", ""),
        ] {
            let url = Url::parse(text).expect("valid");
            assert_eq!((&*url.host, &*url.escaped_path()), (host, path));
        }
    }
}
