//! `Endpoints`: the addresses behind a service, superseded by endpoint slices.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::ip::Legacy;
use binnacle_validation::{checks, endpoint, ip, ports};

use crate::tree_names::{default_zero, structs_mut};
use crate::{MetadataChecks, Strategy, StrategyContext};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpoint-controller";

pub(super) struct Endpoints;

impl Strategy for Endpoints {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        for subset in structs_mut(object.make_object(), "subsets") {
            structs_mut(subset, "ports").for_each(|port| default_zero(port, "protocol", "TCP"));
        }
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let legacy = Legacy::of(situation.features);
        for (i, subset) in errors.while_room(object.list_at(&["subsets"]).iter().enumerate()) {
            subset_rules(subset, &legacy, &FieldPath::new("subsets").index(i), &mut errors);
        }
        errors
    }

    /// Subsets that an older version accepted stay valid until they are changed.
    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let errors = self.validate(situation, object);
        if object.list_at(&["subsets"]) == old.list_at(&["subsets"]) { FieldErrors::new() } else { errors }
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if object.str_at(&["metadata", "labels", MANAGED_BY]) == CONTROLLER {
            return warnings;
        }
        for (i, subset) in object.list_at(&["subsets"]).iter().enumerate() {
            for list in ["addresses", "notReadyAddresses"] {
                for (j, address) in subset.list_at(&[list]).iter().enumerate() {
                    let path = FieldPath::new("subsets").index(i).child(list).index(j).child("ip");
                    warnings.extend(ip::ip_warnings(&path, address.str_at(&["ip"])));
                }
            }
        }
        warnings
    }
}

fn subset_rules(subset: &Value, legacy: &Legacy<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let lists = ["addresses", "notReadyAddresses"];
    if lists.iter().all(|list| subset.list_at(&[list]).is_empty()) {
        errors.push(FieldError::required(path, "must specify `addresses` or `notReadyAddresses`"));
    }
    for list in lists {
        for (i, address) in errors.while_room(subset.list_at(&[list]).iter().enumerate()) {
            address_rules(address, legacy, &path.child(list).index(i), errors);
        }
    }
    let several = subset.list_at(&["ports"]).len() > 1;
    for (i, port) in errors.while_room(subset.list_at(&["ports"]).iter().enumerate()) {
        port_rules(port, several, &path.child("ports").index(i), errors);
    }
}

fn address_rules(address: &Value, legacy: &Legacy<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let ip = address.str_at(&["ip"]);
    ip::legacy_ip(&path.child("ip"), ip, legacy, errors);
    let host = address.str_at(&["hostname"]);
    if !host.is_empty() {
        checks::label(&path.child("hostname"), host, errors);
    }
    if let Some(node) = address.get("nodeName").and_then(Value::as_str) {
        checks::subdomain(&path.child("nodeName"), node, errors);
    }
    endpoint::address(&path.child("ip"), ip, errors);
}

fn port_rules(port: &Value, need_name: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let name = port.str_at(&["name"]);
    if !name.is_empty() {
        checks::label(&path.child("name"), name, errors);
    } else if need_name {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    ports::number(&path.child("port"), port.int_at(&["port"]).unwrap_or(0), errors);
    checks::required_one_of(&path.child("protocol"), port.str_at(&["protocol"]), &["SCTP", "TCP", "UDP"], errors);
    if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
        checks::qualified_name(&path.child("appProtocol"), protocol, errors);
    }
}
