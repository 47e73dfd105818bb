//! The formats of names, labels and ports. Each check returns kube-apiserver's error messages.

const DNS1123_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS1123_SUBDOMAIN: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS1123_SUBDOMAIN_WITH_UNDERSCORE: &str =
    "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const DNS1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

const DNS1123_LABEL_MESSAGE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character";
const DNS1123_SUBDOMAIN_MESSAGE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const CASELESS_SUBDOMAIN_MESSAGE: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const DNS1035_LABEL_MESSAGE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
const WILDCARD_DNS1123_MESSAGE: &str = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character";
const LABEL_KEY_MESSAGE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
const LABEL_VALUE_MESSAGE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;

/// `must be no more than N characters`, for hand-written rules.
fn max_len_error(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// `must be no more than N bytes`, for label keys and values and for rules that field tags declare.
fn max_bytes_error(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// `must be between A and B, inclusive`.
pub fn inclusive_range_error(min: i64, max: i64) -> String {
    format!("must be between {min} and {max}, inclusive")
}

/// Appends examples and the regular expression for valid values to a message.
pub fn regex_error(message: &str, regex: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{message} (regex used for validation is '{regex}')");
    }
    let examples: Vec<String> = examples.iter().map(|e| format!("'{e}', ")).collect();
    format!("{message} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

pub fn dns1123_label(value: &str) -> Vec<String> {
    label_with(value, max_len_error)
}

/// Checks a DNS-1123 label in a field with the declared format `k8s-short-name`.
pub fn short_name(value: &str) -> Vec<String> {
    label_with(value, max_bytes_error)
}

pub fn dns1123_subdomain(value: &str) -> Vec<String> {
    subdomain_with(value, max_len_error)
}

/// Checks a DNS-1123 subdomain in a field with the declared format `k8s-long-name`.
pub fn long_name(value: &str) -> Vec<String> {
    subdomain_with(value, max_bytes_error)
}

/// Checks a subdomain in any case in a field with the declared format `k8s-long-name-caseless`.
pub fn long_name_caseless(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        messages.push(max_bytes_error(SUBDOMAIN_MAX));
    }
    if !is_dns1123_subdomain(&value.to_ascii_lowercase()) {
        messages.push(regex_error(CASELESS_SUBDOMAIN_MESSAGE, DNS1123_SUBDOMAIN, &["Example.com"]));
    }
    messages
}

fn label_with(value: &str, too_long: fn(usize) -> String) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > LABEL_MAX {
        messages.push(too_long(LABEL_MAX));
    }
    if !is_dns1123_label(value) {
        if is_dns1123_subdomain(value) {
            messages.push("must not contain dots".to_owned());
        } else {
            messages.push(regex_error(DNS1123_LABEL_MESSAGE, DNS1123_LABEL, &["my-name", "123-abc"]));
        }
    }
    messages
}

fn subdomain_with(value: &str, too_long: fn(usize) -> String) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        messages.push(too_long(SUBDOMAIN_MAX));
    }
    if !is_dns1123_subdomain(value) {
        messages.push(regex_error(DNS1123_SUBDOMAIN_MESSAGE, DNS1123_SUBDOMAIN, &["example.com"]));
    }
    messages
}

pub fn dns1035_label(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > LABEL_MAX {
        messages.push(max_len_error(LABEL_MAX));
    }
    if !(is_dns1123_label(value) && value.starts_with(|c: char| c.is_ascii_lowercase())) {
        messages.push(regex_error(DNS1035_LABEL_MESSAGE, DNS1035_LABEL, &["my-name", "abc-123"]));
    }
    messages
}

pub fn wildcard_dns1123_subdomain(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        messages.push(max_len_error(SUBDOMAIN_MAX));
    }
    if !value.strip_prefix("*.").is_some_and(is_dns1123_subdomain) {
        let regex = format!("\\*\\.{DNS1123_SUBDOMAIN}");
        messages.push(regex_error(WILDCARD_DNS1123_MESSAGE, &regex, &["*.example.com"]));
    }
    messages
}

/// Checks a label key: an optional DNS subdomain and slash, then a name.
pub fn label_key(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    let examples = &["MyName", "my.name", "123-abc"];
    let name = match value.split_once('/') {
        None => value,
        Some((_, name)) if name.contains('/') => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                regex_error(LABEL_KEY_MESSAGE, LABEL_KEY, examples)
            )];
        }
        Some((prefix, name)) => {
            if prefix.is_empty() {
                messages.push("prefix part must be non-empty".to_owned());
            } else {
                messages.extend(long_name(prefix).into_iter().map(|m| format!("prefix part {m}")));
            }
            name
        }
    };
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        messages.push(format!("name part {}", max_bytes_error(LABEL_MAX)));
    }
    if !is_label_name(name) {
        messages.push(format!("name part {}", regex_error(LABEL_KEY_MESSAGE, LABEL_KEY, examples)));
    }
    messages
}

pub fn label_value(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > LABEL_MAX {
        messages.push(max_bytes_error(LABEL_MAX));
    }
    if !value.is_empty() && !is_label_name(value) {
        messages.push(regex_error(LABEL_VALUE_MESSAGE, LABEL_VALUE, &["MyValue", "my_value", "12345"]));
    }
    messages
}

