//! This server as a target of its own calls: webhooks may be paths of it (`kubernetes.default.svc`), or of servers that it
//! hands requests on to.

use std::fmt;
use std::sync::Arc;

use rustls_pki_types::CertificateDer;

use crate::target::{Credential, Target};

/// How a server calls itself.
#[derive(Clone, Debug)]
pub struct Itself {
    pub credential: Credential,
    pub certificates: OwnCertificates,
}

/// Tells the certificates that this server shows from all others, whatever names are in them and whoever signed them.
#[derive(Clone)]
pub struct OwnCertificates(Arc<dyn Fn(&CertificateDer<'_>) -> bool + Send + Sync>);

impl OwnCertificates {
    /// `is_own` is asked about the certificate of each server that is dialed.
    pub fn new(is_own: impl Fn(&CertificateDer<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(is_own))
    }

    pub(crate) fn has(&self, certificate: &CertificateDer<'_>) -> bool {
        (self.0)(certificate)
    }
}

impl fmt::Debug for OwnCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnCertificates")
    }
}

impl Target {
    /// Nobody else gets the credential: neither another server nor a proxy in between.
    #[must_use]
    pub fn as_itself(self, itself: Itself) -> Self {
        Self {
            authorities: None,
            insecure: false,
            identity: None,
            credential: itself.credential,
            own: Some(itself.certificates),
            dialer: None,
            ..self
        }
    }
}
