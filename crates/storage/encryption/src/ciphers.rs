//! Ciphers with keys from the configuration file. Each one puts its nonce in front of the ciphertext.

use binnacle_crypto::aes::{self, AesError, BLOCK, GCM_NONCE};
use binnacle_crypto::error::Unspecified;
use crypto_secretbox::XSalsa20Poly1305;
use crypto_secretbox::aead::{Aead, KeyInit};

use crate::transform_result::TransformError;

const SECRETBOX_NONCE: usize = 24;
const SECRETBOX_TAG: usize = 16;

/// A cipher for values, with its key.
pub(crate) enum Cipher {
    Gcm(Box<Gcm>),
    Cbc(Vec<u8>),
    Secretbox(Box<XSalsa20Poly1305>),
}

/// AES-GCM with a key of 16, 24 or 32 bytes. The storage key is authenticated, so a value cannot be moved to another
/// key.
pub(crate) struct Gcm(aes::Gcm);

/// Returns `N` cryptographically random bytes.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], TransformError> {
    binnacle_crypto::random().map_err(|Unspecified| TransformError::new("the system provides no random bytes"))
}

fn too_short() -> TransformError {
    TransformError::new("the stored data was shorter than the required size")
}

fn wrong_key_size(key: &[u8]) -> TransformError {
    TransformError::new(format!("crypto/aes: invalid key size {}", key.len()))
}

impl Gcm {
    pub(crate) fn new(key: &[u8]) -> Result<Self, TransformError> {
        aes::Gcm::new(key).map(Self).map_err(|_| wrong_key_size(key))
    }

