//! The resources that clients read and write, and what their objects carry.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::NAMESPACE;
use super::clients::LAST;

/// A resource under test. Each has a history of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// Of 1 KB to 1 MB.
    ConfigMaps,
    /// Small, as heartbeats are.
    Leases,
    /// The server gives each an address and ports that no other has.
    Services,
}

impl Subject {
    pub(super) const ALL: [Self; 3] = [Self::ConfigMaps, Self::Leases, Self::Services];

    pub(super) fn api(self, client: Client) -> Api<DynamicObject> {
        let resource = match self {
            Self::ConfigMaps => ApiResource::erase::<ConfigMap>(&()),
            Self::Leases => ApiResource::erase::<Lease>(&()),
            Self::Services => ApiResource::erase::<Service>(&()),
        };
        Api::namespaced_with(client, NAMESPACE, &resource)
    }

    /// An object of a value; `base` is the version that it replaces, 0 for none.
    pub(super) fn object(self, name: &str, value: &str, base: u64) -> DynamicObject {
        let mut metadata = json!({"name": name, "annotations": {VALUE: value}});
        if is_selected(value) {
            metadata["labels"] = json!({"shade": "dark"});
        }
        if base > 0 {
            metadata["resourceVersion"] = json!(base.to_string());
        }
        let mut object = match self {
            Self::ConfigMaps => json!({"data": {PADDING: "x".repeat(size(value))}}),
            Self::Leases => json!({"spec": {"holderIdentity": value}}),
            Self::Services => {
                let kind = if number(value).is_multiple_of(3) { "ClusterIP" } else { "NodePort" };
                json!({"spec": {"type": kind, "ports": [{"port": 80}], "selector": {"app": name}}})
            }
        };
        object["metadata"] = metadata;
        serde_json::from_value(object).unwrap()
    }

    /// Checks that an object is all that was written, and answers its value.
    pub(super) fn value(self, object: &DynamicObject) -> String {
        let value = object.annotations()[VALUE].clone();
        match self {
            Self::ConfigMaps => {
                let padding = object.data["data"][PADDING].as_str().map(str::len);
                assert_eq!(padding, Some(size(&value)), "{value} is not all there");
            }
            Self::Leases => assert_eq!(object.data["spec"]["holderIdentity"], json!(value)),
            Self::Services => assert!(object.data["spec"]["clusterIP"].is_string(), "{value} has no address"),
        }
        value
    }

    /// True for the kinds of which an update creates what is not there.
    pub(super) fn can_be_created_by_update(self) -> bool {
        matches!(self, Self::Leases | Self::Services)
    }

    /// What an object has to itself as long as it lives.
    pub(super) fn claims(self, object: &DynamicObject) -> Vec<String> {
        if self != Self::Services {
            return Vec::new();
        }
        let spec = &object.data["spec"];
        let ports = spec["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
        ports.chain([&spec["clusterIP"]]).filter(|claim| !claim.is_null()).map(Value::to_string).collect()
    }
}

const VALUE: &str = "histories/value";
const PADDING: &str = "padding";

/// True for an object that the selecting watches and lists see.
pub(super) fn is_selected(value: &str) -> bool {
    value == LAST || value.bytes().last().is_some_and(|digit| digit % 2 == 0)
}

pub(super) fn version(object: &DynamicObject) -> u64 {
    object.resource_version().unwrap().parse().unwrap()
}

/// Bytes beside the value: mostly a few KB, now and then much more.
fn size(value: &str) -> usize {
    match number(value) % 200 {
        0 => 1_000_000,
        1..=8 => 64 << 10,
        small => 1000 + 16 * small,
    }
}

/// A number that looks random and follows from the value.
fn number(value: &str) -> usize {
    value.bytes().fold(7, |number: usize, byte| number.wrapping_mul(31).wrapping_add(usize::from(byte))) >> 3
}
