//! Controllers: tasks that run from the start of the server to its shutdown, independently of requests.

use std::sync::Arc;
use std::time::Duration;

use binnacle_meta::{Status, StatusReason};
use binnacle_metrics::{WorkItem, WorkQueue};
use binnacle_request::{BoxFuture, Shutdown};
use tokio::sync::watch;

/// The minimum and maximum pause before a failed run is retried.
pub const RETRY_FIRST: Duration = Duration::from_millis(100);
pub const RETRY_LAST: Duration = Duration::from_secs(10);

/// A controller, with the post-start hooks that complete when it has run once.
#[derive(Clone)]
pub struct Controller {
    name: &'static str,
    /// The names of further kube-apiserver hooks whose work this controller does.
    also: &'static [&'static str],
    /// The hook that must complete before this controller starts.
    after: Option<&'static str>,
    schedule: Schedule,
}

#[derive(Clone)]
enum Schedule {
    /// Runs at the start, and again at intervals.
    Periodic(PeriodicTask),
    /// Processes changes of resources until the shutdown signal.
    Watch(WatchFn),
}

#[derive(Clone)]
struct PeriodicTask {
    run: RunFn,
    /// True if the hook completes only after a successful run; otherwise the first attempt suffices. kube-apiserver
    /// completes a hook that only starts a controller immediately: a full etcd, or a webhook that refuses everything,
    /// must not block the requests that would fix it.
    required: bool,
    /// The time after which a successful run is repeated.
    interval: Option<Duration>,
    /// The event that triggers the next run before the interval is over.
    trigger: Option<TriggerFn>,
    /// True if the work was done before, so that the first run follows an interval later.
    is_resumed: bool,
    /// Reverts the work when the server stops.
    cleanup: Option<RunFn>,
    /// The queues of kube-apiserver's controller; each run counts as one item of each.
    queues: Vec<WorkQueue>,
}

type RunFn = Arc<dyn Fn() -> BoxFuture<'static, Result<(), Status>> + Send + Sync>;
type TriggerFn = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;
type WatchFn = Arc<dyn Fn(watch::Sender<bool>, Shutdown) -> BoxFuture<'static, ()> + Send + Sync>;

