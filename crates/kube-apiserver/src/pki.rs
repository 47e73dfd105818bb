//! The server's own certificates and keys: made at the first start, reused at the next, renewed before they expire.
//!
//! One authority signs two certificates: the one the server shows and the administrator's. A file that is there but
//! cannot be read stops the start: replacing a key silently would cut off everyone who trusts it.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use binnacle_server::TlsFiles;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData, SanType,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use time::{Duration, OffsetDateTime};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::data_dir::write_private;

/// Clocks differ: what is made now is valid a little earlier.
const SKEW: Duration = Duration::hours(1);
const AUTHORITY_LIFETIME: Duration = Duration::days(3650);
const LEAF_LIFETIME: Duration = Duration::days(365);
/// What is left of a certificate's life when a start renews it.
const RENEW_BEFORE: Duration = Duration::days(30);

const ADMIN_NAME: &str = "kubernetes-admin";
const ADMIN_GROUP: &str = "system:masters";

/// What the serving certificate must be valid for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) dns: Vec<String>,
    pub(crate) ips: Vec<IpAddr>,
}

/// A certificate with its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Everything that the server makes for itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pki {
    pub(crate) authority: String,
    pub(crate) serving: Pair,
    pub(crate) admin: Pair,
    /// The key that signs service account tokens, as PEM.
    pub(crate) service_account: String,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PkiError {
    #[error("cannot use {path}: {error}")]
    File { path: String, error: io::Error },
    #[error("cannot use {path}: {error}; remove it to have a new one made")]
    Broken { path: String, error: String },
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

impl Names {
    /// The names under which the API server of a cluster is known, and those of this machine.
    pub(crate) fn new(listen: IpAddr, service: IpAddr) -> Self {
        let cluster =
            ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];
        let mut dns: Vec<String> = std::iter::once("localhost").chain(cluster).map(str::to_owned).collect();
        dns.extend(hostname().filter(|name| !dns.contains(name)));
        let mut ips = vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]), service];
        if !listen.is_unspecified() && !ips.contains(&listen) {
            ips.push(listen);
        }
        Self { dns, ips }
    }

    /// Names by which operators say that the server is reached.
    pub(crate) fn add(&mut self, host: Option<&str>, ip: Option<IpAddr>) {
        // A host may come with a port, and may be an address.
        let host = host.map(|host| host.rsplit_once(':').map_or(host, |(name, _)| name));
        let ip = ip.into_iter().chain(host.and_then(|host| host.parse().ok()));
        let dns = host.filter(|host| host.parse::<IpAddr>().is_err()).map(str::to_owned);
        self.dns.extend(dns.filter(|name| !self.dns.contains(name)));
        for ip in ip {
            if !self.ips.contains(&ip) {
                self.ips.push(ip);
            }
        }
    }

    fn covered_by(&self, certificate: &X509Certificate<'_>) -> bool {
        let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
        let has = |wanted: &dyn Fn(&GeneralName<'_>) -> bool| names.value.general_names.iter().any(wanted);
        self.dns.iter().all(|dns| has(&|name| matches!(name, GeneralName::DNSName(name) if name == dns)))
            && self.ips.iter().all(|ip| {
                let octets = match ip {
                    IpAddr::V4(ip) => ip.octets().to_vec(),
                    IpAddr::V6(ip) => ip.octets().to_vec(),
                };
                has(&|name| matches!(name, GeneralName::IPAddress(bytes) if *bytes == octets))
            })
    }
}

fn hostname() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?.trim().to_ascii_lowercase();
    let valid =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    valid.then_some(name)
}

impl Pki {
    /// Makes everything anew, for a server that keeps nothing.
    pub(crate) fn generate(names: &Names) -> Result<Self, PkiError> {
        let (authority, issuer) = new_authority()?;
        let service_account = KeyPair::generate()?.serialize_pem();
        Ok(Self { authority, serving: new_serving(&issuer, names)?, admin: new_admin(&issuer)?, service_account })
    }

    /// Takes from a directory what is still good and makes the rest.
    pub(crate) fn open(dir: &Path, names: &Names) -> Result<Self, PkiError> {
        let authority_files = PairFiles::new(dir, "ca");
        let kept = authority_files.read()?.filter(|(_, parsed)| fresh(parsed, OffsetDateTime::now_utc()));
        let (authority, issuer) = match kept {
            Some((pair, parsed)) => {
                let key = authority_files.key_pair(&pair)?;
                let issuer = Issuer::from_ca_cert_der(&parsed, key).map_err(|error| authority_files.broken(error))?;
                (pair.certificate, issuer)
            }
            None => {
                let (certificate, issuer) = new_authority()?;
                authority_files.write(&Pair { certificate: certificate.clone(), key: issuer.key().serialize_pem() })?;
                (certificate, issuer)
            }
        };
        let now = OffsetDateTime::now_utc();
        let serving = PairFiles::new(dir, "apiserver").keep_or_make(
            |parsed| fresh_by(parsed, &authority, now) && names.covered_by(parsed),
            || new_serving(&issuer, names),
        )?;
        let admin = PairFiles::new(dir, "admin")
            .keep_or_make(|parsed| fresh_by(parsed, &authority, now), || new_admin(&issuer))?;
        let service_account = keep_or_make_service_account(&dir.join("sa.key"))?;
        Ok(Self { authority, serving, admin, service_account })
    }

