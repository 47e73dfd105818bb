//! The addresses at which this server reaches the services of the cluster: those of aggregated APIs and of webhooks.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context as Poller, Poll, Waker};
use std::time::{Duration, Instant};

use binnacle_egress::{Dialer, Egress, Network};
use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Service, ServicePort, ServiceSpec as SpecFields};
use binnacle_fields::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use binnacle_meta::{GroupResource, LabelSelector, Operator, Requirement, Status, StatusReason, Text, go_quote};
use binnacle_registry::{Catalog, Context, ListOptions, Match, Resource, WatchFrom};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;
use binnacle_store::Revision;
use binnacle_watchcache::Watcher;
use binnacle_webhook::{Itself, ServiceResolver};
use parking_lot::Mutex;

/// The maximum number of endpoint changes taken from a watch at once.
const BATCH: usize = 256;
/// The time without use after which a cached service is dropped when another one is added.
const UNUSED: Duration = Duration::from_secs(600);

/// The choice of the address to dial for a service (`--enable-aggregator-routing`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceRouting {
    /// Its cluster IP: the kernel or a proxy on this machine chooses an endpoint.
    ClusterIp,
    /// One of its endpoints, chosen by this server.
    Endpoints,
}

/// A resolver of services that reads the watch caches. It does not decode unchanged objects again.
pub struct ServiceAddresses {
    catalog: Catalog,
    routing: ServiceRouting,
    /// The address of this server, for the service `kubernetes`.
    own: Option<SocketAddr>,
    /// The client identity for calls of this server to itself.
    itself: Option<Itself>,
    egress: Egress,
    known: Mutex<HashMap<(Text, Text), Arc<CachedService>>>,
}

/// A cached service, with its parts that have been read.
struct CachedService {
    namespace: Text,
    name: Text,
    last_used: Mutex<Instant>,
    service: Mutex<Option<(Revision, Arc<ServiceSpec>)>>,
    endpoints: Mutex<Endpoints>,
}

/// The part of a service that determines its address.
struct ServiceSpec {
    kind: Text,
    cluster_ip: Text,
    external_name: Text,
    /// The first of its address families.
    family: Text,
    /// Name and number of each port.
    ports: Vec<(Text, i64)>,
}

/// The endpoint slices of a service, with a watch for their changes.
#[derive(Default)]
struct Endpoints {
    watcher: Option<Watcher>,
    /// Incremented at each change.
    generation: u64,
    slices: Option<Arc<[Slice]>>,
}

struct Slice {
    address_type: Text,
    /// The name and number of each port that has both.
    ports: Vec<(Text, i64)>,
    /// The first address of each endpoint that is ready or has no such condition.
    ready: Vec<Text>,
}

impl ServiceAddresses {
    /// Creates a resolver; `own` is the address at which this server reaches itself.
    pub fn new(catalog: Catalog, routing: ServiceRouting, own: Option<SocketAddr>) -> Self {
        Self { catalog, routing, own, itself: None, egress: Egress::default(), known: Mutex::default() }
    }

    /// Sets the egress of connections.
    #[must_use]
    pub fn leaving_by(self, egress: Egress) -> Self {
        Self { egress, ..self }
    }

    /// Sets the client identity for webhook calls to this server itself.
    #[must_use]
    pub fn calling_itself(self, itself: Itself) -> Self {
        Self { itself: Some(itself), ..self }
    }

    /// Returns the address of this server if the service is this server.
    fn own(&self, namespace: &str, name: &str, port: u16) -> Option<SocketAddr> {
        self.own.filter(|_| (namespace, name, port) == ("default", "kubernetes", 443))
    }

    fn known(&self, namespace: &str, name: &str) -> Arc<CachedService> {
        let now = Instant::now();
        let key = (Text::from(namespace), Text::from(name));
        let mut known = self.known.lock();
        if let Some(there) = known.get(&key) {
            *there.last_used.lock() = now;
            return there.clone();
        }
        known.retain(|_, other| now.duration_since(*other.last_used.lock()) < UNUSED);
        let service = Arc::new(CachedService {
            namespace: key.0.clone(),
            name: key.1.clone(),
            last_used: Mutex::new(now),
            service: Mutex::default(),
            endpoints: Mutex::default(),
        });
        known.insert(key, service.clone());
        service
    }

