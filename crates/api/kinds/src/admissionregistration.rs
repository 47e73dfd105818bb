//! `admissionregistration.k8s.io`: webhooks and policies that take part in admission.

pub(crate) mod client;
mod defaults;
mod matching;
mod policy;
mod policy_binding;
mod policy_validation;
mod webhook_configuration;

use crate::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[
    ("MutatingAdmissionPolicy", &policy::MutatingAdmissionPolicy),
    ("MutatingAdmissionPolicyBinding", &policy_binding::MutatingAdmissionPolicyBinding),
    ("MutatingWebhookConfiguration", &webhook_configuration::MutatingWebhookConfiguration),
    ("ValidatingAdmissionPolicy", &policy::ValidatingAdmissionPolicy),
    ("ValidatingAdmissionPolicyBinding", &policy_binding::ValidatingAdmissionPolicyBinding),
    ("ValidatingWebhookConfiguration", &webhook_configuration::ValidatingWebhookConfiguration),
];
