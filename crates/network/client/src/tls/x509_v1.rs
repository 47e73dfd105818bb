//! Certificates of X.509 version 1, which Go accepts and webpki does not. They have no extensions. `openssl x509 -req`
//! created them by default for a long time, so many users and proxies have one.

use std::time::{SystemTime, UNIX_EPOCH};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved};
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::x509::{SubjectPublicKeyInfo, X509Version};

/// Returns the public key of a version 1 certificate, or `None` for other versions.
#[must_use]
pub fn v1_public_key(certificate: &CertificateDer<'_>) -> Option<SubjectPublicKeyInfoDer<'static>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let key = parsed.public_key().raw.to_vec();
    (parsed.version() == X509Version::V1).then(|| SubjectPublicKeyInfoDer::from(key))
}

/// Like rustls' `verify_tls12_signature`, for certificates of any version.
pub fn tls12_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let Some(key) = v1_public_key(certificate) else {
        return verify_tls12_signature(message, certificate, signed, algorithms);
    };
    let offered = algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
    let (_, offered) = offered.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    match is_signed_by(offered, &key, message, signed.signature()) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
    }
}

/// Like rustls' `verify_tls13_signature`, for certificates of any version.
pub fn tls13_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    match v1_public_key(certificate) {
        Some(key) => verify_tls13_signature_with_raw_key(message, &key, signed, algorithms),
        None => verify_tls13_signature(message, certificate, signed, algorithms),
    }
}

/// Verifies a version 1 certificate that one of the authorities has signed directly. The error has Go's message.
pub fn verify_v1_certificate(
    certificate: &CertificateDer<'_>,
    authorities: &[CertificateDer<'_>],
    now: SystemTime,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<(), String> {
    let leaf = parse(certificate).ok_or_else(|| "x509: malformed certificate".to_owned())?;
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX));
    let is_in_time = |certificate: &X509Certificate<'_>| {
        let validity = certificate.validity();
        (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now)
    };
    if !is_in_time(&leaf) {
        return Err("x509: certificate has expired or is not yet valid".to_owned());
    }
    let has_signed = |authority: &CertificateDer<'_>| {
        let Some(authority) = parse(authority).filter(is_authority) else { return false };
        let key = SubjectPublicKeyInfoDer::from(authority.public_key().raw);
        authority.subject().as_raw() == leaf.issuer().as_raw()
            && is_in_time(&authority)
            && is_signed_by(algorithms.all, &key, leaf.tbs_certificate.as_ref(), &leaf.signature_value.data)
    };
    match authorities.iter().any(has_signed) {
        true => Ok(()),
        false => Err("x509: certificate signed by unknown authority".to_owned()),
    }
}

fn parse<'a>(certificate: &'a CertificateDer<'_>) -> Option<X509Certificate<'a>> {
    X509Certificate::from_der(certificate).ok().map(|(_, parsed)| parsed)
}

/// Returns true for a certificate that may sign other certificates.
fn is_authority(certificate: &X509Certificate<'_>) -> bool {
    match certificate.basic_constraints() {
        Ok(Some(constraints)) => constraints.value.ca,
        // The extension is absent, as in version 1.
        Ok(None) => certificate.version() == X509Version::V1 && certificate.subject() == certificate.issuer(),
        Err(_) => false,
    }
}

/// Returns true if the signature is valid with any of the algorithms for this kind of key.
fn is_signed_by(
    algorithms: &[&dyn SignatureVerificationAlgorithm],
    key: &SubjectPublicKeyInfoDer<'_>,
    message: &[u8],
    signature: &[u8],
) -> bool {
    let Ok((_, parsed)) = SubjectPublicKeyInfo::from_der(key) else { return false };
    let public = &*parsed.subject_public_key.data;
    // The bytes before the public key identify its algorithm.
    let head = &key[..key.len().saturating_sub(public.len())];
    algorithms.iter().any(|algorithm| {
        let kind = algorithm.public_key_alg_id();
        head.windows(kind.len()).any(|window| window == kind.as_ref())
            && algorithm.verify_signature(public, message, signature).is_ok()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls_pki_types::pem::PemObject;

    use super::*;

    const AUTHORITY: &str = include_str!("../../test_data/first_version/ca.crt");
    const USER: &str = include_str!("../../test_data/first_version/user.crt");

    /// The handshake is verified with the key of the certificate.
    #[test]
    fn verifies_handshake_signatures_with_the_certificate_key() {
        const KEY: &str = include_str!("../../test_data/first_version/user.key");
        let provider = binnacle_crypto::tls::provider();
        let key = rustls_pki_types::PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
        let signer = provider.key_provider.load_private_key(key).unwrap();
        let signer = signer.choose_scheme(&[rustls::SignatureScheme::ECDSA_NISTP256_SHA256]).unwrap();
        let signature = signer.sign(b"hello").unwrap();
        let certificate = CertificateDer::from_pem_slice(USER.as_bytes()).unwrap();
        let key = v1_public_key(&certificate).unwrap();
        let algorithms = provider.signature_verification_algorithms;
        assert!(is_signed_by(algorithms.all, &key, b"hello", &signature));
        assert!(!is_signed_by(algorithms.all, &key, b"other", &signature));
        assert!(!is_signed_by(algorithms.all, &key, b"hello", b"x"));
    }

    #[test]
    fn accepts_only_certificates_signed_by_an_authority() {
        let read = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let (authority, user) = (read(AUTHORITY), read(USER));
        assert!(v1_public_key(&user).is_some() && v1_public_key(&authority).is_none());
        let make = |is_authority: bool| {
            let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
            parameters.distinguished_name = rcgen::DistinguishedName::new();
            parameters.distinguished_name.push(rcgen::DnType::CommonName, "clients");
            if is_authority {
                parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
            }
            parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().clone()
        };
        let algorithms = binnacle_crypto::tls::provider().signature_verification_algorithms;
        let (now, then) = (UNIX_EPOCH + Duration::from_secs(1_900_000_000), UNIX_EPOCH);
        let unknown = Err("x509: certificate signed by unknown authority".to_owned());
        let late = Err("x509: certificate has expired or is not yet valid".to_owned());
        for (authorities, at, want) in [
            (&[authority.clone()][..], now, Ok(())),
            (&[make(true), authority.clone()], now, Ok(())),
            (&[make(true), make(false)], now, unknown.clone()),
            (std::slice::from_ref(&user), now, unknown.clone()),
            (&[], now, unknown),
            (&[authority], then, late),
        ] {
            assert_eq!(verify_v1_certificate(&user, authorities, at, &algorithms), want);
        }
    }
}
