//! Compact tokens: header, claims, signature.

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;

use crate::{Algorithm, PublicKey};

/// The maximum size of a token in bytes, larger than any request header.
const MAX_BYTES: usize = 256 << 10;

/// Go's `base64.RawURLEncoding`, which ignores the unused bits of the last character.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone)
        .with_decode_allow_trailing_bits(true),
);

/// A parsed token. Its signature has not been verified.
#[derive(Clone, Debug)]
pub struct Token {
    header: Value,
    claims: Value,
    signature: Vec<u8>,
    /// The signed bytes. As in go-jose, they are encoded again from the decoded parts.
    message: Vec<u8>,
}

/// The error of a token whose verification fails. As in go-jose, it does not give the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("go-jose/go-jose: error in cryptographic primitive")]
pub struct TokenError;

impl Token {
    /// Parses a token; `None` if the text is not a token.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let mut parts = text.split('.');
        let (header, claims, signature) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        // kube-apiserver reads the issuer before go-jose removes all whitespace.
        let header = decode(header, char::is_whitespace)?;
        let payload = decode(claims, |c| matches!(c, '\r' | '\n'))?;
        let signature = decode(signature, char::is_whitespace)?;
        let json = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok().filter(Value::is_object);
        let (head, claims) = (json(&header).filter(has_known_types)?, json(&payload)?);
        let mut message = BASE64.encode(&header).into_bytes();
        message.push(b'.');
        // RFC 7797: the payload is signed without being encoded.
        match head.get("b64") == Some(&Value::Bool(false)) {
            true => message.extend_from_slice(&payload),
            false => message.extend_from_slice(BASE64.encode(&payload).as_bytes()),
        }
        Some(Self { header: head, claims, signature, message })
    }

    /// Returns the key ID in the header.
    pub fn key_id(&self) -> &str {
        self.header["kid"].as_str().unwrap_or_default()
    }

    /// Returns the algorithm in the header, if it is a supported public-key signature.
    pub fn algorithm(&self) -> Option<Algorithm> {
        Algorithm::from_name(self.header["alg"].as_str()?)
    }

    /// Returns the claims without verifying the signature; they may be forged.
    pub fn unverified(&self) -> &Value {
        &self.claims
    }

    /// Returns the issuer without verifying the signature. The claim is matched case-insensitively, as by Go's JSON
    /// decoder.
    pub fn unverified_issuer(&self) -> &str {
        let claims = self.claims.as_object();
        let other = || claims?.iter().find(|(name, _)| name.eq_ignore_ascii_case("iss")).map(|(_, value)| value);
        self.claims.get("iss").or_else(other).and_then(Value::as_str).unwrap_or_default()
    }

    /// Verifies the signature with `key` and returns the claims.
    pub fn verify(&self, key: &PublicKey) -> Result<&Value, TokenError> {
        let algorithm = self.algorithm().filter(|_| !self.has_unknown_critical()).ok_or(TokenError)?;
        if key.verify(algorithm, &self.message, &self.signature) { Ok(&self.claims) } else { Err(TokenError) }
    }

    /// Returns true if the header has a critical extension that is not supported.
    fn has_unknown_critical(&self) -> bool {
        match self.header.get("crit") {
            None | Some(Value::Null) => false,
            Some(Value::Array(names)) => names.iter().any(|name| name != "b64"),
            Some(_) => true,
        }
    }
}

fn decode(part: &str, is_ignored: impl Fn(char) -> bool) -> Option<Vec<u8>> {
    match part.contains(&is_ignored) {
        true => BASE64.decode(part.replace(is_ignored, "")).ok(),
        false => BASE64.decode(part).ok(),
    }
}

/// Returns true if the fields of a header that go-jose reads have the types that it expects.
fn has_known_types(header: &Value) -> bool {
    let is = |name: &str, kind: fn(&Value) -> bool| header.get(name).is_none_or(|value| value.is_null() || kind(value));
    ["alg", "kid", "nonce"].into_iter().all(|name| is(name, Value::is_string))
        && is("jwk", Value::is_object)
        && is("x5c", Value::is_array)
}
