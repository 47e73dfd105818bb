//! Signatures by minisign.

use std::io::Cursor;
use std::path::Path;

use minisign::{PublicKey, SecretKey, SecretKeyBox};

use crate::dist;

/// A key that signs, and the public key that verifies its signatures.
pub(super) struct Key {
    secret: SecretKey,
    public: PublicKey,
}

impl Key {
    /// Reads a secret key, with or without a password, as minisign writes it.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = dist::read(path)?;
        Self::parse(&String::from_utf8_lossy(&text), std::env::var("MINISIGN_PASSWORD").ok())
            .map_err(|error| format!("{}: {error}", path.display()))
    }

    fn parse(text: &str, password: Option<String>) -> Result<Self, String> {
        let parsed = |text: &str| SecretKeyBox::from_string(text).map_err(|error| error.to_string());
        let secret = match password {
            Some(password) => parsed(text)?.into_secret_key(Some(password)),
            None => parsed(text)?.into_unencrypted_secret_key(),
        };
        let secret = secret.map_err(|error| format!("{error}; MINISIGN_PASSWORD is its password"))?;
        let public = PublicKey::from_secret_key(&secret).map_err(|error| error.to_string())?;
        Ok(Self { secret, public })
    }

    /// Returns the public key, as `minisign -P` takes it.
    pub(super) fn public(&self) -> String {
        self.public.to_base64()
    }

    /// Returns the file of a signature. The comment is signed, too.
    pub(super) fn sign(&self, bytes: &[u8], comment: &str) -> Result<Vec<u8>, String> {
        let signed = minisign::sign(Some(&self.public), &self.secret, Cursor::new(bytes), Some(comment), None);
        let signature = signed.map_err(|error| format!("cannot sign: {error}"))?;
        minisign::verify(&self.public, &signature, Cursor::new(bytes), true, false, false)
            .map_err(|error| format!("the signature is not valid: {error}"))?;
        Ok(signature.to_bytes())
    }

    #[cfg(test)]
    pub(super) fn for_test() -> Self {
        let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
        Self { secret: pair.sk, public: pair.pk }
    }
}

#[cfg(test)]
mod tests {
    use minisign::{KeyPair, SignatureBox};

    use super::*;

    #[test]
    fn reads_keys_with_and_without_password() {
        let open = KeyPair::generate_unencrypted_keypair().unwrap();
        let text = open.sk.to_box(None).unwrap().into_string();
        assert_eq!(Key::parse(&text, None).unwrap().public(), open.pk.to_base64());
        let locked = KeyPair::generate_encrypted_keypair(Some("secret".to_owned())).unwrap();
        let text = locked.sk.to_box(None).unwrap().into_string();
        assert_eq!(Key::parse(&text, Some("secret".to_owned())).unwrap().public(), locked.pk.to_base64());
        for password in [None, Some("wrong".to_owned())] {
            assert!(Key::parse(&text, password).is_err());
        }
        assert!(Key::parse("something else", None).is_err());
    }

    #[test]
    fn signature_covers_bytes_and_comment() {
        let key = Key::for_test();
        let text = String::from_utf8(key.sign(b"sums", "a comment").unwrap()).unwrap();
        let verify = |text: &str, bytes: &[u8]| {
            let signature = SignatureBox::from_string(text).unwrap();
            minisign::verify(&key.public, &signature, Cursor::new(bytes), true, false, false).is_ok()
        };
        assert!(verify(&text, b"sums"));
        assert!(!verify(&text, b"other sums"));
        assert!(!verify(&text.replace("a comment", "b comment"), b"sums"));
    }
}
