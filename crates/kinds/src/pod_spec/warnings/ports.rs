//! Warnings about ports of containers that are told twice or may be taken for each other.

use std::collections::BTreeMap;

use binnacle_meta::FieldPath;
use binnacle_schema::Value;

use crate::pod_spec::validation::containers::all;

pub(super) fn warnings(spec: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    let mut seen: Vec<Port<'_>> = Vec::new();
    for port in ports(spec, path) {
        if !port.host_ip.is_empty() && port.host == 0 {
            warnings.push(format!(
                "{}: hostIP set without hostPort: {{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
                port.at, port.name, port.host, port.number, port.protocol, port.host_ip
            ));
        }
        let same = |other: &&Port<'_>| (other.number, other.protocol) == (port.number, port.protocol);
        for other in seen.iter().filter(same) {
            let what = if (other.host_ip, other.host) == (port.host_ip, port.host) {
                "duplicate"
            } else if port.host == 0 || other.host == 0 {
                "overlapping"
            } else if port.host == other.host && port.host_ip.is_empty() != other.host_ip.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            warnings.push(format!("{}: {what} port definition with {}", port.at, other.at));
        }
        seen.push(port);
    }
    let mut named: BTreeMap<&str, FieldPath> = BTreeMap::new();
    for port in seen.into_iter().filter(|port| !port.name.is_empty()) {
        let Some(other) = named.get(port.name) else {
            named.insert(port.name, port.at);
            continue;
        };
        warnings.push(format!(
            "{}: duplicate port name {:?} with {other}, services and probes that select ports by name will use {other}",
            port.at, port.name
        ));
    }
}

struct Port<'a> {
    at: FieldPath,
    name: &'a str,
    protocol: &'a str,
    host_ip: &'a str,
    number: i64,
    host: i64,
}

fn ports<'a>(spec: &'a Value, path: &FieldPath) -> impl Iterator<Item = Port<'a>> {
    all(spec, path).flat_map(|(container, at)| {
        let at = at.child("ports");
        container.list_at(&["ports"]).iter().enumerate().map(move |(i, port)| Port {
            at: at.index(i),
            name: port.str_at(&["name"]),
            protocol: port.str_at(&["protocol"]),
            host_ip: port.str_at(&["hostIP"]),
            number: port.int_at(&["containerPort"]).unwrap_or(0),
            host: port.int_at(&["hostPort"]).unwrap_or(0),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn pairs() {
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
            warnings(&spec, &FieldPath::new("spec"), &mut got);
            assert_eq!(got, want, "{spec:?}");
        }
    }
}
