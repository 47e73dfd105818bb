//! Addresses and ports that the server allocates for a service. An update that omits them keeps them, so that old
//! clients can write back the fields that they know.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use binnacle_schema::{Object, Value};

use super::type_change::{int, list, needs_cluster_ip, needs_health_check_node_port, needs_node_port, node_ports};
use crate::tree_names::{is_zero, structs_mut, text};

/// On create: sets the list of addresses from a single address. Returns true if it was missing.
pub(super) fn fill_cluster_ips(object: &mut Value) -> bool {
    let spec = object.make_at(&["spec"]);
    let one = text(spec, "clusterIP").to_owned();
    let missing = !one.is_empty() && list(spec, "clusterIPs").is_empty();
    if missing {
        spec.insert("clusterIPs", vec![one]);
    }
    missing
}

/// On read: sets the lists of addresses and their families from a single address. Returns true if any was missing. Which
/// families a headless service had is known to the cluster alone, so they are left to its next update.
pub(super) fn complete_addresses(object: &mut Value) -> bool {
    let mut completed = fill_cluster_ips(object);
    let spec = object.make_at(&["spec"]);
    let addresses = list(spec, "clusterIPs");
    let known = !list(spec, "ipFamilies").is_empty() || addresses.is_empty() || text(spec, "clusterIP") == "None";
    if needs_cluster_ip(spec) && !known {
        let families: Vec<_> = addresses.iter().map(|address| family(address.as_str().unwrap_or_default())).collect();
        let policy = if families.len() == 1 { "SingleStack" } else { "RequireDualStack" };
        spec.insert("ipFamilies", families);
        spec.insert("ipFamilyPolicy", policy);
        completed = true;
    }
    completed
}

/// Returns the family of an address; what cannot be read counts as IPv4.
fn family(address: &str) -> &'static str {
    match address.parse() {
        Ok(IpAddr::V6(six)) if six.to_ipv4_mapped().is_none() => "IPv6",
        _ => "IPv4",
    }
}

/// On update: copies missing fields from the old service, if the type still has them.
pub(super) fn keep_allocated(object: &mut Value, old: &Value) {
    let none = Object::new();
    let old = old.object_at(&["spec"]).unwrap_or(&none);
    let spec = object.make_at(&["spec"]);
    if needs_cluster_ip(old) && needs_cluster_ip(spec) {
        if text(spec, "clusterIP").is_empty() {
            copy(spec, old, "clusterIP");
        }
        if list(spec, "clusterIPs").is_empty() {
            copy(spec, old, "clusterIPs");
        }
    }
    if is_given_node_ports(old) && is_given_node_ports(spec) {
        keep_node_ports(spec, old);
    }
    if needs_health_check_node_port(old) && needs_health_check_node_port(spec) && int(spec, "healthCheckNodePort") == 0
    {
        copy(spec, old, "healthCheckNodePort");
    }
}

/// On update: makes `clusterIP` and `clusterIPs` agree if the client changed only one of them.
pub(super) fn agree_on_cluster_ips(object: &mut Value, old: &Value) {
    let none = Object::new();
    let old = old.object_at(&["spec"]).unwrap_or(&none);
    let spec = object.make_at(&["spec"]);
    let same = text(spec, "clusterIP") == text(old, "clusterIP");
    if same && list(spec, "clusterIPs").is_empty() {
        copy(spec, old, "clusterIPs");
    }
    if !same && list(spec, "clusterIPs") == list(old, "clusterIPs") {
        match text(spec, "clusterIP").to_owned() {
            cleared if cleared.is_empty() => {
                spec.remove("clusterIPs");
            }
            one => {
                spec.insert("clusterIPs", vec![one]);
            }
        }
    }
}

/// Returns true if the service gets node ports. A load balancer with `allocateLoadBalancerNodePorts: false` does not,
/// so it releases those that its ports do not name.
fn is_given_node_ports(spec: &Object) -> bool {
    let unwanted = spec.get("allocateLoadBalancerNodePorts").and_then(Value::as_bool) == Some(false);
    needs_node_port(spec) && !(text(spec, "type") == "LoadBalancer" && unwanted)
}

