//! Controllers: what runs beside requests, from the start of the server to its shutdown.

use std::sync::Arc;
use std::time::Duration;

use binnacle_meta::{Status, StatusReason};
use binnacle_metrics::{WorkItem, WorkQueue};
use binnacle_request::{BoxFuture, Shutdown};
use tokio::sync::watch;

/// The minimum and maximum pause before a failed run is tried again.
pub const RETRY_FIRST: Duration = Duration::from_millis(100);
pub const RETRY_LAST: Duration = Duration::from_secs(10);

/// A controller, and the post-start hooks that are done when it has run once.
#[derive(Clone)]
pub struct Controller {
    name: &'static str,
    /// The names of other kube-apiserver hooks whose work this controller does as well.
    also: &'static [&'static str],
    /// The hook that has to be done before this controller starts.
    after: Option<&'static str>,
    how: How,
}

#[derive(Clone)]
enum How {
    /// Runs at the start, and again at intervals.
    Repeated(Repeated),
    /// Processes changes of resources until the shutdown signal.
    Watching(Watching),
}

#[derive(Clone)]
struct Repeated {
    ensure: Ensure,
    /// Whether the hook is done only after a success; otherwise the first attempt suffices. kube-apiserver reports a
    /// hook that only starts a controller as finished: a full etcd, or a webhook that refuses everything, must not block
    /// the requests that would help.
    required: bool,
    /// The time after which a successful run is repeated.
    every: Option<Duration>,
    /// The event that makes the next run due before.
    early: Option<Early>,
    /// Undoes the work when the server stops.
    undo: Option<Ensure>,
    /// The queues of kube-apiserver's controller; each run counts as one item of each.
    queues: Vec<WorkQueue>,
}

type Ensure = Arc<dyn Fn() -> BoxFuture<'static, Result<(), Status>> + Send + Sync>;
type Early = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;
type Watching = Arc<dyn Fn(watch::Sender<bool>, Shutdown) -> BoxFuture<'static, ()> + Send + Sync>;

impl Controller {
    /// Creates a controller that runs `ensure` at the start and every `every` seconds after a success; once without.
    /// A failed run is repeated after a pause that doubles.
    pub fn repeated<S: Send + Sync + 'static>(
        name: &'static str,
        every: Option<u64>,
        state: &Arc<S>,
        ensure: for<'a> fn(&'a S) -> BoxFuture<'a, Result<(), Status>>,
    ) -> Self {
        let repeated = Repeated {
            ensure: bound(state, ensure),
            required: true,
            every: every.map(Duration::from_secs),
            early: None,
            undo: None,
            queues: Vec::new(),
        };
        Self { name, also: &[], after: None, how: How::Repeated(repeated) }
    }

    /// Creates a controller that processes changes until the shutdown signal, and sends true when it has caught up.
    /// `also` are further hooks that are done then.
    pub fn watching<S: Send + Sync + 'static>(
        name: &'static str,
        also: &'static [&'static str],
        state: &Arc<S>,
        run: fn(Arc<S>, watch::Sender<bool>, Shutdown) -> BoxFuture<'static, ()>,
    ) -> Self {
        let state = state.clone();
        let watching: Watching = Arc::new(move |done, shutdown| run(state.clone(), done, shutdown));
        Self { name, also, after: None, how: How::Watching(watching) }
    }

    /// Starts the controller only after another's hook is done.
    pub fn after(self, hook: &'static str) -> Self {
        Self { after: Some(hook), ..self }
    }

    /// Returns the name of the hook that has to be done before.
    pub fn needs(&self) -> Option<&'static str> {
        self.after
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the names of the hooks that this controller completes.
    pub fn hooks(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.also.iter().copied())
    }

    /// Reports the hook as done after the first run, even if it has failed. For repeated controllers, as the following.
    pub fn optional(self) -> Self {
        self.with(|repeated| repeated.required = false)
    }

    /// Runs before the interval has passed when `due` ends.
    pub fn or_when<S: Send + Sync + 'static>(
        self,
        state: &Arc<S>,
        due: for<'a> fn(&'a S) -> BoxFuture<'a, ()>,
    ) -> Self {
        self.with(|repeated| repeated.early = Some(bound(state, due)))
    }

    /// Runs `undo` at shutdown if a run has succeeded.
    pub fn undone_by<S: Send + Sync + 'static>(
        self,
        state: &Arc<S>,
        undo: for<'a> fn(&'a S) -> BoxFuture<'a, Result<(), Status>>,
    ) -> Self {
        self.with(|repeated| repeated.undo = Some(bound(state, undo)))
    }

    /// Counts each run as an item of these queues.
    pub fn counted(self, queues: Vec<WorkQueue>) -> Self {
        self.with(|repeated| repeated.queues = queues)
    }

    fn with(mut self, change: impl FnOnce(&mut Repeated)) -> Self {
        if let How::Repeated(repeated) = &mut self.how {
            change(repeated);
        }
        self
    }

    pub(crate) async fn run(self, done: watch::Sender<bool>, shutdown: Shutdown) {
        match self.how {
            How::Watching(run) => run(done, shutdown).await,
            How::Repeated(repeated) => {
                repeated.run(self.name, &done, &shutdown).await;
                if let Some(undo) = &repeated.undo
                    && *done.borrow()
                    && let Err(status) = undo().await
                {
                    tracing::warn!(controller = self.name, error = status.message(), "could not be undone");
                }
            }
        }
    }
}

impl Repeated {
    /// Runs until the shutdown signal, or until a run has succeeded if there is no interval.
    async fn run(&self, name: &'static str, report: &watch::Sender<bool>, shutdown: &Shutdown) {
        let fired = shutdown.fired();
        tokio::pin!(fired);
        let mut retry = RETRY_FIRST;
        while !shutdown.is_fired() {
            let counted: Vec<WorkItem> = self.queues.iter().map(|queue| queue.add().begin()).collect();
            let ensured = (self.ensure)().await;
            drop(counted);
            let early = self.early.as_ref().filter(|_| ensured.is_ok());
            let pause = match ensured {
                Ok(()) => {
                    report.send_replace(true);
                    retry = RETRY_FIRST;
                    match self.every {
                        Some(every) => every,
                        None => return,
                    }
                }
                Err(status) => {
                    // An invalid object (e.g. endpoints at a loopback address) does not keep the server from serving.
                    if !self.required || status.is(StatusReason::Invalid) {
                        report.send_replace(true);
                    }
                    tracing::warn!(controller = name, error = status.message(), "will be tried again");
                    self.queues.iter().for_each(|queue| queue.retry(1));
                    let pause = retry;
                    retry = (retry * 2).min(RETRY_LAST);
                    pause
                }
            };
            let due = async {
                match early {
                    Some(early) => early().await,
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
