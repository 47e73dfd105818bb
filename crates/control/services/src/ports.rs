//! The node ports that a service allocates, keeps and releases.

use std::collections::{HashMap, HashSet};

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Service, ServicePort, ServiceSpec};
use binnacle_meta::Status;
use binnacle_schema::Value;

use crate::families::invalid;
use crate::node_ports::{PortError, Session};
use crate::spec::{Spec, node_port, spec_mut};

/// The planned ports of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortPlan {
    /// The node port of each of `spec.ports`, 0 for none.
    ports: Vec<i64>,
    health_check: Option<i64>,
}

impl PortPlan {
    pub(crate) fn apply(self, service: &mut Value) {
        let mut spec = spec_mut(service);
        let ports = spec.items(ServiceSpec::PORTS).zip(self.ports);
        for (mut port, assigned) in ports.filter(|(_, assigned)| *assigned != 0) {
            port.set(ServicePort::NODE_PORT, assigned);
        }
        if let Some(port) = self.health_check {
            spec.set(ServiceSpec::HEALTH_CHECK_NODE_PORT, port);
        }
    }
}

/// Returns true if a change (a creation without `old`) may need new ports.
pub(crate) fn needs_ports(service: &Value, old: Option<&Value>) -> bool {
    Spec::of(service).uses_node_ports() || needs_new_health_check(service, old)
}

/// Plans the ports of a new service. Ports with equal numbers in different protocols share one node port.
pub(crate) fn plan_create(service: &Value, session: &mut Session<'_>) -> Result<PortPlan, Status> {
    let spec = Spec::of(service);
    let mut ports: Vec<i64> = spec.ports().map(node_port).collect();
    if spec.uses_node_ports() {
        let numbers: Vec<i64> = spec.ports().map(|port| port.at(ServicePort::PORT).int_or_zero()).collect();
        // The entry of another protocol may request the node port.
        let mut requested: HashMap<i64, i64> = HashMap::new();
        for (number, port) in numbers.iter().zip(&ports).filter(|(_, port)| **port != 0) {
            requested.entry(*number).or_insert(*port);
        }
        let mut assigned_by_number: HashMap<i64, i64> = HashMap::new();
        for i in 0..ports.len() {
            if ports[i] == 0 && !spec.fills_in_node_ports() {
                continue;
            }
            let shared = assigned_by_number.get(&numbers[i]).copied();
            match shared {
                Some(shared) if ports[i] == 0 => ports[i] = shared,
                Some(shared) if ports[i] == shared => {}
                Some(_) => session.allocate(ports[i]).map_err(|error| refused(service, i, ports[i], error))?,
                None => {
                    let port = match requested.get(&numbers[i]).copied() {
                        Some(port) => {
                            session.allocate(port).map_err(|error| refused(service, i, port, error))?;
                            port
                        }
                        None => session.allocate_next().map_err(exhausted)?,
                    };
                    ports[i] = port;
                    assigned_by_number.insert(numbers[i], port);
                }
            }
        }
    }
    Ok(PortPlan { ports, health_check: health_check(service, None, session)? })
}

/// Plans the ports of an updated service, which keeps its previous ports.
pub(crate) fn plan_update(service: &Value, old: &Value, session: &mut Session<'_>) -> Result<PortPlan, Status> {
    let spec = Spec::of(service);
    let before: HashSet<i64> = Spec::of(old).node_ports().into_iter().collect();
    let mut ports: Vec<i64> = spec.ports().map(node_port).collect();
    if spec.uses_node_ports() {
        let mut taken: HashSet<i64> = HashSet::new();
        let mut seen: HashSet<(&str, i64)> = HashSet::new();
        for (i, port) in spec.ports().enumerate() {
            if ports[i] == 0 && !spec.fills_in_node_ports() {
                continue;
            }
            if ports[i] == 0 {
                ports[i] = session.allocate_next().map_err(exhausted)?;
            } else if !before.contains(&ports[i]) && !taken.contains(&ports[i]) {
                session.allocate(ports[i]).map_err(|error| refused(service, i, ports[i], error))?;
                taken.insert(ports[i]);
            }
            let own = (port.at(ServicePort::PROTOCOL).str(), ports[i]);
            if !seen.insert(own) {
                return Err(Status::unknown(500, &format!("duplicate nodePort: {{{} {}}}", own.0, own.1)));
            }
        }
    }
    Ok(PortPlan { ports, health_check: health_check(service, Some(old), session)? })
}

/// Returns the ports that a change (a creation without `old`) allocated, after its plan was applied.
pub(crate) fn allocated(service: &Value, old: Option<&Value>) -> Vec<i64> {
    let spec = Spec::of(service);
    let before: HashSet<i64> = old.into_iter().flat_map(|old| Spec::of(old).node_ports()).collect();
    let mut taken = if spec.uses_node_ports() { spec.node_ports() } else { Vec::new() };
    taken.retain(|port| !before.contains(port));
    if needs_new_health_check(service, old) && spec.health_check_port() != 0 {
        taken.push(spec.health_check_port());
    }
    taken
}

/// Returns the ports that a change releases.
pub(crate) fn released(service: &Value, old: &Value) -> Vec<i64> {
    let (new, old) = (Spec::of(service), Spec::of(old));
    let mut released = if old.uses_node_ports() || new.uses_node_ports() { old.node_ports() } else { Vec::new() };
    if new.uses_node_ports() {
        let kept: HashSet<i64> = new.node_ports().into_iter().collect();
        released.retain(|port| !kept.contains(port));
    }
    if old.needs_health_check_port() && !new.needs_health_check_port() && old.health_check_port() != 0 {
        released.push(old.health_check_port());
    }
    released
}

fn needs_new_health_check(service: &Value, old: Option<&Value>) -> bool {
    let needed = old.is_some_and(|old| Spec::of(old).needs_health_check_port());
    Spec::of(service).needs_health_check_port() && !needed
}

fn health_check(service: &Value, old: Option<&Value>, session: &mut Session<'_>) -> Result<Option<i64>, Status> {
    if !needs_new_health_check(service, old) {
        return Ok(None);
    }
    let requested = Spec::of(service).health_check_port();
    if requested == 0 {
        let chosen = session.allocate_next();
        return chosen
            .map(Some)
            .map_err(|error| Status::internal(format!("failed to allocate a HealthCheck NodePort 0: {error}")));
    }
    session.allocate(requested).map(|()| Some(requested)).map_err(|error| {
        Status::internal(format!("failed to allocate requested HealthCheck NodePort {requested}: {error}"))
    })
}

fn refused(service: &Value, i: usize, port: i64, error: PortError) -> Status {
    let object = FieldRef::<Service>::root(service);
    let spec = object.at(Service::SPEC);
    let ports = spec.at(ServiceSpec::PORTS);
    let node_port = ports.item(i).map(|item| item.at(ServicePort::NODE_PORT).invalid_as(port, error.to_string()));
    invalid(service, &node_port.into_iter().collect())
}

fn exhausted(error: PortError) -> Status {
    Status::internal(format!("failed to allocate a nodePort: {error}"))
}
