//! The serving certificates: a default one, and others by server name. Changed files are read again; open connections
//! keep their certificates.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

use super::{TlsError, TlsFiles};

/// The interval between checks of the files.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// A certificate and its key in files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// A certificate for some names (`--tls-sni-cert-key`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedCertificate {
    pub files: CertificateFiles,
    /// Domains, with `*` for whole segments, and addresses. If empty, the names in the certificate are used.
    pub names: Vec<String>,
}

/// The source of the default certificate.
pub enum DefaultCertificate {
    /// Made by the server, which calls [`Certificates::replace_made`] when there is another.
    Made(TlsFiles),
    Files(CertificateFiles),
}

/// All current certificates.
pub struct Certificates {
    provider: CryptoProvider,
    default: Source,
    named: Vec<NamedCertificate>,
    current: ArcSwap<CertificateSet>,
}

enum Source {
    Generated(ArcSwap<CertifiedKey>),
    Files(CertificateFiles),
}

/// The contents of the files at one time.
#[derive(Debug)]
struct CertificateSet {
    default: Arc<CertifiedKey>,
    by_name: HashMap<String, Arc<CertifiedKey>>,
}

impl Certificates {
    pub fn load(
        provider: CryptoProvider,
        default: DefaultCertificate,
        named: Vec<NamedCertificate>,
    ) -> Result<Arc<Self>, TlsError> {
        let default = match default {
            DefaultCertificate::Files(files) => Source::Files(files),
            DefaultCertificate::Made(files) => Source::Generated(ArcSwap::new(certified_key(&provider, files)?)),
        };
        let current = ArcSwap::from_pointee(read_certificates(&provider, &default, &named)?);
        Ok(Arc::new(Self { provider, default, named, current }))
    }

    /// Reads the files again. On an error nothing changes.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.current.store(Arc::new(read_certificates(&self.provider, &self.default, &self.named)?));
        Ok(())
    }

    /// Uses another certificate that the server made for new connections. Does nothing if the certificate is in a file.
    pub fn replace_made(&self, files: TlsFiles) -> Result<(), TlsError> {
        let Source::Generated(generated) = &self.default else { return Ok(()) };
        generated.store(certified_key(&self.provider, files)?);
        self.reload()
    }

    /// Watches the files for as long as the server runs.
    pub async fn watch_files(self: Arc<Self>) {
        let mut loaded = self.fingerprint();
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            let now = self.fingerprint();
            if now == loaded {
                continue;
            }
            match self.reload() {
                Ok(()) => {
                    tracing::info!("serving certificates were read again");
                    loaded = now;
                }
                // A certificate is often written before its key: the pair matches a little later.
                Err(error) => tracing::error!("serving certificates changed and cannot be read: {error}"),
            }
        }
    }

    /// Returns true for a certificate in use.
    pub fn shows(&self, certificate: &CertificateDer<'_>) -> bool {
        let current = self.current.load();
        let mut all = std::iter::once(&current.default).chain(current.by_name.values());
        all.any(|pair| pair.cert.first() == Some(certificate))
    }

    /// Returns true if there are files to watch.
    pub fn has_files(&self) -> bool {
        matches!(self.default, Source::Files(_)) || !self.named.is_empty()
    }

    /// Returns true if this address has its own certificate, for clients without a server name.
    pub(crate) fn is_named(&self, ip: IpAddr) -> bool {
        !self.named.is_empty() && self.current.load().by_name.contains_key(&ip.to_string())
    }

    /// Returns modification time, size and inode of each file, which change with its contents.
    fn fingerprint(&self) -> Vec<Option<(std::time::SystemTime, u64, u64)>> {
        use std::os::unix::fs::MetadataExt;
        let default = match &self.default {
            Source::Files(files) => Some(files),
            Source::Generated(_) => None,
        };
        let files = default.into_iter().chain(self.named.iter().map(|named| &named.files));
        files
            .flat_map(|files| [&files.certificate, &files.key])
            .map(|path| {
                let metadata = std::fs::metadata(path).ok()?;
                Some((metadata.modified().ok()?, metadata.len(), metadata.ino()))
            })
            .collect()
    }

    fn choose(&self, name: Option<&str>, address: Option<IpAddr>) -> Arc<CertifiedKey> {
        let current = self.current.load();
        let found = match (name, address) {
            (Some(name), _) => current.find(name),
            (None, Some(address)) => current.by_name.get(&address.to_string()).cloned(),
            (None, None) => None,
        };
        found.unwrap_or_else(|| current.default.clone())
    }
}

impl CertificateSet {
    /// Returns the certificate of the exact name, or else of the name with its first segments replaced by `*`, one
    /// after the other.
    fn find(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        if self.by_name.is_empty() {
            return None;
        }
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if let Some(found) = self.by_name.get(&name) {
            return Some(found.clone());
        }
        let mut segments: Vec<&str> = name.split('.').collect();
        for at in 0..segments.len() {
            segments[at] = "*";
            if let Some(found) = self.by_name.get(&segments.join(".")) {
                return Some(found.clone());
            }
        }
        None
    }
}

/// Chooses certificates for connections to one of our addresses.
pub(crate) struct CertResolver {
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) address: Option<IpAddr>,
}

impl std::fmt::Debug for CertResolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertResolver").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ResolvesServerCert for CertResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.certificates.choose(hello.server_name(), self.address))
    }
}

