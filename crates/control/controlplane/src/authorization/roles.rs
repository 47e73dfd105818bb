//! The informers of roles and bindings, which feed the index of RBAC.

use std::sync::{Arc, OnceLock, Weak};

use binnacle_authz::{RbacIndex, RbacKind};
use binnacle_meta::Status;
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use binnacle_schema::Value;
use futures::future::try_join_all;
use tokio::task::JoinSet;

use binnacle_controllers::{EventHandler, Informer};

const GROUP: &str = "rbac.authorization.k8s.io";

/// The informers that keep an index of roles and bindings up to date.
pub struct RbacInformers {
    index: Arc<RbacIndex>,
    resources: Catalog,
    /// Weak: the tasks own the informers. Informers hold resources, and these hold the authorizer.
    informers: OnceLock<Vec<Weak<Informer<RbacHandler>>>>,
}

struct RbacHandler {
    kind: RbacKind,
    index: Arc<RbacIndex>,
}

impl EventHandler for RbacHandler {
    fn retain(&self, exists: &dyn Fn(&str, &str) -> bool) {
        self.index.retain(self.kind, exists);
    }

    fn put(&self, object: Value) {
        self.index.put(self.kind, &object);
    }

    fn remove(&self, namespace: &str, name: &str) {
        self.index.remove(self.kind, namespace, name);
    }
}

impl RbacInformers {
    /// Creates the index; [`RbacInformers::start`] starts the informers.
    pub fn new(resources: Catalog) -> Arc<Self> {
        Arc::new(Self { index: Arc::default(), resources, informers: OnceLock::new() })
    }

    pub fn index(&self) -> &Arc<RbacIndex> {
        &self.index
    }

    /// Starts the informers of the four kinds; they end with the shutdown signal. If the group is not served
    /// (`--runtime-config`), there are no roles. With `on_demand`, roles and bindings are read when the first decision needs
    /// them: those about administrators do not.
    pub fn start(&self, on_demand: bool, tasks: &mut JoinSet<()>, shutdown: &Shutdown) {
        let resource = |kind: RbacKind| Some((kind, self.resources.find(GROUP, "v1", kind.plural())?));
        let served = RbacKind::ALL.into_iter().filter_map(resource);
        let informers: Vec<_> = served
            .map(|(kind, resource)| Informer::new(resource.clone(), RbacHandler { kind, index: self.index.clone() }))
            .collect();
        if informers.len() < RbacKind::ALL.len() {
            tracing::warn!("{GROUP}/v1 is not served: there are no roles and bindings");
            self.index.ready.all();
        }
        self.informers.get_or_init(|| informers.iter().map(Arc::downgrade).collect());
        if !on_demand {
            self.index.ready.request();
        }
        for informer in informers {
            let (index, shutdown) = (self.index.clone(), shutdown.clone());
            tasks.spawn(async move {
                tokio::select! {
                    () = index.ready.requested() => {}
                    () = shutdown.fired() => return,
                }
                let read = index.clone();
                informer.run(shutdown, move || read.ready.part()).await;
            });
        }
    }

    /// Waits until the index has every write that was acknowledged before the call.
    pub async fn catch_up(&self) -> Result<(), Status> {
        let informers = self.informers.get().map(|all| all.iter().map(Weak::upgrade).collect::<Option<Vec<_>>>());
        let informers = informers.flatten();
        let informers = informers.ok_or_else(|| Status::too_many_requests("storage is (re)initializing", 1))?;
        self.index.ready.request();
        try_join_all(informers.iter().map(|informer| informer.catch_up())).await.map(drop)
    }
}
