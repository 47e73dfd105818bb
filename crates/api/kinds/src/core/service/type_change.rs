//! Fields that have no meaning after a change of a service's type. They are dropped if the server may have set them and
//! the client did not change them, so that clients can change the type alone.

use std::collections::BTreeSet;

use binnacle_fields::core::v1::{Service, ServicePort, ServiceSpec as Spec, ServiceStatus as Status};
use binnacle_fields::{Field, FieldMut, FieldRef, route};

use super::is_externally_accessible;

/// Drops the internal traffic policy of external names, which have no traffic to route. kube-apiserver stores it and
/// never returns it. Returns true if there was one.
pub(super) fn drop_internal_policy(service: &mut FieldMut<Service>) -> bool {
    let mut spec = service.entry(Service::SPEC);
    let meaningless = spec.str(Spec::TYPE) == "ExternalName"
        && matches!(spec.str(Spec::INTERNAL_TRAFFIC_POLICY), "Cluster" | "Local");
    if meaningless {
        spec.remove(Spec::INTERNAL_TRAFFIC_POLICY);
    }
    meaningless
}

pub(super) fn drop_dependent_fields(service: &mut FieldMut<Service>, old: FieldRef<Service>) {
    let old = old.at(Service::SPEC);
    let mut spec = service.entry(Service::SPEC);
    let leaves = |applies: fn(FieldRef<Spec>) -> bool, spec: &FieldMut<Spec>| applies(old) && !applies(spec.read());

    if leaves(needs_cluster_ip, &spec) {
        if is_unchanged(&spec, old, Spec::CLUSTER_IP) && is_unchanged(&spec, old, Spec::CLUSTER_IPS) {
            spec.remove(Spec::CLUSTER_IP);
            spec.remove(Spec::CLUSTER_IPS);
        }
        drop_unchanged(&mut spec, old, Spec::IP_FAMILIES);
        drop_unchanged(&mut spec, old, Spec::IP_FAMILY_POLICY);
    }
    if leaves(needs_node_port, &spec) && node_ports(spec.read()).is_subset(&node_ports(old)) {
        for mut port in spec.items(Spec::PORTS) {
            port.remove(ServicePort::NODE_PORT);
        }
    }
    if leaves(needs_health_check_node_port, &spec) {
        drop_unchanged(&mut spec, old, Spec::HEALTH_CHECK_NODE_PORT);
    }
    if leaves(is_load_balancer, &spec) {
        // These are pointers in Go: a zero value differs from an absent one.
        if spec.get(Spec::ALLOCATE_LOAD_BALANCER_NODE_PORTS) == old.at(Spec::ALLOCATE_LOAD_BALANCER_NODE_PORTS).value()
        {
            spec.remove(Spec::ALLOCATE_LOAD_BALANCER_NODE_PORTS);
        }
        if spec.get(Spec::LOAD_BALANCER_CLASS) == old.at(Spec::LOAD_BALANCER_CLASS).value() {
            spec.remove(Spec::LOAD_BALANCER_CLASS);
        }
    }
    if leaves(is_externally_accessible, &spec) {
        drop_unchanged(&mut spec, old, Spec::EXTERNAL_TRAFFIC_POLICY);
    }
    if !is_load_balancer(spec.read()) {
        service.remove_at(route![Service::STATUS, Status::LOAD_BALANCER]);
    }
}

fn drop_unchanged<T>(spec: &mut FieldMut<Spec>, old: FieldRef<Spec>, field: Field<Spec, T>) {
    if is_unchanged(spec, old, field) {
        spec.remove(field);
    }
}

fn is_unchanged<T>(spec: &FieldMut<Spec>, old: FieldRef<Spec>, field: Field<Spec, T>) -> bool {
    let new = spec.read();
    let (new, old) = (new.at(field), old.at(field));
    new.value() == old.value() || (new.is_zero() && old.is_zero())
}

pub(super) fn needs_cluster_ip(spec: FieldRef<Spec>) -> bool {
    spec.at(Spec::TYPE).str() != "ExternalName"
}

pub(super) fn needs_node_port(spec: FieldRef<Spec>) -> bool {
    matches!(spec.at(Spec::TYPE).str(), "NodePort" | "LoadBalancer")
}

pub(super) fn needs_health_check_node_port(spec: FieldRef<Spec>) -> bool {
    is_load_balancer(spec) && spec.at(Spec::EXTERNAL_TRAFFIC_POLICY).str() == "Local"
}

fn is_load_balancer(spec: FieldRef<Spec>) -> bool {
    spec.at(Spec::TYPE).str() == "LoadBalancer"
}

pub(super) fn node_ports(spec: FieldRef<Spec>) -> BTreeSet<i64> {
    let ports = spec.at(Spec::PORTS);
    ports.items().map(|port| port.at(ServicePort::NODE_PORT).int_or_zero()).filter(|port| *port != 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::{Value, value};

    #[test]
    fn clears_fields_that_the_new_type_does_not_use() {
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
            let old = value!({"spec": (balancer.clone())});
            drop_dependent_fields(&mut FieldMut::root(&mut object), FieldRef::root(&old));
            assert_eq!(object.get("spec"), Some(&want));
        }
    }

    #[test]
    fn drops_internal_traffic_policy_of_external_names() {
        for (kind, policy, want) in [
            ("ExternalName", "Cluster", value!({"type": "ExternalName"})),
            ("ExternalName", "Wrong", value!({"type": "ExternalName", "internalTrafficPolicy": "Wrong"})),
            ("ClusterIP", "Local", value!({"type": "ClusterIP", "internalTrafficPolicy": "Local"})),
        ] {
            let mut object = value!({"spec": {"type": kind, "internalTrafficPolicy": policy}});
            drop_internal_policy(&mut FieldMut::root(&mut object));
            assert_eq!(object.get("spec"), Some(&want));
        }
    }
}
