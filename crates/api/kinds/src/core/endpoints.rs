//! `Endpoints`: the addresses behind a service, superseded by endpoint slices.

use binnacle_fields::core::v1::{self, EndpointAddress as Address, EndpointPort as Port, EndpointSubset as Subset};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::ip::LegacyIpRules;
use binnacle_validation::{checks, endpoint, ip, ports};

use crate::{MetadataChecks, Strategy, StrategyContext};

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpoint-controller";

pub(super) struct Endpoints;

impl Strategy for Endpoints {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        for mut subset in FieldMut::root(object).items(v1::Endpoints::SUBSETS) {
            subset.items(Subset::PORTS).for_each(|mut port| port.default_zero(Port::PROTOCOL, "TCP"));
        }
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let legacy = LegacyIpRules::of(ctx.features);
        for subset in errors.while_room(FieldRef::root(object).at(v1::Endpoints::SUBSETS).items()) {
            subset_rules(subset, &legacy, &mut errors);
        }
        errors
    }

    /// Subsets that an older version accepted stay valid until they are changed.
    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let errors = self.validate(ctx, object);
        let subsets = v1::Endpoints::SUBSETS;
        let is_unchanged = FieldRef::root(object).at(subsets).list() == FieldRef::root(old).at(subsets).list();
        if is_unchanged { FieldErrors::new() } else { errors }
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let endpoints = FieldRef::<v1::Endpoints>::root(object);
        let metadata = endpoints.at(v1::Endpoints::METADATA);
        if metadata.at(ObjectMeta::LABELS).key(MANAGED_BY).str() == CONTROLLER {
            return warnings;
        }
        for subset in endpoints.at(v1::Endpoints::SUBSETS).items() {
            for list in [Subset::ADDRESSES, Subset::NOT_READY_ADDRESSES] {
                for address in subset.at(list).items() {
                    let ip = address.at(Address::IP);
                    warnings.extend(ip::ip_warnings(&ip, ip.str()));
                }
            }
        }
        warnings
    }
}

fn subset_rules(subset: FieldRef<Subset>, legacy: &LegacyIpRules<'_>, errors: &mut FieldErrors) {
    let lists = [Subset::ADDRESSES, Subset::NOT_READY_ADDRESSES];
    if lists.iter().all(|list| subset.at(*list).is_empty()) {
        errors.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
    }
    for list in lists {
        for address in errors.while_room(subset.at(list).items()) {
            address_rules(address, legacy, errors);
        }
    }
    let ports = subset.at(Subset::PORTS);
    for port in errors.while_room(ports.items()) {
        port_rules(port, ports.len() > 1, errors);
    }
}

fn address_rules(address: FieldRef<Address>, legacy: &LegacyIpRules<'_>, errors: &mut FieldErrors) {
    let (ip, host, node) = (address.at(Address::IP), address.at(Address::HOSTNAME), address.at(Address::NODE_NAME));
    ip::legacy_ip(&ip, ip.str(), legacy, errors);
    if !host.is_empty() {
        checks::label(&host, host.str(), errors);
    }
    if let Some(name) = node.get_str() {
        checks::subdomain(&node, name, errors);
    }
    endpoint::address(&ip, ip.str(), errors);
}

fn port_rules(port: FieldRef<Port>, need_name: bool, errors: &mut FieldErrors) {
    let (name, number, protocol) = (port.at(Port::NAME), port.at(Port::PORT), port.at(Port::PROTOCOL));
    if !name.is_empty() {
        checks::label(&name, name.str(), errors);
    } else if need_name {
        errors.push(name.required(""));
    }
    ports::number(&number, number.int_or_zero(), errors);
    checks::required_one_of(&protocol, protocol.str(), &["SCTP", "TCP", "UDP"], errors);
    let protocol = port.at(Port::APP_PROTOCOL);
    if let Some(name) = protocol.get_str() {
        checks::qualified_name(&protocol, name, errors);
    }
}
