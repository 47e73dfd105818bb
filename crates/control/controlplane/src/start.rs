//! The loops that maintain the cluster's own objects, and the order in which they start.

use std::sync::Arc;
use std::time::Duration;

use binnacle_features::Features;
use binnacle_meta::{Status, StatusReason};
use binnacle_metrics::{WorkItem, WorkQueue};
use binnacle_registry::Catalog;
use binnacle_request::{BoxFuture, Shutdown};
use binnacle_supervise::supervise;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::apiservices::Registrations;
use crate::config::Config;
use crate::identity_lease::Identity;
use crate::storage_versions::StorageVersions;
use crate::{
    apiservices, bootstrap_roles, config_maps, definitions, flowcontrol, identity_lease, kubernetes_service,
    leader_election, peer_addresses, priority_classes, service_cidr, services, storage_readiness, storage_versions,
    system_namespaces, trust,
};

/// The minimum and maximum pause before a failed step is tried again.
pub(crate) const RETRY_FIRST: Duration = Duration::from_millis(100);
pub(crate) const RETRY_LAST: Duration = Duration::from_secs(10);

/// The time for which loops wait for the objects that they depend on. After it they start without them, and retry: a
/// webhook that refuses one namespace must not hold up everything else.
const STAGE_PATIENCE: Duration = Duration::from_secs(5);

/// The loops of a running server. They end with the shutdown signal given to [`start`].
pub struct ControlPlane {
    steps: Vec<Step>,
    registrations: Registrations,
    storage_versions: StorageVersions,
    server_name: String,
    task: JoinHandle<()>,
}

/// A step of the start, with the name of its health check in kube-apiserver.
#[derive(Clone)]
pub struct Step {
    name: &'static str,
    done: watch::Receiver<bool>,
}

/// Starts the loops. The objects that others depend on are created first, if that is possible; then all other loops start.
pub fn start(resources: Catalog, config: Config, shutdown: Shutdown) -> ControlPlane {
    let work = Arc::new(Work::new(resources, config));
    let (registrations, storage_versions) = (work.registrations.clone(), work.storage_versions.clone());
    let server_name = work.identity.name().to_owned();
    let mut steps = Vec::new();
    let stages: Vec<Vec<(Loop, watch::Sender<bool>)>> = stages(work.resources.features())
        .into_iter()
        .map(|stage| {
            let reported = stage.into_iter().map(|each| {
                let (report, done) = watch::channel(false);
                let step = |name| Step { name, done: done.clone() };
                steps.extend(each.names().map(step));
                (each, report)
            });
            reported.collect()
        })
        .collect();
    let waited = steps.clone();
    let task = tokio::spawn(async move {
        let mut tasks = tokio::task::JoinSet::new();
        let mut begun = 0;
        for stage in stages {
            let done = async {
                for step in &waited[..begun] {
                    step.wait().await;
                }
            };
            tokio::select! {
                _ = tokio::time::timeout(STAGE_PATIENCE, done) => {}
                () = shutdown.fired() => {}
            }
            begun += stage.iter().map(|(each, _)| each.names().count()).sum::<usize>();
            for (each, report) in stage {
                let (work, shutdown) = (work.clone(), shutdown.clone());
                let name = each.name;
                let before = waited.iter().find(|step| each.after == Some(step.name)).cloned();
                tasks.spawn(supervise(name, move || {
                    let (each, before) = (each.clone(), before.clone());
                    let (work, report, shutdown) = (work.clone(), report.clone(), shutdown.clone());
                    async move {
                        if let Some(before) = before {
                            tokio::select! {
                                () = before.wait() => {}
                                () = shutdown.fired() => return,
                            }
                        }
                        each.run(work, report, shutdown).await;
                    }
                }));
            }
        }
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a loop of the control plane broke off");
            }
        }
    });
    ControlPlane { steps, registrations, storage_versions, server_name, task }
}

/// The shared data of the loops.
pub(crate) struct Work {
    pub(crate) resources: Catalog,
    pub(crate) config: Config,
    pub(crate) registrations: Registrations,
    pub(crate) identity: Identity,
    pub(crate) storage_versions: StorageVersions,
    /// Node ports that belonged to no service at the last check.
    pub(crate) leaked_ports: Mutex<Vec<i64>>,
}

impl Work {
    pub(crate) fn new(resources: Catalog, config: Config) -> Self {
        let registrations = Registrations::built_in(&config.local_apis);
        let identity = Identity::of(config.hostname.as_deref());
        let storage_versions = StorageVersions::of(resources.features(), resources.snapshot().served());
        Self { resources, config, registrations, identity, storage_versions, leaked_ports: Mutex::default() }
    }
}

/// One loop, and the name of its step.
#[derive(Clone)]
struct Loop {
    name: &'static str,
    /// The names of other kube-apiserver hooks whose work this loop does as well.
    also: &'static [&'static str],
    /// The step that has to be done before this loop begins.
    after: Option<&'static str>,
    how: How,
}

