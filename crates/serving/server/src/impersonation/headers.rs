//! The headers that name the user to impersonate.

use std::collections::BTreeMap;

use binnacle_meta::{Status, Text, go_quote};
use binnacle_request::{User, decode_path};
use http::{HeaderMap, HeaderName, HeaderValue};

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

/// Returns the user to impersonate, exactly as the headers name it; `None` without such headers. The name may be
/// missing.
pub(super) fn requested_user(headers: &HeaderMap) -> Option<User> {
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut extra: BTreeMap<Text, Vec<Text>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            // A key with invalid escapes is used unchanged.
            let key = decode_path(key).unwrap_or_else(|| key.into());
            extra.entry(key).or_default().push(text(value));
        }
    }
    let groups = headers.get_all(GROUP).into_iter().map(text).collect();
    let user = User { name: first(USER), uid: first(UID), groups, extra };
    (user != User::default()).then_some(user)
}

/// Returns the error for headers with groups, a uid or extras but no user name.
pub(super) fn missing_name_error(target: &User) -> Status {
    Status::bad_request(format!("requested {} without impersonating a user name", go_format(target)))
}

/// Removes the headers, so that later code cannot detect the impersonation.
pub(super) fn strip(headers: &mut HeaderMap) {
    for name in [USER, UID, GROUP] {
        headers.remove(name);
    }
    let extra: Vec<HeaderName> = headers.keys().filter(|name| name.as_str().starts_with(EXTRA)).cloned().collect();
    for name in extra {
        headers.remove(name);
    }
}

fn text(value: &HeaderValue) -> Text {
    String::from_utf8_lossy(value.as_bytes()).as_ref().into()
}

/// Returns the user as Go prints the struct.
fn go_format(user: &User) -> String {
    let list = |texts: &[Text]| {
        let quoted: Vec<String> = texts.iter().map(|text| go_quote(text)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let extra = if user.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let pairs: Vec<String> =
            user.extra.iter().map(|(key, values)| format!("{}:{}", go_quote(key), list(values))).collect();
        format!("map[string][]string{{{}}}", pairs.join(", "))
    };
    let (name, uid) = (go_quote(&user.name), go_quote(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}
