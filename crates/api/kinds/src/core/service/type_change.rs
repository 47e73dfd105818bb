//! Fields that have no meaning after a change of a service's type. They are dropped if the server may have set them and
//! the client did not change them, so that clients can change the type alone.

use std::collections::BTreeSet;

use binnacle_schema::{Object, Value};

use super::is_externally_accessible;
use crate::tree_names::{is_nil, structs_mut, text};

/// Drops the internal traffic policy of external names, which have no traffic to route. kube-apiserver stores it and
/// never returns it. Returns true if there was one.
pub(super) fn drop_internal_policy(object: &mut Value) -> bool {
    let spec = object.make_at(&["spec"]);
    let meaningless =
        text(spec, "type") == "ExternalName" && matches!(text(spec, "internalTrafficPolicy"), "Cluster" | "Local");
    if meaningless {
        spec.remove("internalTrafficPolicy");
    }
    meaningless
}

pub(super) fn drop_dependent_fields(object: &mut Value, old: &Value) {
    let none = Object::new();
    let old = old.object_at(&["spec"]).unwrap_or(&none);
    let spec = object.make_at(&["spec"]);
    let leaves = |applies: fn(&Object) -> bool, spec: &Object| applies(old) && !applies(spec);

    if leaves(needs_cluster_ip, spec) {
        if text(spec, "clusterIP") == text(old, "clusterIP") && list(spec, "clusterIPs") == list(old, "clusterIPs") {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
        if list(spec, "ipFamilies") == list(old, "ipFamilies") {
            spec.remove("ipFamilies");
        }
        if text(spec, "ipFamilyPolicy") == text(old, "ipFamilyPolicy") {
            spec.remove("ipFamilyPolicy");
        }
    }
    if leaves(needs_node_port, spec) && node_ports(spec).is_subset(&node_ports(old)) {
        structs_mut(spec, "ports").for_each(|port| {
            port.remove("nodePort");
        });
    }
    if leaves(needs_health_check_node_port, spec) && int(spec, "healthCheckNodePort") == int(old, "healthCheckNodePort")
    {
        spec.remove("healthCheckNodePort");
    }
    if leaves(is_load_balancer, spec) {
        let allocate = "allocateLoadBalancerNodePorts";
        if !is_nil(spec, allocate) && spec.get(allocate) == old.get(allocate) {
            spec.remove(allocate);
        }
        if spec.get("loadBalancerClass") == old.get("loadBalancerClass") {
            spec.remove("loadBalancerClass");
        }
    }
    if leaves(is_externally_accessible, spec)
        && text(spec, "externalTrafficPolicy") == text(old, "externalTrafficPolicy")
    {
        spec.remove("externalTrafficPolicy");
    }
    if !is_load_balancer(spec)
        && let Some(status) = object.get_mut("status").and_then(Value::as_object_mut)
    {
        status.remove("loadBalancer");
    }
}

pub(super) fn needs_cluster_ip(spec: &Object) -> bool {
    text(spec, "type") != "ExternalName"
}

pub(super) fn needs_node_port(spec: &Object) -> bool {
    matches!(text(spec, "type"), "NodePort" | "LoadBalancer")
}

pub(super) fn needs_health_check_node_port(spec: &Object) -> bool {
    is_load_balancer(spec) && text(spec, "externalTrafficPolicy") == "Local"
}

fn is_load_balancer(spec: &Object) -> bool {
    text(spec, "type") == "LoadBalancer"
}

pub(super) fn node_ports(spec: &Object) -> BTreeSet<i64> {
    list(spec, "ports").iter().filter_map(|port| port.int_at(&["nodePort"])).filter(|port| *port != 0).collect()
}

pub(super) fn list<'a>(spec: &'a Object, name: &str) -> &'a [Value] {
    spec.get(name).and_then(Value::as_list).unwrap_or(&[])
}

pub(super) fn int(spec: &Object, name: &str) -> i64 {
    spec.get(name).and_then(Value::as_i64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn switching_types() {
        let balancer = value!({
            "type": "LoadBalancer", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80i64, "nodePort": 30000i64}],
            "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001i64, "allocateLoadBalancerNodePorts": true
        });
        let with = |changes: Value| {
            let mut spec = balancer.clone();
            for (name, value) in changes.into_object().unwrap_or_default() {
                spec.make_object().insert(name, value);
            }
            spec
        };
        for (new, want) in [
            (with(value!({})), with(value!({}))),
            (
                with(value!({"type": "ClusterIP"})),
                value!({
                    "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
                    "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80i64}]
                }),
            ),
            (
                with(value!({"type": "ExternalName", "externalName": "x"})),
                value!({"type": "ExternalName", "externalName": "x", "ports": [{"port": 80i64}]}),
            ),
            (
                with(
                    value!({"type": "ClusterIP", "healthCheckNodePort": 1i64, "ports": [{"port": 80i64, "nodePort": 2i64}]}),
                ),
                value!({
                    "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
                    "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                    "ports": [{"port": 80i64, "nodePort": 2i64}], "healthCheckNodePort": 1i64
                }),
            ),
        ] {
            let mut object = value!({"spec": new});
            drop_dependent_fields(&mut object, &value!({"spec": (balancer.clone())}));
            assert_eq!(object.get("spec"), Some(&want));
        }
    }

    #[test]
    fn external_names_route_nothing() {
        for (kind, policy, want) in [
            ("ExternalName", "Cluster", value!({"type": "ExternalName"})),
            ("ExternalName", "Wrong", value!({"type": "ExternalName", "internalTrafficPolicy": "Wrong"})),
            ("ClusterIP", "Local", value!({"type": "ClusterIP", "internalTrafficPolicy": "Local"})),
        ] {
            let mut object = value!({"spec": {"type": kind, "internalTrafficPolicy": policy}});
            drop_internal_policy(&mut object);
            assert_eq!(object.get("spec"), Some(&want));
        }
    }
}