#[derive(Clone)]
enum How {
    /// Runs at the start, and again at intervals.
    Repeat(Repeat),
    /// Processes changes of a resource until the shutdown signal.
    Follow(Follow),
}

#[derive(Clone)]
struct Repeat {
    ensure: Ensure,
    /// Whether the step is done only after a success; otherwise its first attempt suffices. kube-apiserver reports a
    /// hook that only starts a controller as finished: a full etcd, or a webhook that refuses everything, must not block
    /// the requests that would help.
    required: bool,
    /// The time after which a successful step is repeated.
    every: Option<Duration>,
    /// The event that makes it due before.
    early: Option<Early>,
    /// Undoes the step when the server stops.
    leave: Option<Ensure>,
    /// The names of the queues of kube-apiserver's controller; each run counts as one item of each.
    queues: &'static [&'static str],
}

type Ensure = for<'a> fn(&'a Work) -> BoxFuture<'a, Result<(), Status>>;
type Early = for<'a> fn(&'a Work) -> BoxFuture<'a, ()>;
type Follow = fn(Arc<Work>, watch::Sender<bool>, Shutdown) -> BoxFuture<'static, ()>;

/// Returns the loops in the two stages in which they start.
fn stages(features: &Features) -> [Vec<Loop>; 2] {
    let first = vec![
        Loop::repeat("start-system-namespaces-controller", Some(60), |work| {
            Box::pin(system_namespaces::ensure(&work.resources))
        })
        .optional(),
        Loop::repeat("start-kubernetes-service-cidr-controller", Some(10), |work| Box::pin(service_cidr::ensure(work))),
    ];
    let mut then = vec![
        Loop::repeat("bootstrap-controller", Some(10), |work| Box::pin(kubernetes_service::ensure(work)))
            .optional()
            .leaving(|work| Box::pin(kubernetes_service::leave(work))),
        Loop::repeat("start-service-ip-repair-controllers", Some(180), |work| Box::pin(services::repair(work)))
            .or_when(|work| Box::pin(services::lost(work)))
            .counted(&["services", "ipaddresses"]),
        Loop::repeat("rbac/bootstrap-roles", None, |work| Box::pin(bootstrap_roles::ensure(&work.resources))),
        Loop::repeat("scheduling/bootstrap-system-priority-classes", None, |work| {
            Box::pin(priority_classes::ensure(&work.resources))
        }),
        Loop::follow("start-cluster-authentication-info-controller", &[], |work, report, shutdown| {
            Box::pin(trust::follow(work, report, shutdown))
        }),
        Loop::repeat("start-kube-apiserver-identity-lease-controller", Some(10), |work| {
            Box::pin(identity_lease::renew(work))
        })
        .optional()
        .leaving(|work| Box::pin(identity_lease::leave(work))),
        Loop::repeat("start-kube-apiserver-identity-lease-garbage-collector", Some(3600), |work| {
            Box::pin(identity_lease::collect(work))
        })
        .optional(),
        Loop::repeat("peer-endpoint-reconciler-controller", Some(10), |work| Box::pin(peer_addresses::ensure(work)))
            .optional()
            .leaving(|work| Box::pin(peer_addresses::leave(work))),
        Loop::repeat("start-legacy-token-tracking-controller", Some(60), |work| {
            Box::pin(config_maps::ensure_legacy_token_tracking(work))
        })
        .optional()
        .counted(&["legacy_token_tracking_controller"]),
        Loop::repeat("priority-and-fairness-config-producer", Some(60), |work| {
            Box::pin(flowcontrol::ensure(&work.resources))
        }),
        Loop::follow("priority-and-fairness-config-consumer", &[], flowcontrol::follow),
        Loop::follow(
            "crd-informer-synced",
            &["start-apiextensions-informers", "start-apiextensions-controllers"],
            definitions::follow,
        ),
        Loop::follow(
            "kube-apiserver-autoregistration",
            &["apiservice-registration-controller"],
            apiservices::follow_registrations,
        )
        // APIServices of definitions that have not been read yet must not be deleted.
        .after("crd-informer-synced"),
        Loop::follow(
            "apiservice-status-local-available-controller",
            &["apiservice-status-remote-available-controller"],
            apiservices::follow_availability,
        ),
    ];
    if storage_versions::is_on(features) {
        then.push(Loop::repeat("built-in-resources-storage-version-updater", Some(600), |work| {
            Box::pin(storage_versions::ensure(work))
        }));
    }
    if !features.enabled("UnknownVersionInteroperabilityProxy") {
        then.retain(|each| each.name != "peer-endpoint-reconciler-controller");
    }
    if features.enabled("CoordinatedLeaderElection") {
        let name = "start-kube-apiserver-coordinated-leader-election-controller";
        then.push(Loop::follow(name, &[], leader_election::follow));
    }
    if features.enabled("WatchCacheInitializationPostStartHook") {
        then.push(Loop::repeat("storage-readiness", None, |work| Box::pin(storage_readiness::ensure(work))));
    }
    [first, then]
}

