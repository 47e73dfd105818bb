//! The plugins, and the list of those that are built.

mod certificates;
mod default_class;
mod default_toleration_seconds;
mod limit_ranger;
mod namespace_lifecycle;
mod node_restriction;
mod persistent_volume_claim_resize;
mod pod_resize_validator;
mod pod_resources;
mod pod_security;
mod pod_topology_labels;
mod priority;
mod resource_quota;
mod runtime_class;
mod service_account;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
mod tolerations;

use std::sync::Arc;

use binnacle_authz::Authorizer;

use crate::lookup::Lookup;
use crate::plugin::Plugin;

/// What flags say about plugins.
#[derive(Clone, Debug)]
pub struct Options {
    /// `--default-not-ready-toleration-seconds`.
    pub not_ready_toleration_seconds: i64,
    /// `--default-unreachable-toleration-seconds`.
    pub unreachable_toleration_seconds: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self { not_ready_toleration_seconds: 300, unreachable_toleration_seconds: 300 }
    }
}

/// The plugins that are built and that the reference enables by default.
pub fn all(lookup: Arc<dyn Lookup>, authorizer: &Arc<dyn Authorizer>, options: &Options) -> Vec<Arc<dyn Plugin>> {
    vec![
        Arc::new(namespace_lifecycle::NamespaceLifecycle::new(lookup.clone())),
        Arc::new(limit_ranger::LimitRanger::new(lookup.clone())),
        Arc::new(service_account::ServiceAccount::new(lookup.clone())),
        Arc::new(node_restriction::NodeRestriction::new(lookup.clone(), authorizer.clone())),
        Arc::new(taint_nodes_by_condition::TaintNodesByCondition),
        Arc::new(pod_security::PodSecurity::new(lookup.clone())),
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
        Arc::new(pod_topology_labels::PodTopologyLabels::new(lookup.clone())),
        Arc::new(pod_resize_validator::PodResizeValidator::new(lookup.clone())),
        Arc::new(resource_quota::ResourceQuota::new(lookup)),
    ]
}
