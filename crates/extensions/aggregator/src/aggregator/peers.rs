//! Peers: servers of the same cluster that may serve other resources, as servers of another version do during an
//! upgrade of the cluster (KEP-4020).
//!
//! Every server holds an identity lease. [`Peers`] watches the leases, reads the resources of each peer
//! ([`sync`](self::sync)), and forwards requests for resources that this server lacks to a peer that serves them
//! ([`interceptor`](self::interceptor)). Custom resources and resources of aggregated servers are the same for all
//! servers, and are never requested from peers ([`shared`](self::shared)).

mod interceptor;
mod metrics;
mod shared;
mod sync;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use binnacle_client::ConnectionOptions;
use binnacle_controllers::{EventHandler, Informer, PostStartHook};
use binnacle_discovery::DiscoveredGroup;
use binnacle_fields::FieldRef;
use binnacle_fields::coordination::v1::{Lease, LeaseSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_meta::{LabelSelector, Status, Text};
use binnacle_registry::Catalog;
use binnacle_request::{RequestInfo, Shutdown};
use binnacle_schema::Value;
use parking_lot::Mutex;
use rustls::client::ResolvesClientCert;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::aggregator::Aggregator;
use crate::peer_addresses::PeerAddresses;
use crate::server_trust::{ServerTrust, TrustOptions};
pub use metrics::PeerMetrics;
use shared::Shared;

/// The name in the certificates of the peers, which all servers of the cluster share.
const SERVER_NAME: &str = "kubernetes.default.svc";
const IDENTITY_LEASES: &str = "apiserver.kubernetes.io/identity=kube-apiserver";

/// The options for reaching the peers.
pub struct PeerOptions {
    /// The name of this server's identity lease.
    pub name: Text,
    pub catalog: Catalog,
    pub aggregator: Aggregator,
    pub addresses: PeerAddresses,
    /// The client certificate that identifies this server as a member of the cluster (`--proxy-client-cert-file`).
    pub identity: Arc<dyn ResolvesClientCert>,
    /// `--peer-ca-file`: the file with the authorities of the peers' certificates.
    pub authorities: PathBuf,
    /// The route to the servers of the control plane.
    pub connection: ConnectionOptions,
    pub metrics: PeerMetrics,
}

/// The peers of this server. Clones share their state.
#[derive(Clone)]
pub struct Peers(Arc<Inner>);

struct Inner {
    name: Text,
    catalog: Catalog,
    aggregator: Aggregator,
    addresses: PeerAddresses,
    trust: ServerTrust,
    metrics: PeerMetrics,
    leases: Mutex<PeerLeases>,
    leases_changed: Notify,
    /// The resources of the peers, by server name.
    served: ArcSwap<BTreeMap<Text, PeerResources>>,
    shared: Shared,
    /// True once all peers and their resources have been read.
    is_complete: AtomicBool,
    /// Incremented on each change of the peers' resources.
    generation: AtomicU64,
    /// The number of requests so far, by which they are distributed among servers.
    round_robin: AtomicUsize,
}

/// The resources of a peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct PeerResources {
    /// The group, version and plural of each resource.
    resources: HashSet<(Text, Text, Text)>,
    /// The groups in its `/apis`.
    groups: Vec<DiscoveredGroup>,
}

impl Peers {
    /// Creates the peers; fails with the reason if the file of the authorities cannot be used.
    pub fn new(options: PeerOptions) -> Result<Self, String> {
        let trust = ServerTrust::new(TrustOptions {
            flag: "--peer-ca-file",
            path: options.authorities,
            server_name: SERVER_NAME.to_owned(),
            identity: options.identity,
            connection: options.connection,
        })?;
        let peers = Self(Arc::new(Inner {
            name: options.name,
            catalog: options.catalog,
            aggregator: options.aggregator.clone(),
            addresses: options.addresses,
            trust,
            metrics: options.metrics,
            leases: Mutex::default(),
            leases_changed: Notify::new(),
            served: ArcSwap::default(),
            shared: Shared::default(),
            is_complete: AtomicBool::new(false),
            generation: AtomicU64::new(1),
            round_robin: AtomicUsize::new(0),
        }));
        options.aggregator.set_peers(peers.clone());
        Ok(peers)
    }

    /// Watches the peers until the shutdown signal. The returned hooks complete when requests can be forwarded, and
    /// when every peer has been queried once.
    pub fn start(&self, tasks: &mut JoinSet<()>, shutdown: &Shutdown) -> Result<Vec<PostStartHook>, Status> {
        let catalog = &self.0.catalog;
        let leases = catalog.require("coordination.k8s.io", "v1", "leases")?;
        let selector = LabelSelector::parse(IDENTITY_LEASES).map_err(|error| Status::internal(error.to_string()))?;
        let mut first_lists = Vec::new();
        spawn_informer(
            Informer::with_selector(leases, selector, LeaseHandler(self.clone())),
            tasks,
            shutdown,
            &mut first_lists,
        );
        let services = catalog.require("apiregistration.k8s.io", "v1", "apiservices")?;
        spawn_informer(Informer::new(services, shared::services(self)), tasks, shutdown, &mut first_lists);
        // Without custom resources, there are no definitions.
        if let Ok(definitions) = catalog.require("apiextensions.k8s.io", "v1", "customresourcedefinitions") {
            spawn_informer(Informer::new(definitions, shared::definitions(self)), tasks, shutdown, &mut first_lists);
        }
        let (routed, is_routed) = PostStartHook::new("mixed-version-proxy-handler");
        let (local, is_local) = PostStartHook::new("local-discovery-cache-sync");
        let (synced, is_synced) = PostStartHook::new("peer-discovery-workers");
        let (peers, shutdown) = (self.clone(), shutdown.clone());
        tasks.spawn(async move {
            let stopped = shutdown.fired();
            let work = async {
                if futures::future::try_join_all(first_lists).await.is_err() {
                    return;
                }
                is_local.send_replace(true);
                peers.0.is_complete.store(true, Ordering::Release);
                is_routed.send_replace(true);
                peers.sync_forever(|| is_synced.send_replace(true)).await;
            };
            tokio::select! {
                () = work => {}
                () = stopped => {}
            }
        });
        Ok(vec![routed, local, synced])
    }

