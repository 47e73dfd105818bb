//! Look back: reads of a cluster as it was at an earlier revision, below `/at/REVISION` or `/at/TIME`.
//!
//! The router turns the path into the header [`AT`]. The request passes the filters of the cluster as it is now, so that
//! today's users and permissions decide, and is then handled by a read-only cluster whose store ends at the revision.

mod times;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use binnacle_authz::{Attributes, Authorizer};
use binnacle_endpoints::failure_response;
use binnacle_meta::{GroupResource, Status};
use binnacle_registry::Catalog;
use binnacle_request::{BoxError, BoxFuture, Interceptor, Preferences, Request, Response, User};
use binnacle_server::Chain;
use binnacle_store::Revision;
use http::Method;
use http::header::HeaderName;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};

pub(crate) use self::times::{LeaseHistory, Times};
use crate::cluster::Cluster;
use crate::cluster_storage::{ClusterStorage, check_kept};

/// The header with the revision. A client may send it in place of the path.
pub(crate) static AT: HeaderName = HeaderName::from_static("binnacle-at");
/// The path whose permission `get` is needed to look back, besides those for the objects.
const PERMISSION: &str = "/at";
/// The time without requests after which a view is dropped.
const IDLE_AFTER: Duration = Duration::from_secs(60);
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The maximum time that a request waits for the resources of a view.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// The maximum number of views in the process. Each has the memory of a small server.
pub(crate) const MAX_VIEWS: usize = 16;
/// Subresources that are not stored: they are about what runs now.
const SESSIONS: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

/// Starts the read-only cluster of a view.
pub(crate) type StartView = dyn Fn(ClusterStorage) -> Result<Cluster, BoxError> + Send + Sync;

/// The views of one cluster.
pub(crate) struct LookBack {
    storage: ClusterStorage,
    authorizer: Arc<dyn Authorizer>,
    start: Arc<StartView>,
    /// The places for views in the process.
    places: Arc<Semaphore>,
    times: Arc<Times>,
    views: Mutex<HashMap<Revision, Arc<View>>>,
    /// Held while a view starts.
    starting: tokio::sync::Mutex<()>,
}

/// A cluster at one revision. It ends when it is dropped.
struct View {
    chain: Arc<Chain>,
    resources: Catalog,
    began: Instant,
    /// The milliseconds from `began` to the last request.
    last_used: AtomicU64,
    _stop: oneshot::Sender<()>,
    _place: OwnedSemaphorePermit,
}

impl LookBack {
    pub(crate) fn new(
        storage: ClusterStorage,
        authorizer: Arc<dyn Authorizer>,
        start: Arc<StartView>,
        (places, times): (Arc<Semaphore>, Arc<Times>),
    ) -> Arc<Self> {
        let (views, starting) = (Mutex::default(), tokio::sync::Mutex::default());
        let look_back = Arc::new(Self { storage, authorizer, start, places, times, views, starting });
        tokio::spawn(drop_idle_views(Arc::downgrade(&look_back)));
        look_back
    }

    async fn answer(&self, mut request: Request) -> Result<Response, Status> {
        let text = request.headers.remove(&AT).and_then(|text| text.to_str().map(str::to_owned).ok());
        let revision = self.revision(text.as_deref().unwrap_or_default()).await?;
        request.record.annotate("binnacle.dev/at", &revision.0.to_string());
        check_is_read(&request, revision)?;
        self.check_permission(&request.user.clone()).await?;
        let view = self.view(revision).await?;
        view.mark_used();
        let info = &request.info;
        // Objects of aggregated API servers would be those of today.
        if info.is_resource_request && view.resources.find(&info.api_group, &info.api_version, &info.resource).is_none()
        {
            return Err(Status::not_found(
                &GroupResource::new(info.api_group.clone(), info.resource.clone()),
                &info.name,
            ));
        }
        Ok(view.chain.dispatch(request).await)
    }

    /// Returns the revision that a number or a time names.
    async fn revision(&self, text: &str) -> Result<Revision, Status> {
        match text.parse() {
            Ok(0) => Err(Status::bad_request("revisions begin with 1")),
            Ok(revision) => Ok(Revision(revision)),
            Err(_) => self.times.revision_at(text, SystemTime::now()).await,
        }
    }

