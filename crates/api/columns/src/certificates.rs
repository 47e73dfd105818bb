//! The certificates.k8s.io group.

use binnacle_fields::FieldRef;
use binnacle_fields::certificates::v1::{
    CertificateSigningRequest, CertificateSigningRequestSpec as RequestSpec,
    CertificateSigningRequestStatus as RequestStatus,
};
use binnacle_fields::certificates::v1beta1::{
    ClusterTrustBundle, ClusterTrustBundleSpec, PodCertificateRequest, PodCertificateRequestSpec as PodRequestSpec,
    PodCertificateRequestStatus as PodRequestStatus,
};
use binnacle_fields::meta::v1::Condition;
use binnacle_meta::human_duration;

use crate::Now;
use crate::columns::{Cells, Columns, Kind, cells, doc, string, text};
use crate::format::{NONE, condition, labels, non_empty, text_or};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const KINDS: &[Kind] = &[
    ("CertificateSigningRequest", &CERTIFICATE_SIGNING_REQUEST),
    ("ClusterTrustBundle", &CLUSTER_TRUST_BUNDLE),
    ("PodCertificateRequest", &POD_CERTIFICATE_REQUEST),
];

/// kube-apiserver uses the descriptions of v1beta1, which is no longer in any published schema. Only that of the
/// duration is the same in v1.
const CERTIFICATE_SIGNING_REQUEST: Columns = Columns::new(
    &[
        NAME,
        AGE,
        string("SignerName", text(SIGNER_NAME)),
        string("Requestor", text("Base64-encoded PKCS#10 CSR data")),
        string("RequestedDuration", doc(RequestSpec::EXPIRATION_SECONDS)),
        string("Condition", text("Conditions applied to the request, such as approval or denial.")),
    ],
    |object, now| signing_request(FieldRef::root(object), now),
);

const SIGNER_NAME: &str = "\
Requested signer for the request. It is a qualified name in the form: `scope-hostname.io/name`. If empty, it will be defaulted:
 1. If it's a kubelet client certificate, it is assigned
    \"kubernetes.io/kube-apiserver-client-kubelet\".
 2. If it's a kubelet serving certificate, it is assigned
    \"kubernetes.io/kubelet-serving\".
 3. Otherwise, it is assigned \"kubernetes.io/legacy-unknown\".
Distribution of trust for signers happens out of band. You can select on this field using `spec.signerName`.";

const CLUSTER_TRUST_BUNDLE: Columns =
    Columns::new(&[NAME, string("SignerName", doc(ClusterTrustBundleSpec::SIGNER_NAME))], |object, _| {
        let bundle = FieldRef::<ClusterTrustBundle>::root(object);
        let signer = bundle.at(ClusterTrustBundle::SPEC).at(ClusterTrustBundleSpec::SIGNER_NAME).str();
        cells![name(bundle), non_empty(signer, NONE)]
    });

const POD_CERTIFICATE_REQUEST: Columns = Columns::new(
    &[
        NAME,
        string("PodName", doc(PodRequestSpec::POD_NAME)),
        string("ServiceAccountName", doc(PodRequestSpec::SERVICE_ACCOUNT_NAME)),
        string("NodeName", doc(PodRequestSpec::NODE_NAME)),
        string("SignerName", doc(PodRequestSpec::SIGNER_NAME)),
        string("State", text("Is the request Pending, Issued, Denied, or Failed?")),
        string("UnverifiedUserAnnotations", doc(PodRequestSpec::UNVERIFIED_USER_ANNOTATIONS)),
    ],
    |object, _| pod_request(FieldRef::root(object)),
);

fn signing_request(request: FieldRef<CertificateSigningRequest>, now: Now) -> Cells {
    let spec = request.at(CertificateSigningRequest::SPEC);
    let duration = spec.at(RequestSpec::EXPIRATION_SECONDS).int().map_or_else(|| NONE.into(), requested_duration);
    cells![
        name(request),
        created(request, now),
        text_or(spec.at(RequestSpec::SIGNER_NAME), NONE),
        spec.at(RequestSpec::USERNAME).str(),
        duration,
        signing_request_state(request),
    ]
}

