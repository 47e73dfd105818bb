//! JSON web tokens as Kubernetes uses them: compact, signed with RSA or elliptic curves; shared secrets and unsigned
//! tokens are not supported. Keys come from PEM files and from key sets (JWKS).
//!
//! [`external_signer`] delegates signing to another process. This crate does not interpret claims, and returns those of
//! a token whose signature is not verified only from [`Token::unverified`] and [`Token::unverified_issuer`].

mod algorithm;
pub mod external_signer;
mod pem;
mod private_key;
mod public_key;
mod token;

pub use algorithm::{Algorithm, Curve};
pub use pem::{KeyFileError, load_private, load_public, private_from_pem, public_from_pem};
pub use private_key::PrivateKey;
pub use public_key::{PublicKey, parse_key_set};
pub use token::{Token, TokenError};

/// The error of an invalid or unsupported key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(pub String);

impl KeyError {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }

    /// Returns the error for bytes that are not a key in DER.
    fn malformed(error: impl std::fmt::Display) -> Self {
        Self(format!("asn1: structure error: {error}"))
    }
}
