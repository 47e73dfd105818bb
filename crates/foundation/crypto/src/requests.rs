//! Signatures of certificate requests.

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::error::X509Error;

/// Verifies that a certificate request is signed with its own key. AWS-LC verifies P-521 and ML-DSA as well.
///
/// # Errors
/// If the signature is not valid, or if the provider does not support its algorithm.
pub fn verify_certificate_request(request: &X509CertificationRequest<'_>) -> Result<(), X509Error> {
    #[cfg(feature = "aws-lc")]
    if let Some(algorithm) = aws_lc::algorithm(request) {
        let info = &request.certification_request_info;
        let key = aws_lc_rs::signature::UnparsedPublicKey::new(algorithm, &*info.subject_pki.subject_public_key.data);
        let verified = key.verify(info.raw, &request.signature_value.data);
        return verified.map_err(|_| X509Error::SignatureVerificationError);
    }
    request.verify_signature()
}

#[cfg(feature = "aws-lc")]
mod aws_lc {
    use aws_lc_rs::signature::{self, VerificationAlgorithm};
    use x509_parser::certification_request::X509CertificationRequest;

    const P521: &str = "1.3.132.0.35";

    /// Returns the algorithm of a signature that only AWS-LC verifies.
    pub(super) fn algorithm(request: &X509CertificationRequest<'_>) -> Option<&'static dyn VerificationAlgorithm> {
        let key = &request.certification_request_info.subject_pki.algorithm;
        let signed = request.signature_algorithm.algorithm.to_id_string();
        let curve = || key.parameters.as_ref()?.as_oid().ok().map(|oid| oid.to_id_string());
        Some(match signed.as_str() {
            "2.16.840.1.101.3.4.3.17" if key.algorithm.to_id_string() == signed => &signature::ML_DSA_44,
            "2.16.840.1.101.3.4.3.18" if key.algorithm.to_id_string() == signed => &signature::ML_DSA_65,
            "2.16.840.1.101.3.4.3.19" if key.algorithm.to_id_string() == signed => &signature::ML_DSA_87,
            "1.2.840.10045.4.3.2" if curve().as_deref() == Some(P521) => &signature::ECDSA_P521_SHA256_ASN1,
            "1.2.840.10045.4.3.3" if curve().as_deref() == Some(P521) => &signature::ECDSA_P521_SHA384_ASN1,
            "1.2.840.10045.4.3.4" if curve().as_deref() == Some(P521) => &signature::ECDSA_P521_SHA512_ASN1,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use x509_parser::prelude::FromDer;

    use super::*;

    fn verify(der: &[u8]) -> Result<(), X509Error> {
        let (_, request) = X509CertificationRequest::from_der(der).unwrap();
        verify_certificate_request(&request)
    }

    #[test]
    fn verifies_requests_with_common_keys() {
        let key = KeyPair::generate().unwrap();
        let request = CertificateParams::default().serialize_request(&key).unwrap();
        let mut der = request.der().to_vec();
        assert!(verify(&der).is_ok());
        let last = der.len() - 1;
        der[last] ^= 1;
        assert!(matches!(verify(&der), Err(X509Error::SignatureVerificationError)));
    }

    /// Requests that Go 1.27 created.
    #[test]
    fn verifies_other_requests_only_with_aws_lc() {
        for (name, der) in [
            ("P-521", &include_bytes!("../test_data/p521.csr.der")[..]),
            ("ML-DSA-44", include_bytes!("../test_data/ml-dsa-44.csr.der")),
            ("ML-DSA-65", include_bytes!("../test_data/ml-dsa-65.csr.der")),
            ("ML-DSA-87", include_bytes!("../test_data/ml-dsa-87.csr.der")),
        ] {
            let damaged = [&der[..der.len() - 1], &[der[der.len() - 1] ^ 1]].concat();
            let (whole, damaged) = (verify(der), verify(&damaged));
            if cfg!(feature = "aws-lc") {
                assert!(whole.is_ok(), "{name}: {whole:?}");
                assert!(matches!(damaged, Err(X509Error::SignatureVerificationError)), "{name}: {damaged:?}");
            } else {
                assert!(matches!(whole, Err(X509Error::SignatureUnsupportedAlgorithm)), "{name}: {whole:?}");
            }
        }
    }
}
