//! The loops that keep the objects of the cluster itself in place, and the order in which they begin.

use std::sync::Arc;
use std::time::Duration;

use binnacle_meta::Status;
use binnacle_registry::ResourceSet;
use binnacle_request::{BoxFuture, Shutdown};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::config::Config;
use crate::{flowcontrol, system_namespaces};

/// How soon a step that failed is tried again: first, and at last.
pub(crate) const RETRY_FIRST: Duration = Duration::from_millis(100);
pub(crate) const RETRY_LAST: Duration = Duration::from_secs(10);

/// The loops of a running server. They end with the shutdown signal that [`start`] was given.
pub struct ControlPlane {
    steps: Vec<Step>,
    task: JoinHandle<()>,
}

/// One of the things that are done at the start, by the name of its health check in the reference.
#[derive(Clone)]
pub struct Step {
    name: &'static str,
    done: watch::Receiver<bool>,
}

/// Begins the loops. Namespaces come first, since nothing can be made without them; all else follows at once.
pub fn start(resources: ResourceSet, config: Config, shutdown: Shutdown) -> ControlPlane {
    let work = Arc::new(Work { resources, config });
    let (namespaces, rest) = loops();
    let (first_report, first) = report(namespaces.name);
    let mut steps = vec![first.clone()];
    let (reports, rest_steps): (Vec<_>, Vec<_>) = rest.iter().map(|each| report(each.name)).unzip();
    steps.extend(rest_steps);
    let (follower_reports, follower_steps): (Vec<_>, Vec<_>) = FOLLOWERS.iter().map(|each| report(each.name)).unzip();
    steps.extend(follower_steps);
    let task = tokio::spawn(async move {
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(namespaces.run(work.clone(), first_report, shutdown.clone()));
        tokio::select! {
            () = first.wait() => {}
            () = shutdown.fired() => {}
        }
        for (each, report) in rest.into_iter().zip(reports) {
            tasks.spawn(each.run(work.clone(), report, shutdown.clone()));
        }
        for (each, report) in FOLLOWERS.iter().zip(follower_reports) {
            tasks.spawn((each.follow)(work.clone(), report, shutdown.clone()));
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a loop of the control plane broke off");
            }
        }
    });
    ControlPlane { steps, task }
}

/// What the loops work with.
pub(crate) struct Work {
    pub(crate) resources: ResourceSet,
    pub(crate) config: Config,
}

struct Loop {
    name: &'static str,
    /// Once done, it is done again after this time.
    every: Option<Duration>,
    ensure: Ensure,
}

type Ensure = for<'a> fn(&'a Work) -> BoxFuture<'a, Result<(), Status>>;

/// What acts when a resource changes, until the shutdown signal.
struct Follower {
    name: &'static str,
    follow: fn(Arc<Work>, watch::Sender<bool>, Shutdown) -> BoxFuture<'static, ()>,
}

const FOLLOWERS: &[Follower] =
    &[Follower { name: "priority-and-fairness-config-consumer", follow: flowcontrol::follow }];

fn loops() -> (Loop, Vec<Loop>) {
    let namespaces = Loop {
        name: "start-system-namespaces-controller",
        every: Some(Duration::from_secs(60)),
        ensure: |work| Box::pin(system_namespaces::ensure(&work.resources)),
    };
    let flow_control = Loop {
        name: "priority-and-fairness-config-producer",
        every: Some(Duration::from_secs(60)),
        ensure: |work| Box::pin(flowcontrol::ensure(&work.resources)),
    };
    (namespaces, vec![flow_control])
}

fn report(name: &'static str) -> (watch::Sender<bool>, Step) {
    let (report, done) = watch::channel(false);
    (report, Step { name, done })
}

impl Loop {
    async fn run(self, work: Arc<Work>, report: watch::Sender<bool>, shutdown: Shutdown) {
        let fired = shutdown.fired();
        tokio::pin!(fired);
        let mut retry = RETRY_FIRST;
        while !shutdown.is_fired() {
            let pause = match (self.ensure)(&work).await {
                Ok(()) => {
                    report.send_replace(true);
                    retry = RETRY_FIRST;
                    match self.every {
                        Some(every) => every,
                        None => return,
                    }
                }
                Err(status) => {
                    tracing::warn!(step = self.name, error = status.message(), "will be tried again");
                    let pause = retry;
                    retry = (retry * 2).min(RETRY_LAST);
                    pause
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = &mut fired => return,
            }
        }
    }
}

impl ControlPlane {
    /// What is done at the start, for health checks.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Waits until every step was done once.
    pub async fn done(&self) {
        for step in &self.steps {
            step.wait().await;
        }
    }

    /// Waits until the loops have ended, after the shutdown signal.
    pub async fn ended(self) {
        if let Err(error) = self.task.await {
            tracing::error!(%error, "the control plane broke off");
        }
    }
}

impl Step {
    /// The name of the reference's post-start hook for the same thing.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn is_done(&self) -> bool {
        *self.done.borrow()
    }

    /// Waits until it was done once; for ever if its loop has ended without.
    pub async fn wait(&self) {
        let mut done = self.done.clone();
        if done.wait_for(|done| *done).await.is_err() && !*done.borrow() {
            std::future::pending::<()>().await;
        }
    }
}
