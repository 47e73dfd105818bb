//! The client side of TLS towards other servers: with an authority to verify them by, or with none.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

/// Whom to believe.
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
    let builder = match verification {
        Verification::Authorities(roots) => builder.with_root_certificates(roots),
        Verification::Bundle(bundle) => {
            builder.dangerous().with_custom_certificate_verifier(bundle_verifier(bundle, provider)?)
        }
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

/// A verifier by the authorities of a bundle, which takes the certificates of the bundle themselves as well, as Go does:
/// webpki refuses a server's certificate that is an authority's, which most that sign themselves are. Certificates that
/// cannot be read are left out; fails where none can.
pub fn bundle_verifier(
    bundle: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(bundle.iter().cloned());
    let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| Error::General(error.to_string()))?;
    Ok(Arc::new(Bundle { signed, itself: bundle }))
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
struct Bundle {
    signed: Arc<WebPkiServerVerifier>,
    itself: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for Bundle {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.signed.verify_server_cert(certificate, intermediates, name, ocsp, now);
        let Err(Error::InvalidCertificate(CertificateError::Other(_))) = &verified else { return verified };
        if !self.itself.iter().any(|known| known == certificate) {
            return verified;
        }
        verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
        let (_, parsed) = X509Certificate::from_der(certificate)
            .map_err(|_| Error::InvalidCertificate(CertificateError::BadEncoding))?;
        let (validity, now) = (parsed.validity(), i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
        if now < validity.not_before.timestamp() {
            return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
        }
        if now > validity.not_after.timestamp() {
            return Err(Error::InvalidCertificate(CertificateError::Expired));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A certificate that signed itself is believed where it stands in the bundle, for its names and its time.
    #[test]
    fn certificates_that_sign_themselves() {
        let make = |is_authority: bool| {
            let mut parameters = rcgen::CertificateParams::new(vec!["ext.agg.svc".to_owned()]).unwrap();
            if is_authority {
                parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            }
            parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(2040, 1, 1);
            parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().clone()
        };
        let (authority, leaf) = (make(true), make(false));
        let in_2030 = UnixTime::since_unix_epoch(Duration::from_secs(1_900_000_000));
        let in_2050 = UnixTime::since_unix_epoch(Duration::from_secs(2_524_608_000));
        let verify = |bundle: &CertificateDer<'static>, shown: &CertificateDer<'static>, name: &str, now: UnixTime| {
            let provider = Arc::new(ring::default_provider());
            let verifier = bundle_verifier(vec![bundle.clone()], provider).unwrap();
            let name = ServerName::try_from(name.to_owned()).unwrap();
            verifier.verify_server_cert(shown, &[], &name, &[], now).is_ok()
        };
        for (bundle, shown, name, now, want) in [
            (&authority, &authority, "ext.agg.svc", in_2030, true),
            (&leaf, &leaf, "ext.agg.svc", in_2030, true),
            (&authority, &authority, "other.agg.svc", in_2030, false),
            (&authority, &authority, "ext.agg.svc", in_2050, false),
            (&leaf, &authority, "ext.agg.svc", in_2030, false),
            (&authority, &leaf, "ext.agg.svc", in_2030, false),
        ] {
            assert_eq!(verify(bundle, shown, name, now), want, "{name} {now:?}");
        }
    }
}
