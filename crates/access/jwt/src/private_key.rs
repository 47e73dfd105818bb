//! Private keys, which sign tokens.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use p521::ecdsa::signature::RandomizedSigner;
use pkcs8::PrivateKeyInfo;
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, KeyPair, RsaKeyPair};
use sec1::{EcParameters, EcPrivateKey};
use serde_json::{Value, json};

use crate::public_key::trim_zeros;
use crate::{Algorithm, Curve, KeyError, PublicKey};

/// An RSA or elliptic-curve key pair. `Debug` does not print the private half.
pub struct PrivateKey {
    pair: Pair,
    public: PublicKey,
    random: SystemRandom,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    /// P-256 or P-384.
    Ec(Box<EcdsaKeyPair>),
    P521(Box<p521::ecdsa::SigningKey>),
}

impl PrivateKey {
    /// Parses an RSAPrivateKey.
    pub(crate) fn from_pkcs1(pkcs1: &[u8]) -> Result<Self, KeyError> {
        let pair = RsaKeyPair::from_der(pkcs1).map_err(|error| KeyError(error.to_string()))?;
        let public = PublicKey::from_pkcs1(pair.public_key().as_ref())?;
        Ok(Self { pair: Pair::Rsa(Box::new(pair)), public, random: SystemRandom::new() })
    }

    /// Parses an ECPrivateKey; `curve` is used if the key does not have its own.
    pub(crate) fn from_sec1(sec1: &[u8], curve: Option<Curve>) -> Result<Self, KeyError> {
        let key = EcPrivateKey::try_from(sec1).map_err(KeyError::malformed)?;
        let named = key.parameters.and_then(EcParameters::named_curve).and_then(Curve::of_oid);
        let curve =
            named.or(curve).ok_or_else(|| KeyError::new("unknown private key curve, must be 256, 384, or 521"))?;
        let (scalar, point) = (key.private_key, key.public_key);
        let rejected = || KeyError::new("x509: invalid elliptic curve private key value");
        // Some tools omit leading zeros.
        let scalar = trim_zeros(scalar);
        let missing = curve.size().checked_sub(scalar.len()).ok_or_else(rejected)?;
        let scalar = [&vec![0; missing], scalar].concat();
        let random = SystemRandom::new();
        if curve == Curve::P521 {
            let pair = p521::ecdsa::SigningKey::from_slice(&scalar).map_err(|_| rejected())?;
            let verifying = p521::ecdsa::VerifyingKey::from(&pair);
            let public = PublicKey::ec(curve, verifying.to_encoded_point(false).as_bytes())?;
            return Ok(Self { pair: Pair::P521(Box::new(pair)), public, random });
        }
        let algorithm = match curve {
            Curve::P256 => &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            _ => &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
        };
        let point = point.ok_or_else(|| KeyError::new("an elliptic curve key without its public half"))?;
        let pair = EcdsaKeyPair::from_private_key_and_public_key(algorithm, &scalar, point, &random)
            .map_err(|_| rejected())?;
        Ok(Self { pair: Pair::Ec(Box::new(pair)), public: PublicKey::ec(curve, point)?, random })
    }

    pub(crate) fn from_pkcs8(pkcs8: &[u8]) -> Result<Self, KeyError> {
        let info = PrivateKeyInfo::try_from(pkcs8).map_err(KeyError::malformed)?;
        match info.algorithm.oid {
            pkcs1::ALGORITHM_OID => Self::from_pkcs1(info.private_key),
            sec1::ALGORITHM_OID => {
                Self::from_sec1(info.private_key, info.algorithm.parameters_oid().ok().and_then(Curve::of_oid))
            }
            _ => Err(KeyError::new("PKCS#8 wrapping contained private key with unknown algorithm")),
        }
    }

    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// Signs claims as a compact token: RSA keys with RS256, others with the algorithm of their curve. The header has
    /// the algorithm and the key ID.
    pub fn sign(&self, claims: &Value) -> Result<String, KeyError> {
        let header = json!({"alg": self.public.algorithm().name(), "kid": self.public.id()});
        self.sign_with(&header, self.public.algorithm(), claims)
    }

    fn sign_with(&self, header: &Value, algorithm: Algorithm, claims: &Value) -> Result<String, KeyError> {
        let text = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", text(header), text(claims));
        let signature = self.signature(algorithm, message.as_bytes())?;
        Ok(format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }

    fn signature(&self, algorithm: Algorithm, message: &[u8]) -> Result<Vec<u8>, KeyError> {
        let failed = |_| KeyError::new("signing failed");
        match &self.pair {
            Pair::Rsa(pair) => {
                let encoding: &dyn signature::RsaEncoding = match algorithm {
                    Algorithm::Rs384 => &signature::RSA_PKCS1_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_SHA384,
                    Algorithm::Ps512 => &signature::RSA_PSS_SHA512,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut out = vec![0; pair.public().modulus_len()];
                pair.sign(encoding, &self.random, message, &mut out).map_err(failed)?;
                Ok(out)
            }
            Pair::Ec(pair) => Ok(pair.sign(&self.random, message).map_err(failed)?.as_ref().to_vec()),
            Pair::P521(pair) => {
                let signature: p521::ecdsa::Signature = pair
                    .try_sign_with_rng(&mut p521::elliptic_curve::rand_core::OsRng, message)
                    .map_err(|_| failed(ring::error::Unspecified))?;
                Ok(signature.to_bytes().to_vec())
            }
        }
    }

    /// Signs like [`PrivateKey::sign`], with another RSA algorithm, as identity providers do.
    pub fn sign_by(&self, algorithm: Algorithm, claims: &Value) -> Result<String, KeyError> {
        let header = json!({"alg": algorithm.name(), "kid": self.public.id()});
        self.sign_with(&header, algorithm, claims)
    }
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PrivateKey").field("id", &self.public.id()).finish_non_exhaustive()
    }
}
