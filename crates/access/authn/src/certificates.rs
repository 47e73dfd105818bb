//! Verification of client certificates, and the users in their subjects.
//!
//! The TLS handshake only proves that the client has the private key. The certificate itself is verified here, so that
//! one of an unknown authority causes a 401 instead of a failed handshake, as in kube-apiserver.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use binnacle_client::{v1_public_key, verify_v1_certificate};
use binnacle_meta::{Text, read_error};
use binnacle_request::{ConnectionInfo, User};
use parking_lot::Mutex;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{DistinguishedName, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_parser::der_parser::{Oid, oid};
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::AuthnError;
use crate::authenticator::with_authenticated_group;

/// The subject attribute with the user's UID, in the arc that is registered for Kubernetes (KEP-4328).
const UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);
/// The `extra` key for the certificate's fingerprint.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
/// The TTL of a failed verification, since the chain may become valid.
const FAILURE_LIFE: Duration = Duration::from_secs(60);

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// The authorities whose client certificates are trusted. They can be replaced while they are in use.
pub struct Authorities {
    path: String,
    current: ArcSwap<AuthoritySet>,
}

struct AuthoritySet {
    verifier: Arc<dyn ClientCertVerifier>,
    /// For version 1 certificates, which the verifier does not support.
    authorities: Vec<CertificateDer<'static>>,
    names: Arc<[DistinguishedName]>,
    /// The public keys of the authorities in DER.
    keys: Vec<Vec<u8>>,
    /// Unlike an address, it is never reused once the authorities are replaced.
    id: u64,
}

/// The error of an invalid bundle of authorities.
#[derive(Debug, thiserror::Error)]
pub enum AuthoritiesError {
    #[error("{}", read_error(path, error))]
    Unreadable { path: String, error: std::io::Error },
    #[error("error loading CA bundle for \"{path}\": data does not contain any valid RSA or ECDSA certificates")]
    Empty { path: String },
    #[error("error loading CA bundle for \"{path}\": {error}")]
    Invalid { path: String, error: String },
}

/// A verified certificate.
pub(crate) struct Leaf {
    pub(crate) common_name: Text,
    /// `None` without a common name; an error if the subject is invalid.
    pub(crate) user: Result<Option<Arc<User>>, AuthnError>,
    /// Like `user`, but ignores a UID in the subject.
    pub(crate) user_without_uid: Result<Option<Arc<User>>, AuthnError>,
    pub(crate) not_after: SystemTime,
}

/// The results of verifying a connection's chain, one per set of authorities.
#[derive(Default)]
struct VerificationCache(Mutex<Vec<CachedVerification>>);

struct CachedVerification {
    authorities_id: u64,
    expires: SystemTime,
    outcome: Result<Arc<Leaf>, AuthnError>,
}

impl Authorities {
    pub fn load(path: &Path) -> Result<Self, AuthoritiesError> {
        let shown = path.display().to_string();
        let pem = std::fs::read(path).map_err(|error| AuthoritiesError::Unreadable { path: shown.clone(), error })?;
        Self::from_pem(&shown, &pem)
    }

    /// Parses a bundle of authorities; `path` is for messages.
    pub fn from_pem(path: &str, pem: &[u8]) -> Result<Self, AuthoritiesError> {
        Ok(Self { path: path.to_owned(), current: ArcSwap::from_pointee(AuthoritySet::from_pem(path, pem)?) })
    }

    /// Returns the path of the bundle, for messages.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Replaces the trusted authorities. Nothing changes on an error.
    pub fn replace(&self, pem: &[u8]) -> Result<(), AuthoritiesError> {
        self.current.store(Arc::new(AuthoritySet::from_pem(&self.path, pem)?));
        Ok(())
    }

    /// Returns the names of the authorities, which are sent to clients so that they can choose a certificate. The same
    /// `Arc` is returned until the authorities are replaced.
    pub fn names(&self) -> Arc<[DistinguishedName]> {
        self.current.load().names.clone()
    }

