//! Warnings about container ports that are duplicate, overlapping or ambiguous.

use std::collections::BTreeMap;

use binnacle_meta::FieldPath;
use binnacle_schema::Value;

use super::ENOUGH;
use crate::pod_spec::validation::containers::all;

pub(super) fn warnings(spec: &Value, path: &FieldPath, warnings: &mut Vec<String>) {
    let mut seen: Vec<Port<'_>> = Vec::new();
    let mut alike: BTreeMap<(i64, &str), Vec<usize>> = BTreeMap::new();
    for port in ports(spec, path) {
        if warnings.len() > ENOUGH {
            return;
        }
        if !port.host_ip.is_empty() && port.host == 0 {
            warnings.push(format!(
                "{}: hostIP set without hostPort: {{Name:{} HostPort:{} ContainerPort:{} Protocol:{} HostIP:{}}}",
                port.at, port.name, port.host, port.number, port.protocol, port.host_ip
            ));
        }
        let alike = alike.entry((port.number, port.protocol)).or_default();
        for other in alike.iter().take(ENOUGH).map(|place| &seen[*place]) {
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
        alike.push(seen.len());
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
    fn warnings_of_many_ports_are_bounded() {
        let ports: Vec<Value> = (0..3000).map(|_| value!({"containerPort": 80i64})).collect();
        let mut found = Vec::new();
        let spec = value!({"containers": [{"name": "c", "ports": (Value::List(ports))}]});
        warnings(&spec, &FieldPath::new("spec"), &mut found);
        assert!(found.len() > ENOUGH && found.len() < 2 * ENOUGH, "{}", found.len());
    }

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
