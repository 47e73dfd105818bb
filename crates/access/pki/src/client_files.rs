//! The files with the data that clients need to reach the server.

use std::path::{Path, PathBuf};

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::kubeconfig::kubeconfig;
use crate::private_files::{Durability, write_private};
use crate::{Pki, PkiError};

/// The name of the serving certificate's file in a directory for copies.
pub const SERVING_CERTIFICATE: &str = "apiserver.crt";
/// The name of its key's file in the same directory.
pub const SERVING_KEY: &str = "apiserver.key";

/// The files with the data that clients need to reach the server.
pub struct ClientFiles {
    /// The URL at which clients on this machine reach the server.
    pub url: String,
    pub file: ClientFile,
    /// The operator's serving certificate; clients trust this one instead of the server's own.
    pub operator: Option<OperatorCertificate>,
    /// A directory for copies of the serving certificate and its key.
    pub serving_copy: Option<PathBuf>,
    pub durability: Durability,
}

/// A serving certificate that the operator provides and may replace while the server runs.
pub struct OperatorCertificate {
    pub path: PathBuf,
    /// The contents of the file, as PEM.
    pub text: String,
}

/// The kind and path of the file for clients.
pub enum ClientFile {
    /// A complete kubeconfig for the administrator.
    Kubeconfig(PathBuf),
    /// The certificate authority to trust; clients have their own credentials.
    Authority(PathBuf),
}

impl ClientFiles {
    /// Returns true if a kubeconfig with the administrator's certificate is written.
    pub fn has_administrator(&self) -> bool {
        matches!(self.file, ClientFile::Kubeconfig(_))
    }

    /// Returns true if the operator provides the serving certificate.
    pub(crate) fn has_operator_certificate(&self) -> bool {
        self.operator.is_some()
    }

    /// Reloads the operator's certificate. An incomplete file is ignored.
    pub(crate) fn reload(&mut self) {
        if let Some(operator) = &mut self.operator
            && let Ok(text) = std::fs::read_to_string(&operator.path)
            && CertificateDer::from_pem_slice(text.as_bytes()).is_ok()
        {
            operator.text = text;
        }
    }

    /// Writes all files.
    ///
    /// # Errors
    ///
    /// Returns [`PkiError::Write`] for the first file that cannot be written.
    pub fn write(&self, pki: &Pki) -> Result<(), PkiError> {
        if let Some(directory) = &self.serving_copy {
            std::fs::create_dir_all(directory).map_err(|error| write_error(directory, error))?;
            self.write_file(&directory.join(SERVING_KEY), &pki.serving.key)?;
            self.write_file(&directory.join(SERVING_CERTIFICATE), &pki.serving.certificate)?;
        }
        let trusted = self.operator.as_ref().map_or(&pki.bundle, |operator| &operator.text);
        match &self.file {
            ClientFile::Authority(path) => self.write_file(path, trusted),
            ClientFile::Kubeconfig(path) => {
                self.write_file(path, &kubeconfig(&self.url, trusted, &pki.admin.certificate, &pki.admin.key))
            }
        }
    }

    fn write_file(&self, path: &Path, text: &str) -> Result<(), PkiError> {
        write_private(path, text.as_bytes(), self.durability).map_err(|error| write_error(path, error))
    }
}

fn write_error(path: &Path, error: std::io::Error) -> PkiError {
    PkiError::Write { path: path.display().to_string(), error }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::*;
    use crate::{Files, SubjectAltNames};

    #[test]
    fn writes_a_replaced_operator_certificate_for_clients() {
        let directory = tempfile::tempdir().unwrap();
        let files = Files::new(directory.path().to_owned(), Durability::Ephemeral);
        let names = SubjectAltNames::new([127, 0, 0, 1].into(), [10, 0, 0, 1].into());
        let pki = Pki::open(&files, &names, OffsetDateTime::now_utc()).unwrap();
        let (path, out) = (directory.path().join("tls.crt"), directory.path().join("server-ca.crt"));
        let mut client_files = ClientFiles {
            url: String::new(),
            file: ClientFile::Authority(out.clone()),
            operator: Some(OperatorCertificate { path: path.clone(), text: pki.admin.certificate.clone() }),
            serving_copy: None,
            durability: Durability::Ephemeral,
        };
        for (text, want) in [
            (&pki.serving.certificate[..], &pki.serving.certificate),
            ("-----BEGIN CERTIFICATE-----\nhalf", &pki.serving.certificate),
            ("", &pki.serving.certificate),
            (&pki.admin.certificate, &pki.admin.certificate),
        ] {
            std::fs::write(&path, text).unwrap();
            client_files.reload();
            client_files.write(&pki).unwrap();
            assert_eq!(std::fs::read_to_string(&out).unwrap(), *want);
        }
    }
}
