//! The requester of a CertificateSigningRequest, in fields that only the server writes, and the permission to sign
//! certificates of pods.

mod durations;

use std::sync::Arc;

use binnacle_authz::{Authorizer, is_allowed_for_signer};
use binnacle_fields::certificates::v1::{CertificateSigningRequest as Csr, CertificateSigningRequestSpec as CsrSpec};
use binnacle_fields::certificates::v1beta1::{PodCertificateRequest, PodCertificateRequestSpec};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldErrors, Status, go_quote};
use binnacle_registry::Context;
use binnacle_registry::hooks::{Hooks, Review};
use binnacle_request::BoxFuture;
use binnacle_schema::{Object, Value};

pub use durations::CertificateDurations;

/// Hooks that require the verb `sign` for the signer to change a PodCertificateRequest's status (KEP-4317).
pub struct SignersOfPodCertificates {
    authorizer: Arc<dyn Authorizer>,
}

impl SignersOfPodCertificates {
    pub fn new(authorizer: &Arc<dyn Authorizer>) -> Self {
        Self { authorizer: authorizer.clone() }
    }
}

impl Hooks for SignersOfPodCertificates {
    fn review<'a>(&'a self, review: Review<'a>, found: FieldErrors) -> BoxFuture<'a, FieldErrors> {
        Box::pin(async move {
            let Some(old) = review.old.filter(|_| review.subresource == "status" && found.is_empty()) else {
                return found;
            };
            let user = &review.context.user;
            let [new, old] = [review.object, old].map(FieldRef::<PodCertificateRequest>::root);
            let spec = old.at(PodCertificateRequest::SPEC);
            let signer_name = spec.at(PodCertificateRequestSpec::SIGNER_NAME);
            let signer = signer_name.str();
            if old.at(PodCertificateRequest::STATUS).value() == new.at(PodCertificateRequest::STATUS).value()
                || is_allowed_for_signer(&*self.authorizer, user, "sign", signer).await
            {
                return found;
            }
            let why =
                format!("User {} is not permitted to \"sign\" for signer {}", go_quote(&user.name), go_quote(signer));
            signer_name.forbidden(why).into()
        })
    }
}

/// Hooks that write the requester to `spec.username`, `uid`, `groups` and `extra` of CertificateSigningRequests, and
/// count whether signers honor the requested durations.
#[derive(Clone, Debug)]
pub struct RequesterOfCertificates {
    durations: CertificateDurations,
}

impl RequesterOfCertificates {
    pub fn new(durations: CertificateDurations) -> Self {
        Self { durations }
    }
}

impl Hooks for RequesterOfCertificates {
    fn begin_create<'a>(&'a self, context: &'a Context, object: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        let user = &context.user;
        let mut spec = FieldMut::<Csr>::root(object).into_entry(Csr::SPEC);
        spec.set(CsrSpec::USERNAME, user.name.clone());
        spec.set(CsrSpec::UID, user.uid.clone());
        spec.set(CsrSpec::GROUPS, Value::from(user.groups.clone()));
        let extra: Object = user.extra.iter().map(|(key, values)| (key.clone(), Value::from(values.clone()))).collect();
        if extra.is_empty() {
            spec.remove(CsrSpec::EXTRA);
        } else {
            spec.set(CsrSpec::EXTRA, Value::Object(extra));
        }
        Box::pin(async { Ok(()) })
    }

    fn after_subresource<'a>(&'a self, subresource: &'a str, object: &'a Value, old: &'a Value) -> BoxFuture<'a, ()> {
        if subresource == "status" {
            self.durations.count_issued(object, old);
        }
        Box::pin(async {})
    }
}
