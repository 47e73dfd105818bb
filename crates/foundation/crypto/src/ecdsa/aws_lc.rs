//! ECDSA of AWS-LC.

use aws_lc_rs::agreement::{ECDH_P521, PrivateKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{self, EcdsaKeyPair, KeyPair, UnparsedPublicKey, VerificationAlgorithm};

use super::{Curve, InvalidKey};

/// The algorithm that verifies signatures with P-521 over SHA-256, for providers that have one.
pub const P521_SHA256_ASN1: Option<&dyn VerificationAlgorithm> = Some(&signature::ECDSA_P521_SHA256_ASN1);

/// A private key.
pub struct EcdsaKey {
    pair: EcdsaKeyPair,
    random: SystemRandom,
}

impl EcdsaKey {
    /// Creates a key from its scalar, in the size of the curve, and its uncompressed point.
    ///
    /// # Errors
    /// If they are not a key of the curve.
    pub fn new(curve: Curve, scalar: &[u8], point: Option<&[u8]>) -> Result<Self, InvalidKey> {
        let algorithm = match curve {
            Curve::P256 => &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            Curve::P384 => &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
            Curve::P521 => &signature::ECDSA_P521_SHA512_FIXED_SIGNING,
        };
        let computed;
        let point = match (curve, point) {
            (Curve::P521, None) => {
                let key = PrivateKey::from_private_key(&ECDH_P521, scalar).map_err(|_| InvalidKey::Mismatch)?;
                computed = key.compute_public_key().map_err(|_| InvalidKey::Mismatch)?;
                computed.as_ref()
            }
            (_, point) => point.ok_or(InvalidKey::MissingPoint)?,
        };
        let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, scalar, point)
            .map_err(|_| InvalidKey::Mismatch)?;
        Ok(Self { pair, random: SystemRandom::new() })
    }

    /// Returns the uncompressed point.
    pub fn point(&self) -> &[u8] {
        self.pair.public_key().as_ref()
    }

    /// Signs a message.
    ///
    /// # Errors
    /// If the system provides no random bytes.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Unspecified> {
        Ok(self.pair.sign(&self.random, message)?.as_ref().to_vec())
    }
}

/// Returns true if the signature of the message is valid for an uncompressed point.
pub fn verify(curve: Curve, point: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let algorithm = match curve {
        Curve::P256 => &signature::ECDSA_P256_SHA256_FIXED,
        Curve::P384 => &signature::ECDSA_P384_SHA384_FIXED,
        Curve::P521 => &signature::ECDSA_P521_SHA512_FIXED,
    };
    UnparsedPublicKey::new(algorithm, point).verify(message, signature).is_ok()
}
