//! URL parsing like Go's `net/url`, as far as rules need it.

use std::net::IpAddr;

use binnacle_meta::go_quote;

use crate::netip::parse_addr;

/// The parts of a URL.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Url<'a> {
    pub scheme: String,
    /// Including the port.
    pub host: &'a str,
    pub user: Option<&'a str>,
    pub path: &'a str,
    pub query: &'a str,
    pub fragment: &'a str,
}

impl<'a> Url<'a> {
    /// Parses a URL; errors are in Go's words.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let failed = |why: String| format!("parse {}: {why}", go_quote(text));
        if text.bytes().any(|b| b < b' ' || b == 0x7f) {
            return Err(failed("net/url: invalid control character in URL".to_owned()));
        }
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let mut url = Self { fragment, ..Self::default() };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        url.query = query;
        let (scheme, rest) = split_scheme(rest).map_err(failed)?;
        url.scheme = scheme.to_ascii_lowercase();
        let rest = match rest.strip_prefix("//") {
            Some(after) => {
                let end = after.find('/').unwrap_or(after.len());
                let (authority, path) = after.split_at(end);
                url.authority(authority).map_err(failed)?;
                path
            }
            None => rest,
        };
        let first = rest.split('/').next().unwrap_or_default();
        if url.scheme.is_empty() && url.host.is_empty() && first.contains(':') {
            return Err(failed("first path segment in URL cannot contain colon".to_owned()));
        }
        check_escapes(rest).map_err(failed)?;
        check_escapes(fragment).map_err(failed)?;
        url.path = rest;
        Ok(url)
    }

    fn authority(&mut self, authority: &'a str) -> Result<(), String> {
        let host = match authority.rsplit_once('@') {
            Some((user, host)) => {
                let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&b);
                if !user.bytes().all(allowed) {
                    return Err("net/url: invalid userinfo".to_owned());
                }
                self.user = Some(user);
                host
            }
            None => authority,
        };
        if host.rfind('[').is_some_and(|i| i > 0) {
            return Err("invalid IP-literal".to_owned());
        }
        let (bracketed, port) = match host.strip_prefix('[') {
            Some(rest) => {
                rest.rsplit_once(']').map(|(inner, port)| (Some(inner), port)).ok_or("missing ']' in host")?
            }
            // Colons in host names are an error of http and https only.
            None if matches!(&*self.scheme, "http" | "https") => (None, host.find(':').map_or("", |i| &host[i..])),
            None => (None, host.rfind(':').map_or("", |i| &host[i..])),
        };
        let digits = port.strip_prefix(':').unwrap_or(port);
        if (!port.is_empty() && !port.starts_with(':')) || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(format!("invalid port {} after host", go_quote(port)));
        }
        if let Some(c) = host.chars().find(|c| matches!(c, ' ' | '^' | '`' | '{' | '}' | '|' | '\\')) {
            return Err(format!("invalid character {} in host name", go_quote(&c.to_string())));
        }
        check_escapes(host)?;
        if let Some(inner) = bracketed {
            // The zone is written with an escaped percent sign.
            match parse_addr(&inner.replacen("%25", "%", 1)) {
                Ok((IpAddr::V6(_), _)) => {}
                Ok(_) => return Err("invalid IP-literal".to_owned()),
                Err(why) => return Err(format!("invalid host: {why}")),
            }
        }
        self.host = host;
        Ok(())
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

fn check_escapes(text: &str) -> Result<(), String> {
    let bytes = text.as_bytes();
    for (i, _) in text.match_indices('%') {
        let hex = bytes.get(i + 1..i + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        if !hex {
            let shown: String = text[i..].chars().take(3).collect();
            return Err(format!("invalid URL escape {}", go_quote(&shown)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let url = Url::parse("https://u:p@x.test:8443/a?b=c#d").expect("valid");
        assert_eq!(
            url,
            Url {
                scheme: "https".to_owned(),
                host: "x.test:8443",
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
            ("https://a:1:2/", "parse \"https://a:1:2/\": invalid port \":1:2\" after host"),
        ] {
            assert_eq!(Url::parse(text), Err(why.to_owned()));
        }
        for text in ["https://[::1]:5/", "https://[fe80::1%25en0]/", "https://[::ffff:1.2.3.4]", "postgres://a:1:2/"] {
            assert!(Url::parse(text).is_ok(), "{text}");
        }
    }
}