/// Copies node ports from the old ports of the same name, unless another port has claimed the number.
fn keep_node_ports(spec: &mut Object, old: &Object) {
    let taken: HashSet<i64> = node_ports(old).intersection(&node_ports(spec)).copied().collect();
    // Names are unique in valid services; otherwise the last port with a name counts.
    let before: HashMap<&str, &Value> = list(old, "ports").iter().map(|was| (was.str_at(&["name"]), was)).collect();
    for port in structs_mut(spec, "ports").filter(|port| is_zero(port, "nodePort")) {
        let number = before.get(text(port, "name")).and_then(|was| was.int_at(&["nodePort"])).unwrap_or(0);
        if number != 0 && !taken.contains(&number) {
            port.insert("nodePort", number);
        }
    }
}

fn copy(spec: &mut Object, old: &Object, name: &str) {
    if let Some(value) = old.get(name).filter(|value| !value.is_null()) {
        spec.insert(name, value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn services_from_before_the_lists() {
        let single = |address: &str, family: &str| {
            value!({
                "type": "ClusterIP", "clusterIP": (address), "clusterIPs": [(address)], "ipFamilies": [(family)],
                "ipFamilyPolicy": "SingleStack",
            })
        };
        let complete = single("10.0.0.1", "IPv4");
        for (given, want) in [
            (value!({"type": "ClusterIP", "clusterIP": "10.0.0.1"}), complete.clone()),
            (value!({"type": "ClusterIP", "clusterIP": "fd00::1"}), single("fd00::1", "IPv6")),
            (
                value!({"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"]}),
                value!({
                    "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"],
                    "ipFamilyPolicy": "RequireDualStack",
                }),
            ),
            (value!({"clusterIP": "None"}), value!({"clusterIP": "None", "clusterIPs": ["None"]})),
            (value!({"type": "ExternalName"}), value!({"type": "ExternalName"})),
            (complete.clone(), complete),
        ] {
            let mut object = value!({ "spec": (given.clone()) });
            assert_eq!(complete_addresses(&mut object), given != want, "{given:?}");
            assert_eq!(object, value!({ "spec": (want) }));
        }
    }

    #[test]
    fn updates_of_old_clients() {
        let old = value!({"spec": {
            "type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "ports": [{"name": "a", "nodePort": 30000i64}, {"name": "b", "nodePort": 30001i64}]
        }});
        for (given, want) in [
            (
                value!({"type": "NodePort", "ports": [{"name": "b"}, {"name": "c"}]}),
                value!({
                    "type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
                    "ports": [{"name": "b", "nodePort": 30001i64}, {"name": "c"}]
                }),
            ),
            (
                value!({"type": "NodePort", "ports": [{"name": "b"}, {"name": "c", "nodePort": 30001i64}]}),
                value!({
                    "type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
                    "ports": [{"name": "b"}, {"name": "c", "nodePort": 30001i64}]
                }),
            ),
            (
                value!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": true, "ports": [{"name": "a"}]}),
                value!({
                    "type": "LoadBalancer", "allocateLoadBalancerNodePorts": true,
                    "ports": [{"name": "a", "nodePort": 30000i64}],
                    "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]
                }),
            ),
            (
                value!({
                    "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
                    "ports": [{"name": "a"}, {"name": "b", "nodePort": 30001i64}]
                }),
                value!({
                    "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false,
                    "ports": [{"name": "a"}, {"name": "b", "nodePort": 30001i64}],
                    "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"]
                }),
            ),
            (
                value!({"type": "ClusterIP", "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.1"]}),
                value!({"type": "ClusterIP", "clusterIP": "10.0.0.2", "clusterIPs": ["10.0.0.2"]}),
            ),
        ] {
            let mut object = value!({"spec": given});
            keep_allocated(&mut object, &old);
            agree_on_cluster_ips(&mut object, &old);
            assert_eq!(object.get("spec"), Some(&want));
        }
    }
}
