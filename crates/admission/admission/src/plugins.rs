//! The plugins of this crate.

mod always;
mod always_pull_images;
mod certificates;
mod default_class;
mod default_toleration_seconds;
mod deny_service_external_ips;
mod event_rate_limit;
mod extended_resource_toleration;
mod hard_anti_affinity;
mod image_policy;
mod job_validation;
mod limit_ranger;
mod namespace_exists;
mod namespace_lifecycle;
mod node_declared_features;
mod node_restriction;
mod owner_references;
mod persistent_volume_claim_resize;
mod pod;
mod pod_group;
mod pod_node_selector;
mod pod_resize_validator;
mod pod_resources;
mod pod_security;
mod pod_toleration_restriction;
mod pod_topology_labels;
mod priority;
mod resource_quota;
mod runtime_class;
mod service_account;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
mod tolerations;

use std::path::PathBuf;
use std::sync::Arc;

use binnacle_authz::Authorizer;
use binnacle_features::Features;
use binnacle_webhook::Users;

pub use event_rate_limit::{EventLimit, EventLimitKind};
pub use image_policy::ImagePolicySettings;
pub use pod_node_selector::NodeSelectors;
pub use pod_security::{PodSecurityMetrics, PodSecuritySettings};
pub use pod_toleration_restriction::ClusterTolerations;
pub use resource_quota::{LimitedResource, QuotaAmounts, QuotaState, QuotaUsage};

use crate::lookup::Lookup;
use crate::plugin::Plugin;

/// The options of plugins.
#[derive(Clone, Debug)]
pub struct PluginOptions {
    /// The feature gates and options of plugins.
    pub features: Arc<Features>,
    /// `--default-not-ready-toleration-seconds`.
    pub not_ready_toleration_seconds: i64,
    /// `--default-unreachable-toleration-seconds`.
    pub unreachable_toleration_seconds: i64,
    /// For EventRateLimit; events are not limited if empty.
    pub event_limits: Vec<EventLimit>,
    /// For ImagePolicyWebhook, which only exists if it is configured.
    pub image_policy: Option<ImagePolicySettings>,
    /// For ResourceQuota: resources whose use requires a quota.
    pub limited_resources: Vec<LimitedResource>,
    /// For PodNodeSelector.
    pub node_selectors: NodeSelectors,
    pub pod_security: PodSecuritySettings,
    /// For PodTolerationRestriction.
    pub tolerations: ClusterTolerations,
    /// For MutatingAdmissionWebhook: the credentials for webhooks.
    pub mutating_webhook_users: Users,
    /// For ValidatingAdmissionWebhook: the credentials for webhooks.
    pub validating_webhook_users: Users,
    /// Plugins and their directories of static webhooks and policies.
    pub manifests: Vec<(&'static str, PathBuf)>,
}

impl Default for PluginOptions {
    fn default() -> Self {
        Self {
            features: Arc::default(),
            not_ready_toleration_seconds: 300,
            unreachable_toleration_seconds: 300,
            event_limits: Vec::new(),
            image_policy: None,
            limited_resources: Vec::new(),
            node_selectors: NodeSelectors::new(),
            pod_security: PodSecuritySettings::default(),
            tolerations: ClusterTolerations::default(),
            mutating_webhook_users: Users::default(),
            validating_webhook_users: Users::default(),
            manifests: Vec::new(),
        }
    }
}

/// Returns the plugins of this crate, including those that are off by default.
pub fn all(
    lookup: Arc<dyn Lookup>,
    authorizer: &Arc<dyn Authorizer>,
    options: &PluginOptions,
    pod_security: &PodSecurityMetrics,
) -> Vec<Arc<dyn Plugin>> {
    let features = &options.features;
    let has_workloads = features.enabled("GenericWorkload");
    let mut plugins: Vec<Arc<dyn Plugin>> = vec![
        Arc::new(namespace_lifecycle::NamespaceLifecycle::new(lookup.clone())),
        Arc::new(limit_ranger::LimitRanger::new(lookup.clone())),
        Arc::new(service_account::ServiceAccount::new(lookup.clone())),
        Arc::new(node_restriction::NodeRestriction::new(lookup.clone(), authorizer.clone(), features.clone())),
        Arc::new(taint_nodes_by_condition::TaintNodesByCondition),
        Arc::new(pod_security::PodSecurity::new(
            lookup.clone(),
            options.pod_security.clone(),
            features.emulated(),
            pod_security.clone(),
        )),
        Arc::new(priority::Priority::new(lookup.clone())),
        Arc::new(default_toleration_seconds::DefaultTolerationSeconds::new(options)),
        Arc::new(default_class::DefaultClass::of_storage(lookup.clone())),
        Arc::new(storage_object_in_use_protection::StorageObjectInUseProtection),
        Arc::new(persistent_volume_claim_resize::PersistentVolumeClaimResize::new(lookup.clone())),
        Arc::new(runtime_class::RuntimeClass::new(lookup.clone())),
        Arc::new(certificates::SignerPermission::to_approve(authorizer.clone())),
        Arc::new(certificates::SignerPermission::to_sign(authorizer.clone())),
        Arc::new(certificates::SubjectRestriction),
        Arc::new(default_class::DefaultClass::of_ingresses(lookup.clone())),
        Arc::new(pod_topology_labels::PodTopologyLabels::new(
            lookup.clone(),
            features.enabled("PodTopologyLabelsAdmission"),
        )),
        Arc::new(pod_resize_validator::PodResizeValidator::new(lookup.clone())),
        Arc::new(always::AlwaysAdmit),
        Arc::new(namespace_exists::NamespaceAutoProvision::new(lookup.clone())),
        Arc::new(namespace_exists::NamespaceExists::new(lookup.clone())),
        Arc::new(hard_anti_affinity::LimitPodHardAntiAffinityTopology),
        Arc::new(always_pull_images::AlwaysPullImages),
        Arc::new(extended_resource_toleration::ExtendedResourceToleration),
        Arc::new(pod_node_selector::PodNodeSelector::new(lookup.clone(), options.node_selectors.clone())),
        Arc::new(pod_toleration_restriction::PodTolerationRestriction::new(
            lookup.clone(),
            options.tolerations.clone(),
        )),
        Arc::new(event_rate_limit::EventRateLimit::new(&options.event_limits)),
        Arc::new(pod_group::PodGroupProtection::new(has_workloads)),
        Arc::new(owner_references::OwnerReferences::new(lookup.clone(), authorizer.clone())),
        Arc::new(certificates::TrustBundleAttest::new(authorizer.clone(), features.enabled("ClusterTrustBundle"))),
        Arc::new(deny_service_external_ips::DenyServiceExternalIps),
        Arc::new(pod_group::PodGroupWorkloadExists::new(lookup.clone(), has_workloads)),
        Arc::new(node_declared_features::NodeDeclaredFeatures::new(
            lookup.clone(),
            features.enabled("NodeDeclaredFeatures"),
        )),
        Arc::new(job_validation::JobValidation::new(lookup.clone(), has_workloads)),
        Arc::new(resource_quota::ResourceQuota::new(lookup.clone(), options.limited_resources.clone())),
        Arc::new(always::AlwaysDeny),
    ];
    if let Some(settings) = options.image_policy.clone() {
        plugins.push(Arc::new(image_policy::ImagePolicyWebhook::new(settings, lookup)));
    }
    plugins
}
