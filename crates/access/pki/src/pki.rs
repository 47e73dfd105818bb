//! All certificates and keys of a server, read from files or created.

mod authority;
mod cluster_keys;
mod files;
mod issuance;
mod parameters;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::sync::Arc;

use rcgen::KeyPair;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use time::{Duration, OffsetDateTime};
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::{FromDer, X509Certificate};

use authority::{Authorities, Authority};
pub use cluster_keys::ClusterKeys;
pub use files::Files;

use crate::SubjectAltNames;

/// Returns the current time; tests have their own clocks.
pub type Clock = Arc<dyn Fn() -> OffsetDateTime + Send + Sync>;

/// The remaining lifetime at which a certificate is renewed.
const RENEW_BEFORE: Duration = Duration::days(30);
/// The interval between checks of the files if the time of the next renewal is unknown.
const FALLBACK_CHECK_INTERVAL: Duration = Duration::minutes(1);

/// A certificate with its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertifiedKey {
    pub certificate: String,
    pub key: String,
}

/// All certificates and keys that the server creates for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pki {
    /// The certificates of all authorities as concatenated PEM, for clients to trust.
    pub bundle: String,
    pub serving: CertifiedKey,
    pub admin: CertifiedKey,
    /// The key that signs service account tokens, as PEM.
    pub service_account: String,
    /// The time at which the first of these is due for renewal.
    pub due: OffsetDateTime,
}

/// The serving certificate with its chain, and its key.
pub struct ServingCertificate {
    /// The leaf certificate first, then its intermediates.
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

/// An error of the server's own files.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    #[error("cannot use {path}: {error}")]
    File { path: String, error: io::Error },
    #[error("cannot use {path}: {error}; remove it to have a new one made")]
    Broken { path: String, error: String },
    #[error(
        "{certificate} is there, but not its key {key}: put the key back, or remove the certificate to have a new authority \
         made, which nobody trusts yet"
    )]
    Keyless { certificate: String, key: String },
    #[error("cannot write {path}: {error}")]
    Write { path: String, error: io::Error },
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("cannot write a key: {0}")]
    Key(#[from] sec1::Error),
}

/// Returns the clock of this machine.
pub fn system_clock() -> Clock {
    Arc::new(OffsetDateTime::now_utc)
}

impl CertifiedKey {
    /// Returns true if the certificate can be read, and the predicate holds for it.
    fn is(&self, predicate: impl FnOnce(&X509Certificate<'_>) -> bool) -> bool {
        let der = CertificateDer::from_pem_slice(self.certificate.as_bytes());
        der.is_ok_and(|der| X509Certificate::from_der(&der).is_ok_and(|(_, parsed)| predicate(&parsed)))
    }
}

impl Pki {
    /// Returns the end of the serving certificate's validity in Unix seconds; `i64::MAX` for an unreadable one, which
    /// no client accepts.
    pub fn serving_ends(&self) -> i64 {
        let der = CertificateDer::from_pem_slice(self.serving.certificate.as_bytes()).ok();
        let ends = der.and_then(|der| {
            let (_, certificate) = X509Certificate::from_der(&der).ok()?;
            Some(certificate.validity().not_after.timestamp())
        });
        ends.unwrap_or(i64::MAX)
    }

    /// Reads the valid files of a directory and creates the others.
    pub fn open(files: &Files, names: &SubjectAltNames, now: OffsetDateTime) -> Result<Self, PkiError> {
        let authorities = Authorities::open(files, now)?;
        let issuer = authorities.issuer(now);
        let bundle = authorities.bundle();
        files.write("ca-bundle.crt", &bundle)?;
        let is_usable = |parsed: &X509Certificate<'_>| self::is_usable(parsed, issuer, now);
        let serving = files.pair("apiserver").read_or_create(
            |parsed| is_usable(parsed) && names.covered_by(parsed),
            || issuance::serving(issuer, names, now),
        )?;
        let admin = files.pair("admin").read_or_create(is_usable, || issuance::admin(issuer, now))?;
        let service_account = read_or_create_service_account_key(files)?;
        let leaves = [renew_at(&serving, issuer)?, renew_at(&admin, issuer)?];
        let due = leaves.into_iter().chain([authorities.due(now)]).min().filter(|due| *due > now);
        Ok(Self { bundle, serving, admin, service_account, due: due.unwrap_or(now + FALLBACK_CHECK_INTERVAL) })
    }

    /// Returns true if one of the authorities signed a certificate, according to the key identifiers.
    pub fn has_signed(&self, certificate_pem: &str) -> bool {
        let signer = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .ok()
            .and_then(|der| X509Certificate::from_der(&der).ok().and_then(|(_, parsed)| signer_of(&parsed)));
        let authorities = CertificateDer::pem_slice_iter(self.bundle.as_bytes()).flatten();
        let mut ids = authorities.filter_map(|der| own_id(&X509Certificate::from_der(&der).ok()?.1));
        signer.is_some_and(|signer| ids.any(|id| id == signer))
    }

    /// Returns the serving certificate and its key in DER, for TLS.
    pub fn serving_certificate(&self) -> Result<ServingCertificate, PkiError> {
        let broken = |error: rustls_pki_types::pem::Error| PkiError::Broken {
            path: "the serving certificate".to_owned(),
            error: error.to_string(),
        };
        let certificate = CertificateDer::from_pem_slice(self.serving.certificate.as_bytes()).map_err(broken)?;
        let key = PrivateKeyDer::from_pem_slice(self.serving.key.as_bytes()).map_err(broken)?;
        Ok(ServingCertificate { chain: vec![certificate], key })
    }
}

/// Returns true if a certificate was signed by the issuer and is not due for renewal. A new one could neither outlive
/// the issuer nor start before it.
fn is_usable(certificate: &X509Certificate<'_>, issuer: &Authority, now: OffsetDateTime) -> bool {
    let (begins, ends) = validity(certificate);
    let lasts = ends - RENEW_BEFORE > now || ends >= issuer.ends;
    let signer = signer_of(certificate);
    lasts && begins <= now.max(issuer.begins) && signer.is_some() && signer == issuer.id
}

/// Returns the time at which a usable certificate is due for renewal.
fn renew_at(pair: &CertifiedKey, issuer: &Authority) -> Result<OffsetDateTime, PkiError> {
    let broken = |error: String| PkiError::Broken { path: "a certificate that was just made".to_owned(), error };
    let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).map_err(|error| broken(error.to_string()))?;
    let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| broken(error.to_string()))?;
    let (_, ends) = validity(&parsed);
    Ok(if ends >= issuer.ends { issuer.usable_until() } else { ends - RENEW_BEFORE })
}

fn validity(certificate: &X509Certificate<'_>) -> (OffsetDateTime, OffsetDateTime) {
    let validity = certificate.validity();
    (validity.not_before.to_datetime(), validity.not_after.to_datetime())
}

/// Returns the subject key identifier of a certificate.
fn own_id(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    })
}

fn signer_of(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0.to_vec()),
        _ => None,
    })
}

/// Reads or creates the key that signs service account tokens.
fn read_or_create_service_account_key(files: &Files) -> Result<String, PkiError> {
    let key = match files.read_key("sa.key")? {
        Some(pem) => KeyPair::from_pem(&pem).map_err(|error| PkiError::Broken {
            path: files.path("sa.key").display().to_string(),
            error: error.to_string(),
        })?,
        None => {
            let key = KeyPair::generate()?;
            files.write("sa.key", &key.serialize_pem())?;
            key
        }
    };
    files.write("sa.pub", &key.public_key_pem())?;
    Ok(key.serialize_pem())
}
