//! Addresses and ports that the server allocates for a service. An update that omits them keeps them, so that old
//! clients, which lack newer fields, can update the service.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use binnacle_fields::core::v1::{Service, ServicePort, ServiceSpec as Spec};
use binnacle_fields::{Field, FieldMut, FieldRef};
use binnacle_schema::Value;

use super::type_change::{needs_cluster_ip, needs_health_check_node_port, needs_node_port, node_ports};

/// On create: sets the list of addresses from a single address. Returns true if it was missing.
pub(super) fn fill_cluster_ips(service: &mut FieldMut<Service>) -> bool {
    let mut spec = service.entry(Service::SPEC);
    let one = spec.str(Spec::CLUSTER_IP).to_owned();
    let missing = !one.is_empty() && spec.read().at(Spec::CLUSTER_IPS).is_empty();
    if missing {
        spec.set(Spec::CLUSTER_IPS, vec![Value::from(one)]);
    }
    missing
}

/// On read: sets the lists of addresses and their families from a single address. Returns true if any was missing. The
/// families of a headless service depend on the configuration of the cluster, so they are set by its next update.
pub(super) fn complete_addresses(service: &mut FieldMut<Service>) -> bool {
    let completed = fill_cluster_ips(service);
    let mut spec = service.entry(Service::SPEC);
    let read = spec.read();
    let addresses = read.at(Spec::CLUSTER_IPS);
    let is_headless = read.at(Spec::CLUSTER_IP).str() == "None";
    let known = !read.at(Spec::IP_FAMILIES).is_empty() || addresses.is_empty() || is_headless;
    if known || !needs_cluster_ip(read) {
        return completed;
    }
    let families: Vec<Value> = addresses.items().map(|address| family(address.str()).into()).collect();
    let policy = if families.len() == 1 { "SingleStack" } else { "RequireDualStack" };
    spec.set(Spec::IP_FAMILIES, families);
    spec.set(Spec::IP_FAMILY_POLICY, policy);
    true
}

/// Returns the family of an address; what cannot be read counts as IPv4.
fn family(address: &str) -> &'static str {
    match address.parse() {
        Ok(IpAddr::V6(six)) if six.to_ipv4_mapped().is_none() => "IPv6",
        _ => "IPv4",
    }
}

/// On update: copies missing fields from the old service, if the type still has them.
pub(super) fn keep_allocated(service: &mut FieldMut<Service>, old: FieldRef<Service>) {
    let old = old.at(Service::SPEC);
    let mut spec = service.entry(Service::SPEC);
    if needs_cluster_ip(old) && needs_cluster_ip(spec.read()) {
        copy_if_missing(&mut spec, old, Spec::CLUSTER_IP);
        copy_if_missing(&mut spec, old, Spec::CLUSTER_IPS);
    }
    if is_given_node_ports(old) && is_given_node_ports(spec.read()) {
        keep_node_ports(&mut spec, old);
    }
    if needs_health_check_node_port(old) && needs_health_check_node_port(spec.read()) {
        copy_if_missing(&mut spec, old, Spec::HEALTH_CHECK_NODE_PORT);
    }
}

/// On update: makes `clusterIP` and `clusterIPs` agree if the client changed only one of them.
pub(super) fn agree_on_cluster_ips(service: &mut FieldMut<Service>, old: FieldRef<Service>) {
    let old = old.at(Service::SPEC);
    let mut spec = service.entry(Service::SPEC);
    let one = spec.str(Spec::CLUSTER_IP).to_owned();
    if one == old.at(Spec::CLUSTER_IP).str() {
        copy_if_missing(&mut spec, old, Spec::CLUSTER_IPS);
    } else if spec.read().at(Spec::CLUSTER_IPS).list() == old.at(Spec::CLUSTER_IPS).list() {
        if one.is_empty() {
            spec.remove(Spec::CLUSTER_IPS);
        } else {
            spec.set(Spec::CLUSTER_IPS, vec![Value::from(one)]);
        }
    }
}

/// Returns true if the service gets node ports. A load balancer with `allocateLoadBalancerNodePorts: false` does not,
/// so it releases those that its ports do not name.
fn is_given_node_ports(spec: FieldRef<Spec>) -> bool {
    let unwanted = spec.at(Spec::ALLOCATE_LOAD_BALANCER_NODE_PORTS).get_bool() == Some(false);
    needs_node_port(spec) && !(spec.at(Spec::TYPE).str() == "LoadBalancer" && unwanted)
}

/// Copies node ports from the old ports of the same name, unless another port has claimed the number.
fn keep_node_ports(spec: &mut FieldMut<Spec>, old: FieldRef<Spec>) {
    let claimed: HashSet<i64> = node_ports(old).intersection(&node_ports(spec.read())).copied().collect();
    let old = old.at(Spec::PORTS);
    // Names are unique in valid services; otherwise the last port with a name counts.
    let known = old.items().map(|old| (old.at(ServicePort::NAME).str(), old.at(ServicePort::NODE_PORT).int_or_zero()));
    let known: HashMap<&str, i64> = known.collect();
    for mut port in spec.items(Spec::PORTS) {
        let number = known.get(port.str(ServicePort::NAME)).copied().unwrap_or(0);
        if number != 0 && !claimed.contains(&number) {
            port.default_zero(ServicePort::NODE_PORT, number);
        }
    }
}

fn copy_if_missing<T>(spec: &mut FieldMut<Spec>, old: FieldRef<Spec>, field: Field<Spec, T>) {
    if let Some(value) = old.at(field).get()
        && spec.read().at(field).is_zero()
    {
        spec.set(field, value.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn completes_addresses_of_old_services() {
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
            assert_eq!(complete_addresses(&mut FieldMut::root(&mut object)), given != want, "{given:?}");
            assert_eq!(object, value!({ "spec": (want) }));
        }
    }

    #[test]
    fn keeps_allocated_values_that_old_clients_omit() {
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
            let mut service = FieldMut::root(&mut object);
            keep_allocated(&mut service, FieldRef::root(&old));
            agree_on_cluster_ips(&mut service, FieldRef::root(&old));
            assert_eq!(object.get("spec"), Some(&want));
        }
    }
}
