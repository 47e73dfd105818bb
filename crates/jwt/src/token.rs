//! Compact tokens: header, claims, signature.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::{Algorithm, PublicKey};

/// The maximum size of a token in bytes: more than any request header has.
const MAX_BYTES: usize = 256 << 10;

/// A parsed token. Its signature has not been verified.
#[derive(Clone, Debug)]
pub struct Token<'a> {
    header: Value,
    claims: Value,
    signature: Vec<u8>,
    /// The signed part of the text: header and claims.
    message: &'a str,
}

/// The error of a token whose verification fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("go-jose/go-jose: unknown/unsupported algorithm")]
    Algorithm,
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Signature,
    /// The header has a critical extension (`crit`), and none is supported.
    #[error("go-jose/go-jose: unsupported crit header")]
    Critical,
}

impl<'a> Token<'a> {
    /// Parses a token; `None` if the text is not a token.
    pub fn parse(text: &'a str) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let (message, signature) = text.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        let decode = |part: &str| BASE64_URL_SAFE_NO_PAD.decode(part).ok();
        let json = |part: &str| serde_json::from_slice::<Value>(&decode(part)?).ok().filter(Value::is_object);
        Some(Self { header: json(header)?, claims: json(claims)?, signature: decode(signature)?, message })
    }

    /// Returns the key ID in the header.
    pub fn key_id(&self) -> &str {
        self.header["kid"].as_str().unwrap_or_default()
    }

    /// Returns the algorithm in the header, if it is a supported public-key signature.
    pub fn algorithm(&self) -> Option<Algorithm> {
        Algorithm::from_name(self.header["alg"].as_str()?)
    }

    /// Returns the claims without verifying the signature: they may be forged.
    pub fn unverified(&self) -> &Value {
        &self.claims
    }

    /// Returns the claims, if this key signed them.
    pub fn verify(&self, key: &PublicKey) -> Result<&Value, TokenError> {
        if self.header.get("crit").is_some() {
            return Err(TokenError::Critical);
        }
        let algorithm = self.algorithm().ok_or(TokenError::Algorithm)?;
        if key.verify(algorithm, self.message.as_bytes(), &self.signature) {
            Ok(&self.claims)
        } else {
            Err(TokenError::Signature)
        }
    }
}
