//! Runs controllers as tasks, and counts the errors that they tolerate.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

/// The interval at which a controller syncs without changes.
const RESYNC: Duration = Duration::from_millis(500);
/// The time for which changes are collected before a controller syncs.
const GATHER: Duration = Duration::from_millis(30);

/// Parts of the messages of etcd failures.
const ETCD_AWAY: [&str; 3] = ["rpc error", "etcd", "context deadline exceeded"];

/// Compares the actual with the desired state, and makes one step towards it.
pub(super) trait Controller: Send + 'static {
    fn sync(&mut self) -> impl Future<Output = ()> + Send;
}

/// Tasks that are aborted on drop.
#[derive(Default)]
pub(super) struct TaskSet {
    tasks: JoinSet<()>,
}

/// The number of tolerated errors of each kind.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) conflicts: AtomicUsize,
    /// Requests without a server, or to one that was shutting down.
    pub(super) interruptions: AtomicUsize,
    /// Requests for deleted objects.
    pub(super) late: AtomicUsize,
    /// Requests for objects that another controller had not prepared yet.
    pub(super) early: AtomicUsize,
}

impl TaskSet {
    pub(super) fn spawn(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Syncs a controller whenever something has changed.
    pub(super) fn work(&mut self, changed: Arc<Notify>, mut controller: impl Controller) {
        self.spawn(async move {
            loop {
                let _ = tokio::time::timeout(RESYNC, changed.notified()).await;
                tokio::time::sleep(GATHER).await;
                controller.sync().await;
            }
        });
    }

    /// Fails if a task has failed.
    pub(super) fn check(&mut self) {
        while let Some(ended) = self.tasks.try_join_next() {
            ended.unwrap();
        }
    }
}

impl Tally {
    /// Returns the response, or `None` after a tolerated error, because the controller syncs again. Others fail the
    /// test.
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
                // etcd is unavailable or too slow.
                500 if ETCD_AWAY.iter().any(|words| status.message.contains(words)) => &self.interruptions,
                // Nothing can be created in a terminating namespace, and no pod in one without an account.
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
