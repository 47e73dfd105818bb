//! kube-apiserver's metrics of certificates with a requested duration.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_fields::certificates::v1::{
    CertificateSigningRequest as Csr, CertificateSigningRequestSpec as Spec, CertificateSigningRequestStatus as Status,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldRef, metadata};
use binnacle_metrics::{IntCounterVec, families};
use binnacle_schema::Value;
use x509_parser::pem::Pem;

/// The prefix of the signers that are counted by name. Others are counted together, so that clients cannot create an
/// unlimited number of series.
const OWN_SIGNERS: &str = "kubernetes.io/";

families! {
    /// The numbers of certificates with a requested duration, and of those whose signer honored it. Clones share the
    /// counts.
    #[derive(Clone, Debug)]
    pub struct CertificateDurations {
        requested: IntCounterVec = "apiserver_certificates_registry_csr_requested_duration_total" by ["signerName"],
            "[ALPHA] Total number of issued CSRs with a requested duration, sliced by signer (only kubernetes.io signer \
             names are specifically identified)";
        honored: IntCounterVec = "apiserver_certificates_registry_csr_honored_duration_total" by ["signerName"],
            "[ALPHA] Total number of issued CSRs with a requested duration that was honored, sliced by signer (only \
             kubernetes.io signer names are specifically identified)";
    }
}

impl CertificateDurations {
    /// Counts a CertificateSigningRequest if an update of its status has added the certificate.
    pub(super) fn count_issued(&self, request: &Value, old: &Value) {
        let certificate = |request| FieldRef::<Csr>::root(request).at(Csr::STATUS).at(Status::CERTIFICATE).str();
        let spec = FieldRef::<Csr>::root(old).at(Csr::SPEC).detached();
        let Some(requested_seconds) = spec.at(Spec::EXPIRATION_SECONDS).int() else { return };
        let issued = certificate(request);
        if issued.is_empty() || !certificate(old).is_empty() {
            return;
        }
        let name = spec.at(Spec::SIGNER_NAME).str();
        let signer = if name.starts_with(OWN_SIGNERS) { name } else { "other" };
        self.requested.with_label_values(&[signer]).inc();
        match seconds_valid(issued) {
            Some(valid) if is_honored(requested_seconds, valid) => self.honored.with_label_values(&[signer]).inc(),
            Some(_) => {}
            None => {
                let name = metadata(request).at(ObjectMeta::NAME).str();
                tracing::error!(name, "failed to parse certificate of CertificateSigningRequest for metrics");
            }
        }
    }
}

/// Returns the validity period, in seconds, of the first certificate in a base64-encoded PEM text.
fn seconds_valid(encoded: &str) -> Option<i64> {
    let text = STANDARD.decode(encoded).ok()?;
    let mut blocks = Pem::iter_from_buffer(&text).filter_map(Result::ok);
    let block = blocks.find(|block| block.label == "CERTIFICATE")?;
    let validity = block.parse_x509().ok()?.validity().clone();
    Some(validity.not_after.timestamp() - validity.not_before.timestamp())
}

/// Returns true if the validity period equals the requested duration, within five minutes for clock skew and five
/// percent.
fn is_honored(requested_seconds: i64, valid: i64) -> bool {
    (requested_seconds - valid).abs() < 5 * 60 + requested_seconds / 20
}

#[cfg(test)]
mod tests {
    use binnacle_schema::Object;

    use super::*;

    #[test]
    fn counts_issued_certificates_with_requested_duration() {
        let request = |signer: &str, seconds: Option<i64>, certificate: &str| {
            let mut request = Value::from(Object::new());
            let spec = request.make_at(&["spec"]);
            spec.insert("signerName", signer.to_owned());
            if let Some(seconds) = seconds {
                spec.insert("expirationSeconds", seconds);
            }
            request.make_at(&["status"]).insert("certificate", certificate.to_owned());
            request
        };
        let of_a_day = {
            let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
            parameters.not_before = rcgen::date_time_ymd(2026, 1, 1);
            parameters.not_after = rcgen::date_time_ymd(2026, 1, 2);
            let key = rcgen::KeyPair::generate().unwrap();
            STANDARD.encode(parameters.self_signed(&key).unwrap().pem())
        };
        let client = "kubernetes.io/kube-apiserver-client";
        // Each case: the signer, the requested duration, the certificate before and after, the label, and the expected
        // counts.
        let cases = [
            (client, Some(86400), "", &*of_a_day, client, (1, 1)),
            (client, Some(3600), "", &*of_a_day, client, (1, 0)),
            ("example.com/signer", Some(86400), "", &*of_a_day, "other", (1, 1)),
            (client, None, "", &*of_a_day, client, (0, 0)),
            (client, Some(86400), "", "", client, (0, 0)),
            (client, Some(86400), &*of_a_day, &*of_a_day, client, (0, 0)),
            (client, Some(86400), "", "bm90IFBFTQ==", client, (1, 0)),
        ];
        for (signer, seconds, before, after, label, expected) in cases {
            let durations = CertificateDurations::build().unwrap();
            durations.count_issued(&request(signer, seconds, after), &request(signer, seconds, before));
            let counted = |of: &IntCounterVec| of.with_label_values(&[label]).get();
            let counts = (counted(&durations.requested), counted(&durations.honored));
            assert_eq!(counts, expected, "{signer} {seconds:?} {} {}", before.len(), after.len());
        }
    }

    #[test]
    fn tolerates_small_deviations_of_duration() {
        let cases =
            [(3600, 3600, true), (3600, 4079, true), (3600, 4080, false), (3600, 3121, true), (600, 86400, false)];
        for (requested_seconds, valid, honored) in cases {
            assert_eq!(is_honored(requested_seconds, valid), honored, "{requested_seconds} {valid}");
        }
    }
}
