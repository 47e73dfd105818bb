//! Validation of an EndpointSlice.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::ip::Legacy;
use binnacle_validation::{domains, endpoint, ip, metadata, names};

use crate::Features;
use crate::checks::{invalid_each, items, one_of, present};
use crate::prepare::semantically_equal;

const TOPOLOGY_LABELS_MAX: usize = 16;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20000;
const ENDPOINTS_MAX: usize = 1000;
const HINTS_MAX: usize = 8;

/// Validates a slice; invalid endpoints that `old` has too are accepted.
pub(super) fn slice(features: &Features, slice: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (address_type, at) = (slice.str_at(&["addressType"]), FieldPath::new("addressType"));
    if address_type.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        one_of(&at, address_type, &["FQDN", "IPv4", "IPv6"], &mut errors);
    }
    ports(slice, &mut errors);
    if !old.is_some_and(|old| semantically_equal(old.get("endpoints"), slice.get("endpoints"))) {
        endpoints(slice, address_type, &Legacy::of(features), &mut errors);
    }
    errors
}

fn ports(slice: &Value, errors: &mut FieldErrors) {
    let ports = slice.list_at(&["ports"]);
    let path = FieldPath::new("ports");
    if ports.len() > PORTS_MAX {
        errors.push(FieldError::too_many(&path, ports.len(), PORTS_MAX));
        return;
    }
    let mut seen = std::collections::HashSet::new();
    for (at, port) in errors.while_room(items(slice, "ports", &FieldPath::root())) {
        let name = port.str_at(&["name"]);
        if !name.is_empty() {
            invalid_each(&at.child("name"), name, &names::dns1123_label(name), errors);
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        match present(port, "protocol").and_then(Value::as_str) {
            None => errors.push(FieldError::required(&at.child("protocol"), "")),
            Some(protocol) => one_of(&at.child("protocol"), protocol, &["SCTP", "TCP", "UDP"], errors),
        }
        if let Some(protocol) = present(port, "appProtocol").and_then(Value::as_str) {
            invalid_each(&at.child("appProtocol"), protocol, &names::label_key(protocol), errors);
        }
    }
}

fn endpoints(slice: &Value, address_type: &str, legacy: &Legacy<'_>, errors: &mut FieldErrors) {
    let count = slice.list_at(&["endpoints"]).len();
    if count > ENDPOINTS_MAX {
        errors.push(FieldError::too_many(&FieldPath::new("endpoints"), count, ENDPOINTS_MAX));
        return;
    }
    for (at, endpoint) in errors.while_room(items(slice, "endpoints", &FieldPath::root())) {
        validate_endpoint(endpoint, address_type, legacy, &at, errors);
    }
}

fn validate_endpoint(
    endpoint: &Value,
    address_type: &str,
    legacy: &Legacy<'_>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let (count, at) = (endpoint.list_at(&["addresses"]).len(), path.child("addresses"));
    if count == 0 {
        errors.push(FieldError::required(&at, "must contain at least 1 address"));
    } else if count > ADDRESSES_MAX {
        errors.push(FieldError::too_many(&at, count, ADDRESSES_MAX));
    }
    for (item, address) in errors.while_room(items(endpoint, "addresses", path)) {
        validate_address(address.as_str().unwrap_or_default(), address_type, legacy, &at, &item, errors);
    }
    if let Some(node) = present(endpoint, "nodeName").and_then(Value::as_str) {
        invalid_each(&path.child("nodeName"), node, &names::dns1123_subdomain(node), errors);
    }
    let at = path.child("deprecatedTopology");
    let topology = endpoint.object_at(&["deprecatedTopology"]);
    if let Some(count) = topology.map(|labels| labels.len()).filter(|count| *count > TOPOLOGY_LABELS_MAX) {
        errors.push(FieldError::too_many(&at, count, TOPOLOGY_LABELS_MAX));
    }
    metadata::labels(endpoint.get("deprecatedTopology"), &at, errors);
    if let Some(hostname) = present(endpoint, "hostname").and_then(Value::as_str) {
        invalid_each(&path.child("hostname"), hostname, &names::dns1123_label(hostname), errors);
    }
    if let Some(hints) = present(endpoint, "hints") {
        let path = path.child("hints");
        if list_of_hints(hints, "forZones", &path, names::label_value, errors) {
            list_of_hints(hints, "forNodes", &path, names::dns1123_subdomain, errors);
        }
    }
}

fn validate_address(
    address: &str,
    kind: &str,
    legacy: &Legacy<'_>,
    list: &FieldPath,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let before = errors.len();
    let want_ipv6 = match kind {
        "IPv4" => {
            ip::legacy_ip(path, address, legacy, errors);
            false
        }
        "IPv6" => {
            ip::valid_ip(path, address, errors);
            true
        }
        "FQDN" => return domains::fully_qualified_domain_name(path, address, errors),
        _ => return,
    };
    let Some(parsed) = ip::parse_ip(address).filter(|_| errors.len() == before) else { return };
    if parsed.is_ipv6() != want_ipv6 {
        errors.push(FieldError::invalid(list, address, format!("must be an {kind} address")));
    }
    endpoint::address(path, address, errors);
}

/// Validates the names in a list of hints; false if there are too many to continue.
fn list_of_hints(
    hints: &Value,
    list: &str,
    path: &FieldPath,
    rule: fn(&str) -> Vec<String>,
    errors: &mut FieldErrors,
) -> bool {
    let hints_of_list = hints.list_at(&[list]);
    if hints_of_list.len() > HINTS_MAX {
        errors.push(FieldError::too_many(&path.child(list), hints_of_list.len(), HINTS_MAX));
        return false;
    }
    for (i, (at, hint)) in errors.while_room(items(hints, list, path).enumerate()) {
        let (name, at) = (hint.str_at(&["name"]), at.child("name"));
        if hints_of_list[..i].iter().any(|earlier| earlier.str_at(&["name"]) == name) {
            errors.push(FieldError::duplicate(&at, name));
        }
        invalid_each(&at, name, &rule(name), errors);
    }
    true
}
