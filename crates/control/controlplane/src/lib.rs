//! The part of the control plane that works without requests: it allocates addresses and ports of services
//! ([`service_hooks`]), and creates the objects that every cluster has ([`start`]).

/// The program's allocator: tests measure the memory in use, and the system's allocator does not return any.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

mod admission_webhooks;
mod apiservices;
mod authorization;
mod bootstrap_roles;
mod certificates;
mod config;
mod config_maps;
mod definitions;
mod device_claims;
mod flowcontrol;
mod follow;
mod identity_lease;
mod informer;
mod kubernetes_service;
mod leader_election;
mod objects;
mod peer_addresses;
mod policies;
mod policy_params;
mod policy_status;
mod priority_classes;
mod random;
mod service_addresses;
mod service_cidr;
mod services;
mod start;
mod storage_readiness;
mod storage_versions;
mod system_namespaces;
#[cfg(test)]
mod testing;
mod trust;

pub use admission_webhooks::follow_webhooks;
pub use apiservices::{AggregatedServers, AvailabilityMetrics, LocalApi, Registrations, Undiscovered};
pub use authorization::{RolesFeed, escalation_hooks, follow_nodes, node_features, node_rules};
pub use certificates::{CertificateDurations, RequesterOfCertificates, SignersOfPodCertificates};
pub use config::{Config, EndpointReconciler, Leadership, PortRange, RequestHeader, default_advertise_address};
pub use definitions::{ConversionMetrics, CustomResources, DefinitionRules};
pub use device_claims::DeviceClaims;
pub use flowcontrol::follow_flow_control;
pub use identity_lease::identity_lease_name;
pub use informer::{Handler, Informer};
pub use peer_addresses::PeerAddresses;
pub use policies::follow_policies;
pub use policy_params::policy_hooks;
pub use service_addresses::{ServiceAddresses, ServiceRouting};
pub use services::{AllocatorMetrics, ServiceHooks, service_hooks};
pub use start::{ControlPlane, Step, start};
pub use storage_versions::StorageVersions;
pub use trust::Trust;
