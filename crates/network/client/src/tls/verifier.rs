//! Verification of server certificates, with Go's rules and messages.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

use super::messages::{VerificationError, verification_message};
use super::x509_v1::{tls12_signature, tls13_signature};

/// A verifier of servers' certificates.
#[derive(Debug)]
pub(super) struct Verifier {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

enum Trust {
    Anybody,
    /// Accepts the certificates that a callback recognizes.
    Known(IsKnown),
    Signed {
        signed: Arc<WebPkiServerVerifier>,
        itself: Vec<CertificateDer<'static>>,
    },
}

/// Returns true for known certificates.
type IsKnown = Box<dyn Fn(&CertificateDer<'_>) -> bool + Send + Sync>;

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anybody => f.write_str("Anybody"),
            Self::Known(_) => f.write_str("Known"),
            Self::Signed { itself, .. } => f.debug_struct("Signed").field("itself", itself).finish_non_exhaustive(),
        }
    }
}

impl Verifier {
    pub(super) fn anybody(provider: Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
        Arc::new(Self { trust: Trust::Anybody, algorithms: provider.signature_verification_algorithms })
    }

    pub(super) fn known(is_known: IsKnown, provider: Arc<CryptoProvider>) -> Arc<dyn ServerCertVerifier> {
        Arc::new(Self { trust: Trust::Known(is_known), algorithms: provider.signature_verification_algorithms })
    }

    pub(super) fn signed(
        roots: RootCertStore,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        Self::bundle(roots, Vec::new(), provider)
    }

    /// Trusts the authorities in `roots`, and the certificates in `itself`.
    pub(super) fn bundle(
        roots: RootCertStore,
        itself: Vec<CertificateDer<'static>>,
        provider: Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, Error> {
        let algorithms = provider.signature_verification_algorithms;
        let signed = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        Ok(Arc::new(Self { trust: Trust::Signed { signed, itself }, algorithms }))
    }

    /// Returns true if the certificate is in the bundle itself, currently valid, and issued for the name and for
    /// servers.
    fn is_itself(
        &self,
        certificate: &CertificateDer<'_>,
        itself: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> bool {
        let is_good = || {
            verify_server_name(&ParsedCertificate::try_from(certificate).ok()?, name).ok()?;
            let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
            // webpki rejects unknown issuers before it checks the extended key usage, so it is checked here.
            let purposes = parsed.extended_key_usage().ok()?.map(|usage| usage.value);
            purposes.is_none_or(|usage| usage.any || usage.server_auth).then_some(())?;
            let (validity, now) = (parsed.validity(), i64::try_from(now.as_secs()).unwrap_or(i64::MAX));
            (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now).then_some(())
        };
        itself.iter().any(|known| known == certificate) && is_good().is_some()
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (signed, itself) = match &self.trust {
            Trust::Signed { signed, itself } => (signed, itself),
            Trust::Anybody => return Ok(ServerCertVerified::assertion()),
            Trust::Known(is_known) if is_known(certificate) => return Ok(ServerCertVerified::assertion()),
            Trust::Known(_) => {
                return Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure));
            }
        };
        match signed.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(why))
                if is_of_issuers(&why) && self.is_itself(certificate, itself, name, now) =>
            {
                Ok(ServerCertVerified::assertion())
            }
            Err(Error::InvalidCertificate(why)) => {
                let error = VerificationError(verification_message(certificate, name, now, &why));
                Err(Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error)))))
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Returns true for errors about the issuer, which do not matter for a certificate that is trusted itself, and about
/// validity periods, which may be those of the issuer.
fn is_of_issuers(why: &CertificateError) -> bool {
    matches!(
        why,
        CertificateError::UnknownIssuer
            | CertificateError::BadSignature
            | CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }
            // An authority's certificate is used as a server certificate.
            | CertificateError::Other(_)
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tls::bundle_verifier;

    /// A certificate in the bundle is accepted for its names while it is valid, regardless of its issuer: envtest
    /// configures webhooks with their own certificate as the bundle, without an authority.
    #[test]
    fn accepts_certificates_in_the_bundle_while_valid() {
        let parameters = |is_authority: bool| {
            let mut parameters = rcgen::CertificateParams::new(vec!["ext.agg.svc".to_owned()]).unwrap();
            if is_authority {
                parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            }
            parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(2040, 1, 1);
            parameters
        };
        let key = || rcgen::KeyPair::generate().unwrap();
        let make = |is_authority: bool| parameters(is_authority).self_signed(&key()).unwrap().der().clone();
        let (authority, leaf) = (make(true), make(false));
        let issuer = rcgen::Issuer::new(parameters(true), key());
        let signed =
            |parameters: rcgen::CertificateParams| parameters.signed_by(&key(), &issuer).unwrap().der().clone();
        let by_other = signed(parameters(false));
        let mut of_client = parameters(false);
        of_client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        let of_client = signed(of_client);
        let in_2030 = UnixTime::since_unix_epoch(Duration::from_secs(1_900_000_000));
        let in_2050 = UnixTime::since_unix_epoch(Duration::from_secs(2_524_608_000));
        let verify = |bundle: &CertificateDer<'static>, shown: &CertificateDer<'static>, name: &str, now: UnixTime| {
            let provider = Arc::new(binnacle_crypto::tls::provider());
            let verifier = bundle_verifier(vec![bundle.clone()], provider).unwrap();
            let name = ServerName::try_from(name.to_owned()).unwrap();
            verifier.verify_server_cert(shown, &[], &name, &[], now).is_ok()
        };
        for (bundle, shown, name, now, want, why) in [
            (&authority, &authority, "ext.agg.svc", in_2030, true, "an authority"),
            (&leaf, &leaf, "ext.agg.svc", in_2030, true, "signed by itself"),
            (&authority, &authority, "other.agg.svc", in_2030, false, "another name"),
            (&authority, &authority, "ext.agg.svc", in_2050, false, "expired"),
            (&by_other, &by_other, "ext.agg.svc", in_2030, true, "signed by somebody unknown"),
            (&by_other, &by_other, "other.agg.svc", in_2030, false, "the same, another name"),
            (&by_other, &by_other, "ext.agg.svc", in_2050, false, "the same, expired"),
            (&of_client, &of_client, "ext.agg.svc", in_2030, false, "for clients"),
            (&authority, &by_other, "ext.agg.svc", in_2030, false, "signed by somebody unknown, not in the bundle"),
            (&leaf, &authority, "ext.agg.svc", in_2030, false, "an authority that is not in the bundle"),
            (&authority, &leaf, "ext.agg.svc", in_2030, false, "signed by itself, not in the bundle"),
        ] {
            assert_eq!(verify(bundle, shown, name, now), want, "{why}");
        }
    }
}
