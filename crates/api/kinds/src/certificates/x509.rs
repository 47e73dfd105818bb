//! Checks of certificates and certificate requests, with Go's error messages.

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::public_key::PublicKey;

/// Returns the error of a certificate request that cannot be parsed or is not signed with its own key.
pub(super) fn request_problem(der: &[u8]) -> Option<String> {
    let request = match X509CertificationRequest::from_der(der) {
        Ok(([], request)) => request,
        Ok(_) => return Some("asn1: syntax error: trailing data".to_owned()),
        Err(_) => return Some("x509: malformed certificate request".to_owned()),
    };
    match request.verify_signature() {
        Ok(()) => None,
        Err(X509Error::SignatureUnsupportedAlgorithm) => {
            Some("x509: cannot verify signature: algorithm unimplemented".to_owned())
        }
        Err(_) => Some(match request.certification_request_info.subject_pki.parsed() {
            Ok(PublicKey::RSA(_)) => "crypto/rsa: verification error".to_owned(),
            Ok(PublicKey::EC(_)) => "x509: ECDSA verification failure".to_owned(),
            _ => "x509: Ed25519 verification failure".to_owned(),
        }),
    }
}

/// Returns the error of a certificate that cannot be parsed.
pub(super) fn certificate_problem(der: &[u8]) -> Option<&'static str> {
    match X509Certificate::from_der(der) {
        Ok(([], _)) => None,
        Ok(_) => Some("x509: trailing data"),
        Err(_) => Some("x509: malformed certificate"),
    }
}

/// Returns true for the certificate of a CA; `None` if it cannot be parsed.
pub(super) fn is_authority(der: &[u8]) -> Option<bool> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    rest.is_empty().then(|| certificate.is_ca())
}