    /// Returns true for a resource that neither this server nor an aggregated one serves, so that a peer may have it.
    fn is_missing_locally(&self, info: &RequestInfo) -> bool {
        let (group, version, resource) = (&info.api_group, &info.api_version, &info.resource);
        let is_own = self.0.catalog.snapshot().served().find(group, version, resource).is_some();
        info.is_resource_request && !is_own && !self.0.aggregator.proxies(&info.path)
    }

    /// Returns the names of the peers that serve a resource.
    fn servers_with(&self, info: &RequestInfo) -> Vec<Text> {
        if !self.0.is_complete.load(Ordering::Acquire) || self.0.shared.has(&info.api_group, &info.api_version) {
            return Vec::new();
        }
        let requested = (info.api_group.clone(), info.api_version.clone(), info.resource.clone());
        let served = self.0.served.load();
        served
            .iter()
            .filter(|(_, served)| served.resources.contains(&requested))
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Returns this server's name.
    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the generation of [`Peers::groups`], which increases with each change.
    pub(crate) fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// Returns the groups of the peers, without the group versions that all servers share.
    pub(crate) fn groups(&self) -> BTreeMap<Text, Vec<DiscoveredGroup>> {
        let without_shared = |group: &DiscoveredGroup| {
            let mut group = group.clone();
            group.versions.retain(|version| !self.0.shared.has(&group.name, &version.version));
            (!group.versions.is_empty()).then_some(group)
        };
        let served = self.0.served.load();
        served
            .iter()
            .map(|(name, served)| (name.clone(), served.groups.iter().filter_map(without_shared).collect()))
            .collect()
    }

    fn changed(&self) {
        self.0.generation.fetch_add(1, Ordering::AcqRel);
    }
}

/// Spawns an informer, and adds a receiver for the end of its first list to `first_lists`.
fn spawn_informer<H: EventHandler>(
    informer: Arc<Informer<H>>,
    tasks: &mut JoinSet<()>,
    shutdown: &Shutdown,
    first_lists: &mut Vec<tokio::sync::oneshot::Receiver<()>>,
) {
    let (report, is_read) = tokio::sync::oneshot::channel();
    first_lists.push(is_read);
    tasks.spawn(informer.run(shutdown.clone(), move || report.send(()).unwrap_or_default()));
}

/// Receives the identity leases of the peers.
struct LeaseHandler(Peers);

impl LeaseHandler {
    /// Changes the leases. `change` returns true if names or holders have changed, which renewals do not.
    fn change(&self, change: impl FnOnce(&mut PeerLeases) -> bool) {
        if change(&mut self.0.0.leases.lock()) {
            self.0.0.leases_changed.notify_one();
        }
    }
}

/// The holders of the other servers' identity leases, by server name. There may be many, because whoever may write
/// leases in `kube-system` may label them, so the cost of an event does not depend on their number.
#[derive(Default)]
struct PeerLeases(BTreeMap<Text, Text>);

impl PeerLeases {
    fn put(&mut self, name: &str, holder: &str) -> bool {
        if self.0.get(name).is_some_and(|before| **before == *holder) {
            return false;
        }
        self.0.insert(name.into(), holder.into());
        true
    }

    fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    fn retain(&mut self, exists: impl Fn(&str) -> bool) -> bool {
        let before = self.0.len();
        self.0.retain(|name, _| exists(name));
        self.0.len() != before
    }

    fn names(&self) -> Vec<Text> {
        self.0.keys().cloned().collect()
    }
}

impl EventHandler for LeaseHandler {
    fn retain(&self, exists: &dyn Fn(&str, &str) -> bool) {
        self.change(|leases| leases.retain(|name| exists("kube-system", name)));
    }

    fn put(&self, lease: Value) {
        let lease = FieldRef::<Lease>::root(&lease);
        let metadata = lease.at(Lease::METADATA);
        let (namespace, name) = (metadata.at(ObjectMeta::NAMESPACE).str(), metadata.at(ObjectMeta::NAME).str());
        let holder = lease.at(Lease::SPEC).at(LeaseSpec::HOLDER_IDENTITY).str();
        if namespace != "kube-system" || name == self.0.name() || holder.is_empty() {
            return;
        }
        self.change(|leases| leases.put(name, holder));
    }

    fn remove(&self, namespace: &str, name: &str) {
        if namespace == "kube-system" {
            self.change(|leases| leases.remove(name));
        }
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers").field("known", &self.0.served.load().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_changes_of_leases_but_not_renewals() {
        let mut leases = PeerLeases::default();
        assert!(leases.put("a", "one") && leases.put("b", "two"));
        assert!(!leases.put("a", "one"));
        assert!(leases.put("a", "another"));
        assert_eq!(leases.names(), ["a", "b"]);
        assert!(!leases.retain(|_| true) && leases.retain(|name| name == "b"));
        assert!(!leases.remove("a") && leases.remove("b"));
        assert!(leases.names().is_empty());
    }
}
