//! ECDSA of `ring`, and of RustCrypto for P-521.

use p521::ecdsa::signature::{RandomizedSigner, Verifier};
use ring::error::Unspecified;
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, KeyPair, UnparsedPublicKey, VerificationAlgorithm};

use super::{Curve, InvalidKey};

/// The size in bytes of a scalar; RustCrypto accepts shorter ones.
const P521_SIZE: usize = 66;
/// The algorithm that verifies signatures with P-521 over SHA-256, for providers that have one.
pub const P521_SHA256_ASN1: Option<&dyn VerificationAlgorithm> = None;

/// A private key.
pub struct EcdsaKey {
    pair: Pair,
    point: Vec<u8>,
}

enum Pair {
    Ring(Box<EcdsaKeyPair>, SystemRandom),
    P521(Box<p521::ecdsa::SigningKey>),
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
            Curve::P521 => {
                if scalar.len() != P521_SIZE {
                    return Err(InvalidKey::Mismatch);
                }
                let pair = p521::ecdsa::SigningKey::from_slice(scalar).map_err(|_| InvalidKey::Mismatch)?;
                let point = p521::ecdsa::VerifyingKey::from(&pair).to_encoded_point(false).as_bytes().to_vec();
                return Ok(Self { pair: Pair::P521(Box::new(pair)), point });
            }
        };
        let random = SystemRandom::new();
        let point = point.ok_or(InvalidKey::MissingPoint)?;
        let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, scalar, point, &random)
            .map_err(|_| InvalidKey::Mismatch)?;
        let point = pair.public_key().as_ref().to_vec();
        Ok(Self { pair: Pair::Ring(Box::new(pair), random), point })
    }

    /// Returns the uncompressed point.
    pub fn point(&self) -> &[u8] {
        &self.point
    }

    /// Signs a message.
    ///
    /// # Errors
    /// If the system provides no random bytes.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Unspecified> {
        match &self.pair {
            Pair::Ring(pair, random) => Ok(pair.sign(random, message)?.as_ref().to_vec()),
            Pair::P521(pair) => {
                let signature: p521::ecdsa::Signature = pair
                    .try_sign_with_rng(&mut p521::elliptic_curve::rand_core::OsRng, message)
                    .map_err(|_| Unspecified)?;
                Ok(signature.to_bytes().to_vec())
            }
        }
    }
}

/// Returns true if the signature of the message is valid for an uncompressed point.
pub fn verify(curve: Curve, point: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let algorithm = match curve {
        Curve::P256 => &signature::ECDSA_P256_SHA256_FIXED,
        Curve::P384 => &signature::ECDSA_P384_SHA384_FIXED,
        Curve::P521 => {
            let key = p521::ecdsa::VerifyingKey::from_sec1_bytes(point);
            let signature = p521::ecdsa::Signature::from_slice(signature);
            return matches!((key, signature), (Ok(key), Ok(signature)) if key.verify(message, &signature).is_ok());
        }
    };
    UnparsedPublicKey::new(algorithm, point).verify(message, signature).is_ok()
}
