//! The identity of the caller in forwarded requests: headers that the other server trusts because of this server's
//! client certificate.

use binnacle_request::User;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};

const USER: HeaderName = HeaderName::from_static("x-remote-user");
const UID: HeaderName = HeaderName::from_static("x-remote-uid");
const GROUP: HeaderName = HeaderName::from_static("x-remote-group");
const EXTRA: &str = "x-remote-extra-";
const IMPERSONATE: &str = "impersonate-";

/// Removes all headers with which the caller could impersonate another user, and sets the headers of the user. Headers
/// that `Connection` names are removed before, so that it cannot remove the new ones later. The error is Go's message
/// for a name or value that is invalid in a header.
pub(crate) fn set(headers: &mut HeaderMap, user: &User) -> Result<(), String> {
    binnacle_streams::settle_connection(headers);
    let theirs: Vec<HeaderName> = headers.keys().filter(|name| is_identity(name.as_str())).cloned().collect();
    for name in theirs {
        headers.remove(name);
    }
    headers.insert(USER, value("X-Remote-User", &user.name)?);
    if !user.uid.is_empty() {
        headers.insert(UID, value("X-Remote-Uid", &user.uid)?);
    }
    for group in &user.groups {
        headers.append(GROUP, value("X-Remote-Group", group)?);
    }
    for (key, values) in &user.extra {
        let shown = format!("{EXTRA}{}", escape_key(key));
        let name: HeaderName = shown.parse().map_err(|_| format!("net/http: invalid header field name {shown:?}"))?;
        for text in values {
            headers.append(name.clone(), value(&shown, text)?);
        }
    }
    Ok(())
}

/// Returns true for names of headers that identify the caller, with underscores in place of hyphens as well, since some
/// servers treat both alike (CGI and its descendants).
fn is_identity(name: &str) -> bool {
    let hyphens;
    let name = match name.contains('_') {
        true => {
            hyphens = name.replace('_', "-");
            hyphens.as_str()
        }
        false => name,
    };
    [AUTHORIZATION, USER, UID, GROUP].iter().any(|known| known == name)
        || name.starts_with(EXTRA)
        || name.starts_with(IMPERSONATE)
}

fn value(name: &str, text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_bytes(text.as_bytes()).map_err(|_| format!("net/http: invalid header field value for {name:?}"))
}

/// Escapes a key for the name of a header.
fn escape_key(key: &str) -> String {
    binnacle_client::path::escape(key, b"!#$&'*+-.^_`|~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_identity_headers_of_callers() {
        let mut headers = HeaderMap::new();
        for (name, text) in [
            ("authorization", "Bearer secret"),
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-uid", "0"),
            ("x-remote-extra-scopes", "all"),
            ("x-remote-extra-a%2fb", "all"),
            ("impersonate-user", "root"),
            ("impersonate-extra-x", "1"),
            ("x_remote_user", "root"),
            ("x-remote_group", "system:masters"),
            ("x_remote_extra_scopes", "all"),
            ("connection", "X-Remote-User, x-remote-group, X-Remote-Extra-Example.org%2fa%20b"),
            ("connection", "X-Hop"),
            ("x-hop", "1"),
            ("accept", "x"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(text));
        }
        let mut user = User::new("ann", &["devs", "system:authenticated"]);
        user.extra.insert("example.org/a b".into(), vec!["1".into(), "2".into()]);
        set(&mut headers, &user).unwrap();
        let mut seen: Vec<(String, String)> =
            headers.iter().map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
        seen.sort();
        let want = [
            ("accept", "x"),
            ("x-remote-extra-example.org%2fa%20b", "1"),
            ("x-remote-extra-example.org%2fa%20b", "2"),
            ("x-remote-group", "devs"),
            ("x-remote-group", "system:authenticated"),
            ("x-remote-user", "ann"),
        ];
        assert_eq!(seen, want.map(|(name, text)| (name.to_owned(), text.to_owned())));
        let error = set(&mut headers, &User::new("ann\nX-Remote-Group: system:masters", &[])).unwrap_err();
        assert_eq!(error, "net/http: invalid header field value for \"X-Remote-User\"");
    }
}
