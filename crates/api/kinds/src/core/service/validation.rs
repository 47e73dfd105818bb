//! Validation of services, except for their cluster addresses.

use std::collections::HashSet;

use binnacle_fields::core::v1::{
    ClientIPConfig, LoadBalancerIngress as Ingress, LoadBalancerStatus, Service, ServicePort as Port,
    ServiceSpec as Spec, ServiceStatus as Status, SessionAffinityConfig,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{List, Str};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::ip::LegacyIpRules;
use binnacle_validation::{checks, cluster_ips, endpoint, ip, metadata, ports};

use super::is_externally_accessible;
use super::type_change::needs_health_check_node_port;
use crate::Features;
use crate::internal;

const AFFINITY_TIMEOUT_MAX: i64 = 86400;

const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

const ONLY_FOR_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

pub(super) fn validate(features: &Features, service: FieldRef<Service>, old: Option<FieldRef<Service>>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let e = &mut errors;
    let spec = service.at(Service::SPEC);
    let old_spec = old.as_ref().map(|old| old.at(Service::SPEC));
    let (kind, ports) = (spec.at(Spec::TYPE), spec.at(Spec::PORTS));
    topology_annotations(service, e);

    if ports.is_empty() && !cluster_ips::is_headless(spec) && kind.str() != "ExternalName" {
        e.push(ports.required(""));
    }
    type_rules(spec, e);
    port_rules(ports, e);
    let selector = spec.at(Spec::SELECTOR);
    metadata::validate_labels(selector, e);
    session_affinity(spec, e);
    let legacy = LegacyIpRules::of(features);
    cluster_ips::validate(spec, old_spec, &legacy, e);
    let known = old_spec.iter().flat_map(|old| old.at(Spec::EXTERNAL_IPS).strs());
    external_addresses(spec.at(Spec::EXTERNAL_IPS), &legacy.clone().allowing_existing(known), e);
    checks::required_one_of(&kind, kind.str(), &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], e);
    if kind.str() == "ClusterIP" {
        for port in e.while_room(ports.items()) {
            let number = port.at(Port::NODE_PORT);
            if number.int_or_zero() != 0 {
                e.push(number.forbidden("may not be used when `type` is 'ClusterIP'"));
            }
        }
    }
    duplicate_ports(ports, e);
    source_ranges(service, old, legacy, e);

    let allocate = spec.at(Spec::ALLOCATE_LOAD_BALANCER_NODE_PORTS);
    if allocate.is_set() && kind.str() != "LoadBalancer" {
        e.push(allocate.forbidden(ONLY_FOR_BALANCERS));
    }
    if !allocate.is_set() && kind.str() == "LoadBalancer" {
        // kube-apiserver leaves `spec` out of the path.
        let path = FieldPath::new(Spec::ALLOCATE_LOAD_BALANCER_NODE_PORTS.name());
        e.push(FieldError::required(&path, ""));
    }
    balancer_class(spec, e);
    external_traffic(spec, e);
    internal_traffic(spec, e);
    let distribution = spec.at(Spec::TRAFFIC_DISTRIBUTION);
    if let Some(text) = distribution.get_str() {
        checks::string_one_of(&distribution, text, &["PreferClose", "PreferSameZone", "PreferSameNode"], e);
    }
    errors
}

pub(super) fn validate_update(features: &Features, service: FieldRef<Service>, old: FieldRef<Service>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, old_spec) = (service.at(Service::SPEC), old.at(Service::SPEC));
    cluster_ips::validate_update(spec, old_spec, &mut errors);
    let class = spec.at(Spec::LOAD_BALANCER_CLASS);
    if spec.at(Spec::TYPE).str() == "LoadBalancer"
        && old_spec.at(Spec::TYPE).str() == "LoadBalancer"
        && class.get() != old_spec.at(Spec::LOAD_BALANCER_CLASS).get()
    {
        errors.push(class.invalid_as(class.shown_as_json(), "may not change once set"));
    }
    balancer_class(spec, &mut errors);
    let port = spec.at(Spec::HEALTH_CHECK_NODE_PORT);
    if needs_health_check_node_port(spec)
        && needs_health_check_node_port(old_spec)
        && port.get() != old_spec.at(Spec::HEALTH_CHECK_NODE_PORT).get()
    {
        errors.push(port.forbidden("field is immutable"));
    }
    errors.extend(validate(features, service, Some(old)));
    errors
}