fn read_certificates(
    provider: &CryptoProvider,
    default: &Source,
    named: &[NamedCertificate],
) -> Result<CertificateSet, TlsError> {
    let load = |files: &CertificateFiles| certified_key(provider, TlsFiles::load(&files.certificate, &files.key)?);
    let default = match default {
        Source::Generated(generated) => generated.load_full(),
        Source::Files(files) => load(files)?,
    };
    let mut by_name = HashMap::new();
    let certified: Vec<_> = named
        .iter()
        .map(|named| load(&named.files).map_err(|error| TlsError::Named(Box::new(error))))
        .collect::<Result<_, _>>()?;
    // Configured names take precedence over names in certificates, and earlier pairs over later ones.
    for given in [false, true] {
        for (named, certified) in
            named.iter().zip(&certified).rev().filter(|(named, _)| named.names.is_empty() != given)
        {
            let names = if given { named.names.clone() } else { names_in(certified) };
            by_name.extend(names.into_iter().map(|name| (name.to_ascii_lowercase(), certified.clone())));
        }
    }
    Ok(CertificateSet { default, by_name })
}

/// Fails if key and certificate do not match.
fn certified_key(provider: &CryptoProvider, files: TlsFiles) -> Result<Arc<CertifiedKey>, TlsError> {
    let certified = CertifiedKey::from_der(files.chain, files.key, provider);
    certified.map(Arc::new).map_err(|error| {
        TlsError::Unusable(match error {
            rustls::Error::InconsistentKeys(rustls::InconsistentKeys::KeyMismatch) => {
                "private key does not match public key".to_owned()
            }
            other => other.to_string(),
        })
    })
}

/// Returns the common name and the domains of a certificate. Its addresses are ignored: clients cannot send them as a
/// server name.
fn names_in(certified: &CertifiedKey) -> Vec<String> {
    let Some((_, certificate)) = certified.cert.first().and_then(|der| X509Certificate::from_der(der).ok()) else {
        return Vec::new();
    };
    let common = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    let is_domain = |name: &&str| {
        name.contains(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.*".contains(&byte))
    };
    let mut names: Vec<String> = common.filter(is_domain).map(str::to_owned).into_iter().collect();
    if let Ok(Some(alternative)) = certificate.subject_alternative_name() {
        names.extend(alternative.value.general_names.iter().filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            _ => None,
        }));
    }
    names
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    fn write(dir: &Path, name: &str, common: &str, domains: &[&str]) -> CertificateFiles {
        let key = KeyPair::generate().unwrap();
        let domains: Vec<String> = domains.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(domains).unwrap();
        params.distinguished_name.push(DnType::CommonName, common);
        let (certificate_path, key_path) = (dir.join(format!("{name}.crt")), dir.join(format!("{name}.key")));
        std::fs::write(&certificate_path, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&key_path, key.serialize_pem()).unwrap();
        CertificateFiles { certificate: certificate_path, key: key_path }
    }

    fn chosen_name(certificates: &Certificates, name: Option<&str>, address: Option<IpAddr>) -> String {
        let chosen = certificates.choose(name, address);
        let (_, certificate) = X509Certificate::from_der(&chosen.cert[0]).unwrap();
        certificate.subject().iter_common_name().next().unwrap().as_str().unwrap().to_owned()
    }

    #[test]
    fn chooses_by_name_and_reloads_changed_files() {
        let dir = binnacle_testkit::TempDir::new();
        let default = write(dir.path(), "default", "default", &["example.com"]);
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let named = vec![
            NamedCertificate { files: write(dir.path(), "own", "Own Names", &["own.org", "both.org"]), names: vec![] },
            NamedCertificate {
                files: write(dir.path(), "given", "given", &["unused.org"]),
                names: names(&["both.org", "*.wild.org", "10.0.0.7"]),
            },
            NamedCertificate {
                files: write(dir.path(), "later", "later", &[]),
                names: names(&["*.wild.org", "a.wild.org"]),
            },
        ];
        let provider = rustls::crypto::ring::default_provider();
        let certificates = Certificates::load(provider, DefaultCertificate::Files(default.clone()), named).unwrap();
        let named_address = IpAddr::from([10, 0, 0, 7]);
        let ten = Some(named_address);
        for (name, address, want) in [
            (None, None, "default"),
            (Some("example.com"), None, "default"),
            (Some("own.org"), None, "Own Names"),
            (Some("OWN.org."), None, "Own Names"),
            (Some("both.org"), None, "given"),
            (Some("unused.org"), None, "default"),
            (Some("b.wild.org"), None, "given"),
            (Some("a.wild.org"), None, "later"),
            (Some("wild.org"), None, "default"),
            (Some("x.b.wild.org"), None, "default"),
            (None, ten, "given"),
            (Some("own.org"), ten, "Own Names"),
        ] {
            assert_eq!(chosen_name(&certificates, name, address), want, "{name:?} {address:?}");
        }
        assert!(certificates.is_named(named_address) && certificates.has_files());

        let before = certificates.fingerprint();
        std::fs::write(&default.certificate, "half of a file").unwrap();
        assert!(certificates.reload().is_err());
        assert_eq!(chosen_name(&certificates, None, None), "default");
        write(dir.path(), "default", "renewed", &["example.com"]);
        assert_ne!(certificates.fingerprint(), before);
        certificates.reload().unwrap();
        assert_eq!(chosen_name(&certificates, None, None), "renewed");
    }
}
