//! Matching of requests with admission webhooks and policies, and conversion of a request's objects to the versions
//! that they match.
//!
//! [`Criteria`] are the compiled rules and selectors of a webhook or policy, a [`Subject`] is a request that is matched
//! with criteria, and an [`Index`] finds the criteria that may match a request. [`expressions`] evaluates the CEL
//! expressions of admission.

mod criteria;
mod equivalents;
pub mod expressions;
mod index;
mod matched_resource;
mod rules;
mod shared_default;
mod subject;
mod versions;

pub use criteria::Criteria;
pub use index::Index;
pub use matched_resource::MatchedResource;
pub use shared_default::SharedDefault;
pub use subject::Subject;
pub use versions::VersionedObjects;

use binnacle_registry::admission::Attributes;

/// Returns true for the objects that configure webhooks and policies, which are exempt from both, so that a cluster
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

/// Returns true for the server's heartbeats: writes of leases in `kube-system` and of the endpoints of the service
/// `kubernetes`. If a failing webhook rejected them, clients would be left with stale endpoints, and administrators
/// could not reach the server to repair the webhook.
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
