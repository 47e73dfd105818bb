//! The control plane: the objects that every cluster has ([`ControlPlane`]), the informers that feed authorizers,
//! webhooks, policies, and priority and fairness, and the objects that authenticators look up ([`CachedObjects`]).

mod admission_webhooks;
mod authorization;
mod bootstrap_roles;
mod bound_objects;
mod cluster_authentication;
mod config;
mod config_maps;
mod context;
mod flowcontrol;
mod identity;
mod identity_lease;
mod kubernetes_service;
mod leader_election;
mod plane;
mod policies;
mod policy_status;
mod priority_classes;
mod storage_readiness;
mod storage_version_objects;
mod storage_versions;
mod system_namespaces;
mod trust;

pub use admission_webhooks::start_webhook_informers;
pub use authorization::{RbacInformers, node_features, node_rules, start_node_graph_informers};
pub use bound_objects::CachedObjects;
pub use config::{Bootstrap, Config, EndpointReconciler, default_advertise_address};
pub use flowcontrol::start_flow_control_informers;
pub use identity::identity_lease_name;
pub use plane::ControlPlane;
pub use policies::start_policy_informers;
pub use storage_versions::StorageVersions;
pub use trust::{RequestHeader, Trust};