    async fn find(&self, namespace: &str, name: &str, port: u16) -> Result<String, String> {
        if let Some(own) = self.own(namespace, name, port) {
            return Ok(own.to_string());
        }
        let known = self.known(namespace, name);
        let message = |status: Status| status.message().to_owned();
        let service = known.service(&self.catalog).await.map_err(message)?;
        match self.routing {
            ServiceRouting::ClusterIp => service.by_cluster_ip(name, port),
            ServiceRouting::Endpoints => {
                let port_name = service.port_of_endpoints(name, port)?;
                let slices = known.slices(&self.catalog).await.map_err(message)?;
                let found = choose(&slices, &service.family, port_name, |n| rand::random_range(0..n.max(1)));
                found.ok_or_else(|| format!("no endpoints available for service {}", go_quote(name)))
            }
        }
    }
}

impl ServiceResolver for ServiceAddresses {
    fn resolve<'a>(&'a self, namespace: &'a str, name: &'a str, port: u16) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(self.find(namespace, name, port))
    }

    fn itself(&self, namespace: &str, name: &str, port: u16) -> Option<Itself> {
        self.own(namespace, name, port).and(self.itself.clone())
    }

    fn dialer(&self, to_service: bool) -> Option<Arc<Dialer>> {
        self.egress.dialer(if to_service { Network::Cluster } else { Network::ControlPlane })
    }
}

impl fmt::Debug for ServiceAddresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAddresses")
            .field("routing", &self.routing)
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}

impl CachedService {
    async fn service(&self, catalog: &Catalog) -> Result<Arc<ServiceSpec>, Status> {
        let resource = catalog.require("", "v1", "services")?;
        let found = resource.get(&Context::internal(&self.namespace), &self.name, Match::Any).await;
        let entry = found.map_err(|status| match status.is(StatusReason::NotFound) {
            // kube-apiserver's lister uses the singular name.
            true => Status::not_found(&GroupResource::new("", "service"), &self.name),
            false => status,
        })?;
        if let Some((revision, spec)) = &*self.service.lock()
            && *revision == entry.revision()
        {
            return Ok(spec.clone());
        }
        let spec = Arc::new(ServiceSpec::of(&resource.collection.decode_entry(&entry)?));
        *self.service.lock() = Some((entry.revision(), spec.clone()));
        Ok(spec)
    }

    async fn slices(&self, catalog: &Catalog) -> Result<Arc<[Slice]>, Status> {
        let generation = match self.unchanged() {
            Ok(slices) => return Ok(slices),
            Err(generation) => generation,
        };
        let resource = catalog.require("discovery.k8s.io", "v1", "endpointslices")?;
        let options = ListOptions { labels: self.label()?, version: Match::Any, ..ListOptions::default() };
        let context = Context::internal(&self.namespace);
        let generation = match generation {
            Some(generation) => Some(generation),
            // A later list is at least as new as the start of the watch. Without a watch, nothing is cached.
            None => match resource.watch(&context, &options, WatchFrom::ChangesOnly).await? {
                Ok(watcher) => {
                    let mut endpoints = self.endpoints.lock();
                    endpoints.watcher = Some(watcher);
                    endpoints.slices = None;
                    endpoints.generation += 1;
                    Some(endpoints.generation)
                }
                Err(_) => None,
            },
        };
        let slices: Arc<[Slice]> = list(&resource, &context, &options).await?.into();
        let mut endpoints = self.endpoints.lock();
        // The list may lack later changes. Then the next caller lists again.
        if generation == Some(endpoints.generation) {
            endpoints.slices = Some(slices.clone());
        }
        Ok(slices)
    }

    /// Returns the cached slices if they are unchanged. Otherwise returns the generation for which they must be listed,
    /// if a watch is open.
    fn unchanged(&self) -> Result<Arc<[Slice]>, Option<u64>> {
        let endpoints = &mut *self.endpoints.lock();
        let Some(watcher) = &mut endpoints.watcher else { return Err(None) };
        let mut poller = Poller::from_waker(Waker::noop());
        loop {
            let mut changes = Vec::new();
            match watcher.poll_batch(&mut poller, BATCH, &mut changes) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) => {
                    endpoints.slices = None;
                    endpoints.generation += 1;
                }
                // The watcher was too slow for the cache's window, or the cache was filled again.
                Poll::Ready(Err(_)) => {
                    *endpoints = Endpoints { generation: endpoints.generation + 1, ..Endpoints::default() };
                    return Err(None);
                }
            }
        }
        endpoints.slices.clone().ok_or(Some(endpoints.generation))
    }

    fn label(&self) -> Result<LabelSelector, Status> {
        let label = Requirement::new("kubernetes.io/service-name", Operator::Equals, vec![self.name.clone()]);
        let label = label.map_err(|error| Status::internal(error.to_string()))?;
        Ok(LabelSelector::new(vec![label]))
    }
}