    pub(crate) fn open(&self, data: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, TransformError> {
        if data.len() < GCM_NONCE {
            return Err(too_short());
        }
        let opened = self.0.open(data, authenticated);
        opened.map_err(|_| TransformError::new("cipher: message authentication failed"))
    }

    pub(crate) fn seal(&self, data: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, TransformError> {
        self.0.seal(data, authenticated).map_err(|error| {
            TransformError::new(match error {
                AesError::NotApproved => "AES-GCM with a key of 24 bytes cannot encrypt in FIPS mode",
                _ => "cipher: message too large for GCM",
            })
        })
    }
}

impl Cipher {
    pub(crate) fn gcm(key: &[u8]) -> Result<Self, TransformError> {
        Ok(Self::Gcm(Box::new(Gcm::new(key)?)))
    }

    pub(crate) fn secretbox(key: &[u8]) -> Result<Self, TransformError> {
        let cipher = XSalsa20Poly1305::new_from_slice(key).map_err(|_| {
            TransformError::new(format!("expected key size 32 for secretbox provider, got {}", key.len()))
        })?;
        Ok(Self::Secretbox(Box::new(cipher)))
    }

    pub(crate) fn open(&self, data: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, TransformError> {
        match self {
            Self::Gcm(gcm) => gcm.open(data, authenticated),
            Self::Cbc(key) => open_cbc(key, data),
            Self::Secretbox(cipher) => {
                if data.len() < SECRETBOX_NONCE + SECRETBOX_TAG {
                    return Err(too_short());
                }
                let (nonce, data) = data.split_at(SECRETBOX_NONCE);
                // kube-apiserver's message for a value that is not authentic.
                let why = "output array was not large enough for encryption";
                cipher.decrypt(nonce.into(), data).map_err(|_| TransformError::new(why))
            }
        }
    }

    pub(crate) fn seal(&self, data: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, TransformError> {
        match self {
            Self::Gcm(gcm) => gcm.seal(data, authenticated),
            Self::Cbc(key) => seal_cbc(key, data),
            Self::Secretbox(cipher) => {
                let nonce = random::<SECRETBOX_NONCE>()?;
                let sealed = cipher.encrypt((&nonce).into(), data);
                let sealed = sealed.map_err(|_| TransformError::new("secretbox: message too large"))?;
                Ok([&nonce, &*sealed].concat())
            }
        }
    }
}

/// Decrypts AES-CBC, which is not authenticated. It is supported because clusters have values that were written with
/// it.
fn open_cbc(key: &[u8], data: &[u8]) -> Result<Vec<u8>, TransformError> {
    let blocks = data.len().checked_sub(BLOCK).ok_or_else(too_short)?;
    if !blocks.is_multiple_of(BLOCK) {
        return Err(TransformError::new("the stored data is not a multiple of the block size"));
    }
    let mut opened = aes::cbc_decrypt(key, data).map_err(|_| wrong_key_size(key))?;
    let padding = usize::from(opened.last().copied().unwrap_or_default());
    if padding == 0 || padding > opened.len() {
        return Err(TransformError::new("invalid PKCS7 data (empty or not padded)"));
    }
    let end = opened.len() - padding;
    if opened[end..].iter().any(|byte| usize::from(*byte) != padding) {
        return Err(TransformError::new("invalid padding on input"));
    }
    opened.truncate(end);
    Ok(opened)
}

fn seal_cbc(key: &[u8], data: &[u8]) -> Result<Vec<u8>, TransformError> {
    // PKCS #7: the value of each added byte is their number.
    let padding = BLOCK - data.len() % BLOCK;
    let mut padded = data.to_vec();
    padded.resize(data.len() + padding, padding as u8);
    aes::cbc_encrypt(key, &padded).map_err(|error| match error {
        AesError::KeySize => wrong_key_size(key),
        _ => TransformError::new("the system provides no random bytes"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_ciphers() -> Vec<(&'static str, Cipher)> {
        let mut all_ciphers = vec![("secretbox", Cipher::secretbox(&[7; 32]).unwrap())];
        for size in [16, 24, 32] {
            // The FIPS module does not encrypt with it.
            if !(binnacle_crypto::FIPS && size == 24) {
                all_ciphers.push(("gcm", Cipher::gcm(&vec![3; size]).unwrap()));
            }
            all_ciphers.push(("cbc", Cipher::Cbc(vec![5; size])));
        }
        all_ciphers
    }

    #[test]
    fn round_trips_and_rejects_damage() {
        for (name, cipher) in all_ciphers() {
            for length in [0, 1, 15, 16, 17, 4096] {
                let data: Vec<u8> = (0..length).map(|i| i as u8).collect();
                let sealed = cipher.seal(&data, b"/registry/secrets/a/b").unwrap();
                assert_ne!(
                    sealed,
                    cipher.seal(&data, b"/registry/secrets/a/b").unwrap(),
                    "{name}: a nonce is used once"
                );
                assert_eq!(cipher.open(&sealed, b"/registry/secrets/a/b").unwrap(), data, "{name} {length}");
                // Only GCM authenticates the storage key of a value.
                let moved = cipher.open(&sealed, b"/registry/secrets/a/c");
                assert_eq!(moved.is_err(), name == "gcm", "{name}");
                if name != "cbc" {
                    for at in [0, sealed.len() / 2, sealed.len() - 1] {
                        let mut damaged = sealed.clone();
                        damaged[at] ^= 1;
                        assert!(cipher.open(&damaged, b"/registry/secrets/a/b").is_err(), "{name} {at}");
                    }
                }
                for short in [0, 5, 11] {
                    let error = cipher.open(&sealed[..short], b"").unwrap_err().to_string();
                    assert_eq!(error, "the stored data was shorter than the required size");
                }
            }
        }
    }

    /// NaCl's test vector of the secret box.
    #[test]
    fn secretbox_matches_published_test_vector() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
        };
        let key = hex("1b27556473e985d462cd51197a9a46c76009549eac6474f206c4ee0844f68389");
        let nonce = hex("69696ee955b62b73cd62bda875fc73d68219e0036b7a0b37");
        let tag_and_first = hex("f3ffc7703f9400e52a7dfb4b3d3305d9");
        let cipher = XSalsa20Poly1305::new_from_slice(&key).unwrap();
        let message = hex(
            "be075fc53c81f2d5cf141316ebeb0c7b5228c52a4c62cbd44b66849b64244ffce5ecbaaf33bd751a1ac728d45e6c61296cdc3c01233561f41db66cce314adb310e3be8250c46f06dceea3a7fa1348057e2f6556ad6b1318a024a838f21af1fde048977eb48f59ffd4924ca1c60902e52f0a089bc76897040e082f937763848645e0705",
        );
        let sealed = cipher.encrypt(nonce.as_slice().into(), message.as_slice()).unwrap();
        assert_eq!(sealed[..16], tag_and_first);
    }
}