/// Checks a name that is a segment of URL paths. A `prefix` may be `.`, since more follows.
pub fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && (name == "." || name == "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"].iter().filter(|c| name.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

/// Checks a name by the rule of most kinds; see `mask_trailing_dash` for `prefix`.
pub fn dns1123_subdomain_name(name: &str, prefix: bool) -> Vec<String> {
    dns1123_subdomain(&mask_trailing_dash(name, prefix))
}

pub fn dns1123_label_name(name: &str, prefix: bool) -> Vec<String> {
    dns1123_label(&mask_trailing_dash(name, prefix))
}

pub fn dns1035_label_name(name: &str, prefix: bool) -> Vec<String> {
    dns1035_label(&mask_trailing_dash(name, prefix))
}

pub fn port_number(port: i64) -> Vec<String> {
    if (1..=65535).contains(&port) { Vec::new() } else { vec![inclusive_range_error(1, 65535)] }
}

pub fn port_name(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if name.len() > 15 {
        messages.push(max_len_error(15));
    }
    if name.is_empty() || !name.bytes().all(|c| c == b'-' || c.is_ascii_lowercase() || c.is_ascii_digit()) {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|c| c.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}

/// Replaces a trailing dash of a `generateName` prefix, which is valid because a suffix follows. Like kube-apiserver,
/// replaces the last *two* characters by one `a`, to report the same errors.
fn mask_trailing_dash(name: &str, prefix: bool) -> std::borrow::Cow<'_, str> {
    if prefix && name.len() > 1 && name.ends_with('-') {
        let end = name.char_indices().rev().nth(1).map_or(0, |(i, _)| i);
        format!("{}a", &name[..end]).into()
    } else {
        name.into()
    }
}

fn is_dns1123_label(value: &str) -> bool {
    let bytes = value.as_bytes();
    let edge = |c: &u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge) && bytes.iter().all(|c| edge(c) || *c == b'-')
}

fn is_dns1123_subdomain(value: &str) -> bool {
    value.split('.').all(is_dns1123_label)
}

fn is_label_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    let edge = |c: &u8| c.is_ascii_alphanumeric();
    bytes.first().is_some_and(edge)
        && bytes.last().is_some_and(edge)
        && bytes.iter().all(|c| edge(c) || matches!(c, b'-' | b'_' | b'.'))
}

/// Checks a DNS-1123 subdomain whose labels may have underscores, as for search domains.
pub fn dns1123_subdomain_with_underscore(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > SUBDOMAIN_MAX {
        messages.push(max_len_error(SUBDOMAIN_MAX));
    }
    let alphanumeric = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let label = |label: &str| {
        let rest = label.strip_prefix('_').unwrap_or(label);
        rest.bytes().next().is_some_and(alphanumeric)
            && rest.bytes().next_back().is_some_and(alphanumeric)
            && rest.bytes().all(|c| alphanumeric(c) || c == b'-' || c == b'_')
    };
    if !value.split('.').all(label) {
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character";
        messages.push(regex_error(message, DNS1123_SUBDOMAIN_WITH_UNDERSCORE, &["example.com"]));
    }
    messages
}

/// Checks a key of a ConfigMap or Secret, which becomes a file name.
pub fn config_map_key(key: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if key.len() > SUBDOMAIN_MAX {
        messages.push(max_len_error(SUBDOMAIN_MAX));
    }
    if key.is_empty() || !key.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'.' | b'_')) {
        let message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        messages.push(regex_error(message, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    messages.extend(change_of_directory(key));
    messages
}

/// Checks the name of an environment variable: any printable ASCII except `=`.
pub fn env_var_name(name: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if name.is_empty() {
        messages.push("environment variable name must be non-empty".to_owned());
    }
    if !name.bytes().all(|c| matches!(c, b' '..=b'~') && c != b'=') {
        messages.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    messages
}

pub fn http_header_name(name: &str) -> Vec<String> {
    if !name.is_empty() && name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-') {
        return Vec::new();
    }
    let message = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![regex_error(message, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

pub fn percent(text: &str) -> Vec<String> {
    let digits = text.strip_suffix('%').unwrap_or("");
    if !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit()) {
        return Vec::new();
    }
    let message = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_error(message, "[0-9]+%", &["1%", "93%"])]
}

/// Returns the error of a file name that refers to another directory.
fn change_of_directory(name: &str) -> Option<String> {
    match name {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        _ if name.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_dns_names() {
        for (name, prefix, ok) in [
            ("a", false, true),
            ("a.b-c", false, true),
            ("a-", false, false),
            ("ab-", true, true),
            ("A", false, false),
            ("", false, false),
            ("a..b", false, false),
            (".", false, false),
        ] {
            assert_eq!(dns1123_subdomain_name(name, prefix).is_empty(), ok, "{name:?} prefix={prefix}");
        }
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            dns1123_label("A"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
    }

    #[test]
    fn validates_label_keys_and_values() {
        for (key, count) in
            [("app", 0), ("example.com/app", 0), ("a/b/c", 1), ("/app", 1), ("Example/app", 1), ("", 2), ("-a", 1)]
        {
            assert_eq!(label_key(key).len(), count, "{key:?}");
        }
        assert!(label_value("").is_empty());
        assert_eq!(label_value("a b").len(), 1);
        assert_eq!(label_value(&"x".repeat(64)), ["must be no more than 63 bytes"]);
    }

    #[test]
    fn rejects_invalid_path_segments() {
        assert_eq!(path_segment("..", false), ["may not be '..'"]);
        assert!(path_segment("..", true).is_empty());
        assert_eq!(path_segment("a/b%c", false), ["may not contain '/'", "may not contain '%'"]);
    }
}
