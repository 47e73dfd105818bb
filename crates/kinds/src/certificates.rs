//! `certificates.k8s.io`: requests for certificates and bundles of trusted ones.

mod certificate_signing_request;
mod cluster_trust_bundle;
mod pem;
mod pod_certificate;
mod pod_certificate_request;
mod signer_name;
mod validation;
mod x509;

use crate::all::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[
    ("CertificateSigningRequest", &certificate_signing_request::CertificateSigningRequest),
    ("ClusterTrustBundle", &cluster_trust_bundle::ClusterTrustBundle),
    ("PodCertificateRequest", &pod_certificate_request::PodCertificateRequest),
];
