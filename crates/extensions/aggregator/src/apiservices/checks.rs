//! The checks of a remote APIService's availability: its service must exist and have the port and ready endpoints, and
//! the server must respond successfully.

use std::fmt;

use binnacle_controllers::Objects;
use binnacle_fields::FieldRef;
use binnacle_fields::apiregistration::v1::{
    APIService, APIServiceCondition as ConditionFields, APIServiceSpec, APIServiceStatus,
    ServiceReference as ReferenceFields,
};
use binnacle_fields::core::v1::{Service, ServicePort, ServiceSpec};
use binnacle_fields::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use binnacle_meta::{LabelSelector, Status, Text};
use binnacle_registry::{Context, ListOptions, Match};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;
use binnacle_validation::names;

/// Access to the servers of aggregated APIs. The proxy implements it.
pub trait AggregatedServers: fmt::Debug + Send + Sync {
    /// Requests the resources of an APIService's group version from its server. The service in `spec.service` has the
    /// port and a ready endpoint.
    fn discover<'a>(&'a self, api_service: &'a Value) -> BoxFuture<'a, Result<(), DiscoveryError>>;
}

/// The reason why there is no successful response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryError {
    /// The request failed; the message becomes the message of the condition.
    Failed(String),
    /// The request was not sent because the CA bundle cannot be read; the condition stays unchanged.
    NotSent(String),
}

/// The name, namespace and port of `spec.service`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceReference {
    pub(super) namespace: Text,
    pub(super) name: Text,
    pub(super) port: i64,
}

impl ServiceReference {
    /// Returns `None` for an API that this server serves itself.
    pub(super) fn of(api_service: &Value) -> Option<Self> {
        let spec = FieldRef::<APIService>::root(api_service).at(APIService::SPEC).detached();
        let service = spec.at(APIServiceSpec::SERVICE).set()?;
        Some(Self {
            namespace: service.at(ReferenceFields::NAMESPACE).str().into(),
            name: service.at(ReferenceFields::NAME).str().into(),
            port: service.at(ReferenceFields::PORT).int().unwrap_or(443),
        })
    }

    /// Returns true if a service can have this name. Validation of APIServices does not check it.
    pub(super) fn is_possible(&self) -> bool {
        [&self.namespace, &self.name].into_iter().all(|name| names::dns1123_label(name).is_empty())
    }
}

impl fmt::Display for ServiceReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service/{} in {}", self.name, binnacle_meta::go_quote(&self.namespace))
    }
}

/// A condition `Available`, without its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) status: &'static str,
    pub(super) reason: Text,
    pub(super) message: Text,
}

impl Condition {
    pub(super) const LOCAL: Self = Self {
        status: "True",
        reason: Text::new_static("Local"),
        message: Text::new_static("Local APIServices are always available"),
    };

    fn new(status: &'static str, reason: &'static str, message: String) -> Self {
        Self { status, reason: Text::new_static(reason), message: message.into() }
    }

    fn unavailable(reason: &'static str, message: String) -> Self {
        Self::new("False", reason, message)
    }

    pub(super) fn is_reported_by(&self, object: &Value) -> bool {
        let status = FieldRef::<APIService>::root(object).at(APIService::STATUS).detached();
        status.at(APIServiceStatus::CONDITIONS).values().any(|condition| {
            condition.at(ConditionFields::TYPE).str() == "Available"
                && condition.at(ConditionFields::STATUS).str() == self.status
                && condition.at(ConditionFields::REASON).str() == self.reason
                && condition.at(ConditionFields::MESSAGE).str() == self.message
        })
    }
}

/// Lists the endpoint slices of a service.
pub(super) async fn slices(slices: &Objects, namespace: &str, labels: &LabelSelector) -> Result<Vec<Value>, Status> {
    let options = ListOptions { labels: labels.clone(), version: Match::Any, ..ListOptions::default() };
    let resource = slices.resource();
    let mut page = resource.list(&Context::internal(namespace), &options).await?;
    let mut found = Vec::new();
    while let Some(chunk) = page.next_chunk() {
        for entry in chunk {
            found.push(resource.collection.decode_entry(&entry)?);
        }
    }
    Ok(found)
}

/// Returns the condition of an unusable service, or `None`. Only a service with a cluster IP is checked further.
pub(super) fn of_service(reference: &ServiceReference, service: Option<&Value>, slices: &[Value]) -> Option<Condition> {
    let Some(service) = service else {
        return Some(Condition::unavailable("ServiceNotFound", format!("{reference} is not present")));
    };
    let spec = FieldRef::<Service>::root(service).at(Service::SPEC).detached();
    if spec.at(ServiceSpec::TYPE).str() != "ClusterIP" {
        return None;
    }
    let mut ports = spec.at(ServiceSpec::PORTS).values();
    let Some(port) = ports.find(|port| port.at(ServicePort::PORT).int() == Some(reference.port)) else {
        let message = format!("{reference} is not listening on port {}", reference.port);
        return Some(Condition::unavailable("ServicePortError", message));
    };
    if slices.is_empty() {
        return Some(Condition::unavailable(
            "EndpointsNotFound",
            format!("cannot find endpointslices for {reference}"),
        ));
    }
    let port_name = port.at(ServicePort::NAME).str();
    if !slices.iter().any(|slice| serves(slice, port_name)) {
        let quoted = binnacle_meta::go_quote(port_name);
        let message = format!("endpointslices for {reference} have no addresses with port name {quoted}");
        return Some(Condition::unavailable("MissingEndpoints", message));
    }
    None
}