impl Controller {
    /// Creates a controller that calls `run` at the start, and again `interval` seconds after each success; without an
    /// interval, until the first success. A failed run is retried with exponential backoff.
    pub fn periodic<S: Send + Sync + 'static>(
        name: &'static str,
        interval: Option<u64>,
        state: &Arc<S>,
        run: for<'a> fn(&'a S) -> BoxFuture<'a, Result<(), Status>>,
    ) -> Self {
        let periodic = PeriodicTask {
            run: bound(state, run),
            required: true,
            interval: interval.map(Duration::from_secs),
            trigger: None,
            is_resumed: false,
            cleanup: None,
            queues: Vec::new(),
        };
        Self { name, also: &[], after: None, schedule: Schedule::Periodic(periodic) }
    }

    /// Creates a controller that processes changes until the shutdown signal, and sends true when it has caught up. The
    /// hooks `also` complete at the same time.
    pub fn watch<S: Send + Sync + 'static>(
        name: &'static str,
        also: &'static [&'static str],
        state: &Arc<S>,
        run: fn(Arc<S>, watch::Sender<bool>, Shutdown) -> BoxFuture<'static, ()>,
    ) -> Self {
        let state = state.clone();
        let run: WatchFn = Arc::new(move |done, shutdown| run(state.clone(), done, shutdown));
        Self { name, also, after: None, schedule: Schedule::Watch(run) }
    }

    /// Starts the controller only after the hook of another one has completed.
    pub fn after(self, hook: &'static str) -> Self {
        Self { after: Some(hook), ..self }
    }

    /// Returns the name of the hook that must complete before this controller starts.
    pub fn dependency(&self) -> Option<&'static str> {
        self.after
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the names of the hooks that this controller completes.
    pub fn hooks(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.also.iter().copied())
    }

    /// Completes the hook after the first run, even if it has failed. This and the following methods affect only
    /// periodic controllers.
    pub fn optional(self) -> Self {
        self.with(|periodic| periodic.required = false)
    }

    /// Runs before the interval is over when the future of `due` completes.
    pub fn with_trigger<S: Send + Sync + 'static>(
        self,
        state: &Arc<S>,
        due: for<'a> fn(&'a S) -> BoxFuture<'a, ()>,
    ) -> Self {
        self.with(|periodic| periodic.trigger = Some(bound(state, due)))
    }

    /// Completes the hook at once, and runs for the first time when the interval is over: the work was done before.
    pub fn resumed(self) -> Self {
        self.with(|periodic| periodic.is_resumed = true)
    }

    /// Calls `cleanup` at shutdown if a run has succeeded.
    pub fn with_cleanup<S: Send + Sync + 'static>(
        self,
        state: &Arc<S>,
        cleanup: for<'a> fn(&'a S) -> BoxFuture<'a, Result<(), Status>>,
    ) -> Self {
        self.with(|periodic| periodic.cleanup = Some(bound(state, cleanup)))
    }

    /// Counts each run as an item of these queues.
    pub fn with_queues(self, queues: Vec<WorkQueue>) -> Self {
        self.with(|periodic| periodic.queues = queues)
    }

    fn with(mut self, change: impl FnOnce(&mut PeriodicTask)) -> Self {
        if let Schedule::Periodic(periodic) = &mut self.schedule {
            change(periodic);
        }
        self
    }

    pub(crate) async fn run(self, done: watch::Sender<bool>, shutdown: Shutdown) {
        match self.schedule {
            Schedule::Watch(run) => run(done, shutdown).await,
            Schedule::Periodic(periodic) => {
                periodic.run(self.name, &done, &shutdown).await;
                if let Some(cleanup) = &periodic.cleanup
                    && *done.borrow()
                    && let Err(status) = cleanup().await
                {
                    tracing::warn!(controller = self.name, error = status.message(), "failed to roll back");
                }
            }
        }
    }
}

impl PeriodicTask {
    /// Runs until the shutdown signal, or until a run has succeeded if there is no interval.
    async fn run(&self, name: &'static str, report: &watch::Sender<bool>, shutdown: &Shutdown) {
        let fired = shutdown.fired();
        tokio::pin!(fired);
        let mut retry = RETRY_FIRST;
        let mut is_done_before = self.is_resumed;
        while !shutdown.is_fired() {
            let outcome = match std::mem::take(&mut is_done_before) {
                true => Ok(()),
                false => {
                    let _counted: Vec<WorkItem> = self.queues.iter().map(|queue| queue.add().begin()).collect();
                    (self.run)().await
                }
            };
            let trigger = self.trigger.as_ref().filter(|_| outcome.is_ok());
            let pause = match outcome {
                Ok(()) => {
                    report.send_replace(true);
                    retry = RETRY_FIRST;
                    match self.interval {
                        Some(interval) => interval,
                        None => return,
                    }
                }
                Err(status) => {
                    // An invalid object (e.g. endpoints at a loopback address) must not keep the server from becoming
                    // ready.
                    if !self.required || status.is(StatusReason::Invalid) {
                        report.send_replace(true);
                    }
                    tracing::warn!(controller = name, error = status.message(), "sync failed, retrying");
                    self.queues.iter().for_each(|queue| queue.retry(1));
                    let pause = retry;
                    retry = (retry * 2).min(RETRY_LAST);
                    pause
                }
            };
            let due = async {
                match trigger {
                    Some(trigger) => trigger().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = due => {}
                () = &mut fired => return,
            }
        }
    }
}

/// Binds a function to the state that it works on.
fn bound<S: Send + Sync + 'static, T: 'static>(
    state: &Arc<S>,
    run: for<'a> fn(&'a S) -> BoxFuture<'a, T>,
) -> Arc<dyn Fn() -> BoxFuture<'static, T> + Send + Sync> {
    let state = state.clone();
    Arc::new(move || {
        let state = state.clone();
        Box::pin(async move { run(&state).await })
    })
}
