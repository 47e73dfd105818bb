//! The compared part of a JSON web token.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// Returns header and claims of a token, with its lifetime in place of times, and without the key ID.
pub(crate) fn describe(token: &str) -> Value {
    let Some((mut header, mut claims)) = decode(token) else { return json!({"undecodable": true}) };
    if let Some(header) = header.as_object_mut() {
        header.remove("kid");
    }
    if let (Some(expires), Some(issued)) = (claims["exp"].as_i64(), claims["iat"].as_i64()) {
        claims["lifetime"] = Value::from(expires - issued);
    }
    let mut hide = |pointer: &str| {
        if let Some(value) = claims.pointer_mut(pointer) {
            *value = Value::from("<number>");
        }
    };
    ["/exp", "/iat", "/nbf", "/kubernetes.io/warnafter"].iter().for_each(|pointer| hide(pointer));
    json!({"header": header, "claims": claims})
}

fn decode(token: &str) -> Option<(Value, Value)> {
    let mut parts = token.split('.');
    let mut part = || serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(parts.next()?).ok()?).ok();
    let (header, claims) = (part()?, part()?);
    (parts.count() == 1).then_some((header, claims))
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_URL_SAFE_NO_PAD;
    use serde_json::{Value, json};

    use super::describe;

    #[test]
    fn describes_tokens_without_times() {
        let part = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let header = part(json!({"alg": "RS256", "kid": "x"}));
        for (token, want) in [
            (
                format!(
                    "{header}.{}.sig",
                    part(json!({"exp": 700, "iat": 100, "sub": "s", "kubernetes.io": {"warnafter": 5}}))
                ),
                json!({"header": {"alg": "RS256"}, "claims": {"exp": "<number>", "iat": "<number>", "lifetime": 600, "sub": "s",
                       "kubernetes.io": {"warnafter": "<number>"}}}),
            ),
            (
                format!("{header}.{}.sig", part(json!({"sub": "s"}))),
                json!({"header": {"alg": "RS256"}, "claims": {"sub": "s"}}),
            ),
            (format!("{header}.{header}"), json!({"undecodable": true})),
            (format!("{header}.{header}.a.b"), json!({"undecodable": true})),
            ("x.y.z".to_owned(), json!({"undecodable": true})),
            (String::new(), json!({"undecodable": true})),
        ] {
            assert_eq!(describe(&token), want, "{token}");
        }
    }
}