    /// Returns true if one of the authorities has the same key as one of `other`, so that both accept the certificates
    /// of that key.
    pub fn shares_key_with(&self, other: &Self) -> bool {
        let (own, other) = (self.current.load(), other.current.load());
        own.keys.iter().any(|key| other.keys.contains(key))
    }

    /// Returns the end of the validity of a connection's certificate, even if no authority signed it.
    pub(crate) fn not_after(connection: &ConnectionInfo) -> Option<SystemTime> {
        let leaf = parse(connection.peer_certificates.first()?).ok()?;
        Some(not_after(&leaf))
    }

    /// Verifies the certificate of a connection, if there is one. Returns an error if no trusted authority signed it.
    /// The result is cached in the connection while the chain is valid.
    pub(crate) fn verify(&self, connection: &ConnectionInfo) -> Result<Option<Arc<Leaf>>, AuthnError> {
        let Some((leaf, intermediates)) = connection.peer_certificates.split_first() else { return Ok(None) };
        let current = self.current.load();
        let now = SystemTime::now();
        let cache = connection.remembered::<VerificationCache>().unwrap_or_else(|| {
            let cache = Arc::new(VerificationCache::default());
            connection.remember(cache.clone());
            cache
        });
        let mut entries = cache.0.lock();
        if let Some(cached) = entries.iter().find(|entry| entry.authorities_id == current.id && now <= entry.expires) {
            return cached.outcome.clone().map(Some);
        }
        let (outcome, expires) = match current.verify(leaf, intermediates, now) {
            Ok((leaf, not_after)) => (Ok(Arc::new(leaf)), not_after),
            Err(error) => (Err(error), now + FAILURE_LIFE),
        };
        // Results of replaced authorities are dropped.
        entries.retain(|entry| entry.authorities_id != current.id && now <= entry.expires);
        entries.truncate(8);
        entries.push(CachedVerification { authorities_id: current.id, expires, outcome: outcome.clone() });
        outcome.map(Some)
    }
}

impl AuthoritySet {
    fn from_pem(path: &str, pem: &[u8]) -> Result<Self, AuthoritiesError> {
        let invalid = |error: String| AuthoritiesError::Invalid { path: path.to_owned(), error };
        let (mut authorities, mut certificates, mut keys) = (RootCertStore::empty(), Vec::new(), Vec::new());
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
            let (_, parsed) = X509Certificate::from_der(&certificate).map_err(|error| invalid(error.to_string()))?;
            keys.push(parsed.public_key().raw.to_vec());
            certificates.push(certificate.clone());
            authorities.add(certificate).map_err(|error| invalid(error.to_string()))?;
        }
        if authorities.is_empty() {
            return Err(AuthoritiesError::Empty { path: path.to_owned() });
        }
        let provider = Arc::new(binnacle_crypto::tls::provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider)
            .build()
            .map_err(|error| invalid(error.to_string()))?;
        let names = verifier.root_hint_subjects().into();
        Ok(Self { verifier, authorities: certificates, names, keys, id: NEXT_ID.fetch_add(1, Ordering::Relaxed) })
    }

    /// Verifies a chain. Returns the leaf and the end of the chain's validity.
    fn verify(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: SystemTime,
    ) -> Result<(Leaf, SystemTime), AuthnError> {
        let parsed = parse(leaf)?;
        let since_epoch = now.duration_since(UNIX_EPOCH).map_err(|error| AuthnError(error.to_string()))?;
        let verified = match v1_public_key(leaf) {
            Some(_) => {
                let algorithms = binnacle_crypto::tls::provider().signature_verification_algorithms;
                verify_v1_certificate(leaf, &self.authorities, now, &algorithms)
            }
            None => {
                let at = UnixTime::since_unix_epoch(since_epoch);
                let verified = self.verifier.verify_client_cert(leaf, intermediates, at);
                verified.map(|_| ()).map_err(|error| error.to_string())
            }
        };
        verified
            .map_err(|error| AuthnError(format!("verifying certificate {} failed: {error}", identifier(&parsed))))?;
        let mut not_after = not_after(&parsed);
        for certificate in intermediates {
            not_after = not_after.min(self::not_after(&parse(certificate)?));
        }
        Ok((subject(&parsed, leaf), not_after))
    }
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, AuthnError> {
    let (_, parsed) = X509Certificate::from_der(certificate)
        .map_err(|error| AuthnError(format!("unable to parse client certificate: {error}")))?;
    Ok(parsed)
}

