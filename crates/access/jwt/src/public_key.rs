//! Public keys, which verify signatures: RSA and elliptic curves, from DER and JWKS.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use binnacle_crypto::signature;
use binnacle_crypto::{ecdsa, sha256};
use pkcs1::{RsaPublicKey, UintRef};
use pkcs8::ObjectIdentifier;
use pkcs8::der::Encode;
use pkcs8::der::asn1::{AnyRef, BitStringRef};
use pkcs8::spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};
use serde_json::{Value, json};

use crate::{Algorithm, Curve, KeyError};

/// A public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    id: String,
    material: Material,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Material {
    /// Big-endian, without leading zeros.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// The point in SEC1's uncompressed encoding: 4, x, y.
    Ec { curve: Curve, point: Vec<u8> },
}

impl PublicKey {
    pub(crate) fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, KeyError> {
        let (modulus, exponent) = (trim_zeros(modulus).to_vec(), trim_zeros(exponent).to_vec());
        if modulus.is_empty() || exponent.is_empty() {
            return Err(KeyError::new("an RSA key without modulus or exponent"));
        }
        Self::with_own_id(Material::Rsa { modulus, exponent })
    }

    pub(crate) fn ec(curve: Curve, point: &[u8]) -> Result<Self, KeyError> {
        if point.len() != 2 * curve.size() + 1 || point[0] != 4 {
            return Err(KeyError::new("x509: failed to unmarshal elliptic curve point"));
        }
        Self::with_own_id(Material::Ec { curve, point: point.to_vec() })
    }

    fn with_own_id(material: Material) -> Result<Self, KeyError> {
        // The ID is a digest, so that it can be published without the key.
        let spki = material.to_spki().map_err(KeyError::malformed)?;
        Ok(Self { id: BASE64_URL_SAFE_NO_PAD.encode(sha256(spki)), material })
    }

    /// Parses a SubjectPublicKeyInfo.
    pub fn from_spki(spki: &[u8]) -> Result<Self, KeyError> {
        let info = SubjectPublicKeyInfoRef::try_from(spki).map_err(KeyError::malformed)?;
        let bits = info.subject_public_key.as_bytes();
        let bits = bits.ok_or_else(|| KeyError::new("asn1: structure error: a bit string of broken bytes"))?;
        match info.algorithm.oid {
            pkcs1::ALGORITHM_OID => Self::from_pkcs1(bits),
            sec1::ALGORITHM_OID => {
                let curve = info.algorithm.parameters_oid().ok().and_then(Curve::of_oid);
                Self::ec(curve.ok_or_else(|| KeyError::new("x509: unsupported elliptic curve"))?, bits)
            }
            _ => Err(KeyError::new("x509: unknown public key algorithm")),
        }
    }

    /// Parses an RSAPublicKey.
    pub(crate) fn from_pkcs1(pkcs1: &[u8]) -> Result<Self, KeyError> {
        let key = RsaPublicKey::try_from(pkcs1).map_err(KeyError::malformed)?;
        Self::rsa(key.modulus.as_bytes(), key.public_exponent.as_bytes())
    }

    /// Returns the key ID: the one in the key set if there is one, or else one derived from the key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the same key with another ID.
    #[must_use]
    pub fn with_id(self, id: &str) -> Self {
        Self { id: id.to_owned(), ..self }
    }

