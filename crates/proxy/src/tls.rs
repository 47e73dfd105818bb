//! The client side of TLS towards other servers: with an authority to verify them by, or with none.

use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// Whom to believe.
pub enum Verification {
    /// Certificates that these authorities signed for the name that is dialed.
    Authorities(RootCertStore),
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
    let builder = match verification {
        Verification::Authorities(roots) => builder.with_root_certificates(roots),
        Verification::None => builder.dangerous().with_custom_certificate_verifier(any_server(provider)),
    };
    let mut config = match identity {
        Some(identity) => builder.with_client_cert_resolver(identity),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// A verifier that takes any certificate of which the server holds the key.
pub fn any_server(provider: Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Anybody(provider))
}

/// What a failed handshake is called, in the words of Go's `crypto/tls` and `crypto/x509` that operators search for.
pub(crate) fn explain(error: &std::io::Error) -> String {
    let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        return match error.kind() {
            std::io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
            std::io::ErrorKind::ConnectionReset => "read: connection reset by peer".to_owned(),
            _ => error.to_string(),
        };
    };
    let x509 = |why: &str| format!("tls: failed to verify certificate: x509: {why}");
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => x509("certificate signed by unknown authority"),
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::NotValidYet) => {
            x509("certificate has expired or is not yet valid")
        }
        Error::InvalidCertificate(
            CertificateError::ExpiredContext { time, .. } | CertificateError::NotValidYetContext { time, .. },
        ) => x509(&format!("certificate has expired or is not yet valid: current time is {}", time.as_secs())),
        Error::InvalidCertificate(CertificateError::NotValidForNameContext { expected, presented }) => {
            let name = expected.to_str();
            match expected {
                ServerName::IpAddress(_) if presented.iter().all(|name| name.starts_with("DnsName")) => {
                    x509(&format!("cannot validate certificate for {name} because it doesn't contain any IP SANs"))
                }
                _ => x509(&format!("certificate is valid for {}, not {name}", bare(presented).join(", "))),
            }
        }
        Error::InvalidCertificate(why) => x509(&why.to_string()),
        Error::AlertReceived(alert) => format!("remote error: tls: {alert:?}"),
        Error::InvalidMessage(_) => "tls: first record does not look like a TLS handshake".to_owned(),
        other => format!("tls: {other}"),
    }
}

/// The names of a certificate without what kind of names they are: `DnsName("a")`.
fn bare(presented: &[String]) -> Vec<&str> {
    let inner = |name: &'_ String| name.split_once('(').map_or(0, |(kind, _)| kind.len() + 1);
    presented.iter().map(|name| name[inner(name)..].trim_end_matches(')').trim_matches('"')).collect()
}

#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
