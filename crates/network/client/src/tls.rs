//! Client configurations of TLS to other servers, with or without verification of their certificates.

mod messages;
mod verifier;
mod x509_v1;

use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::{ClientConfig, Error, RootCertStore};
use rustls_pki_types::CertificateDer;

pub use messages::explain;
pub(crate) use messages::sha1_name;
use verifier::Verifier;
pub use x509_v1::{tls12_signature, tls13_signature, v1_public_key, verify_v1_certificate};

/// The trusted certificates.
pub enum Verification {
    /// Certificates for the dialed name that these authorities have signed.
    Authorities(RootCertStore),
    /// Certificates that the authorities in a bundle have signed, and those in the bundle itself: servers often have
    /// self-signed ones.
    Bundle(Vec<CertificateDer<'static>>),
    /// Any certificate. Connections are encrypted, but the server is not authenticated.
    None,
}

/// Returns a configuration for HTTP/1.1, the only version with upgrades. `identity` is for servers that request a
/// certificate.
pub fn client_config(
    verification: Verification,
    identity: Option<Arc<dyn ResolvesClientCert>>,
) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let verifier = match verification {
        Verification::Authorities(roots) => Verifier::signed(roots, provider)?,
        Verification::Bundle(bundle) => bundle_verifier(bundle, provider)?,
        Verification::None => any_server(provider),
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match identity {
        Some(identity) => builder.with_client_cert_resolver(identity),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Returns a verifier that accepts any certificate whose key the server holds.
pub fn any_server(provider: Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
    Verifier::anybody(provider)
}

/// Returns a verifier that accepts the certificates for which `is_known` is true, regardless of their names.
pub fn known_server(
    is_known: impl Fn(&CertificateDer<'_>) -> bool + Send + Sync + 'static,
    provider: Arc<CryptoProvider>,
) -> Arc<dyn ServerCertVerifier> {
    Verifier::known(Box::new(is_known), provider)
}

/// Returns a verifier that accepts the certificates that authorities of a bundle have signed, and like Go those in the
/// bundle itself: webpki refuses a server certificate that is an authority, as most self-signed ones are. Invalid
/// certificates are skipped; it is an error if no valid one is left.
pub fn bundle_verifier(
    bundle: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(bundle.iter().cloned());
    Verifier::bundle(roots, bundle, provider)
}
