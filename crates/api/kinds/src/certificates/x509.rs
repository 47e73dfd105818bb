//! Checks of certificates and certificate requests, with Go's error messages.

use binnacle_crypto::verify_certificate_request;
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
    let identifier = request.signature_algorithm.algorithm.to_id_string();
    match verify_certificate_request(&request) {
        Ok(()) => None,
        Err(X509Error::SignatureUnsupportedAlgorithm) => {
            Some("x509: cannot verify signature: algorithm unimplemented".to_owned())
        }
        Err(_) => Some(match request.certification_request_info.subject_pki.parsed() {
            Ok(PublicKey::RSA(_)) => "crypto/rsa: verification error".to_owned(),
            Ok(PublicKey::EC(_)) => "x509: ECDSA verification failure".to_owned(),
            // Their identifiers begin with the one of NIST's signature algorithms.
            _ if identifier.starts_with("2.16.840.1.101.3.4.3.") => {
                "x509: ML-DSA verification failure: mldsa: invalid signature".to_owned()
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests with keys that only some providers of cryptography support.
    #[test]
    fn accepts_requests_whose_signature_can_be_verified() {
        let unsupported = "x509: cannot verify signature: algorithm unimplemented";
        let want = (binnacle_crypto::PROVIDER == "ring").then_some(unsupported);
        for (name, der) in [
            ("P-521", &include_bytes!("../../../../foundation/crypto/test_data/p521.csr.der")[..]),
            ("ML-DSA-44", include_bytes!("../../../../foundation/crypto/test_data/ml-dsa-44.csr.der")),
            ("ML-DSA-65", include_bytes!("../../../../foundation/crypto/test_data/ml-dsa-65.csr.der")),
            ("ML-DSA-87", include_bytes!("../../../../foundation/crypto/test_data/ml-dsa-87.csr.der")),
        ] {
            assert_eq!(request_problem(der).as_deref(), want, "{name}");
            let damaged = [&der[..der.len() - 1], &[der[der.len() - 1] ^ 1]].concat();
            let failure = match name {
                "P-521" => "x509: ECDSA verification failure",
                _ => "x509: ML-DSA verification failure: mldsa: invalid signature",
            };
            assert_eq!(request_problem(&damaged).as_deref(), want.or(Some(failure)), "{name}");
            let trailing = [der, &[0]].concat();
            assert_eq!(request_problem(&trailing).as_deref(), Some("asn1: syntax error: trailing data"), "{name}");
        }
    }
}
