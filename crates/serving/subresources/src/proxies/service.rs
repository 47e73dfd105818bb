//! Proxy of a service: to one of its endpoints, whose address must belong to a pod.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use binnacle_client::{Target, is_global_unicast};
use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, ObjectReference, Pod, PodIP, PodStatus, Service,
    ServicePort, ServiceSpec,
};
use binnacle_fields::types::List;
use binnacle_meta::{Status, go_quote};
use binnacle_registry::object;
use binnacle_request::RequestInfo;
use binnacle_schema::Value;
use rustls::ClientConfig;

use super::location::{Location, target_at};
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
    let endpoints = FieldRef::<Endpoints>::root(&endpoints);
    if endpoints.at(Endpoints::SUBSETS).is_empty() {
        return Err(none(location.name));
    }
    for candidate in candidates(endpoints, &port_name, random()) {
        if is_of_pod(nodes, info, candidate.address).await? {
            let port = u16::try_from(candidate.port).ok();
            return Ok(target_at(candidate.address.at(EndpointAddress::IP).str(), port, location.tls(tls)));
        }
    }
    Err(none(id))
}

fn name_of_port(service: &Value, number: i64) -> Result<String, Status> {
    let name = object::name(service);
    let service = FieldRef::<Service>::root(service);
    let spec = service.at(Service::SPEC);
    let ports = spec.at(ServiceSpec::PORTS);
    let port = ports.items().find(|port| port.at(ServicePort::PORT).int() == Some(number));
    let none = || Status::service_unavailable(format!("no service port {number} found for service {}", go_quote(name)));
    Ok(port.ok_or_else(none)?.at(ServicePort::NAME).str().to_owned())
}

/// An endpoint with the requested port.
struct Candidate<'a> {
    address: FieldRef<'static, 'a, EndpointAddress>,
    port: i64,
}

/// Returns all ready endpoints with the port, starting at a random one.
fn candidates<'a>(endpoints: FieldRef<'_, 'a, Endpoints>, port_name: &str, random: usize) -> Vec<Candidate<'a>> {
    let mut found = Vec::new();
    for subset in rotated(endpoints.at(Endpoints::SUBSETS), random) {
        let ports = subset.at(EndpointSubset::PORTS);
        let Some(port) = ports.items().find(|port| port.at(EndpointPort::NAME).str() == port_name) else { continue };
        let port = port.at(EndpointPort::PORT).int_or_zero();
        let addresses = rotated(subset.at(EndpointSubset::ADDRESSES), random);
        found.extend(addresses.map(|address| Candidate { address, port }));
    }
    found
}

/// Returns true if the address belongs to a pod in the same namespace, since callers who may not write pods may be
/// allowed to write endpoints.
async fn is_of_pod(
    nodes: &Nodes,
    info: &RequestInfo,
    address: FieldRef<'_, '_, EndpointAddress>,
) -> Result<bool, Status> {
    let ip = address.at(EndpointAddress::IP).str();
    let target = address.at(EndpointAddress::TARGET_REF);
    let pod_name = target.at(ObjectReference::NAME).str();
    // The status of a pod may be forged, so its address must not be one of this machine.
    if !ip.parse().is_ok_and(is_global_unicast) {
        return Ok(false);
    }
    if pod_name.is_empty() || target.at(ObjectReference::NAMESPACE).str() != info.namespace {
        return Ok(false);
    }
    match nodes.find(info, "pods", pod_name).await {
        Ok(pod) => {
            let pod = FieldRef::<Pod>::root(&pod);
            let status = pod.at(Pod::STATUS);
            Ok(status.at(PodStatus::POD_IPS).items().any(|pod_ip| pod_ip.at(PodIP::IP).str() == ip))
        }
        Err(status) if status.code() == 404 => Ok(false),
        Err(status) => Err(status),
    }
}

/// Returns the items of a list, rotated by a number of items.
fn rotated<'a, T>(list: FieldRef<'_, 'a, List<T>>, by: usize) -> impl Iterator<Item = FieldRef<'static, 'a, T>> {
    let list = list.list();
    let start = if list.is_empty() { 0 } else { by % list.len() };
    list[start..].iter().chain(&list[..start]).map(FieldRef::root)
}

/// Returns a random number, from the keys of a new hasher.
fn random() -> usize {
    RandomState::new().hash_one(0u8) as usize
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn finds_port_names_by_number() {
        let service = value!({
            "metadata": {"name": "s"}, "spec": {"ports": [{"name": "web", "port": 80i64}, {"port": 81i64}]}
        });
        for (number, want) in [(80, Ok("web")), (81, Ok("")), (82, Err("no service port 82 found for service \"s\""))] {
            let name = name_of_port(&service, number);
            assert_eq!(name.as_deref().map_err(Status::message), want);
        }
    }

    #[test]
    fn tries_every_endpoint_once() {
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
            let found = candidates(FieldRef::root(&endpoints), name, random);
            let ip = |candidate: &Candidate<'_>| candidate.address.at(EndpointAddress::IP).str().to_owned();
            let addresses: Vec<_> = found.iter().map(|found| format!("{}:{}", ip(found), found.port)).collect();
            assert_eq!(addresses.join(" "), want, "{name} {random}");
        }
    }
}
