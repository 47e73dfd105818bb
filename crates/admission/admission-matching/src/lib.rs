//! Matching of requests with webhooks and admission policies, and conversion of a request's objects to the version that
//! each of them requests.
//!
//! [`Criteria`] are the compiled rules and selectors of a webhook or policy; a [`Subject`] is a request, which is
//! compared with all criteria; an [`Index`] finds the criteria that may match, without visiting the others.
//! [`expressions`] evaluates CEL as admission has it.

mod criteria;
mod equivalents;
pub mod expressions;
mod index;
mod rules;
mod shared_default;
mod subject;
mod versions;

pub use criteria::{Criteria, MatchedResource};
pub use index::Index;
pub use shared_default::SharedDefault;
pub use subject::Subject;
pub use versions::VersionedObjects;

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

/// Returns true for the writes by which this server says that it is alive and where it is reached: leases in
/// `kube-system`, and the endpoints of the service `kubernetes`. A failing webhook for them would leave clients with the
/// endpoints of servers that are gone, and keep those who could repair it away.
pub fn is_heartbeat(attributes: &Attributes) -> bool {
    let resource = (attributes.resource.group.as_str(), attributes.resource.resource.as_str());
    attributes.by_server
        && match resource {
            ("coordination.k8s.io", "leases") => attributes.namespace == "kube-system",
            ("", "endpoints") | ("discovery.k8s.io", "endpointslices") => {
                attributes.namespace == "default" && attributes.name == "kubernetes"
            }
            _ => false,
        }
}
