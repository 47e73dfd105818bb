//! Proxy of a service: one of its endpoints, which must be the address of a pod.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use binnacle_meta::{Status, go_quote};
use binnacle_proxy::{Target, is_global_unicast};
use binnacle_request::RequestInfo;
use binnacle_schema::Value;
use rustls::ClientConfig;

use super::location::{Location, at};
use crate::streams::Nodes;

pub(super) async fn locate(nodes: &Nodes, info: &RequestInfo, tls: &Arc<ClientConfig>) -> Result<Target, Status> {
    let id = info.name.as_str();
    let invalid = || Status::bad_request(format!("invalid service request {}", go_quote(id)));
    let location = Location::parse(id).ok_or_else(invalid)?;
    let mut port_name = location.port.to_owned();
    if let Ok(number) = location.port.parse::<i64>() {
        let service = nodes.find(info, "services", location.name).await?;
        port_name = name_of_port(&service, number)?;
    }
    let endpoints = nodes.find(info, "endpoints", location.name).await?;
    let none = |of: &str| Status::service_unavailable(format!("no endpoints available for service {}", go_quote(of)));
    if endpoints.list_at(&["subsets"]).is_empty() {
        return Err(none(location.name));
    }
    for candidate in candidates(&endpoints, &port_name, random()) {
        if is_of_pod(nodes, info, candidate.address).await? {
            let port = u16::try_from(candidate.port).ok();
            return Ok(at(candidate.address.str_at(&["ip"]), port, location.tls(tls)));
        }
    }
    Err(none(id))
}

fn name_of_port(service: &Value, number: i64) -> Result<String, Status> {
    let ports = service.list_at(&["spec", "ports"]);
    let port = ports.iter().find(|port| port.int_at(&["port"]) == Some(number));
    let name = service.str_at(&["metadata", "name"]);
    let none = || Status::service_unavailable(format!("no service port {number} found for service {}", go_quote(name)));
    Ok(port.ok_or_else(none)?.str_at(&["name"]).to_owned())
}

/// An endpoint with the requested port.
struct Candidate<'a> {
    address: &'a Value,
    port: i64,
}

/// Returns all ready endpoints with the port, starting at a random one.
fn candidates<'a>(endpoints: &'a Value, port_name: &str, random: usize) -> Vec<Candidate<'a>> {
    let subsets = endpoints.list_at(&["subsets"]);
    let mut found = Vec::new();
    for subset in rotated(subsets, random) {
        let Some(port) = subset.list_at(&["ports"]).iter().find(|port| port.str_at(&["name"]) == port_name) else {
            continue;
        };
        let port = port.int_at(&["port"]).unwrap_or(0);
        found.extend(rotated(subset.list_at(&["addresses"]), random).map(|address| Candidate { address, port }));
    }
    found
}

/// Returns true if the address is that of a pod in the same namespace, as callers who may not write pods may write
/// endpoints.
async fn is_of_pod(nodes: &Nodes, info: &RequestInfo, address: &Value) -> Result<bool, Status> {
    let ip = address.str_at(&["ip"]);
    let pod_name = address.str_at(&["targetRef", "name"]);
    // A pod's status may be forged: its address must not be of this machine.
    if !ip.parse().is_ok_and(is_global_unicast) {
        return Ok(false);
    }
    if pod_name.is_empty() || address.str_at(&["targetRef", "namespace"]) != info.namespace {
        return Ok(false);
    }
    match nodes.find(info, "pods", pod_name).await {
        Ok(pod) => Ok(pod.list_at(&["status", "podIPs"]).iter().any(|own| own.str_at(&["ip"]) == ip)),
        Err(status) if status.code() == 404 => Ok(false),
        Err(status) => Err(status),
    }
}

fn rotated(list: &[Value], by: usize) -> impl Iterator<Item = &Value> {
    let start = if list.is_empty() { 0 } else { by % list.len() };
    list[start..].iter().chain(&list[..start])
}

/// Returns a random number: each hasher of the standard library has its own keys.
fn random() -> usize {
    RandomState::new().hash_one(0u8) as usize
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn ports_by_number() {
        let service = value!({
            "metadata": {"name": "s"}, "spec": {"ports": [{"name": "web", "port": 80i64}, {"port": 81i64}]}
        });
        for (number, want) in [(80, Ok("web")), (81, Ok("")), (82, Err("no service port 82 found for service \"s\""))] {
            let name = name_of_port(&service, number);
            assert_eq!(name.as_deref().map_err(Status::message), want);
        }
    }

    #[test]
    fn every_endpoint_is_tried_once() {
        let endpoints = value!({"subsets": [
            {"addresses": [{"ip": "1"}, {"ip": "2"}], "ports": [{"name": "web", "port": 8080i64}]},
            {"addresses": [{"ip": "3"}], "ports": [{"name": "web", "port": 9090i64}, {"name": "x", "port": 1i64}]},
            {"notReadyAddresses": [{"ip": "4"}], "ports": [{"name": "web", "port": 8080i64}]}
        ]});
        for (name, random, want) in [
            ("web", 0, "1:8080 2:8080 3:9090"),
            ("web", 1, "3:9090 2:8080 1:8080"),
            ("web", 5, "2:8080 1:8080 3:9090"),
            ("x", 7, "3:1"),
            ("", 0, ""),
        ] {
            let found = candidates(&endpoints, name, random);
            let shown: Vec<_> = found.iter().map(|c| format!("{}:{}", c.address.str_at(&["ip"]), c.port)).collect();
            assert_eq!(shown.join(" "), want, "{name} {random}");
        }
    }
}