pub(super) fn validate_status(features: &Features, service: FieldRef<Service>, old: FieldRef<Service>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (status, old) = (service.at(Service::STATUS), old.at(Service::STATUS));
    let (balancer, old) = (status.at(Status::LOAD_BALANCER), old.at(Status::LOAD_BALANCER));
    let (ingress, old) = (balancer.at(LoadBalancerStatus::INGRESS), old.at(LoadBalancerStatus::INGRESS));
    if service.at(Service::SPEC).at(Spec::TYPE).str() != "LoadBalancer" && !ingress.is_empty() {
        errors.push(ingress.forbidden("may only be used when `spec.type` is 'LoadBalancer'"));
        return errors;
    }
    let known = old.items().map(|ingress| ingress.at(Ingress::IP).str()).filter(|ip| !ip.is_empty());
    let known = LegacyIpRules::of(features).allowing_existing(known);
    for item in errors.while_room(ingress.items()) {
        ingress_rules(item, &known, &mut errors);
    }
    errors
}

fn ingress_rules(ingress: FieldRef<Ingress>, known: &LegacyIpRules<'_>, errors: &mut FieldErrors) {
    let (address, mode, host) = (ingress.at(Ingress::IP), ingress.at(Ingress::IP_MODE), ingress.at(Ingress::HOSTNAME));
    if !address.is_empty() {
        ip::legacy_ip(&address, address.str(), known, errors);
    }
    match mode.get_str() {
        None if !address.is_empty() => errors.push(mode.required("must be specified when `ip` is set")),
        Some(_) if address.is_empty() => errors.push(mode.forbidden("may not be specified when `ip` is not set")),
        Some(given) => checks::one_of(&mode, given, &["Proxy", "VIP"], errors),
        None => {}
    }
    if !host.is_empty() {
        checks::subdomain(&host, host.str(), errors);
        if ip::parse_ip(host.str()).is_some() {
            errors.push(host.invalid("must be a DNS name, not an IP address"));
        }
    }
}

