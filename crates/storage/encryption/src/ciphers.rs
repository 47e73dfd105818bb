//! Ciphers with keys from the configuration file. Each one puts its nonce in front of the ciphertext.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{AesGcm, Nonce};
use cbc::cipher::block_padding::{NoPadding, Pkcs7};
use cbc::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};
use crypto_secretbox::XSalsa20Poly1305;

use crate::transform::TransformError;

const GCM_NONCE: usize = 12;
const BLOCK: usize = 16;
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
pub(crate) enum Gcm {
    Aes128(AesGcm<Aes128, U12>),
    Aes192(AesGcm<Aes192, U12>),
    Aes256(AesGcm<Aes256, U12>),
}

/// Returns `N` cryptographically random bytes.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    rand::random()
}

fn too_short() -> TransformError {
    TransformError::new("the stored data was shorter than the required size")
}

impl Gcm {
    pub(crate) fn new(key: &[u8]) -> Result<Self, TransformError> {
        let wrong = |_| TransformError::new(format!("crypto/aes: invalid key size {}", key.len()));
        Ok(match key.len() {
            16 => Self::Aes128(AesGcm::new_from_slice(key).map_err(wrong)?),
            24 => Self::Aes192(AesGcm::new_from_slice(key).map_err(wrong)?),
            _ => Self::Aes256(AesGcm::new_from_slice(key).map_err(wrong)?),
        })
    }

    pub(crate) fn open(&self, data: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, TransformError> {
        let (nonce, data) = data.split_at_checked(GCM_NONCE).ok_or_else(too_short)?;
        let (nonce, payload) = (Nonce::from_slice(nonce), Payload { msg: data, aad: authenticated });
        match self {
            Self::Aes128(gcm) => gcm.decrypt(nonce, payload),
            Self::Aes192(gcm) => gcm.decrypt(nonce, payload),
            Self::Aes256(gcm) => gcm.decrypt(nonce, payload),
        }
        .map_err(|_| TransformError::new("cipher: message authentication failed"))
    }

    pub(crate) fn seal(&self, data: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, TransformError> {
        let bytes = random::<GCM_NONCE>();
        let (nonce, payload) = (Nonce::from_slice(&bytes), Payload { msg: data, aad: authenticated });
        let sealed = match self {
            Self::Aes128(gcm) => gcm.encrypt(nonce, payload),
            Self::Aes192(gcm) => gcm.encrypt(nonce, payload),
            Self::Aes256(gcm) => gcm.encrypt(nonce, payload),
        }
        .map_err(|_| TransformError::new("cipher: message too large for GCM"))?;
        Ok([&bytes, &*sealed].concat())
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
                let nonce = random::<SECRETBOX_NONCE>();
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
    let (iv, data) = data.split_at_checked(BLOCK).ok_or_else(too_short)?;
    if !data.len().is_multiple_of(BLOCK) {
        return Err(TransformError::new("the stored data is not a multiple of the block size"));
    }
    let opened = match key.len() {
        16 => cbc::Decryptor::<Aes128>::new_from_slices(key, iv).map(|c| c.decrypt_padded_vec_mut::<NoPadding>(data)),
        24 => cbc::Decryptor::<Aes192>::new_from_slices(key, iv).map(|c| c.decrypt_padded_vec_mut::<NoPadding>(data)),
        _ => cbc::Decryptor::<Aes256>::new_from_slices(key, iv).map(|c| c.decrypt_padded_vec_mut::<NoPadding>(data)),
    };
    let mut opened = match opened {
        Ok(Ok(opened)) => opened,
        _ => return Err(TransformError::new(format!("crypto/aes: invalid key size {}", key.len()))),
    };
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
    let iv = random::<BLOCK>();
    let sealed = match key.len() {
        16 => cbc::Encryptor::<Aes128>::new_from_slices(key, &iv).map(|c| c.encrypt_padded_vec_mut::<Pkcs7>(data)),
        24 => cbc::Encryptor::<Aes192>::new_from_slices(key, &iv).map(|c| c.encrypt_padded_vec_mut::<Pkcs7>(data)),
        _ => cbc::Encryptor::<Aes256>::new_from_slices(key, &iv).map(|c| c.encrypt_padded_vec_mut::<Pkcs7>(data)),
    };
    let sealed = sealed.map_err(|_| TransformError::new(format!("crypto/aes: invalid key size {}", key.len())))?;
    Ok([&iv, &*sealed].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_ciphers() -> Vec<(&'static str, Cipher)> {
        let mut all_ciphers = vec![("secretbox", Cipher::secretbox(&[7; 32]).unwrap())];
        for size in [16, 24, 32] {
            all_ciphers.push(("gcm", Cipher::gcm(&vec![3; size]).unwrap()));
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

    /// Published test vectors: NIST's AES-128-CBC (SP 800-38A F.2.1) and NaCl's secret box.
    #[test]
    fn matches_published_test_vectors() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
        };
        let key = hex("2b7e151628aed2a6abf7158809cf4f3c");
        let iv = hex("000102030405060708090a0b0c0d0e0f");
        let plain = hex("6bc1bee22e409f96e93d7e117393172a");
        let first = cbc::Encryptor::<Aes128>::new_from_slices(&key, &iv).unwrap();
        let sealed = first.encrypt_padded_vec_mut::<Pkcs7>(&plain);
        assert_eq!(sealed[..16], hex("7649abac8119b246cee98e9b12e9197d"));
        assert_eq!(open_cbc(&key, &[iv, sealed].concat()).unwrap(), plain);

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
