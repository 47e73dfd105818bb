//! The aggregator, which watches APIServices and holds the state of all of them.

pub(crate) mod discovery;
pub(crate) mod documents;
pub(crate) mod openapi;
pub(crate) mod peers;
pub(crate) mod proxy;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, ArcSwapOption};
use binnacle_client::CertificateMetrics;
use binnacle_controllers::{EventHandler, Informer, PostStartHook};
use binnacle_discovery::{Addresses, DiscoveryMetrics};
use binnacle_fields::FieldRef;
use binnacle_fields::apiregistration::v1::{APIService, APIServiceSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_meta::{Status, Text};
use binnacle_openapi::RemoteDocuments;
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use binnacle_schema::Value;
use binnacle_webhook::ServiceResolver;
use parking_lot::Mutex;
use rustls::client::ResolvesClientCert;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use self::openapi::Specs;
use crate::aggregator::discovery::MergedDiscovery;
use crate::aggregator::documents::{DiscoveryPoller, Documents};
use crate::aggregator::peers::Peers;
use crate::loop_detection::Hop;
use crate::registry::{ApiServiceEntry, Registry};
use crate::remote::{Remote, Remotes};

/// The options of an aggregator.
pub struct AggregatorOptions {
    pub catalog: Catalog,
    /// Resolves the addresses of services.
    pub resolver: Arc<dyn ServiceResolver>,
    /// This server's client certificate for other servers (`--proxy-client-cert-file`).
    pub identity: Option<Arc<dyn ResolvesClientCert>>,
    /// `--aggregator-reject-forwarding-redirect`.
    pub rejects_redirects: bool,
    /// This server's addresses in discovery documents.
    pub addresses: Addresses,
    /// Counts aggregated discovery documents.
    pub discovery_metrics: Option<DiscoveryMetrics>,
    /// Counts errors of other servers' certificates.
    pub certificates: Option<CertificateMetrics>,
}

/// API aggregation. Clones share their state.
#[derive(Clone)]
pub struct Aggregator(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) catalog: Catalog,
    pub(crate) addresses: Addresses,
    pub(crate) discovery_metrics: Option<DiscoveryMetrics>,
    /// The other servers of the cluster, if requests are forwarded to them.
    pub(crate) peers: OnceLock<Peers>,
    pub(crate) rejects_redirects: bool,
    pub(crate) hop: Hop,
    /// True if this server has a client certificate for other servers.
    has_identity: bool,
    pub(crate) remotes: Remotes,
    pub(crate) registry: ArcSwap<Registry>,
    pub(crate) documents: Documents,
    pub(crate) specs: Specs,
    /// Incremented on each change of APIServices or of their servers' documents.
    pub(crate) generation: AtomicU64,
    pub(crate) merged: ArcSwapOption<MergedDiscovery>,
    readers: Mutex<DocumentReaders>,
}

/// The tasks that poll the documents of remote servers, two per APIService. Dropping this value ends them.
#[derive(Default)]
struct DocumentReaders {
    by_name: HashMap<Text, ReaderTasks>,
    tasks: JoinSet<()>,
}

/// The contents of the next [`Registry`].
struct RegistryUpdate {
    by_name: BTreeMap<Text, ApiServiceEntry>,
    is_complete: bool,
}

struct ReaderTasks {
    /// Notified when the APIService changes: one for the task that polls discovery documents, one for the task that
    /// polls OpenAPI documents.
    changed: [Arc<Notify>; 2],
    /// True once the server has been queried for the first time.
    tried: watch::Receiver<bool>,
    tasks: [tokio::task::AbortHandle; 2],
}

impl Aggregator {
    pub fn new(options: AggregatorOptions) -> Self {
        Self(Arc::new(Inner {
            catalog: options.catalog,
            addresses: options.addresses,
            discovery_metrics: options.discovery_metrics,
            peers: OnceLock::new(),
            rejects_redirects: options.rejects_redirects,
            hop: Hop::new(),
            has_identity: options.identity.is_some(),
            remotes: Remotes::new(options.resolver, options.identity, options.certificates),
            registry: ArcSwap::default(),
            documents: Documents::default(),
            specs: Specs::default(),
            generation: AtomicU64::new(1),
            merged: ArcSwapOption::empty(),
            readers: Mutex::default(),
        }))
    }

    /// Returns true once all APIServices have been read.
    pub fn is_complete(&self) -> bool {
        self.0.registry.load().is_complete
    }

    /// Returns the OpenAPI documents of remote servers.
    pub fn openapi(&self) -> Arc<RemoteDocuments> {
        self.0.specs.others()
    }

    /// Adds the resources of peers to discovery. Only the first call has an effect.
    pub(crate) fn set_peers(&self, peers: Peers) {
        drop(self.0.peers.set(peers));
    }

    /// Returns true for paths that the server of an APIService serves.
    pub(crate) fn proxies(&self, path: &str) -> bool {
        self.0.registry.load().remote_of(path).is_some()
    }

    pub(crate) fn remotes(&self) -> &Remotes {
        &self.0.remotes
    }