    /// Returns the algorithm of service account tokens that are signed with the private half.
    pub fn algorithm(&self) -> Algorithm {
        match &self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::Ec { curve, .. } => curve.algorithm(),
        }
    }

    /// Returns the estimated cost of verifying a signature, in units of ten nanoseconds.
    pub fn steps(&self) -> u64 {
        match &self.material {
            // One squaring per bit of the exponent, whose cost grows with the square of the modulus.
            Material::Rsa { modulus, exponent } => {
                let (words, bits) = (modulus.len().min(1024) as u64 / 8 + 1, 8 * exponent.len().min(5) as u64 + 1);
                1000 + words * words * bits / 4
            }
            Material::Ec { curve: Curve::P256, .. } => 10_000,
            Material::Ec { curve: Curve::P384, .. } => 50_000,
            // Not implemented in assembly, unlike the others.
            Material::Ec { curve: Curve::P521, .. } => 300_000,
        }
    }

    /// Returns true if `signature` is a valid signature of `message`; false for an algorithm of another key type.
    pub fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> bool {
        match &self.material {
            Material::Rsa { modulus, exponent } => {
                let parameters: &signature::RsaParameters = match algorithm {
                    Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                    Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                    Algorithm::Es256 | Algorithm::Es384 | Algorithm::Es512 => return false,
                };
                let key = signature::RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(parameters, message, signature).is_ok()
            }
            Material::Ec { curve, .. } if curve.algorithm() != algorithm => false,
            Material::Ec { curve, point } => ecdsa::verify(curve.to_provider(), point, message, signature),
        }
    }

    /// Returns the key as a JWK (RFC 7517) with `use: sig`.
    pub fn to_jwk(&self) -> Value {
        let text = |bytes: &[u8]| BASE64_URL_SAFE_NO_PAD.encode(bytes);
        let alg = self.algorithm().name();
        match &self.material {
            Material::Rsa { modulus, exponent } => json!({
                "use": "sig", "kty": "RSA", "kid": self.id, "alg": alg, "n": text(modulus), "e": text(exponent)
            }),
            Material::Ec { curve, point } => {
                let (x, y) = point[1..].split_at(curve.size());
                json!({
                    "use": "sig", "kty": "EC", "kid": self.id, "crv": curve.name(), "alg": alg, "x": text(x), "y": text(y)
                })
            }
        }
    }

    fn from_jwk(jwk: &Value) -> Result<Self, KeyError> {
        let bytes = |member: &str| {
            let text = jwk[member].as_str().ok_or_else(|| KeyError(format!("a key without {member}")))?;
            BASE64_URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|error| KeyError(error.to_string()))
        };
        let mut key = match jwk["kty"].as_str() {
            Some("RSA") => Self::rsa(&bytes("n")?, &bytes("e")?)?,
            Some("EC") => {
                let curve = jwk["crv"].as_str().and_then(Curve::of_name);
                let curve = curve.ok_or_else(|| KeyError::new("an unknown curve"))?;
                Self::ec(curve, &[vec![4], bytes("x")?, bytes("y")?].concat())?
            }
            kind => return Err(KeyError(format!("a key of the unknown kind {kind:?}"))),
        };
        key.id = jwk["kid"].as_str().unwrap_or_default().to_owned();
        Ok(key)
    }
}

impl Material {
    fn to_spki(&self) -> pkcs8::der::Result<Vec<u8>> {
        match self {
            Self::Rsa { modulus, exponent } => {
                let (modulus, public_exponent) = (UintRef::new(modulus)?, UintRef::new(exponent)?);
                let key = RsaPublicKey { modulus, public_exponent }.to_der()?;
                spki(pkcs1::ALGORITHM_OID, AnyRef::NULL, &key)
            }
            Self::Ec { curve, point } => spki(sec1::ALGORITHM_OID, (&curve.oid()).into(), point),
        }
    }
}

fn spki(oid: ObjectIdentifier, parameters: AnyRef<'_>, key: &[u8]) -> pkcs8::der::Result<Vec<u8>> {
    let algorithm = AlgorithmIdentifierRef { oid, parameters: Some(parameters) };
    SubjectPublicKeyInfoRef { algorithm, subject_public_key: BitStringRef::from_bytes(key)? }.to_der()
}

pub(crate) fn trim_zeros(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros..]
}

/// Parses the supported signature keys of a JWKS. Other keys are skipped, since a provider may have keys for other uses
/// and of newer types.
pub fn parse_key_set(json: &[u8]) -> Result<Vec<PublicKey>, KeyError> {
    // A token without a key ID is verified with each of them.
    const MAX_KEYS: usize = 100;
    let set: Value = serde_json::from_slice(json).map_err(|error| KeyError(error.to_string()))?;
    let keys = set["keys"].as_array().ok_or_else(|| KeyError::new("a key set without keys"))?;
    let signs = |jwk: &&Value| jwk["use"].as_str().is_none_or(|purpose| purpose.is_empty() || purpose == "sig");
    Ok(keys.iter().filter(signs).take(MAX_KEYS).filter_map(|jwk| PublicKey::from_jwk(jwk).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rsa(modulus: usize, exponent: &[u8]) -> PublicKey {
        PublicKey::rsa(&vec![0xff; modulus], exponent).expect("a key")
    }

    /// Key sets with the most expensive keys.
    #[test]
    fn bounds_the_work_of_verification() {
        let usual = [1, 0, 1];
        let steps = [256, 512, 1024].map(|bytes| rsa(bytes, &usual).steps());
        assert!(steps.is_sorted() && steps[0] < 10_000, "{steps:?}");
        let worst = rsa(1024, &[0xff; 5]).steps();
        assert!(worst > steps[2] && worst < 500_000, "{worst}");
        // Larger keys are rejected at no cost.
        assert_eq!(rsa(100_000, &[0xff; 100_000]).steps(), rsa(1024, &[0xff; 5]).steps());
        let text = BASE64_URL_SAFE_NO_PAD.encode([0xff; 256]);
        let keys = vec![json!({"kty": "RSA", "n": text, "e": "AQAB"}); 1000];
        let set = json!({ "keys": keys }).to_string();
        assert_eq!(parse_key_set(set.as_bytes()).expect("a set").len(), 100);
    }
}
