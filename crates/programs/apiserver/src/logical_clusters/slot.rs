//! A logical cluster while it is awake, and what is kept while it is asleep.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use binnacle_api_controllers::Selection;
use binnacle_controlplane::Bootstrap;
use binnacle_meta::Text;
use binnacle_pki::ClusterKeys;
use binnacle_request::{BoxError, Shutdown};
use binnacle_server::Chain;
use binnacle_store::{StorageUsage, StoredAmount};
use parking_lot::{Mutex as SyncMutex, RwLock};
use tokio::sync::{Mutex, oneshot, watch};
use tokio::task::JoinHandle;

use super::StartOptions;
use super::cluster_info::ClusterInfo;
use super::limits::Quota;
use super::starts::{AwakeGuard, Starts};

/// The maximum time that requests wait for the controllers of a cluster that starts. The cluster then serves
/// nevertheless, as a server does that cannot write its own objects.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// A logical cluster, awake or asleep.
pub(super) struct Slot {
    info: Arc<ClusterInfo>,
    starts: Arc<Starts>,
    host_shutdown: Shutdown,
    spec: RwLock<Spec>,
    /// The chain while the cluster is awake; for requests, which take no lock.
    chain: ArcSwapOption<Chain>,
    /// Held while the cluster starts or stops.
    state: Mutex<State>,
    /// What the cluster has stored, as of the time when it was last awake.
    usage: ArcSwapOption<StorageUsage>,
    /// The usage in the status of the object.
    reported: SyncMutex<Option<StoredAmount>>,
    /// The requests in progress.
    active: AtomicUsize,
    /// The numbers of requests, of those refused, and of starts.
    requests: AtomicU64,
    refused: AtomicU64,
    started: AtomicU64,
    began: Instant,
    /// The milliseconds from `began` to the end of the last request.
    last_used: AtomicU64,
}

/// What a cluster does, for metrics. Numbers are since the start of the host.
pub(super) struct Activity {
    pub(super) requests: u64,
    pub(super) refused: u64,
    pub(super) starts: u64,
    pub(super) in_flight: usize,
    pub(super) is_awake: bool,
    pub(super) stored: Option<StoredAmount>,
    /// The writes that wait for others of the cluster, those that have waited, and the time that they have.
    pub(super) waiting_writes: usize,
    pub(super) waited_writes: u64,
    pub(super) write_wait: Duration,
}

/// The settings of a cluster in its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spec {
    /// The time without requests after which the cluster is stopped. `None` means never.
    pub(super) idle_after: Option<Duration>,
    /// True if the cluster is stopped and refuses requests.
    pub(super) suspended: bool,
    /// The cluster's own port.
    pub(super) port: Option<u16>,
    pub(super) quota: Quota,
    /// The controllers to run in place of the host's.
    pub(super) controllers: Option<Selection>,
}

impl Spec {
    /// Returns what a start needs.
    fn start_options(&self) -> StartOptions {
        StartOptions { port: self.port, controllers: self.controllers.clone() }
    }
}

enum State {
    Asleep,
    Awake(ClusterTask),
    /// Removed: it is never started again.
    Closed,
}

/// A cluster that runs in a task of its own.
struct ClusterTask {
    started_with: StartOptions,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    _awake: AwakeGuard,
}

/// The reason why a cluster does not serve a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unavailable {
    #[error("the logical cluster is suspended")]
    Suspended,
    #[error("the logical cluster was deleted")]
    Closed,
    #[error("the logical cluster cannot be started")]
    Start(#[source] BoxError),
}

/// A request in progress, which keeps its cluster awake.
pub(super) struct ActiveRequest(Arc<Slot>);

impl Slot {
    pub(super) fn new(info: ClusterInfo, starts: Arc<Starts>, host_shutdown: Shutdown, spec: Spec) -> Self {
        Self {
            info: Arc::new(info),
            starts,
            host_shutdown,
            spec: RwLock::new(spec),
            chain: ArcSwapOption::empty(),
            state: Mutex::new(State::Asleep),
            usage: ArcSwapOption::empty(),
            reported: SyncMutex::default(),
            active: AtomicUsize::new(0),
            requests: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            started: AtomicU64::new(0),
            began: Instant::now(),
            last_used: AtomicU64::new(0),
        }
    }

    pub(super) fn name(&self) -> &Text {
        &self.info.name
    }

    pub(super) fn uid(&self) -> &Text {
        &self.info.uid
    }

    /// Returns true if the cluster has the objects that every cluster has.
    pub(super) fn has_started(&self) -> bool {
        self.info.bootstrap() == Bootstrap::Complete
    }

    pub(super) fn keys(&self) -> &ClusterKeys {
        &self.info.keys
    }

    /// Applies the settings of the object. A cluster that was started with others is stopped.
    pub(super) async fn set_spec(&self, spec: Spec) {
        self.info.limits.set(spec.quota);
        let options = spec.start_options();
        *self.spec.write() = spec;
        let is_other = matches!(&*self.state.lock().await, State::Awake(task) if task.started_with != options);
        if is_other {
            self.stop().await;
        }
    }

    pub(super) fn activity(&self) -> Activity {
        Activity {
            requests: self.requests.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            starts: self.started.load(Ordering::Relaxed),
            in_flight: self.active.load(Ordering::Relaxed),
            is_awake: self.chain.load().is_some(),
            stored: self.usage(),
            waiting_writes: self.info.limits.waits.waiting(),
            waited_writes: self.info.limits.waits.writes(),
            write_wait: self.info.limits.waits.time(),
        }
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.spec.read().suspended
    }