    /// Watches all APIServices until the shutdown signal. The returned hooks complete when requests can be forwarded,
    /// and when discovery has the resources of every server.
    pub fn start(&self, tasks: &mut JoinSet<()>, shutdown: &Shutdown) -> Result<Vec<PostStartHook>, Status> {
        let resource = self.0.catalog.require("apiregistration.k8s.io", "v1", "apiservices")?;
        let informer = Informer::new(resource, self.clone());
        let mut hooks = Vec::new();
        let mut hook = |name| {
            let (hook, done) = PostStartHook::new(name);
            hooks.push(hook);
            done
        };
        let routed = [hook("start-kube-aggregator-informers"), hook("apiservice-wait-for-first-sync")];
        let identified = self.0.has_identity.then(|| hook("aggregator-reload-proxy-client-cert"));
        let discovered = [
            hook("apiservice-discovery-controller"),
            hook("apiservice-openapi-controller"),
            hook("apiservice-openapiv3-controller"),
        ];
        let report = |hooks: &[watch::Sender<bool>]| {
            for done in hooks {
                done.send_replace(true);
            }
        };
        let (aggregator, shutdown) = (self.clone(), shutdown.clone());
        tasks.spawn(async move {
            let (read, is_read) = tokio::sync::oneshot::channel();
            let stopped = shutdown.fired();
            let informer_task = informer.run(shutdown, move || read.send(()).unwrap_or_default());
            let startup = async {
                if is_read.await.is_ok() {
                    aggregator.change(|registry| registry.is_complete = true);
                    report(&routed);
                    report(identified.as_slice());
                    aggregator.wait_for_first_attempts().await;
                    report(&discovered);
                }
            };
            tokio::join!(informer_task, async {
                tokio::select! {
                    () = startup => {}
                    () = stopped => {}
                }
            });
            aggregator.0.readers.lock().tasks.abort_all();
        });
        Ok(hooks)
    }

    /// Waits until every server has been queried once.
    async fn wait_for_first_attempts(&self) {
        let tried: Vec<_> = self.0.readers.lock().by_name.values().map(|one| one.tried.clone()).collect();
        for mut tried in tried {
            // Does not wait for a server that is removed meanwhile.
            drop(tried.wait_for(|tried| *tried).await);
        }
    }

    /// Changes the set of APIServices.
    fn change<T>(&self, change: impl FnOnce(&mut RegistryUpdate) -> T) -> T {
        let _one_at_a_time = self.0.readers.lock();
        let current = self.0.registry.load();
        let mut update = RegistryUpdate { by_name: current.by_name.clone(), is_complete: current.is_complete };
        let result = change(&mut update);
        self.0.registry.store(Arc::new(Registry::new(update.by_name, update.is_complete)));
        self.0.changed();
        result
    }

    /// Starts the tasks for an APIService's server, or notifies them of a change.
    fn start_or_notify(&self, remote: &Arc<Remote>) {
        let mut readers = self.0.readers.lock();
        while readers.tasks.try_join_next().is_some() {}
        if let Some(current) = readers.by_name.get(&remote.name) {
            current.changed.iter().for_each(|changed| changed.notify_one());
            return;
        }
        let changed = [Arc::new(Notify::new()), Arc::new(Notify::new())];
        let (report, tried) = watch::channel(false);
        let poller = DiscoveryPoller { name: remote.name.clone(), changed: changed[0].clone(), tried: report };
        let inner = Arc::downgrade(&self.0);
        let openapi_poller = openapi::poll(inner.clone(), remote.name.clone(), changed[1].clone());
        let tasks = [readers.tasks.spawn(poller.run(inner)), readers.tasks.spawn(openapi_poller)];
        readers.by_name.insert(remote.name.clone(), ReaderTasks { changed, tried, tasks });
    }

    fn forget(&self, name: &str) {
        let mut readers = self.0.readers.lock();
        if let Some(current) = readers.by_name.remove(name) {
            current.tasks.iter().for_each(tokio::task::AbortHandle::abort);
        }
        drop(readers);
        self.0.documents.forget(name, &self.0.registry.load());
        self.0.specs.forget(name);
        self.0.changed();
    }
}

impl Inner {
    /// Records a change of the discovery documents.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}

impl EventHandler for Aggregator {
    fn retain(&self, exists: &dyn Fn(&str, &str) -> bool) {
        let removed = self.change(|RegistryUpdate { by_name, .. }| {
            let removed: Vec<Text> = by_name.keys().filter(|name| !exists("", name)).cloned().collect();
            removed.iter().for_each(|name| drop(by_name.remove(name)));
            removed
        });
        removed.iter().for_each(|name| self.forget(name));
    }

    fn put(&self, object: Value) {
        let api_service = FieldRef::<APIService>::root(&object);
        let name = Text::from(api_service.at(APIService::METADATA).at(ObjectMeta::NAME).str());
        let remote = self.0.remotes.of(&object).map(Arc::new);
        if let Some(Remote { connections: Err(why), .. }) = remote.as_deref() {
            tracing::warn!(api_service = %name, error = why, "failed to connect to aggregated API server");
        }
        let spec = api_service.at(APIService::SPEC);
        let priority = |field| i32::try_from(spec.at(field).int_or_zero()).unwrap_or_default();
        let entry = ApiServiceEntry {
            group: spec.at(APIServiceSpec::GROUP).str().into(),
            version: spec.at(APIServiceSpec::VERSION).str().into(),
            group_priority: priority(APIServiceSpec::GROUP_PRIORITY_MINIMUM),
            version_priority: priority(APIServiceSpec::VERSION_PRIORITY),
            remote: remote.clone(),
        };
        self.change(|update| drop(update.by_name.insert(name.clone(), entry)));
        match remote {
            Some(remote) => self.start_or_notify(&remote),
            None => self.forget(&name),
        }
    }

    fn remove(&self, _: &str, name: &str) {
        self.change(|update| drop(update.by_name.remove(name)));
        self.forget(name);
    }
}

impl fmt::Debug for Aggregator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aggregator").field("known", &self.0.registry.load().by_name.len()).finish_non_exhaustive()
    }
}
