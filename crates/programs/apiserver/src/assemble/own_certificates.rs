//! The components that use the server's own certificates, and the health check of the serving one.

use std::sync::Arc;

use binnacle_authn::Authorities;
use binnacle_controlplane::Trust;
use binnacle_pki::{CertificateUsers, Expiry, ServingCertificate};
use binnacle_request::BoxFuture;
use binnacle_server::HealthCheck;
use binnacle_transport::{Certificates, TlsFiles};
use time::OffsetDateTime;

/// The components that use renewed certificates.
pub(super) struct OwnCertificateUsers {
    pub(super) serving: Arc<Certificates>,
    /// The authorities of clients.
    pub(super) clients: Arc<Authorities>,
    /// The authorities that are published for extension API servers.
    pub(super) trust: Trust,
}

impl CertificateUsers for OwnCertificateUsers {
    fn serve(&self, certificate: ServingCertificate) -> Result<(), String> {
        self.serving.replace_generated(tls_files(certificate)).map_err(|error| error.to_string())
    }

    fn trust(&self, authorities: &str) -> Result<(), String> {
        self.clients.replace(authorities.as_bytes()).map_err(|error| error.to_string())?;
        self.trust.set_clients(authorities.to_owned());
        Ok(())
    }
}

/// Converts a certificate for the listener.
pub(super) fn tls_files(certificate: ServingCertificate) -> TlsFiles {
    TlsFiles { chain: certificate.chain, key: certificate.key }
}

/// Checks that the server's own certificate has not expired. If it has, a restart creates another one.
pub(super) struct CertificateCheck(pub(super) Expiry);

impl HealthCheck for CertificateCheck {
    fn name(&self) -> &str {
        "loopback-serving-certificate"
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            match self.0.is_over(OffsetDateTime::now_utc()) {
                true => Err("loopback serving certificate is expired".to_owned()),
                false => Ok(()),
            }
        })
    }
}
