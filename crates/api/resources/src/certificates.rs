//! `certificates.k8s.io`: certificate signing requests, and bundles of trusted certificates.

use binnacle_fields::certificates::v1::{CertificateSigningRequest as Request, CertificateSigningRequestSpec as Spec};
use binnacle_fields::certificates::v1beta1::{
    PodCertificateRequest as PodRequest, PodCertificateRequestSpec as PodSpec,
};
use binnacle_scheme::Verbs;
use binnacle_scheme::fields::{FieldLabels, NAME as METADATA_NAME, NAMESPACE, SelectableField, UnknownLabel, text};
use binnacle_scheme::{
    GroupDescription, ResourceDescription, SubresourceDescription, SubresourceKind, SubresourceRole,
    VersionDescription, cluster, namespaced, shared,
};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 17300,
        versions: vec![
            VersionDescription {
                version: "v1",
                priority: 15,
                served_by_default: true,
                resources: shared![
                    cluster!(
                        NAME,
                        "v1",
                        "certificatesigningrequests",
                        "certificatesigningrequest",
                        "CertificateSigningRequest"
                    )
                    .short(&["csr"])
                    .selectable(SIGNER_FIELDS, SIGNER_LABELS)
                    .resets(&["spec", "status"])
                    .subresources(&[
                        SubresourceDescription::new(
                            "approval",
                            SubresourceRole::Update,
                            SubresourceKind::Resource,
                            Verbs::READ_WRITE,
                        )
                        .resets(&["spec", "status.certificate"]),
                        // The strategy of the kind restores only the conditions Approved and Denied.
                        SubresourceDescription::status(&["spec", "status.conditions"]).but_puts_back(&["spec"]),
                    ])
                    .since(19)
                ],
            },
            VersionDescription {
                version: "v1beta1",
                priority: 9,
                served_by_default: false,
                resources: shared![
                    cluster_trust_bundles("v1beta1").since(33).deprecated(37).removed(40),
                    namespaced!(
                        NAME,
                        "v1beta1",
                        "podcertificaterequests",
                        "podcertificaterequest",
                        "PodCertificateRequest"
                    )
                    .gated_by("PodCertificateRequest")
                    .selectable(POD_REQUEST_FIELDS, POD_REQUEST_LABELS)
                    .only_conditional_update()
                    .only_puts_back(&["status"])
                    .subresources(&[SubresourceDescription::status(&["spec"]).but_puts_back(&["metadata", "spec"])])
                    .since(35)
                    .deprecated(38)
                    .removed(41),
                ],
            },
            VersionDescription {
                version: "v1alpha1",
                priority: 1,
                served_by_default: false,
                resources: shared![cluster_trust_bundles("v1alpha1").since(26).deprecated(34).removed(37)],
            },
        ],
    }
}

const NAME: &str = "certificates.k8s.io";

fn cluster_trust_bundles(version: &'static str) -> ResourceDescription {
    cluster!(NAME, version, "clustertrustbundles", "clustertrustbundle", "ClusterTrustBundle")
        .gated_by("ClusterTrustBundle")
        .stored_in("v1beta1")
        .selectable(SIGNER_FIELDS, SIGNER_LABELS)
        .only_conditional_update()
}

const SIGNER_FIELDS: &[SelectableField] = &[METADATA_NAME, SIGNER_NAME];

/// All kinds of the group have this field.
const SIGNER_NAME: SelectableField = text("spec.signerName", path![Request::SPEC, Spec::SIGNER_NAME]);

const SIGNER_LABELS: FieldLabels = FieldLabels::new(
    &[("metadata.name", "metadata.name"), ("spec.signerName", "spec.signerName")],
    UnknownLabel::NotSupported,
);

const POD_REQUEST_FIELDS: &[SelectableField] = &[
    METADATA_NAME,
    NAMESPACE,
    SIGNER_NAME,
    text("spec.podName", path![PodRequest::SPEC, PodSpec::POD_NAME]),
    text("spec.nodeName", path![PodRequest::SPEC, PodSpec::NODE_NAME]),
];

/// Without a field label `metadata.namespace`, although these objects have a namespace.
const POD_REQUEST_LABELS: FieldLabels = FieldLabels::new(
    &[
        ("metadata.name", "metadata.name"),
        ("spec.signerName", "spec.signerName"),
        ("spec.podName", "spec.podName"),
        ("spec.nodeName", "spec.nodeName"),
    ],
    UnknownLabel::NotSupported,
);
