//! Validation of an EndpointSlice.

use std::collections::HashSet;

use binnacle_fields::discovery::v1::{Endpoint, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone};
use binnacle_fields::types::{List, Str};
use binnacle_fields::{Field, FieldRef};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_validation::checks::{self, invalid_for, one_of, required_one_of};
use binnacle_validation::ip::LegacyIpRules;
use binnacle_validation::{domains, endpoint, ip, metadata, names};

use crate::Features;
use crate::checks::repeated;
use crate::prepare::semantically_equal;

const TOPOLOGY_LABELS_MAX: usize = 16;
const ADDRESSES_MAX: usize = 100;
const PORTS_MAX: usize = 20000;
const ENDPOINTS_MAX: usize = 1000;
const HINTS_MAX: usize = 8;

/// Validates a slice; invalid endpoints that `old` has too are accepted.
pub(super) fn slice(
    features: &Features,
    slice: FieldRef<EndpointSlice>,
    old: Option<FieldRef<EndpointSlice>>,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let address_type = slice.at(EndpointSlice::ADDRESS_TYPE);
    required_one_of(&address_type, address_type.str(), &["FQDN", "IPv4", "IPv6"], &mut errors);
    ports(slice.at(EndpointSlice::PORTS), &mut errors);
    let list = slice.at(EndpointSlice::ENDPOINTS);
    if !old.is_some_and(|old| semantically_equal(old.at(EndpointSlice::ENDPOINTS).get(), list.get())) {
        endpoints(list, address_type.str(), &LegacyIpRules::of(features), &mut errors);
    }
    errors
}

fn ports(ports: FieldRef<List<EndpointPort>>, errors: &mut FieldErrors) {
    if ports.len() > PORTS_MAX {
        errors.push(ports.too_many(PORTS_MAX));
        return;
    }
    let mut seen = HashSet::new();
    for port in errors.while_room(ports.items()) {
        let name = port.at(EndpointPort::NAME);
        if !name.is_empty() {
            checks::label(&name, name.str(), errors);
        }
        if !seen.insert(name.str()) {
            errors.push(name.duplicate());
        }
        let protocol = port.at(EndpointPort::PROTOCOL);
        match protocol.get_str() {
            None => errors.push(protocol.required("")),
            Some(text) => one_of(&protocol, text, &["SCTP", "TCP", "UDP"], errors),
        }
        let protocol = port.at(EndpointPort::APP_PROTOCOL);
        if let Some(text) = protocol.get_str() {
            checks::qualified_name(&protocol, text, errors);
        }
    }
}

fn endpoints(list: FieldRef<List<Endpoint>>, address_type: &str, legacy: &LegacyIpRules<'_>, errors: &mut FieldErrors) {
    if list.len() > ENDPOINTS_MAX {
        errors.push(list.too_many(ENDPOINTS_MAX));
        return;
    }
    for endpoint in errors.while_room(list.items()) {
        validate_endpoint(endpoint, address_type, legacy, errors);
    }
}

fn validate_endpoint(
    endpoint: FieldRef<Endpoint>,
    address_type: &str,
    legacy: &LegacyIpRules<'_>,
    errors: &mut FieldErrors,
) {
    let addresses = endpoint.at(Endpoint::ADDRESSES);
    if addresses.is_empty() {
        errors.push(addresses.required("must contain at least 1 address"));
    } else if addresses.len() > ADDRESSES_MAX {
        errors.push(addresses.too_many(ADDRESSES_MAX));
    }
    for address in errors.while_room(addresses.items()) {
        validate_address(address, addresses, address_type, legacy, errors);
    }
    let node = endpoint.at(Endpoint::NODE_NAME);
    if let Some(name) = node.get_str() {
        checks::subdomain(&node, name, errors);
    }
    let topology = endpoint.at(Endpoint::DEPRECATED_TOPOLOGY);
    if topology.len() > TOPOLOGY_LABELS_MAX {
        errors.push(FieldError::too_many(&topology, topology.len(), TOPOLOGY_LABELS_MAX));
    }
    if topology.is_set() {
        metadata::validate_labels(topology, errors);
    }
    let hostname = endpoint.at(Endpoint::HOSTNAME);
    if let Some(name) = hostname.get_str() {
        checks::label(&hostname, name, errors);
    }
    let hints = endpoint.at(Endpoint::HINTS);
    if list_of_hints(hints.at(EndpointHints::FOR_ZONES), ForZone::NAME, names::label_value, errors) {
        list_of_hints(hints.at(EndpointHints::FOR_NODES), ForNode::NAME, names::dns1123_subdomain, errors);
    }
}

fn validate_address(
    address: FieldRef<Str>,
    list: FieldRef<List<Str>>,
    kind: &str,
    legacy: &LegacyIpRules<'_>,
    errors: &mut FieldErrors,
) {
    let (text, before) = (address.str(), errors.len());
    let want_ipv6 = match kind {
        "IPv4" => {
            ip::legacy_ip(&address, text, legacy, errors);
            false
        }
        "IPv6" => {
            ip::valid_ip(&address, text, errors);
            true
        }
        "FQDN" => return domains::fully_qualified_domain_name(&address, text, errors),
        _ => return,
    };
    let Some(parsed) = ip::parse_ip(text).filter(|_| errors.len() == before) else { return };
    if parsed.is_ipv6() != want_ipv6 {
        errors.push(list.invalid_as(text, format!("must be an {kind} address")));
    }
    endpoint::address(&address, text, errors);
}

/// Validates the names in a list of hints; false if there are too many to continue.
fn list_of_hints<H>(
    hints: FieldRef<List<H>>,
    field: Field<H, Str>,
    rule: fn(&str) -> Vec<String>,
    errors: &mut FieldErrors,
) -> bool {
    if hints.len() > HINTS_MAX {
        errors.push(hints.too_many(HINTS_MAX));
        return false;
    }
    let repeated = repeated(hints, field);
    for (i, hint) in errors.while_room(hints.items().enumerate()) {
        let name = hint.at(field);
        if repeated[i] {
            errors.push(name.duplicate());
        }
        invalid_for(&name, name.str(), rule(name.str()), errors);
    }
    true
}
