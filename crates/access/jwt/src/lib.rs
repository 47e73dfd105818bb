//! JSON web tokens as Kubernetes uses them: compact, signed with RSA or elliptic curves; shared secrets and unsigned
//! tokens are not supported. Keys come from PEM files and from key sets (JWKS).
//!
//! [`external_signer`] has tokens signed by another process. This crate does not interpret claims; without a verified signature only [`Token::unverified`] returns them.

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

    /// Returns the error of bytes that are not the DER of a key.
    fn malformed(error: impl std::fmt::Display) -> Self {
        Self(format!("asn1: structure error: {error}"))
    }
}
