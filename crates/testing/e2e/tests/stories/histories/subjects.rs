//! The resources that clients read and write, and the contents of their objects.

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::NAMESPACE;
use super::clients::LAST;
use super::definition::{GROUP, KIND, VERSIONS};
use crate::random::Random;

/// A resource under test. Each has its own history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// From 1 KB to 1 MB.
    ConfigMaps,
    /// Small, like heartbeats.
    Leases,
    /// The server allocates a unique address and unique ports to each.
    Services,
    /// With finalizers, so that they are deleted in steps.
    Secrets,
    /// Custom resources whose definition changes meanwhile, with finalizers as well.
    Widgets,
}

impl Subject {
    pub(super) const ALL: [Self; 5] = [Self::ConfigMaps, Self::Leases, Self::Services, Self::Secrets, Self::Widgets];

    pub(super) fn api(self, client: Client) -> Api<DynamicObject> {
        let resource = match self {
            Self::ConfigMaps => ApiResource::erase::<ConfigMap>(&()),
            Self::Leases => ApiResource::erase::<Lease>(&()),
            Self::Services => ApiResource::erase::<Service>(&()),
            Self::Secrets => ApiResource::erase::<Secret>(&()),
            Self::Widgets => ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, VERSIONS[0], KIND)),
        };
        Api::namespaced_with(client, NAMESPACE, &resource)
    }

    /// Returns an object with a value; `base` is the version that it replaces, 0 for none.
    pub(super) fn object(self, name: &str, value: &str, base: u64) -> DynamicObject {
        let mut metadata = json!({"name": name, "annotations": {VALUE: value}});
        if is_selected(value) {
            metadata["labels"] = json!({"shade": "dark"});
        }
        if let Some((_, letters)) = value.split_once(FINALIZERS) {
            let letters = letters.trim_end_matches(TERMINATING).chars();
            metadata["finalizers"] = letters.map(|letter| format!("{GROUP}/{letter}")).collect();
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
            Self::Secrets => json!({"stringData": {"value": value}}),
            Self::Widgets => {
                let api = format!("{GROUP}/{}", VERSIONS[0]);
                json!({"apiVersion": api, "kind": KIND, "spec": {"value": value, "parts": [number(value) % 100]}})
            }
        };
        object["metadata"] = metadata;
        serde_json::from_value(object).unwrap()
    }

    /// Returns a new value for an object whose value is `old`. It includes the finalizers: any, or a subset of the
    /// remaining ones if the object is terminating. `None` if the last finalizer is removed, and with it the object.
    pub(super) fn next_value(self, plain: &str, old: Option<&str>, random: &mut Random) -> Option<String> {
        if !self.has_finalizers() {
            return Some(plain.to_owned());
        }
        let terminates = old.filter(|old| is_terminating(old));
        let possible = match terminates {
            Some(old) => old.split_once(FINALIZERS).map_or("", |(_, letters)| letters.trim_end_matches(TERMINATING)),
            None => LETTERS,
        };
        let kept: String = possible.chars().filter(|_| random.below(2) == 0).collect();
        match terminates {
            Some(_) if kept.is_empty() => None,
            Some(_) => Some(format!("{plain}{FINALIZERS}{kept}{TERMINATING}")),
            None => Some(format!("{plain}{FINALIZERS}{kept}")),
        }
    }

    /// Returns the object without its finalizers and otherwise unchanged.
    pub(super) fn released(self, name: &str, old: &str, base: u64) -> DynamicObject {
        let plain = old.split(FINALIZERS).next().unwrap_or_default();
        self.object(name, &format!("{plain}{FINALIZERS}"), base)
    }

    fn has_finalizers(self) -> bool {
        matches!(self, Self::Secrets | Self::Widgets)
    }

    /// Checks that an object is exactly as written. Returns its value.
    pub(super) fn value(self, object: &DynamicObject) -> String {
        let mut value = object.annotations()[VALUE].clone();
        if self.has_finalizers() && value != LAST {
            // The writer's mark is removed, because the server decides whether the object is terminating.
            value = value.trim_end_matches(TERMINATING).to_owned();
            let letters: String = object.finalizers().iter().filter_map(|name| name.chars().last()).collect();
            assert_eq!(value.split_once(FINALIZERS).map(|(_, written)| written), Some(letters.as_str()), "{object:?}");
        }
        match self {
            Self::ConfigMaps => {
                let padding = object.data["data"][PADDING].as_str().map(str::len);
                assert_eq!(padding, Some(size(&value)), "{value} is not all there");
            }
            Self::Leases => assert_eq!(object.data["spec"]["holderIdentity"], json!(value)),
            Self::Secrets => assert!(object.data["data"]["value"].is_string(), "{value} has no data"),
            Self::Widgets => {
                assert_eq!(object.types.as_ref().map(|types| types.kind.as_str()), Some(KIND), "{value}");
                let spec = &object.data["spec"];
                assert!(spec["value"].as_str().is_some_and(|own| own.starts_with(plain(&value))), "{value}: {spec}");
                assert!(spec["parts"].as_array().is_some_and(|parts| parts.len() == 1), "{value}: {spec}");
            }
            Self::Services => assert!(object.data["spec"]["clusterIP"].is_string(), "{value} has no address"),
        }
        if object.metadata.deletion_timestamp.is_some() {
            value.push_str(TERMINATING);
        }
        value
    }

    /// Returns true for kinds that an update may create.
    pub(super) fn can_be_created_by_update(self) -> bool {
        matches!(self, Self::Leases | Self::Services)
    }

    /// Returns the values that are unique to an object while it exists.
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
/// Separates a value from the letters of its finalizers.
const FINALIZERS: &str = "/";
const LETTERS: &str = "abc";
/// The suffix of the values of terminating objects.
const TERMINATING: &str = "#";

/// Returns true for the value of a terminating object.
pub(super) fn is_terminating(value: &str) -> bool {
    value.ends_with(TERMINATING)
}

/// Returns the value of an object after its deletion; `None` if it has no finalizers.
pub(super) fn once_deleted(value: &str) -> Option<String> {
    let kept = value.split_once(FINALIZERS).is_some_and(|(_, letters)| !letters.is_empty());
    kept.then(|| format!("{value}{TERMINATING}"))
}

/// Returns the value without its finalizers.
fn plain(value: &str) -> &str {
    value.split(FINALIZERS).next().unwrap_or(value)
}

/// Returns true for an object that matches the selector of watches and lists.
pub(super) fn is_selected(value: &str) -> bool {
    value == LAST || plain(value).bytes().last().is_some_and(|digit| digit % 2 == 0)
}

pub(super) fn version(object: &DynamicObject) -> u64 {
    object.resource_version().unwrap().parse().unwrap()
}

/// Returns the number of further bytes: usually a few KB, sometimes much more.
fn size(value: &str) -> usize {
    match number(value) % 200 {
        0 => 1_000_000,
        1..=8 => 64 << 10,
        small => 1000 + 16 * small,
    }
}

/// Returns a pseudo-random number that depends on the value.
fn number(value: &str) -> usize {
    value.bytes().fold(7, |number: usize, byte| number.wrapping_mul(31).wrapping_add(usize::from(byte))) >> 3
}
