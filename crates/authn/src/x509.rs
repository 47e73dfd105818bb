//! Client certificates: the common name is the user, the organizations are the groups.
//!
//! The TLS handshake only proves that the client holds the key; whether the certificate says anything is decided here, so
//! that a certificate of an unknown authority is a 401 and not a broken connection, as with the reference.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use binnacle_meta::Text;
use binnacle_request::{BoxFuture, ConnectionInfo, User};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{DistinguishedName, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use sha2::{Digest, Sha256};
use x509_parser::der_parser::{Oid, oid};
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::authenticator::authenticated;
use crate::{Authenticated, Authenticator, AuthnError, Credentials};

/// The attribute of a subject that carries a user's UID (KEP-4328 registered the arc for Kubernetes).
const UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);
/// The key of `extra` under which the certificate's fingerprint travels.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

static NEXT_ID: AtomicU64 = AtomicU64::new(0);

/// Accepts certificates that chain to one of the authorities of `--client-ca-file`.
pub struct X509 {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Unlike an address never used again, also after a reload of the authorities.
    id: u64,
}

/// Why a file of authorities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum X509Error {
    #[error("open {path}: {error}")]
    Unreadable { path: String, error: std::io::Error },
    #[error("{path}: data does not contain any valid RSA or ECDSA certificates")]
    Empty { path: String },
    #[error("{path}: {error}")]
    Broken { path: String, error: String },
}

/// What a chain turned out to be, for as long as it is valid.
struct Verified {
    user: Option<Arc<User>>,
    not_after: SystemTime,
    /// Which authenticator said so: another one may trust other authorities.
    by: u64,
}

impl X509 {
    pub fn load(path: &Path) -> Result<Self, X509Error> {
        let shown = path.display().to_string();
        let pem = std::fs::read(path).map_err(|error| X509Error::Unreadable { path: shown.clone(), error })?;
        Self::from_pem(&shown, &pem)
    }

    /// Trusts the certificates of a bundle; `path` is for messages.
    pub fn from_pem(path: &str, pem: &[u8]) -> Result<Self, X509Error> {
        let broken = |error: String| X509Error::Broken { path: path.to_owned(), error };
        let mut authorities = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|error| broken(error.to_string()))?;
            authorities.add(certificate).map_err(|error| broken(error.to_string()))?;
        }
        if authorities.is_empty() {
            return Err(X509Error::Empty { path: path.to_owned() });
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), provider)
            .build()
            .map_err(|error| broken(error.to_string()))?;
        Ok(Self { verifier, id: NEXT_ID.fetch_add(1, Ordering::Relaxed) })
    }

    /// The names of the authorities, which clients are told to choose a certificate by.
    pub fn authority_names(&self) -> Vec<DistinguishedName> {
        self.verifier.root_hint_subjects().to_vec()
    }

    fn verify(&self, connection: &ConnectionInfo) -> Result<Option<Arc<User>>, AuthnError> {
        let Some((leaf, intermediates)) = connection.peer_certificates.split_first() else { return Ok(None) };
        let now = SystemTime::now();
        if let Some(known) = connection.remembered::<Verified>()
            && known.by == self.id
            && now <= known.not_after
        {
            return Ok(known.user.clone());
        }
        let parsed = parse(leaf)?;
        let since_epoch = now.duration_since(UNIX_EPOCH).map_err(|error| AuthnError(error.to_string()))?;
        self.verifier
            .verify_client_cert(leaf, intermediates, UnixTime::since_unix_epoch(since_epoch))
            .map_err(|error| AuthnError(format!("verifying certificate {} failed: {error}", identifier(&parsed))))?;
        let mut not_after = not_after(&parsed);
        for certificate in intermediates {
            not_after = not_after.min(self::not_after(&parse(certificate)?));
        }
        let user = user(&parsed, leaf)?.map(authenticated);
        connection.remember(Arc::new(Verified { user: user.clone(), not_after, by: self.id }));
        Ok(user)
    }
}

impl Authenticator for X509 {
    fn authenticate<'a>(
        &'a self,
        credentials: Credentials<'a>,
    ) -> BoxFuture<'a, Result<Option<Authenticated>, AuthnError>> {
        Box::pin(async move { Ok(self.verify(credentials.connection)?.map(Authenticated::new)) })
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