    /// The serving certificate in the form that the listener wants.
    pub(crate) fn serving_files(&self) -> Result<TlsFiles, PkiError> {
        let broken = |error: rustls_pki_types::pem::Error| PkiError::Broken {
            path: "the serving certificate".to_owned(),
            error: error.to_string(),
        };
        let certificate = CertificateDer::from_pem_slice(self.serving.certificate.as_bytes()).map_err(broken)?;
        let key = PrivateKeyDer::from_pem_slice(self.serving.key.as_bytes()).map_err(broken)?;
        Ok(TlsFiles { chain: vec![certificate], key })
    }
}

/// `NAME.crt` and `NAME.key`.
struct PairFiles {
    certificate: PathBuf,
    key: PathBuf,
}

impl PairFiles {
    fn new(dir: &Path, name: &str) -> Self {
        Self { certificate: dir.join(format!("{name}.crt")), key: dir.join(format!("{name}.key")) }
    }

    /// What is there: nothing, or a certificate and the key that belongs to it.
    fn read(&self) -> Result<Option<(Pair, CertificateDer<'static>)>, PkiError> {
        let Some(certificate) = read(&self.certificate)? else { return Ok(None) };
        // A certificate is written after its key, so this was removed by somebody who wants a new one.
        let Some(key) = read(&self.key)? else { return Ok(None) };
        let pair = Pair { certificate, key };
        let parsed = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).map_err(|error| self.broken(error))?;
        let (_, certificate) = X509Certificate::from_der(&parsed).map_err(|error| self.broken(error))?;
        let key = self.key_pair(&pair)?;
        if certificate.public_key().raw != key.subject_public_key_info() {
            return Err(self.broken("it does not belong to the key beside it"));
        }
        Ok(Some((pair, parsed)))
    }

    fn key_pair(&self, pair: &Pair) -> Result<KeyPair, PkiError> {
        KeyPair::from_pem(&pair.key)
            .map_err(|error| PkiError::Broken { path: self.key.display().to_string(), error: error.to_string() })
    }

    fn keep_or_make(
        &self,
        good: impl Fn(&X509Certificate<'_>) -> bool,
        make: impl FnOnce() -> Result<Pair, PkiError>,
    ) -> Result<Pair, PkiError> {
        if let Some((pair, der)) = self.read()? {
            let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| self.broken(error))?;
            if good(&parsed) {
                return Ok(pair);
            }
        }
        let pair = make()?;
        self.write(&pair)?;
        Ok(pair)
    }

    fn write(&self, pair: &Pair) -> Result<(), PkiError> {
        // A stop between the two must not leave a certificate with the key of another.
        match fs::remove_file(&self.certificate) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(file_error(&self.certificate, error)),
            _ => {}
        }
        write(&self.key, &pair.key)?;
        write(&self.certificate, &pair.certificate)
    }

    fn broken(&self, error: impl std::fmt::Display) -> PkiError {
        PkiError::Broken { path: self.certificate.display().to_string(), error: error.to_string() }
    }
}

/// The key pair that service account tokens are signed with.
fn keep_or_make_service_account(path: &Path) -> Result<String, PkiError> {
    let key = match read(path)? {
        Some(pem) => KeyPair::from_pem(&pem)
            .map_err(|error| PkiError::Broken { path: path.display().to_string(), error: error.to_string() })?,
        None => {
            let key = KeyPair::generate()?;
            write(path, &key.serialize_pem())?;
            key
        }
    };
    write(&path.with_extension("pub"), &key.public_key_pem())?;
    Ok(key.serialize_pem())
}

fn read(path: &Path) -> Result<Option<String>, PkiError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error(path, error)),
    }
}

fn write(path: &Path, text: &str) -> Result<(), PkiError> {
    write_private(path, text.as_bytes()).map_err(|error| file_error(path, error))
}

fn file_error(path: &Path, error: io::Error) -> PkiError {
    PkiError::File { path: path.display().to_string(), error }
}

fn fresh(der: &CertificateDer<'_>, now: OffsetDateTime) -> bool {
    X509Certificate::from_der(der).is_ok_and(|(_, parsed)| lasts(&parsed, now))
}

fn lasts(certificate: &X509Certificate<'_>, now: OffsetDateTime) -> bool {
    let left = certificate.validity().not_after.timestamp() - now.unix_timestamp();
    left > RENEW_BEFORE.whole_seconds() && certificate.validity().not_before.timestamp() <= now.unix_timestamp()
}

