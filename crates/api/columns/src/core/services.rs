//! Service and Endpoints.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, LoadBalancerStatus, Service, ServicePort,
    ServiceSpec as Spec, ServiceStatus as Status,
};
use binnacle_fields::types::List;

use crate::Now;
use crate::columns::{Cells, Columns, cells, doc, string};
use crate::format::{NONE, UNKNOWN, join, labels, load_balancer, non_empty, strings};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const SERVICE: Columns = Columns::new(
    &[
        NAME,
        string("Type", doc(Spec::TYPE)),
        string("Cluster-IP", doc(Spec::CLUSTER_IP)),
        string("External-IP", doc(Spec::EXTERNAL_IPS)),
        string("Port(s)", doc(Spec::PORTS)),
        AGE,
        string("Selector", doc(Spec::SELECTOR)).wide(),
    ],
    |object, now| service(FieldRef::root(object), now),
);

pub(crate) const ENDPOINTS: Columns =
    Columns::new(&[NAME, string("Endpoints", doc(Endpoints::SUBSETS)), AGE], |object, now| {
        let object = FieldRef::<Endpoints>::root(object);
        cells![name(object), endpoints(object.at(Endpoints::SUBSETS)), created(object, now)]
    });

fn service(service: FieldRef<Service>, now: Now) -> Cells {
    let spec = service.at(Service::SPEC);
    let cluster_ip = strings(spec.at(Spec::CLUSTER_IPS)).next().unwrap_or(NONE);
    let ports: Vec<String> = spec.at(Spec::PORTS).items().map(port).collect();
    let ports = ports.join(",");
    cells![
        name(service),
        spec.at(Spec::TYPE).str(),
        cluster_ip,
        external_ip(service),
        non_empty(&ports, NONE),
        created(service, now),
        labels(spec.at(Spec::SELECTOR)),
    ]
}

fn external_ip(service: FieldRef<Service>) -> String {
    let (spec, status) = (service.at(Service::SPEC), service.at(Service::STATUS));
    let external_ips = join(strings(spec.at(Spec::EXTERNAL_IPS)), ",");
    let balancer = status.at(Status::LOAD_BALANCER);
    match spec.at(Spec::TYPE).str() {
        "ClusterIP" | "NodePort" => non_empty(&external_ips, NONE).into(),
        "LoadBalancer" => match (load_balancer(balancer.at(LoadBalancerStatus::INGRESS)), external_ips) {
            (balancer, ips) if balancer.is_empty() => non_empty(&ips, "<pending>").into(),
            (balancer, ips) if ips.is_empty() => balancer,
            (balancer, ips) => format!("{balancer},{ips}"),
        },
        "ExternalName" => spec.at(Spec::EXTERNAL_NAME).str().into(),
        _ => UNKNOWN.into(),
    }
}

fn port(port: FieldRef<ServicePort>) -> String {
    let (number, protocol) = (port.at(ServicePort::PORT).int_or_zero(), port.at(ServicePort::PROTOCOL).str());
    match port.at(ServicePort::NODE_PORT).int() {
        Some(node_port) if node_port > 0 => format!("{number}:{node_port}/{protocol}"),
        _ => format!("{number}/{protocol}"),
    }
}

/// Formats the first three ready addresses, each once for each port, and the number of further ones.
fn endpoints(subsets: FieldRef<List<EndpointSubset>>) -> String {
    const SHOWN: usize = 3;
    if subsets.is_empty() {
        return NONE.into();
    }
    let mut shown = Vec::new();
    let mut count = 0;
    for subset in subsets.items() {
        let (addresses, ports) = (subset.at(EndpointSubset::ADDRESSES), subset.at(EndpointSubset::PORTS));
        let ips = || addresses.items().map(|address| address.at(EndpointAddress::IP).str());
        // A headless service may have no ports.
        if ports.is_empty() {
            count += addresses.len();
            shown.extend(ips().map(str::to_owned).take(SHOWN - shown.len()));
        }
        for port in ports.items() {
            count += addresses.len();
            let port = port.at(EndpointPort::PORT).int_or_zero();
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
    fn prints_services() {
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
    fn formats_external_addresses() {
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
            assert_eq!(external_ip(FieldRef::root(&service)), want, "{service:?}");
        }
    }

    #[test]
    fn formats_endpoints() {
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
            assert_eq!(super::endpoints(FieldRef::root(&subsets)), want, "{subsets:?}");
        }
    }
}