pub(super) fn warnings(service: FieldRef<Service>) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = service.at(Service::SPEC);
    let (kind, cluster_ip) = (spec.at(Spec::TYPE).str(), spec.at(Spec::CLUSTER_IP).str());
    if annotation(service, TOPOLOGY_HINTS).is_some() {
        warnings.push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    let about = |list: FieldRef<List<Str>>| {
        list.items().filter_map(|item| ip::ip_warnings(&item, item.str())).collect::<Vec<_>>()
    };
    if !cluster_ip.is_empty() && cluster_ip != "None" {
        warnings.extend(about(spec.at(Spec::CLUSTER_IPS)));
    }
    let external = !spec.at(Spec::EXTERNAL_IPS).is_empty();
    let headless = kind == "ClusterIP" && cluster_ip == "None";
    let balancer_ip = spec.at(Spec::LOAD_BALANCER_IP);
    if headless {
        let ignored = [
            (!balancer_ip.is_empty(), Spec::LOAD_BALANCER_IP.name()),
            (external, Spec::EXTERNAL_IPS.name()),
            (spec.at(Spec::SESSION_AFFINITY).str() != "None", "SessionAffinity"),
        ];
        let given = ignored.iter().filter(|(given, _)| *given);
        warnings.extend(given.map(|(_, name)| format!("spec.{name} is ignored for headless services")));
    }
    warnings.extend(about(spec.at(Spec::EXTERNAL_IPS)));
    if external && !headless && kind != "ExternalName" {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if !balancer_ip.is_empty() {
        warnings.extend(ip::ip_warnings(&balancer_ip, balancer_ip.str()));
    }
    for range in spec.at(Spec::LOAD_BALANCER_SOURCE_RANGES).items() {
        warnings.extend(ip::cidr_warnings(&range, range.str()));
    }
    if kind == "ExternalName" && external {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !spec.at(Spec::EXTERNAL_NAME).is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.at(Spec::TRAFFIC_DISTRIBUTION).str() == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    warnings
}

fn annotation<'v>(service: FieldRef<'_, 'v, Service>, name: &str) -> Option<&'v str> {
    service.at(Service::METADATA).at(ObjectMeta::ANNOTATIONS).key(name).get_str()
}

fn topology_annotations(service: FieldRef<Service>, errors: &mut FieldErrors) {
    let metadata = service.at(Service::METADATA);
    let annotations = metadata.at(ObjectMeta::ANNOTATIONS);
    let (mode, hints) = (annotations.key(TOPOLOGY_MODE), annotations.key(TOPOLOGY_HINTS));
    if mode.is_set() && hints.is_set() && mode.str() != hints.str() {
        errors.push(mode.invalid(format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified")));
    }
}

fn type_rules(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let addresses = spec.at(Spec::CLUSTER_IPS);
    match spec.at(Spec::TYPE).str() {
        kind @ ("LoadBalancer" | "NodePort") if cluster_ips::is_headless(spec) => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.extend(addresses.items().map(|none| none.invalid(&why)));
        }
        "ExternalName" => {
            const WHY: &str = "may not be set for ExternalName services";
            for list in [addresses, spec.at(Spec::IP_FAMILIES)] {
                if !list.is_empty() {
                    errors.push(list.forbidden(WHY));
                }
            }
            let policy = spec.at(Spec::IP_FAMILY_POLICY);
            if policy.is_set() {
                errors.push(policy.forbidden(WHY));
            }
            let name = spec.at(Spec::EXTERNAL_NAME);
            // A trailing dot marks a fully qualified name.
            match name.str().strip_suffix('.').unwrap_or(name.str()) {
                "" => errors.push(name.required("")),
                text => checks::subdomain(&name, text, errors),
            }
        }
        _ => {}
    }
}

fn port_rules(list: FieldRef<List<Port>>, errors: &mut FieldErrors) {
    let mut names = HashSet::new();
    for port in errors.while_room(list.items()) {
        let name = port.at(Port::NAME);
        if !name.is_empty() {
            checks::label(&name, name.str(), errors);
            if !names.insert(name.str()) {
                errors.push(name.duplicate());
            }
        } else if list.len() > 1 {
            errors.push(name.required(""));
        }
        let (number, protocol) = (port.at(Port::PORT), port.at(Port::PROTOCOL));
        ports::number(&number, number.int_or_zero(), errors);
        checks::required_one_of(&protocol, protocol.str(), &["SCTP", "TCP", "UDP"], errors);
        let target = port.at(Port::TARGET_PORT);
        checks::port_number_or_name(&target, target.get(), errors);
        let protocol = port.at(Port::APP_PROTOCOL);
        if let Some(text) = protocol.get_str() {
            checks::qualified_name(&protocol, text, errors);
        }
    }
}

fn session_affinity(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let affinity = spec.at(Spec::SESSION_AFFINITY);
    checks::required_one_of(&affinity, affinity.str(), &["ClientIP", "None"], errors);
    let config = spec.at(Spec::SESSION_AFFINITY_CONFIG);
    match affinity.str() {
        "ClientIP" => client_ip_affinity(config, errors),
        "None" if config.is_set() => {
            errors.push(config.forbidden("must not be set when session affinity is None"));
        }
        _ => {}
    }
}

fn client_ip_affinity(config: FieldRef<SessionAffinityConfig>, errors: &mut FieldErrors) {
    const WHY: &str = "when session affinity type is ClientIP";
    let client = config.at(SessionAffinityConfig::CLIENT_IP);
    let timeout = client.at(ClientIPConfig::TIMEOUT_SECONDS);
    if !config.is_set() {
        errors.push(config.required(WHY));
    } else if !client.is_set() {
        errors.push(client.required(WHY));
    } else if !timeout.is_set() {
        errors.push(timeout.required(WHY));
    } else if !(1..=AFFINITY_TIMEOUT_MAX).contains(&timeout.int_or_zero()) {
        let why = format!("must be greater than 0 and less than {AFFINITY_TIMEOUT_MAX}");
        errors.push(timeout.invalid(why));
    }
}

fn external_addresses(list: FieldRef<List<Str>>, known: &LegacyIpRules<'_>, errors: &mut FieldErrors) {
    for address in errors.while_room(list.items()) {
        let before = errors.len();
        ip::legacy_ip(&address, address.str(), known, errors);
        if errors.len() == before {
            endpoint::address(&address, address.str(), errors);
        }
    }
}

/// Rejects ports and node ports that two entries of the same protocol have.
fn duplicate_ports(list: FieldRef<List<Port>>, errors: &mut FieldErrors) {
    let (mut numbers, mut node_numbers) = (HashSet::new(), HashSet::new());
    for port in errors.while_room(list.items()) {
        let number = port.at(Port::NODE_PORT);
        if number.int_or_zero() != 0 && !node_numbers.insert((number.int(), port.at(Port::PROTOCOL).str())) {
            errors.push(number.duplicate());
        }
    }
    for port in errors.while_room(list.items()) {
        let (number, protocol) = (port.at(Port::PORT).int_or_zero(), port.at(Port::PROTOCOL).str());
        if !numbers.insert((number, protocol)) {
            let mut key = Value::Null;
            let mut shown = FieldMut::<Port>::root(&mut key);
            shown.set(Port::PROTOCOL, protocol);
            shown.set(Port::PORT, number);
            shown.set(Port::TARGET_PORT, 0i64);
            errors.push(FieldError::duplicate(&port, internal::shown(shown.read())));
        }
    }
}

fn source_ranges<'v>(
    service: FieldRef<Service>,
    old: Option<FieldRef<'_, 'v, Service>>,
    legacy: LegacyIpRules<'v>,
    errors: &mut FieldErrors,
) {
    let (spec, metadata) = (service.at(Service::SPEC), service.at(Service::METADATA));
    let is_balancer = spec.at(Spec::TYPE).str() == "LoadBalancer";
    // kube-apiserver reports it by Go's name.
    let ranges = spec.at(Spec::LOAD_BALANCER_SOURCE_RANGES).reported_as("LoadBalancerSourceRanges");
    let annotations = metadata.at(ObjectMeta::ANNOTATIONS);
    let annotated = annotations.key(SOURCE_RANGES);
    if !ranges.is_empty() {
        if !is_balancer {
            errors.push(ranges.forbidden(ONLY_FOR_BALANCERS));
        }
        let known = old.iter().flat_map(|old| old.at(Service::SPEC).at(Spec::LOAD_BALANCER_SOURCE_RANGES).strs());
        let known = legacy.allowing_existing(known.map(str::trim));
        for range in errors.while_room(ranges.items()) {
            ip::legacy_cidr(&range, range.str().trim(), &known, errors);
        }
    } else if let Some(text) = annotated.get_str() {
        if !is_balancer {
            errors.push(annotated.forbidden(ONLY_FOR_BALANCERS));
        }
        let changed = old.and_then(|old| annotation(old, SOURCE_RANGES)) != Some(text);
        if changed && !text.trim().is_empty() {
            for range in errors.while_room(text.trim().split(',')) {
                ip::legacy_cidr(&annotated, range.trim(), &legacy, errors);
            }
        }
    }
}

fn balancer_class(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let class = spec.at(Spec::LOAD_BALANCER_CLASS);
    match class.get_str() {
        Some(text) if spec.at(Spec::TYPE).str() == "LoadBalancer" => checks::qualified_name(&class, text, errors),
        Some(_) => errors.push(class.forbidden(ONLY_FOR_BALANCERS)),
        None => {}
    }
}

fn external_traffic(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let policy = spec.at(Spec::EXTERNAL_TRAFFIC_POLICY);
    if is_externally_accessible(spec) {
        checks::required_one_of(&policy, policy.str(), &["Cluster", "Local"], errors);
    } else if !policy.is_empty() {
        errors.push(policy.invalid_as(policy.shown_as_json(), "may only be set for externally-accessible services"));
    }
    let port = spec.at(Spec::HEALTH_CHECK_NODE_PORT);
    match (needs_health_check_node_port(spec), port.int_or_zero()) {
        (true, 0) => errors.push(port.required("")),
        (true, number) => ports::number(&port, number, errors),
        (false, 0) => {}
        (false, _) => {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(port.invalid(why));
        }
    }
}

fn internal_traffic(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let policy = spec.at(Spec::INTERNAL_TRAFFIC_POLICY);
    match policy.get_str() {
        Some(text) => checks::one_of(&policy, text, &["Cluster", "Local"], errors),
        None if ["NodePort", "LoadBalancer", "ClusterIP"].contains(&spec.at(Spec::TYPE).str()) => {
            errors.push(policy.required(""));
        }
        None => {}
    }
}