async fn list(resource: &Resource, context: &Context, options: &ListOptions) -> Result<Vec<Slice>, Status> {
    let mut page = resource.list(context, options).await?;
    let mut slices = Vec::new();
    while let Some(chunk) = page.next_chunk() {
        for entry in chunk {
            slices.push(Slice::of(&resource.collection.decode_entry(&entry)?));
        }
    }
    Ok(slices)
}

impl ServiceSpec {
    fn of(service: &Value) -> Self {
        let spec = FieldRef::<Service>::root(service).at(Service::SPEC).detached();
        let text = |field| Text::from(spec.at(field).str());
        let family = spec.at(SpecFields::IP_FAMILIES).values().next();
        let port = |port: FieldRef<ServicePort>| {
            Some((port.at(ServicePort::NAME).str().into(), port.at(ServicePort::PORT).int()?))
        };
        Self {
            kind: text(SpecFields::TYPE),
            cluster_ip: text(SpecFields::CLUSTER_IP),
            external_name: text(SpecFields::EXTERNAL_NAME),
            family: family.map_or("", |family| family.str()).into(),
            ports: spec.at(SpecFields::PORTS).values().filter_map(port).collect(),
        }
    }

    fn by_cluster_ip(&self, name: &str, port: u16) -> Result<String, String> {
        match self.kind.as_str() {
            "ClusterIP" if self.cluster_ip == "None" => {
                Err("cannot route to service with ClusterIP \"None\"".to_owned())
            }
            "ClusterIP" | "LoadBalancer" | "NodePort" => {
                self.port(name, port)?;
                Ok(join(&self.cluster_ip, port.into()))
            }
            "ExternalName" => Ok(join(&self.external_name, port.into())),
            other => Err(format!("unsupported service type {}", go_quote(other))),
        }
    }

    /// Returns the name of a port, if the service is of a type with endpoints.
    fn port_of_endpoints(&self, name: &str, port: u16) -> Result<&str, String> {
        match self.kind.as_str() {
            "ClusterIP" | "LoadBalancer" | "NodePort" => self.port(name, port),
            other => Err(format!("unsupported service type {}", go_quote(other))),
        }
    }

    fn port(&self, name: &str, port: u16) -> Result<&str, String> {
        let found = self.ports.iter().find(|(_, number)| *number == i64::from(port));
        let missing = || format!("no service port {port} found for service {}", go_quote(name));
        found.map(|(name, _)| name.as_str()).ok_or_else(missing)
    }
}

impl Slice {
    fn of(slice: &Value) -> Self {
        let slice = FieldRef::<EndpointSlice>::root(slice);
        let is_ready = |endpoint: &FieldRef<Endpoint>| {
            endpoint.at(Endpoint::CONDITIONS).at(EndpointConditions::READY).get_bool().unwrap_or(true)
        };
        let address =
            |endpoint: FieldRef<Endpoint>| endpoint.at(Endpoint::ADDRESSES).values().next()?.get_str().map(Text::from);
        let port = |port: FieldRef<EndpointPort>| {
            Some((port.at(EndpointPort::NAME).get_str()?.into(), port.at(EndpointPort::PORT).int()?))
        };
        Self {
            address_type: slice.at(EndpointSlice::ADDRESS_TYPE).str().into(),
            ports: slice.at(EndpointSlice::PORTS).values().filter_map(port).collect(),
            ready: slice.at(EndpointSlice::ENDPOINTS).values().filter(is_ready).filter_map(address).collect(),
        }
    }
}

/// Chooses a ready endpoint for a port: of the service's first family if there is one, otherwise of any. `random_below`
/// returns a number below its argument.
fn choose(slices: &[Slice], family: &str, port: &str, random_below: impl Fn(usize) -> usize) -> Option<String> {
    let of = |preferred: bool| {
        let candidates = slices.iter().filter(move |slice| (slice.address_type == family) == preferred);
        let candidates = candidates.filter_map(|slice| {
            let number = slice.ports.iter().find(|(name, _)| name == port).map(|(_, number)| *number)?;
            (!slice.ready.is_empty()).then_some((slice, number))
        });
        candidates.collect::<Vec<_>>()
    };
    let preferred = of(true);
    let candidates = if preferred.is_empty() { of(false) } else { preferred };
    let (slice, number) = candidates.get(random_below(candidates.len()))?;
    let address = slice.ready.get(random_below(slice.ready.len()))?;
    Some(join(address, *number))
}

/// Returns `host:port`, with brackets around IPv6 addresses.
fn join(host: &str, port: i64) -> String {
    match host.parse() {
        Ok(IpAddr::V6(_)) => format!("[{host}]:{port}"),
        _ => format!("{host}:{port}"),
    }
}

#[cfg(test)]
mod tests;