fn requested_duration(seconds: i64) -> String {
    human_duration(i128::from(seconds) * 1_000_000_000)
}

fn signing_request_state(request: FieldRef<CertificateSigningRequest>) -> String {
    let status = request.at(CertificateSigningRequest::STATUS);
    let conditions = status.at(RequestStatus::CONDITIONS);
    let has = |type_: &str| condition(&conditions, type_).is_some();
    let decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if status.at(RequestStatus::CERTIFICATE).is_empty() { "" } else { ",Issued" };
    format!("{decision}{failed}{issued}")
}

fn pod_request(request: FieldRef<PodCertificateRequest>) -> Cells {
    let spec = request.at(PodCertificateRequest::SPEC);
    cells![
        name(request),
        spec.at(PodRequestSpec::POD_NAME).str(),
        spec.at(PodRequestSpec::SERVICE_ACCOUNT_NAME).str(),
        spec.at(PodRequestSpec::NODE_NAME).str(),
        spec.at(PodRequestSpec::SIGNER_NAME).str(),
        pod_request_state(request.at(PodCertificateRequest::STATUS)),
        labels(spec.at(PodRequestSpec::UNVERIFIED_USER_ANNOTATIONS)),
    ]
}

fn pod_request_state<'v>(status: FieldRef<'_, 'v, PodRequestStatus>) -> &'v str {
    let conditions = status.at(PodRequestStatus::CONDITIONS);
    let mut types = conditions.items().map(|condition| condition.at(Condition::TYPE).str());
    types.rfind(|type_| matches!(*type_, "Issued" | "Denied" | "Failed")).unwrap_or("Pending")
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Value, value};

    use super::*;
    use crate::testing::check_cells;

    const GROUP: &str = "certificates.k8s.io";

    #[test]
    fn prints_signing_requests() {
        let cases = [
            (value!({}), value!(["", "<unknown>", "<none>", "", "<none>", "Pending"])),
            (
                value!({
                    "metadata": {"name": "a", "creationTimestamp": "2024-03-10T11:59:57Z"},
                    "spec": {"signerName": "s.test/x", "username": "u", "expirationSeconds": 7200i64},
                    "status": {"conditions": [{"type": "Approved"}], "certificate": "LS0="},
                }),
                value!(["a", "3s", "s.test/x", "u", "120m", "Approved,Issued"]),
            ),
        ];
        check_cells(GROUP, "CertificateSigningRequest", cases);
        let states: [(&[&str], &str); 4] = [
            (&["Failed"], "Pending,Failed"),
            (&["Approved", "Denied"], "Denied"),
            (&["Approved", "Failed"], "Approved,Failed"),
            (&["Other"], "Pending"),
        ];
        for (types, want) in states {
            let conditions: Vec<Value> = types.iter().map(|type_| value!({"type": (*type_)})).collect();
            assert_eq!(signing_request_state(FieldRef::root(&value!({"status": {"conditions": conditions}}))), want);
        }
    }

    #[test]
    fn prints_trust_bundles() {
        let cases = [
            (value!({}), value!(["", "<none>"])),
            (value!({"metadata": {"name": "b"}, "spec": {"signerName": "s.test/x"}}), value!(["b", "s.test/x"])),
        ];
        check_cells(GROUP, "ClusterTrustBundle", cases);
    }

    #[test]
    fn prints_pod_certificate_requests() {
        let cases = [
            (value!({}), value!(["", "", "", "", "", "Pending", "<none>"])),
            (
                value!({
                    "metadata": {"name": "a"},
                    "spec": {
                        "podName": "p", "serviceAccountName": "sa", "nodeName": "n", "signerName": "s.test/x",
                        "unverifiedUserAnnotations": {"x.test/b": "2", "x.test/a": "1"},
                    },
                    "status": {"conditions": [{"type": "Other"}, {"type": "Issued", "status": "True"}]},
                }),
                value!(["a", "p", "sa", "n", "s.test/x", "Issued", "x.test/a=1,x.test/b=2"]),
            ),
        ];
        check_cells(GROUP, "PodCertificateRequest", cases);
    }
}
