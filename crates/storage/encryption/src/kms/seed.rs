//! Derivation of keys from a seed: each value has a prefix of 32 random bytes. HKDF-SHA256 (expansion only) derives the
//! key for this value from the seed and the prefix, so one seed can be used for any number of writes.

use binnacle_crypto::error::Unspecified;
use binnacle_crypto::hkdf::{HKDF_SHA256, Prk};
use binnacle_crypto::sha256;

use crate::ciphers::{Gcm, random};
use crate::transform_result::TransformError;

/// The size in bytes of the seed, of each value's prefix, and of the keys.
const SIZE: usize = 32;

/// The seed or key that the plugin decrypted.
pub(crate) enum DataKey {
    Seed(Prk),
    /// A key without a seed, as written by older servers.
    Key(Box<Gcm>),
}

impl DataKey {
    /// Returns a new seed and its bytes.
    pub(crate) fn generate() -> Result<(Self, Vec<u8>), TransformError> {
        let seed = random::<SIZE>()?;
        Ok((Self::seed(&seed)?, seed.to_vec()))
    }

    pub(crate) fn seed(seed: &[u8]) -> Result<Self, TransformError> {
        if seed.len() < SIZE {
            let why = format!("invalid seed length {} used for key generation", seed.len());
            return Err(TransformError::new(why));
        }
        Ok(Self::Seed(key_of(seed)))
    }

    pub(crate) fn key(key: &[u8]) -> Result<Self, TransformError> {
        Ok(Self::Key(Box::new(Gcm::new(key)?)))
    }

    /// Encrypts a value, which is only possible with a seed.
    pub(crate) fn seal(&self, value: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, TransformError> {
        match self {
            Self::Seed(seed) => {
                let info = random::<SIZE>()?;
                let sealed = derive_key(seed, &info)?.seal(value, authenticated)?;
                Ok([&info, &*sealed].concat())
            }
            Self::Key(key) => key.seal(value, authenticated),
        }
    }

    pub(crate) fn open(&self, data: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, TransformError> {
        match self {
            Self::Seed(seed) => {
                let too_short = || TransformError::new("the stored data was shorter than the required size");
                let (info, data) = data.split_at_checked(SIZE).ok_or_else(too_short)?;
                derive_key(seed, info)?.open(data, authenticated)
            }
            Self::Key(key) => key.open(data, authenticated),
        }
    }
}

/// Returns the key of HMAC-SHA256, which hashes longer keys than a block. AWS-LC accepts none of those.
fn key_of(seed: &[u8]) -> Prk {
    const HMAC_BLOCK: usize = 64;
    match seed.len() > HMAC_BLOCK {
        true => Prk::new_less_safe(HKDF_SHA256, &sha256(seed)),
        false => Prk::new_less_safe(HKDF_SHA256, seed),
    }
}

fn derive_key(seed: &Prk, info: &[u8]) -> Result<Gcm, TransformError> {
    Gcm::new(&expand(seed, info).map_err(|_| TransformError::new("failed to KDF expand seed with info"))?)
}

fn expand(seed: &Prk, info: &[u8]) -> Result<[u8; SIZE], Unspecified> {
    let mut key = [0; SIZE];
    seed.expand(&[info], HKDF_SHA256)?.fill(&mut key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_decrypts_only_its_values() {
        let (key, seed) = DataKey::generate().unwrap();
        let sealed = key.seal(b"value", b"/registry/a").unwrap();
        assert_eq!(sealed.len(), 32 + 12 + 5 + 16);
        let again = DataKey::seed(&seed).unwrap();
        assert_eq!(again.open(&sealed, b"/registry/a").unwrap(), b"value");
        assert!(again.open(&sealed, b"/registry/b").is_err());
        assert!(again.open(&sealed[..31], b"/registry/a").is_err());
        assert!(DataKey::seed(&seed[..31]).is_err());
        for length in [64, 65, 1000] {
            let seed = vec![5; length];
            let sealed = DataKey::seed(&seed).unwrap().seal(b"value", b"/registry/a").unwrap();
            assert_eq!(DataKey::seed(&seed).unwrap().open(&sealed, b"/registry/a").unwrap(), b"value", "{length}");
        }
    }

    /// The expansion of RFC 5869, test case 1.
    #[test]
    fn matches_rfc5869_test_vector() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
        };
        let prk = hex("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
        let key = expand(&key_of(&prk), &hex("f0f1f2f3f4f5f6f7f8f9")).unwrap();
        assert_eq!(key.to_vec(), hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"));
    }
}
