//! The certificates.k8s.io group.

use binnacle_meta::human_duration;
use binnacle_schema::Value;

use crate::Now;
use crate::columns::{Cells, Columns, Kind, cells, definitions, doc, string, text};
use crate::format::{NONE, labels, text_or};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const KINDS: &[Kind] = &[
    ("CertificateSigningRequest", &CERTIFICATE_SIGNING_REQUEST),
    ("ClusterTrustBundle", &CLUSTER_TRUST_BUNDLE),
    ("PodCertificateRequest", &POD_CERTIFICATE_REQUEST),
];

definitions!("io.k8s.api.certificates.v1":
    REQUEST_SPEC = "CertificateSigningRequestSpec",
);
definitions!("io.k8s.api.certificates.v1beta1":
    BUNDLE_SPEC = "ClusterTrustBundleSpec",
    POD_REQUEST_SPEC = "PodCertificateRequestSpec",
);

/// kube-apiserver uses the descriptions of v1beta1, which is no longer in any published schema. Only that of the
/// duration is the same in v1.
const CERTIFICATE_SIGNING_REQUEST: Columns = Columns::new(
    &[
        NAME,
        AGE,
        string("SignerName", text(SIGNER_NAME)),
        string("Requestor", text("Base64-encoded PKCS#10 CSR data")),
        string("RequestedDuration", doc(REQUEST_SPEC, "expirationSeconds")),
        string("Condition", text("Conditions applied to the request, such as approval or denial.")),
    ],
    signing_request,
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
    Columns::new(&[NAME, string("SignerName", doc(BUNDLE_SPEC, "signerName"))], |object, _| {
        cells![name(object), text_or(object, &["spec", "signerName"], NONE)]
    });

const POD_CERTIFICATE_REQUEST: Columns = Columns::new(
    &[
        NAME,
        string("PodName", doc(POD_REQUEST_SPEC, "podName")),
        string("ServiceAccountName", doc(POD_REQUEST_SPEC, "serviceAccountName")),
        string("NodeName", doc(POD_REQUEST_SPEC, "nodeName")),
        string("SignerName", doc(POD_REQUEST_SPEC, "signerName")),
        string("State", text("Is the request Pending, Issued, Denied, or Failed?")),
        string("UnverifiedUserAnnotations", doc(POD_REQUEST_SPEC, "unverifiedUserAnnotations")),
    ],
    |object, _| {
        let spec = |member| object.str_at(&["spec", member]);
        cells![
            name(object),
            spec("podName"),
            spec("serviceAccountName"),
            spec("nodeName"),
            spec("signerName"),
            pod_request_state(object),
            labels(object.object_at(&["spec", "unverifiedUserAnnotations"])),
        ]
    },
);

fn signing_request(object: &Value, now: Now) -> Cells {
    let duration = object.int_at(&["spec", "expirationSeconds"]).map_or_else(|| NONE.into(), requested_duration);
    cells![
        name(object),
        created(object, now),
        text_or(object, &["spec", "signerName"], NONE),
        object.str_at(&["spec", "username"]),
        duration,
        signing_request_state(object),
    ]
}

fn requested_duration(seconds: i64) -> String {
    human_duration(i128::from(seconds) * 1_000_000_000)
}

fn signing_request_state(object: &Value) -> String {
    let has = |type_: &str| object.list_at(&["status", "conditions"]).iter().any(|c| c.str_at(&["type"]) == type_);
    let decision = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    };
    let failed = if has("Failed") { ",Failed" } else { "" };
    let issued = if object.str_at(&["status", "certificate"]).is_empty() { "" } else { ",Issued" };
    format!("{decision}{failed}{issued}")
}

fn pod_request_state(object: &Value) -> &str {
    let types = object.list_at(&["status", "conditions"]).iter().map(|condition| condition.str_at(&["type"]));
    types.rev().find(|type_| matches!(*type_, "Issued" | "Denied" | "Failed")).unwrap_or("Pending")
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::testing::check_cells;

    const GROUP: &str = "certificates.k8s.io";

    #[test]
    fn signing_requests() {
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
            assert_eq!(signing_request_state(&value!({"status": {"conditions": conditions}})), want);
        }
    }

    #[test]
    fn trust_bundles() {
        let cases = [
            (value!({}), value!(["", "<none>"])),
            (value!({"metadata": {"name": "b"}, "spec": {"signerName": "s.test/x"}}), value!(["b", "s.test/x"])),
        ];
        check_cells(GROUP, "ClusterTrustBundle", cases);
    }

    #[test]
    fn pod_requests() {
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
