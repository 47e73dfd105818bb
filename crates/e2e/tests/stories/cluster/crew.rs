//! Controllers as tasks, and the errors that they expect.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

/// The interval at which a controller looks again when nothing seems to happen.
const RESYNC: Duration = Duration::from_millis(500);
/// The time for which changes are gathered before a controller looks at them.
const GATHER: Duration = Duration::from_millis(30);

/// Parts of the messages of etcd failures.
const ETCD_AWAY: [&str; 3] = ["rpc error", "etcd", "context deadline exceeded"];

/// Compares the actual with the desired state, and does a step from the one to the other.
pub(super) trait Controller: Send + 'static {
    fn sync(&mut self) -> impl Future<Output = ()> + Send;
}

/// Tasks that end with the value.
#[derive(Default)]
pub(super) struct Crew {
    tasks: JoinSet<()>,
}

/// The number of errors of each kind that controllers expect.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) conflicts: AtomicUsize,
    /// Requests that found no server, or one that was going down.
    pub(super) interruptions: AtomicUsize,
    /// Requests for objects that were gone already.
    pub(super) late: AtomicUsize,
    /// Requests for objects that somebody else had still to prepare.
    pub(super) early: AtomicUsize,
}

impl Crew {
    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Lets a controller look whenever something changed.
    pub(super) fn work(&mut self, changed: Arc<Notify>, mut controller: impl Controller) {
        self.spawn(async move {
            loop {
                let _ = tokio::time::timeout(RESYNC, changed.notified()).await;
                tokio::time::sleep(GATHER).await;
                controller.sync().await;
            }
        });
    }

    /// Fails when a task did.
    pub(super) fn check(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            ended.unwrap();
        }
    }
}

impl Tally {
    /// The answer, unless something went wrong with which a controller lives: it will look again. Anything else fails
    /// the test.
    pub(super) fn bear<T>(&self, who: &str, answer: Result<T, kube::Error>) -> Option<T> {
        let error = match answer {
            Ok(answer) => return Some(answer),
            Err(error) => error,
        };
        let count = match &error {
            kube::Error::Api(status) => match status.code {
                404 => &self.late,
                409 => &self.conflicts,
                429 | 503 | 504 => &self.interruptions,
                // etcd is away, or takes too long.
                500 if ETCD_AWAY.iter().any(|words| status.message.contains(words)) => &self.interruptions,
                // Nothing new gets into a namespace that is on its way out, and no pod into one without an account.
                403 if status.message.contains("because it is being terminated") => &self.late,
                403 if status.message.contains("error looking up service account") => &self.early,
                _ => panic!("{who}: {error}"),
            },
            kube::Error::SerdeError(_) | kube::Error::BuildRequest(_) => panic!("{who}: {error}"),
            _ => &self.interruptions,
        };
        count.fetch_add(1, Ordering::Relaxed);
        None
    }
}
