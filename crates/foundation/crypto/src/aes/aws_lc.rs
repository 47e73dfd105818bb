//! AES of AWS-LC.

use aws_lc_rs::aead::{AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, RandomizedNonceKey, UnboundKey};
use aws_lc_rs::cipher::{AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;

use super::{AesError, BLOCK, GCM_NONCE};

/// A key for AES-GCM. Each sealed value begins with its random nonce.
pub struct Gcm {
    /// Generates the nonces inside of the FIPS module, as FIPS 140-3 requires; `None` for keys of 24 bytes.
    sealing: Option<RandomizedNonceKey>,
    opening: LessSafeKey,
}

impl Gcm {
    pub fn new(key: &[u8]) -> Result<Self, AesError> {
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            24 => &AES_192_GCM,
            32 => &AES_256_GCM,
            _ => return Err(AesError::KeySize),
        };
        let opening = UnboundKey::new(algorithm, key).map_err(|_| AesError::KeySize)?;
        let sealing = match key.len() {
            24 => None,
            _ => Some(RandomizedNonceKey::new(algorithm, key).map_err(|_| AesError::KeySize)?),
        };
        Ok(Self { sealing, opening: LessSafeKey::new(opening) })
    }

    /// Decrypts a value and verifies that it was sealed with the same `authenticated` data.
    pub fn open(&self, sealed: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, AesError> {
        let (nonce, data) = sealed.split_at_checked(GCM_NONCE).ok_or(AesError::Invalid)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| AesError::Invalid)?;
        let mut data = data.to_vec();
        let opened = self.opening.open_in_place(nonce, Aad::from(authenticated), &mut data);
        let length = opened.map_err(|_| AesError::Invalid)?.len();
        data.truncate(length);
        Ok(data)
    }

    pub fn seal(&self, data: &[u8], authenticated: &[u8]) -> Result<Vec<u8>, AesError> {
        let mut sealed = data.to_vec();
        let nonce: [u8; GCM_NONCE] = match &self.sealing {
            Some(key) => {
                let nonce = key.seal_in_place_append_tag(Aad::from(authenticated), &mut sealed);
                *nonce.map_err(|_| AesError::Failed)?.as_ref()
            }
            None if crate::FIPS => return Err(AesError::NotApproved),
            None => {
                let bytes = crate::random::<GCM_NONCE>().map_err(|_| AesError::Failed)?;
                let nonce = Nonce::assume_unique_for_key(bytes);
                let tag = self.opening.seal_in_place_append_tag(nonce, Aad::from(authenticated), &mut sealed);
                tag.map_err(|_| AesError::Failed)?;
                bytes
            }
        };
        Ok([&nonce, &*sealed].concat())
    }
}

fn cipher_key(key: &[u8]) -> Result<UnboundCipherKey, AesError> {
    let algorithm = match key.len() {
        16 => &AES_128,
        24 => &AES_192,
        32 => &AES_256,
        _ => return Err(AesError::KeySize),
    };
    UnboundCipherKey::new(algorithm, key).map_err(|_| AesError::KeySize)
}

/// Decrypts whole blocks behind an initialization vector, and returns them with their padding.
pub fn cbc_decrypt(key: &[u8], sealed: &[u8]) -> Result<Vec<u8>, AesError> {
    let (iv, data) = sealed.split_at_checked(BLOCK).ok_or(AesError::Invalid)?;
    let key = DecryptingKey::cbc(cipher_key(key)?).map_err(|_| AesError::Failed)?;
    let iv = FixedLength::<BLOCK>::try_from(iv).map_err(|_| AesError::Invalid)?;
    let mut data = data.to_vec();
    if !data.is_empty() {
        key.decrypt(&mut data, DecryptionContext::Iv128(iv)).map_err(|_| AesError::Invalid)?;
    }
    Ok(data)
}

/// Encrypts whole blocks, which the caller has padded, behind a random initialization vector.
pub fn cbc_encrypt(key: &[u8], padded: &[u8]) -> Result<Vec<u8>, AesError> {
    if !padded.len().is_multiple_of(BLOCK) {
        return Err(AesError::Invalid);
    }
    let key = EncryptingKey::cbc(cipher_key(key)?).map_err(|_| AesError::Failed)?;
    let mut data = padded.to_vec();
    let context = key.encrypt(&mut data).map_err(|_| AesError::Failed)?;
    let iv: &[u8] = (&context).try_into().map_err(|_| AesError::Failed)?;
    Ok([iv, &*data].concat())
}
