//! The usage of services: their number, load balancers and node ports.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Service, ServicePort, ServiceSpec as Spec};
use binnacle_schema::Value;

use super::counts::count_of;
use super::evaluator::{Evaluator, number};
use crate::plugin::Request;
use crate::plugins::pod_resources::Resources;

pub(super) struct Services;

const SERVICES: &str = "services";
const LOAD_BALANCERS: &str = "services.loadbalancers";
const NODE_PORTS: &str = "services.nodeports";

impl Evaluator for Services {
    fn handles(&self, request: Request<'_>, _: &Value) -> bool {
        request.attributes.subresource.is_empty()
    }

    fn counts(&self, name: &str) -> bool {
        [SERVICES, LOAD_BALANCERS, NODE_PORTS].contains(&name) || name == count_of("", SERVICES)
    }

    fn usage(&self, service: &Value) -> Resources {
        let spec = FieldRef::<Service>::root(service).at(Service::SPEC).detached();
        let ports = spec.at(Spec::PORTS);
        let allocated = || ports.values().filter(|port| port.at(ServicePort::NODE_PORT).int_or_zero() != 0).count();
        let allocates_node_ports = spec.at(Spec::ALLOCATE_LOAD_BALANCER_NODE_PORTS).get_bool().unwrap_or(true);
        let (balancers, node_ports) = match spec.at(Spec::TYPE).str() {
            "NodePort" => (0, ports.len()),
            "LoadBalancer" => (1, if allocates_node_ports { ports.len() } else { allocated() }),
            _ => (0, 0),
        };
        [
            (count_of("", SERVICES), 1),
            (SERVICES.to_owned(), 1),
            (LOAD_BALANCERS.to_owned(), balancers),
            (NODE_PORTS.to_owned(), node_ports),
        ]
        .into_iter()
        .map(|(name, count)| (name, number(count)))
        .collect()
    }
}
