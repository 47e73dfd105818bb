//! The files of certificates and keys, which are written atomically and readable only by their owner.

use std::path::{Path, PathBuf};

use binnacle_crypto::tls::signing_key;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{CertifiedKey, PkiError, fs, io};
use crate::private_files::{Durability, restrict_to_owner, sync_directory_of, write_private};

/// The directory of all files.
#[derive(Clone, Debug)]
pub struct Files {
    directory: PathBuf,
    durability: Durability,
}

/// The files `NAME.crt` and `NAME.key`.
pub(super) struct PairFiles {
    certificate: PathBuf,
    key: PathBuf,
    durability: Durability,
}

impl Files {
    /// Uses an existing directory.
    pub fn new(directory: PathBuf, durability: Durability) -> Self {
        Self { directory, durability }
    }

    /// Returns the path of a file in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(super) fn pair(&self, name: &str) -> PairFiles {
        let path = |ending: &str| self.path(&format!("{name}.{ending}"));
        PairFiles { certificate: path("crt"), key: path("key"), durability: self.durability }
    }

    pub(super) fn read_key(&self, name: &str) -> Result<Option<String>, PkiError> {
        read_key(&self.path(name))
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), PkiError> {
        write(&self.path(name), text, self.durability)
    }
}

impl PairFiles {
    /// Reads the certificate and its key; `None` if neither exists.
    pub(super) fn read(&self) -> Result<Option<CertifiedKey>, PkiError> {
        let Some(certificate) = read(&self.certificate)? else { return Ok(None) };
        let Some(key) = read_key(&self.key)? else { return Ok(None) };
        let pair = CertifiedKey { certificate, key };
        self.parsed(&pair, |certificate| {
            let broken = |error: String| PkiError::Broken { path: self.key.display().to_string(), error };
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(|error| broken(error.to_string()))?;
            let key = signing_key(&key).map_err(|error| broken(error.to_string()))?;
            if key.public_key().is_some_and(|public| *public == *certificate.public_key().raw) {
                Ok(())
            } else {
                Err(self.broken("it does not belong to the key beside it"))
            }
        })??;
        Ok(Some(pair))
    }

    pub(super) fn read_or_create(
        &self,
        is_usable: impl Fn(&X509Certificate<'_>) -> bool,
        create: impl FnOnce() -> Result<CertifiedKey, PkiError>,
    ) -> Result<CertifiedKey, PkiError> {
        if let Some(pair) = self.read()?
            && self.parsed(&pair, is_usable)?
        {
            return Ok(pair);
        }
        let pair = create()?;
        self.write(&pair)?;
        Ok(pair)
    }

    pub(super) fn write(&self, pair: &CertifiedKey) -> Result<(), PkiError> {
        // Write both under temporary names first, so that a full disk does not destroy the existing ones.
        let [key, certificate] = [&self.key, &self.certificate].map(|path| {
            let mut next = path.clone().into_os_string();
            next.push(".next");
            PathBuf::from(next)
        });
        write(&key, &pair.key, self.durability)?;
        write(&certificate, &pair.certificate, self.durability)?;
        // An interruption between the two must not leave a certificate with a key that does not match.
        match fs::remove_file(&self.certificate) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(file_error(&self.certificate, error)),
            _ => {}
        }
        fs::rename(key, &self.key).map_err(|error| file_error(&self.key, error))?;
        fs::rename(certificate, &self.certificate)
            .and_then(|()| sync_directory_of(&self.certificate, self.durability))
            .map_err(|error| file_error(&self.certificate, error))
    }

    pub(super) fn has_certificate(&self) -> bool {
        self.certificate.exists()
    }

    pub(super) fn keyless(&self) -> PkiError {
        PkiError::Keyless { certificate: self.certificate.display().to_string(), key: self.key.display().to_string() }
    }

    pub(super) fn broken(&self, error: impl std::fmt::Display) -> PkiError {
        PkiError::Broken { path: self.certificate.display().to_string(), error: error.to_string() }
    }

    fn parsed<T>(&self, pair: &CertifiedKey, read: impl FnOnce(&X509Certificate<'_>) -> T) -> Result<T, PkiError> {
        let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).map_err(|error| self.broken(error))?;
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| self.broken(error))?;
        Ok(read(&parsed))
    }
}

fn read(path: &Path) -> Result<Option<String>, PkiError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error(path, error)),
    }
}

/// Reads a key file and restricts its permissions to the owner.
fn read_key(path: &Path) -> Result<Option<String>, PkiError> {
    let text = read(path)?;
    if text.is_some() {
        restrict_to_owner(path).map_err(|error| file_error(path, error))?;
    }
    Ok(text)
}

fn write(path: &Path, text: &str, durability: Durability) -> Result<(), PkiError> {
    write_private(path, text.as_bytes(), durability).map_err(|error| file_error(path, error))
}

fn file_error(path: &Path, error: io::Error) -> PkiError {
    PkiError::File { path: path.display().to_string(), error }
}
