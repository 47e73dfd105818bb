//! Service and Endpoints.

use binnacle_schema::Value;

use crate::Now;
use crate::columns::{Cells, Columns, cells, definitions, doc, string};
use crate::format::{NONE, UNKNOWN, join, labels, load_balancer, non_empty, strings};
use crate::metadata::{AGE, NAME, created, name, number};

definitions!("io.k8s.api.core.v1": SERVICE_SPEC = "ServiceSpec", ENDPOINTS_KIND = "Endpoints");

pub(crate) const SERVICE: Columns = Columns::new(
    &[
        NAME,
        string("Type", doc(SERVICE_SPEC, "type")),
        string("Cluster-IP", doc(SERVICE_SPEC, "clusterIP")),
        string("External-IP", doc(SERVICE_SPEC, "externalIPs")),
        string("Port(s)", doc(SERVICE_SPEC, "ports")),
        AGE,
        string("Selector", doc(SERVICE_SPEC, "selector")).wide(),
    ],
    service,
);

pub(crate) const ENDPOINTS: Columns =
    Columns::new(&[NAME, string("Endpoints", doc(ENDPOINTS_KIND, "subsets")), AGE], |object, now| {
        cells![name(object), endpoints(object), created(object, now)]
    });

fn service(service: &Value, now: Now) -> Cells {
    let cluster_ip = strings(service, &["spec", "clusterIPs"]).next().unwrap_or(NONE);
    let ports: Vec<String> = service.list_at(&["spec", "ports"]).iter().map(port).collect();
    let ports = ports.join(",");
    cells![
        name(service),
        service.str_at(&["spec", "type"]),
        cluster_ip,
        external_ip(service),
        non_empty(&ports, NONE),
        created(service, now),
        labels(service.object_at(&["spec", "selector"])),
    ]
}

fn external_ip(service: &Value) -> String {
    let external_ips = join(strings(service, &["spec", "externalIPs"]), ",");
    match service.str_at(&["spec", "type"]) {
        "ClusterIP" | "NodePort" => non_empty(&external_ips, NONE).into(),
        "LoadBalancer" => match (load_balancer(service), external_ips) {
            (balancer, ips) if balancer.is_empty() => non_empty(&ips, "<pending>").into(),
            (balancer, ips) if ips.is_empty() => balancer,
            (balancer, ips) => format!("{balancer},{ips}"),
        },
        "ExternalName" => service.str_at(&["spec", "externalName"]).into(),
        _ => UNKNOWN.into(),
    }
}

fn port(port: &Value) -> String {
    let (number, protocol) = (number(port, &["port"]), port.str_at(&["protocol"]));
    match port.int_at(&["nodePort"]) {
        Some(node_port) if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

/// Formats the first three ready addresses, each once for each port, and the number of further ones.
fn endpoints(object: &Value) -> String {
    const SHOWN: usize = 3;
    let subsets = object.list_at(&["subsets"]);
    if subsets.is_empty() {
        return NONE.into();
    }
    let mut shown = Vec::new();
    let mut count = 0;
    for subset in subsets {
        let addresses = subset.list_at(&["addresses"]);
        let ips = || addresses.iter().map(|address| address.str_at(&["ip"]));
        let ports = subset.list_at(&["ports"]);
        // A headless service may have no ports.
        if ports.is_empty() {
            count += addresses.len();
            shown.extend(ips().map(str::to_owned).take(SHOWN - shown.len()));
        }
        for port in ports {
            count += addresses.len();
            let port = number(port, &["port"]);
            shown.extend(ips().map(|ip| host_port(ip, port)).take(SHOWN - shown.len()));
        }
    }
    let text = shown.join(",");
    if count > SHOWN { format!("{text} + {} more...", count - SHOWN) } else { text }
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Value, value};

    use super::*;
    use crate::testing::check_cells;

    #[test]
    fn services() {
        let cases = [
            (value!({}), value!(["", "", "<none>", "<unknown>", "<none>", "<unknown>", "<none>"])),
            (
                value!({
                    "metadata": {"name": "a"},
                    "spec": {
                        "type": "NodePort",
                        "clusterIP": "10.0.0.1",
                        "clusterIPs": ["10.0.0.1", "fd00::1"],
                        "ports": [
                            {"port": 80i64, "nodePort": 30080i64, "protocol": "TCP"},
                            {"port": 53i64, "protocol": "UDP", "nodePort": 0i64},
                        ],
                        "selector": {"b": "2", "a": "1"},
                    },
                }),
                value!(["a", "NodePort", "10.0.0.1", "<none>", "80:30080/TCP,53/UDP", "<unknown>", "a=1,b=2"]),
            ),
        ];
        check_cells("", "Service", cases);
    }

    #[test]
    fn external_addresses() {
        let none = || value!({});
        let balancer =
            || value!({"loadBalancer": {"ingress": [{"ip": "9.9.9.9"}, {"hostname": "a-very-long-name.test"}]}});
        let cases: [(Value, Value, &str); 9] = [
            (value!({"type": "ClusterIP"}), balancer(), "<none>"),
            (value!({"type": "ClusterIP", "externalIPs": ["1.1.1.1", "2.2.2.2"]}), none(), "1.1.1.1,2.2.2.2"),
            (value!({"type": "NodePort", "externalIPs": ["1.1.1.1"]}), none(), "1.1.1.1"),
            (value!({"type": "LoadBalancer"}), none(), "<pending>"),
            (value!({"type": "LoadBalancer"}), balancer(), "9.9.9.9,a-very-long-name.test"),
            (value!({"type": "LoadBalancer", "externalIPs": ["1.1.1.1"]}), none(), "1.1.1.1"),
            (
                value!({"type": "LoadBalancer", "externalIPs": ["1.1.1.1"]}),
                balancer(),
                "9.9.9.9,a-very-long-name.test,1.1.1.1",
            ),
            (value!({"type": "ExternalName", "externalName": "x.test"}), none(), "x.test"),
            (value!({"type": "New"}), none(), "<unknown>"),
        ];
        for (spec, status, want) in cases {
            let service = Value::Object([("spec", spec), ("status", status)].into_iter().collect());
            assert_eq!(external_ip(&service), want, "{service:?}");
        }
    }

    #[test]
    fn endpoints() {
        let cases = [
            (value!([]), "<none>"),
            (value!([{"notReadyAddresses": [{"ip": "1.1.1.1"}], "ports": [{"port": 80i64}]}]), ""),
            (value!([{"addresses": [{"ip": "1.1.1.1"}, {"ip": "fd00::1"}]}]), "1.1.1.1,fd00::1"),
            (
                value!([{"addresses": [{"ip": "1.1.1.1"}, {"ip": "fd00::1"}], "ports": [{"port": 80i64}]}]),
                "1.1.1.1:80,[fd00::1]:80",
            ),
            (
                value!([
                    {"addresses": [{"ip": "1.1.1.1"}, {"ip": "2.2.2.2"}], "ports": [{"port": 80i64}, {"port": 443i64}]},
                    {"addresses": [{"ip": "3.3.3.3"}]},
                ]),
                "1.1.1.1:80,2.2.2.2:80,1.1.1.1:443 + 2 more...",
            ),
            (value!([{"addresses": [{"ip": "1"}, {"ip": "2"}, {"ip": "3"}, {"ip": "4"}]}]), "1,2,3 + 1 more..."),
        ];
        for (subsets, want) in cases {
            let object = Value::Object([("subsets", subsets)].into_iter().collect());
            assert_eq!(super::endpoints(&object), want, "{object:?}");
        }
    }
}
