//! Validation of services, except for their cluster addresses.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value};
use binnacle_validation::cluster_ips;
use binnacle_validation::ip::Legacy;
use binnacle_validation::repeated;
use binnacle_validation::{checks, endpoint, ip, metadata, ports};

use super::is_externally_accessible;
use crate::Features;
use crate::internal;

const AFFINITY_TIMEOUT_MAX: i64 = 86400;

const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";

const ONLY_FOR_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

pub(super) fn validate(features: &Features, object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let e = &mut errors;
    let none = Object::new();
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = FieldPath::new("spec");
    let kind = spec.str_at(&["type"]);
    topology_annotations(object, e);

    if spec.list_at(&["ports"]).is_empty() && !cluster_ips::is_headless(spec) && kind != "ExternalName" {
        e.push(FieldError::required(&path.child("ports"), ""));
    }
    type_rules(spec, kind, &path, e);
    port_rules(spec, &path.child("ports"), e);
    metadata::labels(spec.get("selector"), &path.child("selector"), e);
    session_affinity(spec, &path, e);
    let legacy = Legacy::of(features);
    cluster_ips::validate(spec, old.and_then(|old| old.get("spec")), &legacy, &path, e);

    let known = legacy.clone().knowing(texts(old, "externalIPs"));
    for (i, address) in e.while_room(texts(Some(object), "externalIPs").into_iter().enumerate()) {
        let at = path.child("externalIPs").index(i);
        let before = e.len();
        ip::legacy_ip(&at, address, &known, e);
        if e.len() == before {
            endpoint::address(&at, address, e);
        }
    }
    checks::required_one_of(&path.child("type"), kind, &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], e);
    if kind == "ClusterIP" {
        for (i, _) in e.while_room(spec.list_at(&["ports"]).iter().enumerate().filter(|(_, port)| node_port(port) != 0))
        {
            let at = path.child("ports").index(i).child("nodePort");
            e.push(FieldError::forbidden(&at, "may not be used when `type` is 'ClusterIP'"));
        }
    }
    duplicate_ports(spec, &path.child("ports"), e);
    source_ranges(object, old, kind, legacy, &path, e);

    let allocate = spec.get("allocateLoadBalancerNodePorts").is_some_and(|a| !a.is_null());
    if allocate && kind != "LoadBalancer" {
        e.push(FieldError::forbidden(&path.child("allocateLoadBalancerNodePorts"), ONLY_FOR_BALANCERS));
    }
    if !allocate && kind == "LoadBalancer" {
        e.push(FieldError::required(&FieldPath::new("allocateLoadBalancerNodePorts"), ""));
    }
    balancer_class(spec, kind, &path, e);
    external_traffic(spec.as_object().unwrap_or(&none), &path, e);
    internal_traffic(spec, kind, &path, e);
    if let Some(distribution) = spec.get("trafficDistribution").and_then(Value::as_str) {
        let supported = ["PreferClose", "PreferSameZone", "PreferSameNode"];
        checks::one_of(&path.child("trafficDistribution"), distribution, &supported, e);
    }
    errors
}

pub(super) fn validate_update(features: &Features, object: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let null = Value::Null;
    let (spec, old_spec) = (object.get("spec").unwrap_or(&null), old.get("spec").unwrap_or(&null));
    let path = FieldPath::new("spec");
    cluster_ips::validate_update(spec, old_spec, &path, &mut errors);
    let kind = spec.str_at(&["type"]);
    if kind == "LoadBalancer"
        && old_spec.str_at(&["type"]) == "LoadBalancer"
        && spec.get("loadBalancerClass") != old_spec.get("loadBalancerClass")
    {
        let class = metadata::shown(spec.get("loadBalancerClass"));
        errors.push(FieldError::invalid(&path.child("loadBalancerClass"), class, "may not change once set"));
    }
    balancer_class(spec, kind, &path, &mut errors);
    if needs_health_check(spec)
        && needs_health_check(old_spec)
        && spec.get("healthCheckNodePort") != old_spec.get("healthCheckNodePort")
    {
        errors.push(FieldError::forbidden(&path.child("healthCheckNodePort"), "field is immutable"));
    }
    errors.extend(validate(features, object, Some(old)));
    errors
}