fn not_after(certificate: &X509Certificate<'_>) -> SystemTime {
    let seconds = u64::try_from(certificate.validity().not_after.timestamp()).unwrap_or(0);
    UNIX_EPOCH + Duration::from_secs(seconds)
}

fn subject(certificate: &X509Certificate<'_>, der: &CertificateDer<'_>) -> Leaf {
    let names = certificate.subject().iter_common_name().filter_map(|name| name.as_str().ok());
    let common_name = names.last().unwrap_or_default().into();
    let read = |reads_uid: bool| user(certificate, der, reads_uid).map(|user| user.map(with_authenticated_group));
    let user = read(true);
    let has_uid = certificate.subject().iter_attributes().any(|attribute| *attribute.attr_type() == UID);
    let user_without_uid = if has_uid { read(false) } else { user.clone() };
    Leaf { common_name, user, user_without_uid, not_after: not_after(certificate) }
}

/// Returns the user in the subject; `None` without a common name.
fn user(
    certificate: &X509Certificate<'_>,
    der: &CertificateDer<'_>,
    reads_uid: bool,
) -> Result<Option<User>, AuthnError> {
    let mut name = Text::default();
    let mut groups = Vec::new();
    let mut uids: Vec<Text> = Vec::new();
    for attribute in certificate.subject().iter_attributes() {
        let kind = attribute.attr_type();
        let is_uid = reads_uid && *kind == UID;
        if *kind != OID_X509_COMMON_NAME && *kind != OID_X509_ORGANIZATION_NAME && !is_uid {
            continue;
        }
        // Guessing the encoding would be guessing the identity.
        let value = attribute.as_str().map_err(|error| {
            AuthnError(format!("unable to parse the subject of {}: {error}", identifier(certificate)))
        })?;
        match kind {
            kind if *kind == UID => uids.push(value.into()),
            kind if *kind == OID_X509_COMMON_NAME => name = value.into(),
            _ => groups.push(value.into()),
        }
    }
    if name.is_empty() {
        return Ok(None);
    }
    let uid = match uids.as_slice() {
        [] => Text::default(),
        [uid] if uid.is_empty() => return Err(AuthnError("UID cannot be an empty string".to_owned())),
        [uid] => uid.clone(),
        many => return Err(AuthnError(format!("expected 1 UID, but found multiple: [{}]", many.join(" ")))),
    };
    let fingerprint: String = binnacle_crypto::sha256(der).iter().map(|byte| format!("{byte:02x}")).collect();
    let extra = BTreeMap::from([(Text::new_static(CREDENTIAL_ID), vec![format!("X509SHA256={fingerprint}").into()])]);
    Ok(Some(User { name, uid, groups, extra }))
}

/// Returns the identifier of a certificate for log messages.
fn identifier(certificate: &X509Certificate<'_>) -> String {
    use x509_parser::extensions::ParsedExtension;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":");
    let (mut subject, mut authority) = (String::new(), String::new());
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::SubjectKeyIdentifier(id) => subject = hex(id.0),
            ParsedExtension::AuthorityKeyIdentifier(id) => {
                authority = id.key_identifier.as_ref().map(|id| hex(id.0)).unwrap_or_default();
            }
            _ => {}
        }
    }
    format!("SN={}, SKID={subject}, AKID={authority}", certificate.serial)
}
