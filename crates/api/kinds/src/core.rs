//! The core group: pods and the objects that they use.

mod config_map;
mod endpoints;
mod event;
mod keyed_data;
mod limit_range;
mod namespace;
mod node;
pub(crate) mod persistent_volume;
pub(crate) mod persistent_volume_claim;
mod pod;
mod pod_template;
mod replication_controller;
mod resource_quota;
mod secret;
mod service;
mod service_account;

use crate::Entry;

#[rustfmt::skip]
pub(crate) const STRATEGIES: &[Entry] = &[
    ("ConfigMap", &config_map::ConfigMap),
    ("Endpoints", &endpoints::Endpoints),
    ("Event", &event::Event),
    ("LimitRange", &limit_range::LimitRange),
    ("Namespace", &namespace::Namespace),
    ("Node", &node::Node),
    ("PersistentVolume", &persistent_volume::PersistentVolume),
    ("PersistentVolumeClaim", &persistent_volume_claim::PersistentVolumeClaim),
    ("Pod", &pod::Pod),
    ("PodTemplate", &pod_template::PodTemplate),
    ("ReplicationController", &replication_controller::ReplicationController),
    ("ResourceQuota", &resource_quota::ResourceQuota),
    ("Secret", &secret::Secret),
    ("Service", &service::Service),
    ("ServiceAccount", &service_account::ServiceAccount),
];
