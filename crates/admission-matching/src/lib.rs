//! Matching of requests with webhooks and admission policies, and the objects of a request in the version that each of
//! them asks for.
//!
//! [`Criteria`] are the rules and selectors of one of them, compiled once; a [`Subject`] is one request, which all of them
//! are compared with; an [`Index`] finds those that come into question without looking at the others.

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

/// True for objects that no webhook and no policy applies to: those that configure them, so that a cluster that one of
/// them broke can be mended.
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