/// Returns true if a slice has the port and an endpoint that is ready (or has no such condition).
fn serves(slice: &Value, port_name: &str) -> bool {
    let slice = FieldRef::<EndpointSlice>::root(slice);
    let ready = |endpoint: FieldRef<Endpoint>| {
        endpoint.at(Endpoint::CONDITIONS).at(EndpointConditions::READY).get_bool().unwrap_or(true)
    };
    let is_port = |port: FieldRef<EndpointPort>| {
        port.at(EndpointPort::NAME).get_str() == Some(port_name) && port.at(EndpointPort::PORT).is_set()
    };
    slice.at(EndpointSlice::ENDPOINTS).values().any(ready) && slice.at(EndpointSlice::PORTS).values().any(is_port)
}

/// Returns the condition for the server's response, or the reason why the request was not sent.
pub(super) async fn of_server(
    servers: Option<&dyn AggregatedServers>,
    api_service: &Value,
) -> Result<Condition, String> {
    let Some(servers) = servers else {
        return Ok(Condition::unavailable("FailedDiscoveryCheck", "this server does not proxy to others".to_owned()));
    };
    match servers.discover(api_service).await {
        Ok(()) => Ok(Condition::new("True", "Passed", "all checks passed".to_owned())),
        Err(DiscoveryError::Failed(why)) => Ok(Condition::unavailable("FailedDiscoveryCheck", why)),
        Err(DiscoveryError::NotSent(why)) => Err(why),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[derive(Debug)]
    struct Unreadable;

    impl AggregatedServers for Unreadable {
        fn discover<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Result<(), DiscoveryError>> {
            Box::pin(async { Err(DiscoveryError::NotSent("unable to parse bytes as PEM block".to_owned())) })
        }
    }

    #[test]
    fn recognizes_possible_service_names() {
        let long = "x".repeat(64);
        for (namespace, name, want) in [
            ("default", "a-1", true),
            ("default", "1a", true),
            ("..", "a", false),
            ("a/b", "c", false),
            ("", "a", false),
            ("default", "..", false),
            ("default", "-a", false),
            ("default", "a b", false),
            ("default", &long, false),
        ] {
            let reference = ServiceReference { namespace: namespace.into(), name: name.into(), port: 443 };
            assert_eq!(reference.is_possible(), want, "{reference}");
        }
    }

    /// The condition of an APIService whose CA bundle cannot be read stays unchanged.
    #[tokio::test]
    async fn unreadable_ca_bundle_yields_no_condition() {
        let condition = of_server(Some(&Unreadable), &Value::Null).await;
        assert_eq!(condition.err().as_deref(), Some("unable to parse bytes as PEM block"));
    }

    #[test]
    fn checks_service_and_endpoint_slices() {
        let reference = ServiceReference { namespace: "ns".into(), name: "agg".into(), port: 443 };
        let service = |kind: &str, port: i64| value!({"spec": {"type": kind, "ports": [{"name": "http", "port": 80i64}, {"name": "https", "port": port}]}});
        let slice = |ready: Value, port_name: &str| {
            value!({
                "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}}],
                "ports": [{"name": port_name, "port": 8443i64}]
            })
        };
        let unknown =
            value!({"endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"name": "https", "port": 8443i64}]});
        let no_number = value!({"endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"name": "https"}]});
        let good = slice(Value::Bool(true), "https");
        let cluster = |port| Some(service("ClusterIP", port));
        let missing = "endpointslices for service/agg in \"ns\" have no addresses with port name \"https\"";
        for (service, slices, want) in [
            (None, vec![], Some(("ServiceNotFound", "service/agg in \"ns\" is not present"))),
            (Some(service("ExternalName", 1)), vec![], None),
            (Some(service("NodePort", 1)), vec![], None),
            (cluster(8443), vec![], Some(("ServicePortError", "service/agg in \"ns\" is not listening on port 443"))),
            (cluster(443), vec![], Some(("EndpointsNotFound", "cannot find endpointslices for service/agg in \"ns\""))),
            (cluster(443), vec![slice(Value::Bool(false), "https")], Some(("MissingEndpoints", missing))),
            (cluster(443), vec![slice(Value::Bool(true), "http")], Some(("MissingEndpoints", missing))),
            (cluster(443), vec![no_number], Some(("MissingEndpoints", missing))),
            (cluster(443), vec![slice(Value::Bool(false), "https"), good], None),
            (cluster(443), vec![unknown], None),
        ] {
            let found = of_service(&reference, service.as_ref(), &slices);
            let found = found.as_ref().map(|c| (c.status, c.reason.as_str(), c.message.as_str()));
            assert_eq!(found, want.map(|(reason, message)| ("False", reason, message)));
        }
    }
}