    /// Returns what the cluster has stored, if its quota limits it and it has been counted.
    pub(super) fn usage(&self) -> Option<StoredAmount> {
        self.usage.load().as_ref().and_then(|usage| usage.amount())
    }

    /// Returns the usage to report.
    pub(super) fn report_usage(&self) -> Option<StoredAmount> {
        let usage = self.usage();
        *self.reported.lock() = usage;
        usage
    }

    /// Returns true if the usage has changed since it was reported.
    pub(super) fn has_unreported_usage(&self) -> bool {
        *self.reported.lock() != self.usage()
    }

    /// Begins a request: the cluster is started if it is asleep, and stays awake until the guard is dropped.
    pub(super) async fn begin(self: Arc<Self>) -> Result<(Arc<Chain>, ActiveRequest), Unavailable> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let begun = self.clone().begin_active().await;
        if begun.is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        begun
    }

    async fn begin_active(self: Arc<Self>) -> Result<(Arc<Chain>, ActiveRequest), Unavailable> {
        // Counted before the chain is read: a cluster that goes to sleep removes the chain, and then reads the count.
        self.active.fetch_add(1, Ordering::SeqCst);
        let request = ActiveRequest(self);
        let slot = &request.0;
        if slot.spec.read().suspended {
            return Err(Unavailable::Suspended);
        }
        let chain = match slot.chain.load_full() {
            Some(chain) => chain,
            // In a task, since a start continues when its client leaves: the next request needs it.
            None => match tokio::spawn(slot.clone().wake()).await {
                Ok(awake) => awake?,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(error) => return Err(Unavailable::Start(error.into())),
            },
        };
        Ok((chain, request))
    }

    /// Starts the cluster unless it is awake, and waits until it can serve.
    async fn wake(self: Arc<Self>) -> Result<Arc<Chain>, Unavailable> {
        let began = Instant::now();
        let mut state = self.state.lock().await;
        match (&*state, self.chain.load_full()) {
            (State::Closed, _) => return Err(Unavailable::Closed),
            // Another request has started it meanwhile.
            (State::Awake(_), Some(chain)) => return Ok(chain),
            _ => {}
        }
        let options = self.spec.read().start_options();
        self.started.fetch_add(1, Ordering::Relaxed);
        let cluster = self.starts.start(&self.info, options.clone()).await.map_err(Unavailable::Start)?;
        self.usage.store(cluster.usage.clone());
        let chain = cluster.chain.clone();
        let (ready, mut is_ready) = watch::channel(false);
        let (stop, stopped) = oneshot::channel();
        let host_shutdown = self.host_shutdown.clone();
        let stopped = async move {
            tokio::select! {
                // An error means that the slot was dropped.
                _ = stopped => {}
                () = host_shutdown.fired() => {}
            }
        };
        let task = tokio::spawn(cluster.run(ready, stopped));
        // A cluster that ends before it is ready refuses requests.
        let waited = tokio::time::timeout(START_PATIENCE, is_ready.wait_for(|ready| *ready));
        let is_ready = matches!(waited.await, Ok(Ok(_)));
        if is_ready {
            self.info.set_bootstrap(Bootstrap::Complete);
        }
        *state = State::Awake(ClusterTask { started_with: options, stop, task, _awake: self.starts.count(began) });
        self.chain.store(Some(chain.clone()));
        Ok(chain)
    }

    /// Returns the time since the last request, if the cluster is awake and has none now.
    pub(super) fn unused_for(&self) -> Option<Duration> {
        let is_unused = self.chain.load().is_some() && self.active.load(Ordering::SeqCst) == 0;
        let last_used = Duration::from_millis(self.last_used.load(Ordering::Relaxed));
        is_unused.then(|| self.began.elapsed().saturating_sub(last_used))
    }

    /// Returns true if a cluster that is unused for this time should be stopped, as its object says.
    pub(super) fn is_idle_after(&self, unused: Duration) -> bool {
        self.spec.read().idle_after.is_some_and(|idle_after| unused >= idle_after)
    }

    /// Stops the cluster if it has no request.
    pub(super) async fn sleep(&self) {
        let mut state = self.state.lock().await;
        let State::Awake(_) = *state else { return };
        let chain = self.chain.swap(None);
        if self.active.load(Ordering::SeqCst) > 0 {
            self.chain.store(chain);
            return;
        }
        drop(chain);
        if let State::Awake(running) = std::mem::replace(&mut *state, State::Asleep) {
            running.stop().await;
        }
    }

    /// Stops the cluster. It is started again by its next request, unless its object says that it is suspended.
    pub(super) async fn stop(&self) {
        self.end(State::Asleep).await;
    }

    /// Stops the cluster, which is never started again.
    pub(super) async fn close(&self) {
        self.end(State::Closed).await;
    }

    async fn end(&self, then: State) {
        let mut state = self.state.lock().await;
        self.chain.store(None);
        if let State::Awake(running) = std::mem::replace(&mut *state, then) {
            running.stop().await;
        }
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let now = u64::try_from(self.0.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last_used.fetch_max(now, Ordering::Relaxed);
        self.0.active.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ClusterTask {
    async fn stop(self) {
        // The cluster may have ended already.
        let _ = self.stop.send(());
        if let Err(error) = self.task.await {
            tracing::error!(%error, "a logical cluster panicked");
        }
    }
}