/// Whether a certificate lasts and was signed by this authority.
fn fresh_by(certificate: &X509Certificate<'_>, authority_pem: &str, now: OffsetDateTime) -> bool {
    let Ok(authority) = CertificateDer::from_pem_slice(authority_pem.as_bytes()) else { return false };
    let Ok((_, authority)) = X509Certificate::from_der(&authority) else { return false };
    let own = authority.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0),
        _ => None,
    });
    let signer = certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0),
        _ => None,
    });
    lasts(certificate, now) && own.is_some() && own == signer
}

fn new_authority() -> Result<(String, Issuer<'static, KeyPair>), PkiError> {
    let mut params = params("binnacle-ca", AUTHORITY_LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), Issuer::new(params, key)))
}

fn new_serving(issuer: &Issuer<'_, KeyPair>, names: &Names) -> Result<Pair, PkiError> {
    let mut params = params("kube-apiserver", LEAF_LIFETIME);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    for name in &names.dns {
        params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
    }
    params.subject_alt_names.extend(names.ips.iter().copied().map(SanType::IpAddress));
    sign(params, issuer)
}

fn new_admin(issuer: &Issuer<'_, KeyPair>) -> Result<Pair, PkiError> {
    let mut params = params(ADMIN_NAME, LEAF_LIFETIME);
    params.distinguished_name.push(DnType::OrganizationName, ADMIN_GROUP);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(params, issuer)
}

fn params(name: &str, lifetime: Duration) -> CertificateParams {
    let now = OffsetDateTime::now_utc();
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = now - SKEW;
    params.not_after = now + lifetime;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params
}

fn sign(params: CertificateParams, issuer: &Issuer<'_, KeyPair>) -> Result<Pair, PkiError> {
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::DataDir;

    fn names(listen: [u8; 4]) -> Names {
        Names::new(listen.into(), [10, 0, 0, 1].into())
    }

    #[test]
    fn reused_and_renewed() {
        let base = DataDir::temporary().unwrap();
        let dir = base.private("pki").unwrap();
        let first = Pki::open(&dir, &names([0, 0, 0, 0])).unwrap();
        assert_eq!(Pki::open(&dir, &names([127, 0, 0, 1])).unwrap(), first);

        // Another address needs another serving certificate, and nothing else.
        let moved = Pki::open(&dir, &names([192, 0, 2, 1])).unwrap();
        assert_eq!((&moved.authority, &moved.admin), (&first.authority, &first.admin));
        assert_ne!(moved.serving, first.serving);

        // Another authority signs everything anew.
        fs::remove_file(dir.join("ca.crt")).unwrap();
        let other = Pki::open(&dir, &names([127, 0, 0, 1])).unwrap();
        assert_ne!(other.authority, first.authority);
        assert_ne!(other.admin, first.admin);
        assert_eq!(Pki::open(&dir, &names([127, 0, 0, 1])).unwrap(), other);

        let files =
            ["ca.crt", "ca.key", "apiserver.crt", "apiserver.key", "admin.crt", "admin.key", "sa.key", "sa.pub"];
        let mut present: Vec<_> = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        present.sort();
        let mut files = files.to_vec();
        files.sort_unstable();
        assert_eq!(present, files);
    }

    #[test]
    fn broken_files_stop_the_start() {
        for file in ["ca.crt", "ca.key", "apiserver.crt", "admin.key", "sa.key"] {
            let base = DataDir::temporary().unwrap();
            let dir = base.private("pki").unwrap();
            Pki::open(&dir, &names([0, 0, 0, 0])).unwrap();
            fs::write(dir.join(file), "broken").unwrap();
            let error = Pki::open(&dir, &names([0, 0, 0, 0])).unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot use {}: ", dir.join(file).display())), "{error}");
        }
        let base = DataDir::temporary().unwrap();
        let dir = base.private("pki").unwrap();
        Pki::open(&dir, &names([0, 0, 0, 0])).unwrap();
        fs::copy(dir.join("admin.key"), dir.join("apiserver.key")).unwrap();
        let error = Pki::open(&dir, &names([0, 0, 0, 0])).unwrap_err().to_string();
        assert!(error.contains("it does not belong to the key beside it"), "{error}");
    }

    #[test]
    fn lifetimes() {
        let pki = Pki::generate(&names([127, 0, 0, 1])).unwrap();
        let der = CertificateDer::from_pem_slice(pki.serving.certificate.as_bytes()).unwrap();
        let now = OffsetDateTime::now_utc();
        for (later, want) in [
            (Duration::ZERO, true),
            (Duration::days(330), true),
            (Duration::days(340), false),
            (Duration::days(400), false),
            (Duration::days(-1), false),
        ] {
            assert_eq!(fresh(&der, now + later), want, "{later}");
        }
    }
}