    async fn check_permission(&self, user: &User) -> Result<(), Status> {
        let attributes = Attributes { verb: "get", path: PERMISSION, ..Attributes::nothing(user) };
        let decision = self.authorizer.authorize(&attributes).await.map_err(Status::internal)?;
        match decision.is_allow() {
            true => Ok(()),
            false => {
                let why = format!("User {:?} cannot get path {PERMISSION:?}", &*user.name);
                Err(Status::forbidden(&GroupResource::new("", ""), "", why))
            }
        }
    }

    /// Returns the view of a revision, which is started if there is none.
    async fn view(&self, revision: Revision) -> Result<Arc<View>, Status> {
        check_kept(&*self.storage.main_view(), revision).await?;
        if let Some(view) = self.views.lock().get(&revision) {
            return Ok(view.clone());
        }
        let _starting = self.starting.lock().await;
        if let Some(view) = self.views.lock().get(&revision) {
            return Ok(view.clone());
        }
        let place = self.place().ok_or_else(|| {
            Status::too_many_requests("too many earlier revisions are being read, please try again later", 10)
        })?;
        let view = Arc::new(self.start_view(revision, place).await.map_err(Status::internal)?);
        self.views.lock().insert(revision, view.clone());
        Ok(view)
    }

    /// Takes a place for a view, if necessary that of the view of this cluster that is unused for the longest time.
    fn place(&self) -> Option<OwnedSemaphorePermit> {
        let free = || self.places.clone().try_acquire_owned().ok();
        free().or_else(|| {
            let mut views = self.views.lock();
            let unused = views.iter().filter(|(_, view)| Arc::strong_count(view) == 1);
            let oldest = unused.min_by_key(|(_, view)| view.began + view.last_used()).map(|(revision, _)| *revision)?;
            views.remove(&oldest);
            free()
        })
    }

    async fn start_view(&self, revision: Revision, place: OwnedSemaphorePermit) -> Result<View, BoxError> {
        let (start, storage) = (self.start.clone(), self.storage.clone().at(revision));
        let cluster = tokio::task::spawn_blocking(move || start(storage)).await??;
        let (chain, resources) = (cluster.chain.clone(), cluster.resources.clone());
        let (ready, mut is_ready) = watch::channel(false);
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            // An error means that the view was dropped.
            let _ = stopped.await;
        };
        tokio::spawn(cluster.run(ready, stopped));
        // A view that ends before it is ready has no resources.
        let _ = tokio::time::timeout(START_PATIENCE, is_ready.wait_for(|ready| *ready)).await;
        Ok(View { chain, resources, began: Instant::now(), last_used: AtomicU64::new(0), _stop: stop, _place: place })
    }
}

impl Interceptor for LookBack {
    fn intercepts(&self, request: &Request) -> bool {
        request.headers.contains_key(&AT)
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            let preferences = Preferences::of_request(&request);
            match self.answer(request).await {
                Ok(response) => response,
                Err(status) => failure_response(&status, &preferences),
            }
        })
    }
}

impl View {
    fn mark_used(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_used.fetch_max(now, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.began.elapsed().saturating_sub(self.last_used()) >= IDLE_AFTER
    }

    /// Returns the time of the last request since the start.
    fn last_used(&self) -> Duration {
        Duration::from_millis(self.last_used.load(Ordering::Relaxed))
    }
}

async fn drop_idle_views(look_back: Weak<LookBack>) {
    loop {
        tokio::time::sleep(IDLE_CHECK_INTERVAL).await;
        let Some(look_back) = look_back.upgrade() else { return };
        look_back.views.lock().retain(|_, view| !view.is_idle());
    }
}

/// Fails unless the request reads what is stored.
fn check_is_read(request: &Request, revision: Revision) -> Result<(), Status> {
    let info = &request.info;
    let is_get = matches!(request.method, Method::GET | Method::HEAD);
    let is_read =
        is_get && info.verb != "watch" && !SESSIONS.contains(&info.subresource.as_str()) && info.verb != "proxy";
    match is_read {
        true => Ok(()),
        false => Err(Status::past(revision.0)),
    }
}
