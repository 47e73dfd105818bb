//! The core group.

mod config;
mod controllers;
pub(crate) mod events;
mod namespaces;
mod nodes;
mod pods;
mod quota;
mod services;
mod volumes;

use crate::columns::Kind;
use crate::metadata;

pub(crate) const KINDS: &[Kind] = &[
    ("ComponentStatus", &namespaces::COMPONENT_STATUS),
    ("ConfigMap", &config::CONFIG_MAP),
    ("Endpoints", &services::ENDPOINTS),
    ("Event", &events::EVENT),
    ("Namespace", &namespaces::NAMESPACE),
    ("Node", &nodes::NODE),
    ("PersistentVolume", &volumes::PERSISTENT_VOLUME),
    ("PersistentVolumeClaim", &volumes::PERSISTENT_VOLUME_CLAIM),
    ("Pod", &pods::POD),
    ("PodTemplate", &controllers::POD_TEMPLATE),
    ("ReplicationController", &controllers::REPLICATION_CONTROLLER),
    ("ResourceQuota", &quota::RESOURCE_QUOTA),
    ("Secret", &config::SECRET),
    ("Service", &services::SERVICE),
    ("ServiceAccount", &metadata::NAME_AND_AGE),
];
