//! EndpointSlice: a part of the addresses behind a service.

use std::collections::HashSet;

use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::ip;

use super::validation;
use crate::checks::{immutable_value, items};

use crate::prepare::{default_to, first_generation, next_generation, objects_at, semantically_equal};
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct EndpointSlice;

impl Strategy for EndpointSlice {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        for port in objects_at(object, &["ports"]) {
            default_to(port, "name", "");
            default_to(port, "protocol", "TCP");
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        first_generation(object);
        drop_topology(object, None);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        next_generation(object, old, &["addressType", "endpoints", "ports"]);
        if !semantically_equal(object.at(LABELS), old.at(LABELS)) {
            let generation = old.int_at(&["metadata", "generation"]).unwrap_or(0) + 1;
            object.make_at(&["metadata"]).insert("generation", generation);
        }
        drop_topology(object, Some(old));
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::slice(situation.features, object, None)
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = validation::slice(situation.features, object, Some(old));
        let path = FieldPath::new("addressType");
        immutable_value(&path, object.get("addressType"), old.get("addressType"), &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if old.is_none() && object.str_at(&["addressType"]) == "FQDN" {
            warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
        }
        // Kubernetes' own controllers write canonical addresses.
        let manager = object.str_at(&["metadata", "labels", "endpointslice.kubernetes.io/managed-by"]);
        if !matches!(manager, "endpointslice-controller.k8s.io" | "endpointslicemirroring-controller.k8s.io") {
            for (at, endpoint) in items(object, "endpoints", &FieldPath::root()) {
                for (at, address) in items(endpoint, "addresses", &at) {
                    warnings.extend(ip::ip_warnings(&at, address.as_str().unwrap_or_default()));
                }
            }
        }
        warnings
    }
}

const LABELS: &[&str] = &["metadata", "labels"];

/// The label that held the node name in v1beta1.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Drops `deprecatedTopology`, which only v1beta1 could set, in writes through v1. A node name in it moves to its own
/// field, so that clients that write back an object lose nothing.
fn drop_topology(object: &mut Value, old: Option<&Value>) {
    if old.is_some_and(|old| semantically_equal(object.get("endpoints"), old.get("endpoints"))) {
        return;
    }
    let old_endpoints = old.map(|old| old.list_at(&["endpoints"])).unwrap_or_default();
    let old_nodes: HashSet<&str> =
        old_endpoints.iter().map(|old| old.str_at(&["deprecatedTopology", HOSTNAME])).collect();
    for endpoint in objects_at(object, &["endpoints"]) {
        let Some(topology) = endpoint.remove("deprecatedTopology") else { continue };
        let node = topology.str_at(&[HOSTNAME]);
        let known = !node.is_empty()
            && old_nodes.contains(node)
            && binnacle_validation::names::dns1123_subdomain(node).is_empty();
        if known {
            default_to(endpoint, "nodeName", node);
        }
    }
}
