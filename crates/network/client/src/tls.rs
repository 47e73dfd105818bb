//! TLS client configurations, with or without verification of the server's certificate.

mod messages;
mod sessions;
mod verifier;
mod x509_v1;

use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ResolvesClientCert, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, Error, RootCertStore};
use rustls_pki_types::CertificateDer;

pub use messages::explain;
pub(crate) use messages::sha1_name;
use sessions::LazySessions;
use verifier::Verifier;
pub use x509_v1::{tls12_signature, tls13_signature, v1_public_key, verify_v1_certificate};

/// The trusted certificates.
pub enum Verification {
    /// Certificates for the dialed name that are signed by these authorities.
    Authorities(RootCertStore),
    /// Certificates that are signed by the authorities in a bundle, and those in the bundle itself: servers often have
    /// self-signed certificates.
    Bundle(Vec<CertificateDer<'static>>),
    /// Any certificate. Connections are encrypted, but the server is not authenticated.
    None,
}

/// Returns a configuration for HTTP/1.1, the only version with upgrades. `identity` is presented to servers that
/// request a client certificate.
pub fn client_config(
    verification: Verification,
    identity: Option<Arc<dyn ResolvesClientCert>>,
) -> Result<Arc<ClientConfig>, Error> {
    let provider = Arc::new(binnacle_crypto::tls::provider());
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
    config.resumption = Resumption::store(Arc::new(LazySessions::default()));
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

/// Returns a verifier that accepts certificates signed by authorities in the bundle and, like Go, those in the bundle
/// itself: webpki rejects server certificates that are authorities, as most self-signed ones are. Invalid certificates
/// in the bundle are skipped; fails if no valid one is left.
pub fn bundle_verifier(
    bundle: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(bundle.iter().cloned());
    Verifier::bundle(roots, bundle, provider)
}
