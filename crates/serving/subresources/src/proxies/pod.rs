//! Proxy of a pod, by its address.

use std::sync::Arc;

use binnacle_client::{Target, is_global_unicast};
use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Container, ContainerPort, Pod, PodIP, PodSpec, PodStatus};
use binnacle_meta::{Status, go_quote};
use binnacle_request::RequestInfo;
use binnacle_schema::Value;
use rustls::ClientConfig;

use super::location::{Location, target_at};
use crate::streams::Nodes;

pub(super) async fn locate(nodes: &Nodes, info: &RequestInfo, tls: &Arc<ClientConfig>) -> Result<Target, Status> {
    let invalid = || Status::bad_request(format!("invalid pod request {}", go_quote(&info.name)));
    let location = Location::parse(&info.name).ok_or_else(invalid)?;
    let pod = nodes.find(info, "pods", location.name).await?;
    target(&location, &pod, tls)
}

fn target(location: &Location<'_>, pod: &Value, tls: &Arc<ClientConfig>) -> Result<Target, Status> {
    let pod = FieldRef::<Pod>::root(pod);
    let status = pod.at(Pod::STATUS);
    let ip = status.at(PodStatus::POD_IPS).item(0).map_or("", |ip| ip.at(PodIP::IP).str());
    // The status of a pod may be forged, so its address must not be one of this machine.
    if !ip.parse().is_ok_and(is_global_unicast) {
        return Err(Status::bad_request("address not allowed"));
    }
    let port = match location.numeric_port()? {
        Some(port) => Some(port),
        None => first_port(pod.at(Pod::SPEC)),
    };
    Ok(target_at(ip, port, location.tls(tls)))
}

/// Returns the first port of any container.
fn first_port(spec: FieldRef<PodSpec>) -> Option<u16> {
    let containers = spec.at(PodSpec::CONTAINERS);
    let container = containers.items().find(|container| !container.at(Container::PORTS).is_empty())?;
    let port = container.at(Container::PORTS).item(0)?.at(ContainerPort::CONTAINER_PORT).int()?;
    u16::try_from(port).ok()
}

#[cfg(test)]
mod tests {
    use binnacle_client::{Verification, client_config};
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn locates_pods_by_address_and_port() {
        let tls = client_config(Verification::None, None).unwrap();
        let ports =
            value!([{"name": "c"}, {"name": "d", "ports": [{"containerPort": 8080i64}, {"containerPort": 1i64}]}]);
        for (id, ip, containers, want) in [
            ("p", "10.0.0.1", &ports, Ok("http://10.0.0.1:8080")),
            ("p:81", "10.0.0.1", &ports, Ok("http://10.0.0.1:81")),
            ("https:p:", "10.0.0.1", &value!([]), Ok("https://10.0.0.1")),
            ("https:p:443", "fd00::1", &ports, Ok("https://[fd00::1]:443")),
            ("p", "", &ports, Err("address not allowed")),
            ("p", "127.0.0.1", &ports, Err("address not allowed")),
            ("p", "169.254.169.254", &ports, Err("address not allowed")),
            ("p", "localhost", &ports, Err("address not allowed")),
            ("p:web", "10.0.0.1", &ports, Err("error trying to reach service: dial tcp: lookup tcp/web: unknown port")),
        ] {
            let pod = value!({"spec": {"containers": (containers.clone())}, "status": {"podIPs": [{"ip": ip}]}});
            let target = target(&Location::parse(id).unwrap(), &pod, &tls).map(|target| format!("{target:?}"));
            assert_eq!(target.as_deref().map_err(Status::message), want, "{id} {ip}");
        }
    }
}
