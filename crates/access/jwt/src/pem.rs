//! Keys in PEM files, in all formats that tools write.

use std::path::Path;

use binnacle_meta::read_error;
use rustls_pki_types::pem::{PemObject, SectionKind};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::{KeyError, PrivateKey, PublicKey};

/// The error of an unusable key file.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error("{}", read_error(path, error))]
    Unreadable { path: String, error: std::io::Error },
    #[error("error reading private key file {path}: {error}")]
    Private { path: String, error: KeyError },
    #[error("error reading public key file {path}: {error}")]
    Public { path: String, error: KeyError },
}

/// Returns the first private key of a file.
pub fn load_private(path: &Path) -> Result<PrivateKey, KeyFileError> {
    let shown = || path.display().to_string();
    let pem = std::fs::read(path).map_err(|error| KeyFileError::Unreadable { path: shown(), error })?;
    private_from_pem(&pem).map_err(|error| KeyFileError::Private { path: shown(), error })
}

/// Returns all public keys of a file, including those of its private keys and certificates.
pub fn load_public(path: &Path) -> Result<Vec<PublicKey>, KeyFileError> {
    let shown = || path.display().to_string();
    let pem = std::fs::read(path).map_err(|error| KeyFileError::Unreadable { path: shown(), error })?;
    public_from_pem(&pem).map_err(|error| KeyFileError::Public { path: shown(), error })
}

pub fn private_from_pem(pem: &[u8]) -> Result<PrivateKey, KeyError> {
    for (kind, der) in sections(pem) {
        match kind {
            SectionKind::EcPrivateKey => return PrivateKey::from_sec1(&der, None),
            SectionKind::RsaPrivateKey => return PrivateKey::from_pkcs1(&der),
            SectionKind::PrivateKey => return PrivateKey::from_pkcs8(&der),
            _ => {}
        }
    }
    Err(KeyError::new("data does not contain a valid RSA or ECDSA private key"))
}

pub fn public_from_pem(pem: &[u8]) -> Result<Vec<PublicKey>, KeyError> {
    let keys: Vec<PublicKey> = sections(pem)
        .filter_map(|(kind, der)| {
            let key = match kind {
                SectionKind::EcPrivateKey => PrivateKey::from_sec1(&der, None).map(|key| key.public().clone()),
                SectionKind::RsaPrivateKey => PrivateKey::from_pkcs1(&der).map(|key| key.public().clone()),
                SectionKind::PrivateKey => PrivateKey::from_pkcs8(&der).map(|key| key.public().clone()),
                SectionKind::PublicKey => PublicKey::from_spki(&der),
                SectionKind::Certificate => {
                    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
                    PublicKey::from_spki(certificate.public_key().raw)
                }
                _ => return None,
            };
            key.ok()
        })
        .collect();
    if keys.is_empty() {
        return Err(KeyError::new("data does not contain any valid RSA or ECDSA public keys"));
    }
    Ok(keys)
}

/// Returns the sections of a file up to the first unreadable one.
fn sections(pem: &[u8]) -> impl Iterator<Item = (SectionKind, Vec<u8>)> {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(pem).map_while(Result::ok)
}
