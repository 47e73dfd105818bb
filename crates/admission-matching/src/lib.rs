//! Matching of requests with webhooks and admission policies, and conversion of a request's objects to the version that
//! each of them requests.
//!
//! [`Criteria`] are the compiled rules and selectors of a webhook or policy; a [`Subject`] is a request, which is
//! compared with all criteria; an [`Index`] finds the criteria that may match, without visiting the others.

mod criteria;
mod equivalents;
mod index;
mod rules;
mod subject;
mod versions;

pub use criteria::{Criteria, Matched};
pub use index::Index;
pub use subject::Subject;
pub use versions::Versioned;

use binnacle_registry::admission::Attributes;

/// Returns true for the objects that configure webhooks and policies. These are exempt from both, so that a cluster
/// with a broken webhook or policy can be repaired.
pub fn is_exempt(attributes: &Attributes) -> bool {
    const KINDS: [&str; 6] = [
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    ];
    attributes.kind.group == "admissionregistration.k8s.io" && KINDS.contains(&attributes.kind.kind.as_str())
}
