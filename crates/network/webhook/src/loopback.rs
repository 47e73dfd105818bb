//! Calls of this server to itself: webhooks may be served by this server (`kubernetes.default.svc`) or by servers to
//! which it proxies requests.

use std::fmt;
use std::sync::Arc;

use http::Uri;
use http::uri::PathAndQuery;
use rustls_pki_types::CertificateDer;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::credential::Credential;

/// The credential, certificates and concurrency limit for calls to this server. Clones share the limit.
#[derive(Clone, Debug)]
pub struct Loopback {
    credential: Credential,
    certificates: OwnCertificates,
    calls: Arc<Semaphore>,
    /// The prefix of paths that lead to this server; empty if it has the whole host.
    prefix: String,
}

/// Recognizes this server's own serving certificates, regardless of their names and signers.
#[derive(Clone)]
pub struct OwnCertificates(Arc<dyn Fn(&CertificateDer<'_>) -> bool + Send + Sync>);

impl Loopback {
    /// Creates the configuration for calls to this server. At most `calls` calls run concurrently and others wait,
    /// because a call may cause the next one (a webhook for connections to a service that is reached through such a
    /// connection), and each holds connections and memory.
    pub fn new(credential: Credential, certificates: OwnCertificates, calls: usize) -> Self {
        Self { credential, certificates, calls: Arc::new(Semaphore::new(calls)), prefix: String::new() }
    }

    /// Sets the prefix of the paths of this server, if others have the rest of the host.
    #[must_use]
    pub fn below(self, prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), ..self }
    }

    /// Returns the URL at which this server has the path of another URL.
    pub(crate) fn own_url(&self, url: Uri) -> Uri {
        if self.prefix.is_empty() {
            return url;
        }
        let path = url.path_and_query().map_or("/", |path| path.as_str());
        let prefixed = PathAndQuery::try_from(format!("{}{path}", self.prefix));
        let mut parts = url.clone().into_parts();
        match prefixed {
            Ok(path) => parts.path_and_query = Some(path),
            // A prefix that is no path.
            Err(_) => return url,
        }
        Uri::from_parts(parts).unwrap_or(url)
    }

    /// Returns the credential, which is only for this server.
    pub(crate) fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Waits until the concurrency limit allows another call.
    pub(crate) async fn acquire(&self) -> Option<SemaphorePermit<'_>> {
        // The semaphore is never closed.
        self.calls.acquire().await.ok()
    }

    pub(crate) fn is_own_certificate(&self, certificate: &CertificateDer<'_>) -> bool {
        (self.certificates.0)(certificate)
    }
}

impl OwnCertificates {
    /// Creates a matcher; `is_own` checks the certificate of each dialed server.
    pub fn new(is_own: impl Fn(&CertificateDer<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_own))
    }
}

impl fmt::Debug for OwnCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnCertificates")
    }
}
