//! The client side of TLS towards other servers: with an authority to verify them by, or with none.

mod first_version;
mod verifier;
mod words;

use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::{ClientConfig, Error, RootCertStore};
use rustls_pki_types::CertificateDer;

pub use first_version::{key_of_first_version, tls12_signature, tls13_signature, verify_first_version};
use verifier::Verifier;
pub use words::explain;
pub(crate) use words::sha1_name;

/// The trusted certificates.
pub enum Verification {
    /// Certificates that these authorities signed for the name that is dialed.
    Authorities(RootCertStore),
    /// The same with authorities in a bundle, and certificates that stand in the bundle themselves: servers often sign
    /// their own.
    Bundle(Vec<CertificateDer<'static>>),
    /// Any certificate of which the server holds the key. Connections are encrypted, but to whom is not known.
    None,
}

/// A configuration for HTTP/1.1, the one version that can be upgraded. `identity` is shown to servers that ask for one.
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

/// A verifier that takes any certificate of which the server holds the key.
pub fn any_server(provider: Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
    Verifier::anybody(provider)
}

/// A verifier that takes the certificates that `is_known` says to know, whatever names are in them.
pub fn known_server(
    is_known: impl Fn(&CertificateDer<'_>) -> bool + Send + Sync + 'static,
    provider: Arc<CryptoProvider>,
) -> Arc<dyn ServerCertVerifier> {
    Verifier::known(Box::new(is_known), provider)
}

/// A verifier by the authorities of a bundle, which takes the certificates of the bundle themselves as well, as Go does:
/// webpki refuses a server's certificate that is an authority's, which most that sign themselves are. Certificates that
/// cannot be read are left out; fails where none can.
pub fn bundle_verifier(
    bundle: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(bundle.iter().cloned());
    Verifier::bundle(roots, bundle, provider)
}
