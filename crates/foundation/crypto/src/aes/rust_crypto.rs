//! AES of RustCrypto: `ring` has neither CBC nor keys of 24 bytes.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{AesGcm, Nonce};
use cbc::cipher::block_padding::NoPadding;
use cbc::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};

use super::{AesError, BLOCK, GCM_NONCE};

/// A key for AES-GCM. Each sealed value begins with its random nonce.
pub struct Gcm(Key);

enum Key {
    Aes128(Box<AesGcm<Aes128, U12>>),
    Aes192(Box<AesGcm<Aes192, U12>>),
    Aes256(Box<AesGcm<Aes256, U12>>),
}

impl Gcm {
    pub fn new(key: &[u8]) -> Result<Self, AesError> {
        let wrong = |_| AesError::KeySize;
        Ok(Self(match key.len() {
            16 => Key::Aes128(Box::new(AesGcm::new_from_slice(key).map_err(wrong)?)),
            24 => Key::Aes192(Box::new(AesGcm::new_from_slice(key).map_err(wrong)?)),
            _ => Key::Aes256(Box::new(AesGcm::new_from_slice(key).map_err(wrong)?)),
        }))
    }

    /// Decrypts a value and verifies that it was sealed with the same `authenticated` data.
    pub fn open(&self, sealed: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, AesError> {
        let (nonce, data) = sealed.split_at_checked(GCM_NONCE).ok_or(AesError::Invalid)?;
        let (nonce, payload) = (Nonce::from_slice(nonce), Payload { msg: data, aad: authenticated });
        match &self.0 {
            Key::Aes128(gcm) => gcm.decrypt(nonce, payload),
            Key::Aes192(gcm) => gcm.decrypt(nonce, payload),
            Key::Aes256(gcm) => gcm.decrypt(nonce, payload),
        }
        .map_err(|_| AesError::Invalid)
    }

    pub fn seal(&self, data: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, AesError> {
        let bytes = crate::random::<GCM_NONCE>().map_err(|_| AesError::Failed)?;
        let (nonce, payload) = (Nonce::from_slice(&bytes), Payload { msg: data, aad: authenticated });
        let sealed = match &self.0 {
            Key::Aes128(gcm) => gcm.encrypt(nonce, payload),
            Key::Aes192(gcm) => gcm.encrypt(nonce, payload),
            Key::Aes256(gcm) => gcm.encrypt(nonce, payload),
        }
        .map_err(|_| AesError::Failed)?;
        Ok([&bytes, &*sealed].concat())
    }
}

/// Decrypts whole blocks behind an initialization vector, and returns them with their padding.
pub fn cbc_decrypt(key: &[u8], sealed: &[u8]) -> Result<Vec<u8>, AesError> {
    let (iv, data) = sealed.split_at_checked(BLOCK).ok_or(AesError::Invalid)?;
    match key.len() {
        16 => cbc::Decryptor::<Aes128>::new_from_slices(key, iv).map(|c| c.decrypt_padded_vec_mut::<NoPadding>(data)),
        24 => cbc::Decryptor::<Aes192>::new_from_slices(key, iv).map(|c| c.decrypt_padded_vec_mut::<NoPadding>(data)),
        _ => cbc::Decryptor::<Aes256>::new_from_slices(key, iv).map(|c| c.decrypt_padded_vec_mut::<NoPadding>(data)),
    }
    .map_err(|_| AesError::KeySize)?
    .map_err(|_| AesError::Invalid)
}

/// Encrypts whole blocks, which the caller has padded, behind a random initialization vector.
pub fn cbc_encrypt(key: &[u8], padded: &[u8]) -> Result<Vec<u8>, AesError> {
    if !padded.len().is_multiple_of(BLOCK) {
        return Err(AesError::Invalid);
    }
    let iv = crate::random::<BLOCK>().map_err(|_| AesError::Failed)?;
    let sealed = match key.len() {
        16 => {
            cbc::Encryptor::<Aes128>::new_from_slices(key, &iv).map(|c| c.encrypt_padded_vec_mut::<NoPadding>(padded))
        }
        24 => {
            cbc::Encryptor::<Aes192>::new_from_slices(key, &iv).map(|c| c.encrypt_padded_vec_mut::<NoPadding>(padded))
        }
        _ => cbc::Encryptor::<Aes256>::new_from_slices(key, &iv).map(|c| c.encrypt_padded_vec_mut::<NoPadding>(padded)),
    }
    .map_err(|_| AesError::KeySize)?;
    Ok([&iv, &*sealed].concat())
}
