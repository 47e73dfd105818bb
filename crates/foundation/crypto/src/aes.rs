//! AES-GCM and AES-CBC with keys of 16, 24 or 32 bytes.

#[cfg(feature = "aws-lc")]
#[path = "aes/aws_lc.rs"]
mod implementation;
#[cfg(not(feature = "aws-lc"))]
#[path = "aes/rust_crypto.rs"]
mod implementation;

pub use implementation::{Gcm, cbc_decrypt, cbc_encrypt};

/// The size in bytes of a nonce of AES-GCM.
pub const GCM_NONCE: usize = 12;
/// The size in bytes of a block, and of an initialization vector of AES-CBC.
pub const BLOCK: usize = 16;

/// Why a key or data cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AesError {
    /// A key of another size than 16, 24 or 32 bytes.
    KeySize,
    /// A key that the FIPS module cannot use for encryption with random nonces: AES-GCM with 24 bytes.
    NotApproved,
    /// Data that is not authentic (GCM) or whose length is not a multiple of the block size (CBC).
    Invalid,
    /// The operation failed: more data than the mode can encrypt, or no random bytes.
    Failed,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
    }

    #[test]
    fn gcm_round_trips_and_authenticates() {
        for size in [16, 24, 32] {
            let gcm = Gcm::new(&vec![3; size]).unwrap();
            let sealed = match gcm.seal(b"value", b"name") {
                Err(AesError::NotApproved) if crate::FIPS && size == 24 => continue,
                sealed => sealed.unwrap(),
            };
            assert_eq!(sealed.len(), GCM_NONCE + 5 + 16);
            assert_ne!(sealed, gcm.seal(b"value", b"name").unwrap(), "a nonce is used once");
            assert_eq!(gcm.open(&sealed, b"name").unwrap(), b"value");
            assert_eq!(gcm.open(&sealed, b"other"), Err(AesError::Invalid));
            for at in 0..sealed.len() {
                let mut damaged = sealed.clone();
                damaged[at] ^= 1;
                assert_eq!(gcm.open(&damaged, b"name"), Err(AesError::Invalid), "{size} {at}");
            }
            assert_eq!(gcm.open(&sealed[..11], b"name"), Err(AesError::Invalid));
        }
        assert!(matches!(Gcm::new(&[0; 20]), Err(AesError::KeySize)));
    }

    /// Values of both implementations are the same: test cases 4, 10 and 16 of the specification of GCM.
    #[test]
    fn gcm_opens_published_test_vectors() {
        let key = hex("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
        let nonce = "cafebabefacedbaddecaf888";
        let plain = hex(
            "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39",
        );
        let authenticated = hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
        for (size, sealed) in [
            (
                16,
                "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47",
            ),
            (
                24,
                "3980ca0b3c00e841eb06fac4872a2757859e1ceaa6efd984628593b40ca1e19c7d773d00c144c525ac619d18c84a3f4718e2448b2fe324d9ccda27102519498e80f1478f37ba55bd6d27618c",
            ),
            (
                32,
                "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b",
            ),
        ] {
            let gcm = Gcm::new(&key[..size]).unwrap();
            assert_eq!(gcm.open(&hex(&format!("{nonce}{sealed}")), &authenticated).unwrap(), plain, "{size}");
        }
    }

    /// NIST's SP 800-38A, F.2.1, F.2.3 and F.2.5: the first two blocks.
    #[test]
    fn cbc_matches_published_test_vectors() {
        let iv = hex("000102030405060708090a0b0c0d0e0f");
        let plain = hex("6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e51");
        for (key, sealed) in [
            ("2b7e151628aed2a6abf7158809cf4f3c", "7649abac8119b246cee98e9b12e9197d5086cb9b507219ee95db113a917678b2"),
            (
                "8e73b0f7da0e6452c810f32b809079e562f8ead2522c6b7b",
                "4f021db243bc633d7178183a9fa071e8b4d9ada9ad7dedf4e5e738763f69145a",
            ),
            (
                "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4",
                "f58c4c04d6e5f1ba779eabfb5f7bfbd69cfc4e967edb808d679f777bc6702c7d",
            ),
        ] {
            let (key, sealed) = (hex(key), [&*iv, &*hex(sealed)].concat());
            assert_eq!(cbc_decrypt(&key, &sealed).unwrap(), plain);
            let fresh = cbc_encrypt(&key, &plain).unwrap();
            assert_ne!(fresh[..BLOCK], iv[..]);
            assert_eq!(cbc_decrypt(&key, &fresh).unwrap(), plain);
        }
        for (key, data, want) in [(16, 15, AesError::Invalid), (16, 40, AesError::Invalid), (20, 32, AesError::KeySize)]
        {
            assert_eq!(cbc_decrypt(&vec![1; key], &vec![0; data]), Err(want), "{key} {data}");
        }
        assert_eq!(cbc_encrypt(&[1; 16], &[0; 15]), Err(AesError::Invalid));
        assert_eq!(cbc_encrypt(&[1; 15], &[0; 16]), Err(AesError::KeySize));
    }
}
