//! Warnings about container ports that are duplicate, overlapping or ambiguous.

use std::collections::BTreeMap;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Container, ContainerPort as Port, PodSpec};
use binnacle_meta::go_quote;

use super::ENOUGH;
use crate::pod_spec::containers::all_containers;

pub(super) fn warnings(spec: FieldRef<PodSpec>, warnings: &mut Vec<String>) {
    let containers = all_containers(&spec);
    let containers: Vec<_> = containers.iter().collect();
    let lists: Vec<_> = containers.iter().map(|container| container.at(Container::PORTS)).collect();
    let mut alike: BTreeMap<(i64, &str), Vec<FieldRef<Port>>> = BTreeMap::new();
    for port in lists.iter().flat_map(FieldRef::items) {
        if warnings.len() > ENOUGH {
            return;
        }
        let (number, protocol) = (port.at(Port::CONTAINER_PORT).int_or_zero(), port.at(Port::PROTOCOL).str());
        let (host_ip, host) = host_address(port);
        if !host_ip.is_empty() && host == 0 {
            let (at, name) = (port.path(), port.at(Port::NAME).str());
            warnings.push(format!(
                "{at}: hostIP set without hostPort: {{Name:{name} HostPort:{host} ContainerPort:{number} Protocol:{protocol} HostIP:{host_ip}}}"
            ));
        }
        let alike = alike.entry((number, protocol)).or_default();
        for other in alike.iter().take(ENOUGH) {
            let (other_ip, other_host) = host_address(*other);
            let what = if (other_ip, other_host) == (host_ip, host) {
                "duplicate"
            } else if host == 0 || other_host == 0 {
                "overlapping"
            } else if host == other_host && host_ip.is_empty() != other_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{}: {what} port definition with {}", port.path(), other.path()));
        }
        alike.push(port);
    }
    let mut named: BTreeMap<&str, FieldRef<Port>> = BTreeMap::new();
    for port in lists.iter().flat_map(FieldRef::items) {
        let name = port.at(Port::NAME).str();
        if name.is_empty() {
            continue;
        }
        let Some(other) = named.get(name).map(FieldRef::path) else {
            named.insert(name, port);
            continue;
        };
        let at = port.path();
        warnings.push(format!(
            "{at}: duplicate port name {} with {other}, services and probes that select ports by name will use {other}",
            go_quote(name)
        ));
    }
}

fn host_address<'v>(port: FieldRef<'_, 'v, Port>) -> (&'v str, i64) {
    (port.at(Port::HOST_IP).str(), port.at(Port::HOST_PORT).int_or_zero())
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_meta::FieldPath;
    use binnacle_schema::{Value, value};

    #[test]
    fn bounds_warnings_of_many_ports() {
        let ports: Vec<Value> = (0..3000).map(|_| value!({"containerPort": 80i64})).collect();
        let mut found = Vec::new();
        let spec = value!({"containers": [{"name": "c", "ports": (Value::List(ports))}]});
        warnings(FieldRef::located(&spec, &FieldPath::new("spec")), &mut found);
        assert!(found.len() > ENOUGH && found.len() < 2 * ENOUGH, "{}", found.len());
    }

    #[test]
    fn warns_about_conflicting_ports() {
        let a = "spec.containers[0].ports[0]";
        let b = "spec.containers[1].ports[0]";
        for (first, second, want) in [
            (value!({"containerPort": 80i64}), value!({"containerPort": 81i64}), vec![]),
            (
                value!({"containerPort": 80i64}),
                value!({"containerPort": 80i64}),
                vec![format!("{b}: duplicate port definition with {a}")],
            ),
            (
                value!({"containerPort": 80i64}),
                value!({"containerPort": 80i64, "hostPort": 8080i64}),
                vec![format!("{b}: overlapping port definition with {a}")],
            ),
            (
                value!({"containerPort": 80i64, "hostPort": 8080i64, "hostIP": "1.1.1.1"}),
                value!({"containerPort": 80i64, "hostPort": 8080i64}),
                vec![format!("{b}: dangerously ambiguous port definition with {a}")],
            ),
            (
                value!({"containerPort": 80i64, "hostPort": 8080i64}),
                value!({"containerPort": 80i64, "hostPort": 8081i64}),
                vec![],
            ),
            (
                value!({"containerPort": 80i64, "hostIP": "1.1.1.1", "protocol": "TCP"}),
                value!({"containerPort": 81i64}),
                vec![format!(
                    "{a}: hostIP set without hostPort: {{Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:1.1.1.1}}"
                )],
            ),
            (
                value!({"containerPort": 80i64, "name": "web"}),
                value!({"containerPort": 81i64, "name": "web"}),
                vec![format!(
                    "{b}: duplicate port name \"web\" with {a}, services and probes that select ports by name will use {a}"
                )],
            ),
        ] {
            let spec = value!({"containers": [{"ports": [first]}, {"ports": [second]}]});
            let mut got = Vec::new();
            warnings(FieldRef::located(&spec, &FieldPath::new("spec")), &mut got);
            assert_eq!(got, want, "{spec:?}");
        }
    }
}
