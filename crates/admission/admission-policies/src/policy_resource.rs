//! The resources of policies and bindings, and those that policies do not apply to.

use binnacle_registry::admission::Attributes;

/// The resources of policies and bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyResource {
    ValidatingPolicies,
    ValidatingBindings,
    MutatingPolicies,
    MutatingBindings,
}

impl PolicyResource {
    pub const ALL: [Self; 4] =
        [Self::ValidatingPolicies, Self::ValidatingBindings, Self::MutatingPolicies, Self::MutatingBindings];

    pub fn kind(self) -> &'static str {
        match self {
            Self::ValidatingPolicies => "ValidatingAdmissionPolicy",
            Self::ValidatingBindings => "ValidatingAdmissionPolicyBinding",
            Self::MutatingPolicies => "MutatingAdmissionPolicy",
            Self::MutatingBindings => "MutatingAdmissionPolicyBinding",
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::ValidatingPolicies => "validatingadmissionpolicies",
            Self::ValidatingBindings => "validatingadmissionpolicybindings",
            Self::MutatingPolicies => "mutatingadmissionpolicies",
            Self::MutatingBindings => "mutatingadmissionpolicybindings",
        }
    }
}

/// Returns true for access and token reviews, which policies do not apply to since authentication and authorization
/// depend on them.
pub(crate) fn is_review(attributes: &Attributes) -> bool {
    let plural = attributes.resource.resource.as_str();
    match attributes.resource.group.as_str() {
        "authentication.k8s.io" => matches!(plural, "selfsubjectreviews" | "tokenreviews"),
        "authorization.k8s.io" => matches!(
            plural,
            "localsubjectaccessreviews"
                | "selfsubjectaccessreviews"
                | "selfsubjectrulesreviews"
                | "subjectaccessreviews"
        ),
        _ => false,
    }
}

/// Returns true for policies and bindings. Only policies from manifests apply to them, so that a broken policy can
/// always be repaired through the API.
pub(crate) fn is_of_policies(attributes: &Attributes) -> bool {
    attributes.resource.group == "admissionregistration.k8s.io"
        && PolicyResource::ALL.iter().any(|resource| attributes.resource.resource == resource.plural())
}
