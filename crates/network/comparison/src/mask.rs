//! Removal of secrets from what is logged and written: the data of Secrets, tokens, and credentials in headers.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::template::regex;

/// The text in place of a secret.
pub(crate) const MASK: &str = "<masked>";
/// An annotation that repeats a whole object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Headers with credentials.
const HEADERS: [&str; 6] =
    ["authorization", "proxy-authorization", "cookie", "set-cookie", "x-remote-extra-token", "sec-websocket-protocol"];
/// Members whose text is a credential in any object.
const MEMBERS: [&str; 6] = ["token", "password", "client-key-data", "id-token", "refresh-token", "privateKey"];

static TOKEN: LazyLock<Regex> = LazyLock::new(|| regex(r"\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"));
static BEARER: LazyLock<Regex> = LazyLock::new(|| regex(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}"));
static PRIVATE_KEY: LazyLock<Regex> =
    LazyLock::new(|| regex(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(-----END [A-Z ]*PRIVATE KEY-----|$)"));

/// Masks an object, list, table or review.
pub(crate) fn value(value: &mut Value) {
    walk(value, false);
}

/// Masks tokens and keys in all texts.
pub(crate) fn texts(value: &mut Value) {
    match value {
        Value::String(string) => {
            if let Some(masked) = masked(string) {
                *string = masked;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(texts),
        Value::Object(members) => members.values_mut().for_each(texts),
        _ => {}
    }
}

/// Masks tokens and keys in a text.
pub(crate) fn text(text: &str) -> String {
    masked(text).unwrap_or_else(|| text.to_owned())
}

/// Returns true for a header whose value is a credential.
pub(crate) fn is_secret_header(name: &str) -> bool {
    HEADERS.iter().any(|header| name.eq_ignore_ascii_case(header))
}

/// `of_secrets` is true for the items of a list of Secrets.
fn walk(value: &mut Value, of_secrets: bool) {
    match value {
        Value::Object(members) => {
            let kind = members.get("kind").and_then(Value::as_str).unwrap_or_default();
            let (is_secret, is_list) = (of_secrets || kind == "Secret", kind == "SecretList");
            if is_secret {
                mask_secret(members);
            }
            for (name, member) in members.iter_mut() {
                match member {
                    Value::String(text) if MEMBERS.contains(&name.as_str()) && !text.is_empty() => {
                        MASK.clone_into(text);
                    }
                    Value::Array(items) if is_list && name == "items" => {
                        items.iter_mut().for_each(|item| walk(item, true));
                    }
                    other => walk(other, false),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, of_secrets)),
        Value::String(string) => {
            if let Some(masked) = masked(string) {
                *string = masked;
            }
        }
        _ => {}
    }
}

/// Masks the body of a request for Secrets, whatever its format: patches have no kind.
pub(crate) fn secret_body(value: &mut Value) {
    match value {
        Value::Object(members) => mask_secret(members),
        Value::Array(operations) => {
            for operation in operations.iter_mut().filter_map(Value::as_object_mut) {
                operation.entry("value").and_modify(|value| *value = Value::from(MASK));
            }
        }
        other => *other = Value::from(MASK),
    }
}

fn mask_secret(members: &mut Map<String, Value>) {
    for name in ["data", "stringData"] {
        match members.get_mut(name) {
            Some(Value::Object(data)) => data.values_mut().for_each(|value| *value = Value::from(MASK)),
            Some(other) if !other.is_null() => *other = Value::from(MASK),
            _ => {}
        }
    }
    let annotations = members.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(applied) = annotations.and_then(|annotations| annotations.get_mut(LAST_APPLIED)) {
        *applied = Value::from(MASK);
    }
}

fn masked(text: &str) -> Option<String> {
    let mut out: Option<String> = None;
    for pattern in [&*PRIVATE_KEY, &*TOKEN, &*BEARER] {
        let current = out.as_deref().unwrap_or(text);
        if pattern.is_match(current) {
            out = Some(pattern.replace_all(current, MASK).into_owned());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{is_secret_header, secret_body, text, value};

    #[test]
    fn masks_secrets_and_tokens_and_nothing_else() {
        let secret = |data: &str| {
            json!({"kind": "Secret", "type": "Opaque", "data": {"a": data}, "stringData": {"b": data}, "metadata": {
                "name": "s", "annotations": {"kubectl.kubernetes.io/last-applied-configuration": data, "x": "y"},
                "managedFields": [{"fieldsV1": {"f:data": {"f:a": {}}}}]}})
        };
        let mut item = secret("c2VjcmV0");
        item.as_object_mut().unwrap().remove("kind");
        let mut want = secret("<masked>");
        want.as_object_mut().unwrap().remove("kind");
        for (about, from, to) in [
            ("a Secret", secret("c2VjcmV0"), secret("<masked>")),
            (
                "a list, whose items have no kind",
                json!({"kind": "SecretList", "items": [item]}),
                json!({"kind": "SecretList", "items": [want]}),
            ),
            (
                "rows of a table with whole objects",
                json!({"kind": "Table", "rows": [{"object": secret("c2VjcmV0")}]}),
                json!({"kind": "Table", "rows": [{"object": secret("<masked>")}]}),
            ),
            (
                "a ConfigMap",
                json!({"kind": "ConfigMap", "data": {"a": "b"}}),
                json!({"kind": "ConfigMap", "data": {"a": "b"}}),
            ),
            ("a token request", json!({"status": {"token": "abc"}}), json!({"status": {"token": "<masked>"}})),
            (
                "tokens in texts",
                json!({"kind": "Pod", "a": "use eyJh.eyJp.c2ln now", "b": "Authorization: Bearer abcdefgh.ij"}),
                json!({"kind": "Pod", "a": "use <masked> now", "b": "Authorization: <masked>"}),
            ),
            (
                "private keys",
                json!({"a": "-----BEGIN RSA PRIVATE KEY-----\nx\n-----END RSA PRIVATE KEY-----\nz"}),
                json!({"a": "<masked>\nz"}),
            ),
        ] {
            let mut got: Value = from;
            value(&mut got);
            assert_eq!(got, to, "{about}");
        }
    }

    #[test]
    fn masks_patches_of_secrets() {
        for (from, to) in [
            (json!({"data": {"a": "b"}}), json!({"data": {"a": "<masked>"}})),
            (json!({"data": "x", "metadata": {}}), json!({"data": "<masked>", "metadata": {}})),
            (
                json!([{"op": "add", "path": "/data/a", "value": "b"}, {"op": "remove", "path": "/data/c"}]),
                json!([{"op": "add", "path": "/data/a", "value": "<masked>"}, {"op": "remove", "path": "/data/c"}]),
            ),
            (json!("text"), json!("<masked>")),
        ] {
            let mut got: Value = from;
            secret_body(&mut got);
            assert_eq!(got, to);
        }
    }

    #[test]
    fn recognizes_headers_with_credentials() {
        assert!(is_secret_header("Authorization") && is_secret_header("cookie") && !is_secret_header("Accept"));
        assert_eq!(text("no secret"), "no secret");
    }
}
