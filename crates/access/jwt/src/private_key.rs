//! Private keys, which sign tokens.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use binnacle_crypto::ecdsa::{EcdsaKey, InvalidKey};
use binnacle_crypto::rand::SystemRandom;
use binnacle_crypto::rsa_modulus_len;
use binnacle_crypto::signature::{self, KeyPair, RsaKeyPair};
use pkcs8::PrivateKeyInfo;
use sec1::{EcParameters, EcPrivateKey};
use serde_json::{Value, json};

use crate::public_key::trim_zeros;
use crate::{Algorithm, Curve, KeyError, PublicKey};

/// An RSA or elliptic-curve key pair. `Debug` does not print the private half.
pub struct PrivateKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    Ec(Box<EcdsaKey>),
}

impl PrivateKey {
    /// Parses an RSAPrivateKey.
    pub(crate) fn from_pkcs1(pkcs1: &[u8]) -> Result<Self, KeyError> {
        let pair = RsaKeyPair::from_der(pkcs1).map_err(|error| KeyError(error.to_string()))?;
        let public = PublicKey::from_pkcs1(pair.public_key().as_ref())?;
        Ok(Self { pair: Pair::Rsa(Box::new(pair)), public })
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
        let pair = EcdsaKey::new(curve.to_provider(), &scalar, point).map_err(|error| match error {
            InvalidKey::MissingPoint => KeyError::new("an elliptic curve key without its public half"),
            InvalidKey::Mismatch => rejected(),
        })?;
        let public = PublicKey::ec(curve, pair.point())?;
        Ok(Self { pair: Pair::Ec(Box::new(pair)), public })
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
                let mut out = vec![0; rsa_modulus_len(pair)];
                pair.sign(encoding, &SystemRandom::new(), message, &mut out).map_err(failed)?;
                Ok(out)
            }
            Pair::Ec(pair) => pair.sign(message).map_err(failed),
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
