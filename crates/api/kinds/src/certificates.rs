//! `certificates.k8s.io`: certificate requests and trust bundles.

mod certificate_signing_request;
mod cluster_trust_bundle;
pub(crate) mod pem;
mod pod_certificate;
mod pod_certificate_request;
mod signer_name;
mod validation;
mod x509;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[
    ("CertificateSigningRequest", &certificate_signing_request::CertificateSigningRequest),
    ("ClusterTrustBundle", &cluster_trust_bundle::ClusterTrustBundle),
    ("PodCertificateRequest", &pod_certificate_request::PodCertificateRequest),
];

/// Returns true for a base64 CA bundle without a valid certificate.
pub fn is_invalid_ca_bundle(bundle: &str) -> bool {
    ca_bundle_problem(bundle).is_some()
}

/// Returns the error of a base64 CA bundle, if any. One certificate that can be parsed is enough.
pub(crate) fn ca_bundle_problem(bundle: &str) -> Option<String> {
    if bundle.is_empty() {
        return None;
    }
    let blocks = pem::blocks(&STANDARD.decode(bundle).unwrap_or_default());
    let certificates = || blocks.iter().filter(|block| block.kind == "CERTIFICATE" && !block.has_headers);
    if certificates().any(|block| x509::certificate_problem(&block.bytes).is_none()) {
        return None;
    }
    let problem = match certificates().find_map(|block| x509::certificate_problem(&block.bytes)) {
        Some(problem) => format!("failed to parse certificate: {problem}"),
        None if blocks.is_empty() => "unable to parse bytes as PEM block".to_owned(),
        None => "no valid certificate authority data seen".to_owned(),
    };
    Some(format!("unable to load root certificates: {problem}"))
}
