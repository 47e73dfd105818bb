//! The client certificate for other servers. It is reloaded when its files change, because certificates are rotated
//! while the server runs.

use std::fmt::{self, Display};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::tls::v1_public_key;

/// The minimum interval between two checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The age at which an issued certificate is replaced, far below its lifetime.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// A client certificate that is read from files.
#[derive(Debug)]
pub struct ClientIdentity {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<CachedKey>,
}

/// A client certificate that is issued when a server requests it, and again when it is a day old.
pub struct IssuedIdentity {
    issue: Issue,
    current: Mutex<Option<IssuedKey>>,
}

/// Returns `None` if no certificate could be issued.
type Issue = Box<dyn Fn() -> Option<Arc<CertifiedKey>> + Send + Sync>;

struct IssuedKey {
    certified: Arc<CertifiedKey>,
    issued: Instant,
}

/// Errors of loading a client certificate.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("open {path}: {error}")]
    Unreadable { path: String, error: std::io::Error },
    #[error("tls: {0}")]
    Unusable(String),
}

#[derive(Debug)]
struct CachedKey {
    certified: Arc<CertifiedKey>,
    checked: Instant,
    /// The modification times of the files.
    modified: [Option<SystemTime>; 2],
}

impl ClientIdentity {
    /// Loads both files. The key must belong to the certificate.
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, IdentityError> {
        let current = CachedKey {
            modified: [modified(certificate), modified(key)],
            certified: Arc::new(read(certificate, key)?),
            checked: Instant::now(),
        };
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), current: Mutex::new(current) })
    }

    /// Returns the certificate in the files, or the last valid one while certificate and key do not match.
    fn current(&self, now: Instant) -> Arc<CertifiedKey> {
        let mut current = self.current.lock();
        if now.duration_since(current.checked) >= CHECK_INTERVAL {
            current.checked = now;
            let files = [modified(&self.certificate), modified(&self.key)];
            if files != current.modified {
                match read(&self.certificate, &self.key) {
                    Ok(certified) => {
                        current.certified = Arc::new(certified);
                        current.modified = files;
                    }
                    Err(error) => {
                        tracing::warn!("failed to reload client certificate, keeping the current one: {error}")
                    }
                }
            }
        }
        current.certified.clone()
    }
}

impl ResolvesClientCert for ClientIdentity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(self.current(Instant::now()))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

impl IssuedIdentity {
    /// Creates an identity from a function that returns a certificate chain and its key as PEM. The key must belong to the
    /// certificate. A failure is logged; servers get the last certificate, or none.
    pub fn new<E: Display>(issue: impl Fn() -> Result<(String, String), E> + Send + Sync + 'static) -> Self {
        let issue = move || {
            let issued = issue().map_err(|error| error.to_string()).and_then(|(certificate, key)| {
                parse(certificate.as_bytes(), key.as_bytes()).map_err(|error| error.to_string())
            });
            issued.map(Arc::new).inspect_err(|error| tracing::error!(error, "cannot issue a client certificate")).ok()
        };
        Self { issue: Box::new(issue), current: Mutex::default() }
    }

    fn current(&self, now: Instant) -> Option<Arc<CertifiedKey>> {
        let mut current = self.current.lock();
        let is_young = |key: &IssuedKey| now.duration_since(key.issued) < MAX_AGE;
        if !current.as_ref().is_some_and(is_young)
            && let Some(certified) = (self.issue)()
        {
            *current = Some(IssuedKey { certified, issued: now });
        }
        current.as_ref().map(|key| key.certified.clone())
    }
}

impl fmt::Debug for IssuedIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IssuedIdentity")
    }
}

impl ResolvesClientCert for IssuedIdentity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current(Instant::now())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

fn read(certificate: &Path, key: &Path) -> Result<CertifiedKey, IdentityError> {
    let read = |path: &Path| {
        std::fs::read(path).map_err(|error| IdentityError::Unreadable { path: path.display().to_string(), error })
    };
    parse(&read(certificate)?, &read(key)?)
}

/// Parses a certificate chain and its key, which are PEM.
fn parse(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, IdentityError> {
    let unusable = |error: String| IdentityError::Unusable(error);
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(error.to_string()))?;
    if chain.is_empty() {
        return Err(unusable("failed to find any PEM data in certificate input".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| unusable("failed to find any PEM data in key input".to_owned()))?;
    let provider = binnacle_crypto::tls::provider();
    let key = provider.key_provider.load_private_key(key).map_err(|error| unusable(error.to_string()))?;
    let certified = CertifiedKey::new(chain, key);
    match (v1_public_key(&certified.cert[0]), certified.key.public_key()) {
        (Some(shown), Some(public)) if shown == public => Ok(certified),
        (Some(_), Some(_)) => Err(unusable("private key does not match public key".to_owned())),
        _ => match certified.keys_match() {
            Ok(()) => Ok(certified),
            Err(_) => Err(unusable("private key does not match public key".to_owned())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reloads_changed_files_and_keeps_the_last_valid_pair() {
        let directory = tempfile::tempdir().unwrap();
        let paths = ["tls.crt", "tls.key"].map(|name| directory.path().join(name));
        let write = |age: u64| {
            let pair = rcgen::generate_simple_self_signed(["apiserver".to_owned()]).unwrap();
            let time = SystemTime::now() - Duration::from_secs(age);
            for (path, text) in paths.iter().zip([pair.cert.pem(), pair.signing_key.serialize_pem()]) {
                std::fs::write(path, text).unwrap();
                std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
            }
            pair.cert.der().to_vec()
        };
        let first = write(100);
        let identity = ClientIdentity::load(&paths[0], &paths[1]).unwrap();
        let shown = |after: u64| {
            let certified = identity.current(Instant::now() + Duration::from_secs(after));
            certified.cert[0].to_vec()
        };
        let second = write(50);
        // Not checked yet; then the new certificate; then unchanged while one file is broken.
        assert_eq!(shown(0), first);
        assert_eq!(shown(2), second);
        std::fs::write(&paths[1], "broken").unwrap();
        assert_eq!(shown(10), second);
        let third = write(10);
        assert_eq!(shown(20), third);
    }

    #[test]
    fn issues_a_certificate_on_request_and_once_a_day() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let issued = Arc::new(AtomicUsize::new(0));
        let count = issued.clone();
        let identity = IssuedIdentity::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
            let pair = rcgen::generate_simple_self_signed(["apiserver".to_owned()])?;
            Ok::<_, rcgen::Error>((pair.cert.pem(), pair.signing_key.serialize_pem()))
        });
        assert!(identity.has_certs());
        assert_eq!(issued.load(Ordering::Relaxed), 0);
        let shown = [(); 2].map(|()| identity.resolve(&[], &[]).unwrap().cert[0].to_vec());
        assert_eq!(shown[0], shown[1]);
        assert_eq!(issued.load(Ordering::Relaxed), 1);
        let later =
            |seconds: u64| identity.current(Instant::now() + Duration::from_secs(seconds)).unwrap().cert[0].to_vec();
        assert_eq!(later(23 * 3600), shown[0]);
        assert_ne!(later(25 * 3600), shown[0]);
        assert_eq!(issued.load(Ordering::Relaxed), 2);
        let broken = IssuedIdentity::new(|| Ok::<_, String>((String::new(), String::new())));
        assert!(broken.resolve(&[], &[]).is_none());
    }

    #[test]
    fn rejects_files_without_pem_data() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("empty");
        std::fs::write(&path, "").unwrap();
        let error = ClientIdentity::load(&path, &path).err().unwrap();
        assert_eq!(error.to_string(), "tls: failed to find any PEM data in certificate input");
    }
}
