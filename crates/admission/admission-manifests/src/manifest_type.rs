//! The types of manifests: one for each plugin that has a manifest directory.

use std::sync::Arc;

use binnacle_features::Features;
use binnacle_scheme::StoredType;

/// The plugin whose manifests a directory has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManifestType {
    MutatingWebhooks,
    ValidatingWebhooks,
    MutatingPolicies,
    ValidatingPolicies,
}

/// The storage types of the server, which manifests are decoded and validated with.
#[derive(Clone)]
pub struct StoredTypes {
    types: Arc<[StoredType]>,
    /// The feature gates of the server, for validation.
    pub(crate) features: Arc<Features>,
}

impl ManifestType {
    pub const ALL: [Self; 4] =
        [Self::MutatingWebhooks, Self::ValidatingWebhooks, Self::MutatingPolicies, Self::ValidatingPolicies];

    /// Returns the name of the plugin.
    pub fn plugin(self) -> &'static str {
        match self {
            Self::MutatingWebhooks => "MutatingAdmissionWebhook",
            Self::ValidatingWebhooks => "ValidatingAdmissionWebhook",
            Self::MutatingPolicies => "MutatingAdmissionPolicy",
            Self::ValidatingPolicies => "ValidatingAdmissionPolicy",
        }
    }

    /// Returns the kind of the objects other than bindings.
    pub fn kind(self) -> &'static str {
        match self {
            Self::MutatingWebhooks => "MutatingWebhookConfiguration",
            Self::ValidatingWebhooks => "ValidatingWebhookConfiguration",
            Self::MutatingPolicies => "MutatingAdmissionPolicy",
            Self::ValidatingPolicies => "ValidatingAdmissionPolicy",
        }
    }

    /// Returns the kind of policy bindings; `None` for webhooks.
    pub fn binding(self) -> Option<&'static str> {
        match self {
            Self::MutatingWebhooks | Self::ValidatingWebhooks => None,
            Self::MutatingPolicies => Some("MutatingAdmissionPolicyBinding"),
            Self::ValidatingPolicies => Some("ValidatingAdmissionPolicyBinding"),
        }
    }

    pub(crate) fn subject(self) -> &'static str {
        if self.binding().is_some() { "policy" } else { "webhook" }
    }

    /// Returns the name of the scheme with which kube-apiserver decodes the manifests, which is part of its messages
    /// about unknown kinds.
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::MutatingWebhooks | Self::ValidatingWebhooks => {
                "pkg/admission/plugin/webhook/manifest/loader/loader.go:41"
            }
            Self::MutatingPolicies | Self::ValidatingPolicies => {
                "pkg/admission/plugin/policy/manifest/loader/validating_loader.go:35"
            }
        }
    }
}

impl StoredTypes {
    pub fn new(types: impl IntoIterator<Item = StoredType>, features: Arc<Features>) -> Self {
        Self { types: types.into_iter().collect(), features }
    }

    pub(crate) fn of_kind(&self, kind: &str) -> Option<&StoredType> {
        self.types.iter().find(|stored| stored.storage.kind == kind)
    }
}