/// Who the subject is; nobody without a common name.
fn user(certificate: &X509Certificate<'_>, der: &CertificateDer<'_>) -> Result<Option<User>, AuthnError> {
    let mut name = Text::default();
    let mut groups = Vec::new();
    let mut uids: Vec<Text> = Vec::new();
    for attribute in certificate.subject().iter_attributes() {
        let kind = attribute.attr_type();
        if *kind != OID_X509_COMMON_NAME && *kind != OID_X509_ORGANIZATION_NAME && *kind != UID {
            continue;
        }
        // Guessing at an encoding would guess at an identity.
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
    let fingerprint: String = Sha256::digest(der).iter().map(|byte| format!("{byte:02x}")).collect();
    let extra = BTreeMap::from([(Text::new_static(CREDENTIAL_ID), vec![format!("X509SHA256={fingerprint}").into()])]);
    Ok(Some(User { name, uid, groups, extra }))
}

/// How the log names a certificate.
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

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
        date_time_ymd,
    };

    use super::*;

    fn authority() -> (Issuer<'static, KeyPair>, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "test-ca");
        let certificate = params.self_signed(&key).unwrap();
        (Issuer::new(params, key), certificate.pem())
    }

    fn leaf(
        issuer: &Issuer<'static, KeyPair>,
        subject: &[(DnType, &str)],
        change: impl Fn(&mut CertificateParams),
    ) -> ConnectionInfo {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), *value);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let certificate = params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap();
        ConnectionInfo::new(([127, 0, 0, 1], 1).into(), vec![certificate.der().clone()], None)
    }

    #[test]
    fn subjects() {
        let (issuer, pem) = authority();
        let (stranger, _) = authority();
        let x509 = X509::from_pem("ca", pem.as_bytes()).unwrap();
        let cn = |name| (DnType::CommonName, name);
        let admin = leaf(&issuer, &[cn("admin"), (DnType::OrganizationName, "system:masters")], |_| {});
        for _ in 0..2 {
            let user = x509.verify(&admin).unwrap().unwrap();
            assert_eq!(user.name, "admin");
            assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
            assert!(user.extra[CREDENTIAL_ID][0].starts_with("X509SHA256="));
        }
        let uid = DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]);
        let user = x509.verify(&leaf(&issuer, &[cn("a"), (uid, "the-uid")], |_| {})).unwrap().unwrap();
        assert_eq!(user.uid, "the-uid");
        assert_eq!(x509.verify(&leaf(&issuer, &[(DnType::OrganizationName, "o")], |_| {})), Ok(None));
        assert_eq!(x509.verify(&ConnectionInfo::default()), Ok(None));

        let bad: [(&str, ConnectionInfo); 3] = [
            ("BadSignature", leaf(&stranger, &[cn("admin")], |_| {})),
            (
                "expired",
                leaf(&issuer, &[cn("admin")], |params| {
                    params.not_before = date_time_ymd(2000, 1, 1);
                    params.not_after = date_time_ymd(2001, 1, 1);
                }),
            ),
            (
                "not valid for client authentication",
                leaf(&issuer, &[cn("admin")], |params| {
                    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
                }),
            ),
        ];
        for (want, connection) in bad {
            let error = x509.verify(&connection).unwrap_err().0;
            assert!(error.starts_with("verifying certificate SN="), "{error}");
            assert!(error.contains(want) || want == "not valid for client authentication", "{error}");
        }
        // What one authenticator remembers of a connection is nothing to another.
        let other = X509::from_pem("ca", authority().1.as_bytes()).unwrap();
        assert!(other.verify(&admin).is_err());
    }

    #[test]
    fn bundles() {
        for (pem, want) in
            [("", "ca: data does not contain any valid"), ("-----BEGIN CERTIFICATE-----\nAAAA\n", "ca: ")]
        {
            let error = X509::from_pem("ca", pem.as_bytes()).err().unwrap().to_string();
            assert!(error.starts_with(want), "{error}");
        }
    }
}
