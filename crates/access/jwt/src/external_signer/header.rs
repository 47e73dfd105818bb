//! Validates token headers from a signer, which may only contain algorithm, key ID and type.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use binnacle_meta::go_quote;
use serde_json::Value;

/// The maximum length of a key ID.
pub(crate) const MAX_KEY_ID: usize = 1024;

/// Returns the ID of the signing key, or the reason why the header is invalid.
pub(crate) fn key_id(header: &str) -> Result<String, String> {
    let json = BASE64_URL_SAFE_NO_PAD.decode(header).map_err(|error| format!("while unwrapping header: {error}"))?;
    let parsed: Value = serde_json::from_slice(&json).map_err(|error| format!("while parsing header JSON: {error}"))?;
    let Value::Object(members) = parsed else {
        return Err("while parsing header JSON: json: cannot unmarshal into Go value of type struct".to_owned());
    };
    if let Some(other) = members.keys().find(|name| !matches!(name.as_str(), "alg" | "kid" | "typ")) {
        return Err(format!("while parsing header JSON: json: unknown field {}", go_quote(other)));
    }
    let text = |name: &str| match members.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text.as_str()),
        Some(_) => Err(format!("while parsing header JSON: json: cannot unmarshal {name} into a string")),
    };
    let (algorithm, id, kind) = (text("alg")?, text("kid")?, text("typ")?);
    match () {
        () if kind != "JWT" => Err("bad type".to_owned()),
        () if id.is_empty() => Err("key id missing".to_owned()),
        () if id.len() > MAX_KEY_ID => Err("key id longer than 1 kb".to_owned()),
        () if !matches!(algorithm, "RS256" | "ES256" | "ES384" | "ES512") => {
            Err(format!("bad signing algorithm {}", go_quote(algorithm)))
        }
        () => Ok(id.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_alg_kid_and_typ() {
        let long = format!(r#"{{"alg":"RS256","kid":"{}","typ":"JWT"}}"#, "k".repeat(MAX_KEY_ID + 1));
        for (header, want) in [
            (r#"{"alg":"RS256","kid":"k","typ":"JWT"}"#, Ok("k")),
            (r#"{"alg":"ES512","kid":"k","typ":"JWT"}"#, Ok("k")),
            (r#"{"alg":"RS256","kid":"k"}"#, Err("bad type")),
            (r#"{"alg":"RS256","kid":"k","typ":"at+jwt"}"#, Err("bad type")),
            (r#"{"alg":"RS256","typ":"JWT"}"#, Err("key id missing")),
            (&long, Err("key id longer than 1 kb")),
            (r#"{"alg":"PS256","kid":"k","typ":"JWT"}"#, Err("bad signing algorithm \"PS256\"")),
            (r#"{"alg":"none","kid":"k","typ":"JWT"}"#, Err("bad signing algorithm \"none\"")),
            (
                r#"{"alg":"RS256","kid":"k","typ":"JWT","crit":["x"]}"#,
                Err("while parsing header JSON: json: unknown field \"crit\""),
            ),
        ] {
            let id = key_id(&BASE64_URL_SAFE_NO_PAD.encode(header));
            assert_eq!(id, want.map(str::to_owned).map_err(str::to_owned), "{header}");
        }
        assert!(key_id("*").unwrap_err().starts_with("while unwrapping header: "));
        assert!(key_id("bm8").unwrap_err().starts_with("while parsing header JSON: "));
    }
}
