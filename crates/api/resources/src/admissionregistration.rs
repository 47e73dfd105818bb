//! `admissionregistration.k8s.io`: admission webhooks and policies.

use binnacle_scheme::{
    GroupDescription, ResourceDescription, SubresourceDescription, VersionDescription, cluster, shared,
};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 16700,
        versions: vec![
            VersionDescription {
                version: "v1",
                priority: 15,
                served_by_default: true,
                resources: shared![
                    mutating_policies("v1").since(36),
                    mutating_policy_bindings("v1").since(36),
                    extension(cluster!(
                        NAME,
                        "v1",
                        "mutatingwebhookconfigurations",
                        "mutatingwebhookconfiguration",
                        "MutatingWebhookConfiguration"
                    ))
                    .since(16),
                    validating_policies("v1").since(30),
                    validating_policy_bindings("v1").since(30),
                    extension(cluster!(
                        NAME,
                        "v1",
                        "validatingwebhookconfigurations",
                        "validatingwebhookconfiguration",
                        "ValidatingWebhookConfiguration"
                    ))
                    .since(16),
                ],
            },
            VersionDescription {
                version: "v1beta1",
                priority: 12,
                served_by_default: false,
                resources: shared![
                    mutating_policies("v1beta1").since(34).deprecated(37).removed(40).replaced_by([
                        NAME,
                        "v1",
                        "MutatingAdmissionPolicy",
                    ]),
                    mutating_policy_bindings("v1beta1").since(34).deprecated(37).removed(40).replaced_by([
                        NAME,
                        "v1",
                        "MutatingAdmissionPolicyBinding",
                    ]),
                    validating_policies("v1beta1").since(28).deprecated(31).removed(34),
                    validating_policy_bindings("v1beta1").since(28).deprecated(31).removed(34),
                ],
            },
            VersionDescription {
                version: "v1alpha1",
                priority: 9,
                served_by_default: false,
                resources: shared![
                    mutating_policies("v1alpha1").since(32).deprecated(35).removed(38),
                    mutating_policy_bindings("v1alpha1").since(32).deprecated(35).removed(38),
                ],
            },
        ],
    }
}

const NAME: &str = "admissionregistration.k8s.io";

/// Describes policies, which are stored in v1beta1 until all servers that may share the store support v1.
fn mutating_policies(version: &'static str) -> ResourceDescription {
    extension(cluster!(
        NAME,
        version,
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicy",
        "MutatingAdmissionPolicy"
    ))
    .stored_in("v1beta1")
}

/// Describes bindings, which are stored in v1beta1 like the policies.
fn mutating_policy_bindings(version: &'static str) -> ResourceDescription {
    extension(cluster!(
        NAME,
        version,
        "mutatingadmissionpolicybindings",
        "mutatingadmissionpolicybinding",
        "MutatingAdmissionPolicyBinding"
    ))
    .stored_in("v1beta1")
}

fn validating_policies(version: &'static str) -> ResourceDescription {
    extension(cluster!(
        NAME,
        version,
        "validatingadmissionpolicies",
        "validatingadmissionpolicy",
        "ValidatingAdmissionPolicy"
    ))
    .stored_in("v1")
    .resets(&["status"])
    .subresources(&[SubresourceDescription::status(&["metadata", "spec"])])
}

fn validating_policy_bindings(version: &'static str) -> ResourceDescription {
    extension(cluster!(
        NAME,
        version,
        "validatingadmissionpolicybindings",
        "validatingadmissionpolicybinding",
        "ValidatingAdmissionPolicyBinding"
    ))
    .stored_in("v1")
}

fn extension(resource: ResourceDescription) -> ResourceDescription {
    resource.categories(&["api-extensions"]).only_conditional_update()
}