impl Loop {
    /// Creates a repeated loop; `every` is in seconds.
    fn repeat(name: &'static str, every: Option<u64>, ensure: Ensure) -> Self {
        Self {
            name,
            also: &[],
            after: None,
            how: How::Repeat(Repeat {
                ensure,
                required: true,
                every: every.map(Duration::from_secs),
                early: None,
                leave: None,
                queues: &[],
            }),
        }
    }

    fn follow(name: &'static str, also: &'static [&'static str], follow: Follow) -> Self {
        Self { name, also, after: None, how: How::Follow(follow) }
    }

    fn after(self, step: &'static str) -> Self {
        Self { after: Some(step), ..self }
    }

    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.also.iter().copied())
    }

    fn optional(mut self) -> Self {
        if let How::Repeat(repeat) = &mut self.how {
            repeat.required = false;
        }
        self
    }

    fn or_when(mut self, due: Early) -> Self {
        if let How::Repeat(repeat) = &mut self.how {
            repeat.early = Some(due);
        }
        self
    }

    fn leaving(mut self, undo: Ensure) -> Self {
        if let How::Repeat(repeat) = &mut self.how {
            repeat.leave = Some(undo);
        }
        self
    }

    fn counted(mut self, names: &'static [&'static str]) -> Self {
        if let How::Repeat(repeat) = &mut self.how {
            repeat.queues = names;
        }
        self
    }

    async fn run(self, work: Arc<Work>, report: watch::Sender<bool>, shutdown: Shutdown) {
        match self.how {
            How::Follow(follow) => follow(work, report, shutdown).await,
            How::Repeat(repeat) => {
                repeat.run(self.name, &work, &report, &shutdown).await;
                if let Some(leave) = repeat.leave
                    && *report.borrow()
                    && let Err(status) = leave(&work).await
                {
                    tracing::warn!(step = self.name, error = status.message(), "could not be undone");
                }
            }
        }
    }
}

impl Repeat {
    /// Runs the step until the shutdown signal, or until it has succeeded if it has no interval.
    async fn run(&self, name: &'static str, work: &Work, report: &watch::Sender<bool>, shutdown: &Shutdown) {
        let queues: Vec<WorkQueue> = self.queues.iter().map(|name| work.config.queue(name)).collect();
        let fired = shutdown.fired();
        tokio::pin!(fired);
        let mut retry = RETRY_FIRST;
        while !shutdown.is_fired() {
            let counted: Vec<WorkItem> = queues.iter().map(|queue| queue.add().begin()).collect();
            let ensured = (self.ensure)(work).await;
            drop(counted);
            let early = self.early.filter(|_| ensured.is_ok());
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
                    tracing::warn!(step = name, error = status.message(), "will be tried again");
                    queues.iter().for_each(|queue| queue.retry(1));
                    let pause = retry;
                    retry = (retry * 2).min(RETRY_LAST);
                    pause
                }
            };
            let due = async {
                match early {
                    Some(early) => early(work).await,
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

impl ControlPlane {
    /// Returns the steps of the start, for health checks.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the identity name of this server.
    pub fn server_name(&self) -> &str {
        &self.server_name
    }

    /// Returns the APIServices that are maintained for the served APIs.
    pub fn registrations(&self) -> &Registrations {
        &self.registrations
    }

    /// Returns the published storage versions of resources.
    pub fn storage_versions(&self) -> &StorageVersions {
        &self.storage_versions
    }

    /// Waits until every step has been done once.
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
    /// Creates a step of another component, and the sender that marks it as done.
    pub fn new(name: &'static str) -> (Self, watch::Sender<bool>) {
        let (report, done) = watch::channel(false);
        (Self { name, done }, report)
    }

    /// Returns the name of kube-apiserver's equivalent post-start hook.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn is_done(&self) -> bool {
        *self.done.borrow()
    }

    /// Waits until the step has been done once; for ever if its loop has ended without that.
    pub async fn wait(&self) {
        let mut done = self.done.clone();
        if done.wait_for(|done| *done).await.is_err() && !*done.borrow() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_loops_wait_for_is_a_step_of_their_stage() {
        let mut waiting = Vec::new();
        for stage in stages(&Features::default()) {
            let names: Vec<&str> = stage.iter().flat_map(Loop::names).collect();
            for each in &stage {
                let Some(before) = each.after else { continue };
                assert!(names.contains(&before) && !each.names().any(|name| name == before), "{}", each.name);
                waiting.push(each.name);
            }
        }
        // Else APIServices of definitions that cannot be read yet would be deleted.
        assert_eq!(waiting, ["kube-apiserver-autoregistration"]);
    }
}