pub(super) fn validate_status(features: &Features, object: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let ingress = object.list_at(&["status", "loadBalancer", "ingress"]);
    let path = FieldPath::new("status").child("loadBalancer").child("ingress");
    if object.str_at(&["spec", "type"]) != "LoadBalancer" && !ingress.is_empty() {
        errors.push(FieldError::forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'"));
        return errors;
    }
    let known = old.list_at(&["status", "loadBalancer", "ingress"]).iter();
    let known = known.map(|ingress| ingress.str_at(&["ip"])).filter(|ip| !ip.is_empty());
    let known = Legacy::of(features).knowing(known);
    for (i, item) in errors.while_room(ingress.iter().enumerate()) {
        let at = path.index(i);
        let address = item.str_at(&["ip"]);
        if !address.is_empty() {
            ip::legacy_ip(&at.child("ip"), address, &known, &mut errors);
        }
        let mode = at.child("ipMode");
        match item.get("ipMode").and_then(Value::as_str) {
            None if !address.is_empty() => {
                errors.push(FieldError::required(&mode, "must be specified when `ip` is set"));
            }
            Some(_) if address.is_empty() => {
                errors.push(FieldError::forbidden(&mode, "may not be specified when `ip` is not set"));
            }
            Some(given) => checks::one_of(&mode, given, &["Proxy", "VIP"], &mut errors),
            None => {}
        }
        let host = item.str_at(&["hostname"]);
        if !host.is_empty() {
            checks::subdomain(&at.child("hostname"), host, &mut errors);
            if ip::parse_ip(host).is_some() {
                let why = "must be a DNS name, not an IP address";
                errors.push(FieldError::invalid(&at.child("hostname"), host, why));
            }
        }
    }
    errors
}

pub(super) fn warnings(object: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    let path = FieldPath::new("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let (kind, cluster_ip) = (spec.str_at(&["type"]), spec.str_at(&["clusterIP"]));
    if object.at(&["metadata", "annotations", TOPOLOGY_HINTS]).is_some() {
        warnings.push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    let about = |name: &str| {
        let at = path.child(name);
        let items = texts(Some(object), name).into_iter().enumerate();
        items.filter_map(|(i, text)| ip::ip_warnings(&at.index(i), text)).collect::<Vec<_>>()
    };
    if !cluster_ip.is_empty() && cluster_ip != "None" {
        warnings.extend(about("clusterIPs"));
    }
    let external = !spec.list_at(&["externalIPs"]).is_empty();
    let headless = kind == "ClusterIP" && cluster_ip == "None";
    let balancer_ip = spec.str_at(&["loadBalancerIP"]);
    if headless {
        let ignored = [
            (!balancer_ip.is_empty(), "loadBalancerIP"),
            (external, "externalIPs"),
            (spec.str_at(&["sessionAffinity"]) != "None", "SessionAffinity"),
        ];
        let given = ignored.iter().filter(|(given, _)| *given);
        warnings.extend(given.map(|(_, name)| format!("spec.{name} is ignored for headless services")));
    }
    warnings.extend(about("externalIPs"));
    if external && !headless && kind != "ExternalName" {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if !balancer_ip.is_empty() {
        warnings.extend(ip::ip_warnings(&path.child("loadBalancerIP"), balancer_ip));
    }
    for (i, range) in texts(Some(object), "loadBalancerSourceRanges").into_iter().enumerate() {
        warnings.extend(ip::cidr_warnings(&path.child("loadBalancerSourceRanges").index(i), range));
    }
    if kind == "ExternalName" && external {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if kind != "ExternalName" && !spec.str_at(&["externalName"]).is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.str_at(&["trafficDistribution"]) == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    warnings
}

fn topology_annotations(object: &Value, errors: &mut FieldErrors) {
    let annotation = |name| object.at(&["metadata", "annotations", name]).and_then(Value::as_str);
    if let (Some(mode), Some(hints)) = (annotation(TOPOLOGY_MODE), annotation(TOPOLOGY_HINTS))
        && mode != hints
    {
        let path = FieldPath::new("metadata").child("annotations").key(TOPOLOGY_MODE);
        let why = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.push(FieldError::invalid(&path, mode, why));
    }
}

fn type_rules(spec: &Value, kind: &str, path: &FieldPath, errors: &mut FieldErrors) {
    match kind {
        "LoadBalancer" | "NodePort" if cluster_ips::is_headless(spec) => {
            let why = format!("may not be set to 'None' for {kind} services");
            errors.push(FieldError::invalid(&path.child("clusterIPs").index(0), "None", why));
        }
        "ExternalName" => {
            const WHY: &str = "may not be set for ExternalName services";
            for name in ["clusterIPs", "ipFamilies"] {
                if !spec.list_at(&[name]).is_empty() {
                    errors.push(FieldError::forbidden(&path.child(name), WHY));
                }
            }
            if spec.get("ipFamilyPolicy").is_some_and(|policy| !policy.is_null()) {
                errors.push(FieldError::forbidden(&path.child("ipFamilyPolicy"), WHY));
            }
            // A trailing dot marks a fully qualified name.
            let name = spec.str_at(&["externalName"]);
            let name = name.strip_suffix('.').unwrap_or(name);
            let at = path.child("externalName");
            if name.is_empty() {
                errors.push(FieldError::required(&at, ""));
            } else {
                checks::subdomain(&at, name, errors);
            }
        }
        _ => {}
    }
}

fn port_rules(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let list = spec.list_at(&["ports"]);
    let repeated = repeated(list, |port| port.str_at(&["name"]));
    for (i, port) in errors.while_room(list.iter().enumerate()) {
        let at = path.index(i);
        let name = port.str_at(&["name"]);
        if !name.is_empty() {
            checks::label(&at.child("name"), name, errors);
            if repeated[i] {
                errors.push(FieldError::duplicate(&at.child("name"), name));
            }
        } else if list.len() > 1 {
            errors.push(FieldError::required(&at.child("name"), ""));
        }
        ports::number(&at.child("port"), port.int_at(&["port"]).unwrap_or(0), errors);
        checks::required_one_of(&at.child("protocol"), port.str_at(&["protocol"]), &["SCTP", "TCP", "UDP"], errors);
        checks::port_number_or_name(&at.child("targetPort"), port.get("targetPort"), errors);
        if let Some(protocol) = port.get("appProtocol").and_then(Value::as_str) {
            checks::qualified_name(&at.child("appProtocol"), protocol, errors);
        }
    }
}

fn session_affinity(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let affinity = spec.str_at(&["sessionAffinity"]);
    checks::required_one_of(&path.child("sessionAffinity"), affinity, &["ClientIP", "None"], errors);
    let at = path.child("sessionAffinityConfig");
    let config = spec.get("sessionAffinityConfig").filter(|config| !config.is_null());
    match affinity {
        "ClientIP" => {
            const WHY: &str = "when session affinity type is ClientIP";
            let client = config.and_then(|config| config.get("clientIP")).filter(|client| !client.is_null());
            let missing = match (config, client, client.and_then(|client| client.int_at(&["timeoutSeconds"]))) {
                (None, _, _) => at,
                (_, None, _) => at.child("clientIP"),
                (_, _, None) => at.child("clientIP").child("timeoutSeconds"),
                (_, _, Some(timeout)) => {
                    if timeout <= 0 || timeout > AFFINITY_TIMEOUT_MAX {
                        let why = format!("must be greater than 0 and less than {AFFINITY_TIMEOUT_MAX}");
                        let at = at.child("clientIP").child("timeoutSeconds");
                        errors.push(FieldError::invalid(&at, timeout, why));
                    }
                    return;
                }
            };
            errors.push(FieldError::required(&missing, WHY));
        }
        "None" if config.is_some() => {
            errors.push(FieldError::forbidden(&at, "must not be set when session affinity is None"));
        }
        _ => {}
    }
}

/// Rejects ports and node ports that two entries of the same protocol have.
fn duplicate_ports(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let list = spec.list_at(&["ports"]);
    let number = |port: &Value| port.int_at(&["port"]).unwrap_or(0);
    let same_node_port = repeated(list, |port| (node_port(port), port.str_at(&["protocol"])));
    let same_port = repeated(list, |port| (number(port), port.str_at(&["protocol"])));
    for (i, port) in errors.while_room(list.iter().enumerate().filter(|(_, port)| node_port(port) != 0)) {
        if same_node_port[i] {
            errors.push(FieldError::duplicate(&path.index(i).child("nodePort"), node_port(port)));
        }
    }
    for (i, port) in errors.while_room(list.iter().enumerate()) {
        if same_port[i] {
            let key = Object::from_iter([
                ("protocol", Value::from(port.str_at(&["protocol"]))),
                ("port", number(port).into()),
                ("targetPort", Value::Int(0)),
            ]);
            let shown = internal::shown_as("io.k8s.api.core.v1.ServicePort", Some(&key.into()));
            errors.push(FieldError::duplicate(&path.index(i), shown));
        }
    }
}

fn source_ranges<'a>(
    object: &Value,
    old: Option<&'a Value>,
    kind: &str,
    legacy: Legacy<'a>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let ranges = texts(Some(object), "loadBalancerSourceRanges");
    let annotation = |object: &Value| {
        object.at(&["metadata", "annotations", SOURCE_RANGES]).and_then(Value::as_str).map(str::to_owned)
    };
    if !ranges.is_empty() {
        let at = path.child("LoadBalancerSourceRanges");
        if kind != "LoadBalancer" {
            errors.push(FieldError::forbidden(&at, ONLY_FOR_BALANCERS));
        }
        let known = legacy.knowing(texts(old, "loadBalancerSourceRanges").into_iter().map(str::trim));
        for (i, range) in errors.while_room(ranges.into_iter().enumerate()) {
            ip::legacy_cidr(&at.index(i), range.trim(), &known, errors);
        }
    } else if let Some(text) = annotation(object) {
        let at = FieldPath::new("metadata").child("annotations").key(SOURCE_RANGES);
        if kind != "LoadBalancer" {
            errors.push(FieldError::forbidden(&at, ONLY_FOR_BALANCERS));
        }
        let changed = old.and_then(annotation).as_ref() != Some(&text);
        if changed && !text.trim().is_empty() {
            for range in errors.while_room(text.trim().split(',')) {
                ip::legacy_cidr(&at, range.trim(), &legacy, errors);
            }
        }
    }
}

fn balancer_class(spec: &Value, kind: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(class) = spec.get("loadBalancerClass").and_then(Value::as_str) else { return };
    let at = path.child("loadBalancerClass");
    if kind == "LoadBalancer" {
        checks::qualified_name(&at, class, errors);
    } else {
        errors.push(FieldError::forbidden(&at, ONLY_FOR_BALANCERS));
    }
}

fn external_traffic(spec: &Object, path: &FieldPath, errors: &mut FieldErrors) {
    let policy = spec.get("externalTrafficPolicy").and_then(Value::as_str).unwrap_or("");
    let at = path.child("externalTrafficPolicy");
    if is_externally_accessible(spec) {
        checks::required_one_of(&at, policy, &["Cluster", "Local"], errors);
    } else if !policy.is_empty() {
        errors.push(FieldError::invalid(&at, policy, "may only be set for externally-accessible services"));
    }
    let port = spec.get("healthCheckNodePort").and_then(Value::as_i64).unwrap_or(0);
    let at = path.child("healthCheckNodePort");
    let needed = spec.get("type").and_then(Value::as_str) == Some("LoadBalancer") && policy == "Local";
    match (needed, port) {
        (true, 0) => errors.push(FieldError::required(&at, "")),
        (true, _) => ports::number(&at, port, errors),
        (false, 0) => {}
        (false, _) => {
            let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(FieldError::invalid(&at, port, why));
        }
    }
}

fn internal_traffic(spec: &Value, kind: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child("internalTrafficPolicy");
    match spec.get("internalTrafficPolicy").and_then(Value::as_str) {
        Some(policy) => checks::one_of(&at, policy, &["Cluster", "Local"], errors),
        None if ["NodePort", "LoadBalancer", "ClusterIP"].contains(&kind) => {
            errors.push(FieldError::required(&at, ""));
        }
        None => {}
    }
}

fn needs_health_check(spec: &Value) -> bool {
    spec.str_at(&["type"]) == "LoadBalancer" && spec.str_at(&["externalTrafficPolicy"]) == "Local"
}

fn node_port(port: &Value) -> i64 {
    port.int_at(&["nodePort"]).unwrap_or(0)
}

fn texts<'a>(object: Option<&'a Value>, list: &str) -> Vec<&'a str> {
    let items = object.map_or(&[][..], |object| object.list_at(&["spec", list]));
    items.iter().filter_map(Value::as_str).collect()
}
