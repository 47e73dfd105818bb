//! The health checks of the program's components.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use binnacle_admission_webhooks::Webhooks;
use binnacle_authz::RbacIndex;
use binnacle_controllers::PostStartHook;
use binnacle_registry::Catalog;
use binnacle_request::BoxFuture;
use binnacle_server::HealthCheck;
use binnacle_store::Store;
use tokio::task::JoinSet;

/// Checks that the store responds. Probes use the name of kube-apiserver's store.
pub(crate) struct StoreCheck {
    pub(crate) name: String,
    pub(crate) store: Arc<dyn Store>,
    /// The timeout of the store's response.
    pub(crate) timeout: Duration,
    /// True for the readiness check, false for the liveness check.
    pub(crate) ready: bool,
}

impl HealthCheck for StoreCheck {
    fn name(&self) -> &str {
        &self.name
    }

    fn group(&self) -> Option<&str> {
        Some(if self.ready { "etcd-readiness" } else { "etcd" })
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let requested = if self.ready { self.store.readiness() } else { self.store.health() };
            match tokio::time::timeout(self.timeout, requested).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(format!("error getting data from etcd: {error}")),
                Err(_) => Err("error getting data from etcd: context deadline exceeded".to_owned()),
            }
        })
    }
}

/// Checks that a post-start hook has finished.
pub(crate) struct HookCheck {
    name: String,
    step: PostStartHook,
}

impl HookCheck {
    pub(crate) fn new(step: &PostStartHook) -> Self {
        Self::named(&format!("poststarthook/{}", step.name()), step)
    }

    /// Creates the check with another name.
    pub(crate) fn named(name: &str, step: &PostStartHook) -> Self {
        Self { name: name.to_owned(), step: step.clone() }
    }
}

impl HealthCheck for HookCheck {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { if self.step.is_done() { Ok(()) } else { Err("not finished".to_owned()) } })
    }
}

/// The names of the checks of post-start hooks, in kube-apiserver's order.
pub(crate) const ORDER: [&str; 40] = [
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/start-encryption-provider-config-automatic-reload",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/max-in-flight-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-kube-apiserver-coordinated-leader-election-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/mixed-version-proxy-handler",
    "poststarthook/local-discovery-cache-sync",
    "poststarthook/peer-discovery-workers",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/aggregator-reload-proxy-client-cert",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-wait-for-first-sync",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/built-in-resources-storage-version-updater",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
    "shutdown",
];

/// Checks a component that reports whether it has started.
pub(crate) struct StartedCheck {
    name: String,
    is_done: Box<dyn Fn() -> bool + Send + Sync>,
}

impl StartedCheck {
    /// Creates the check; `name` is kube-apiserver's name of the equivalent post-start hook.
    pub(crate) fn new(name: &str, is_done: impl Fn() -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { name: format!("poststarthook/{name}"), is_done: Box::new(is_done) })
    }
}

impl HealthCheck for StartedCheck {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { if (self.is_done)() { Ok(()) } else { Err("not finished".to_owned()) } })
    }
}

/// Checks that the objects used to decide requests have been read from the store.
pub(crate) struct InformersCheck {
    pub(crate) roles: Arc<RbacIndex>,
    pub(crate) webhooks: Vec<Arc<Webhooks>>,
}

impl HealthCheck for InformersCheck {
    fn name(&self) -> &str {
        "informer-sync"
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let ready = &self.roles.ready;
            // Nothing needed roles and bindings until now.
            let is_ready = if ready.is_requested() { ready.is_ready() } else { ready.wait().await };
            if !is_ready {
                return Err("roles and bindings have not been read yet".to_owned());
            }
            match self.webhooks.iter().find(|webhooks| !webhooks.are_read()) {
                Some(webhooks) => Err(format!("{} have not been read yet", webhooks.kind().plural())),
                None => Ok(()),
            }
        })
    }
}

/// Checks that no task that watches objects or files has panicked, and that no supervised task panics repeatedly. Its
/// data would become stale unnoticed, so a server with such a task needs a restart.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailedTasks(Arc<AtomicUsize>);

impl FailedTasks {
    /// Counts the tasks that panic. Never returns.
    pub(crate) async fn watch(&self, tasks: &mut JoinSet<()>) {
        self.wait(tasks).await;
        std::future::pending().await
    }

    /// Counts the tasks that panic until all tasks have ended.
    pub(crate) async fn wait(&self, tasks: &mut JoinSet<()>) {
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                self.0.fetch_add(1, Ordering::Relaxed);
                tracing::error!("a background task panicked, the server is no longer ready: {error}");
            }
        }
    }
}

impl HealthCheck for FailedTasks {
    fn name(&self) -> &str {
        "background-tasks"
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let failing = binnacle_supervise::failing();
            match self.0.load(Ordering::Relaxed) {
                0 if failing.is_empty() => Ok(()),
                0 => Err(format!("tasks panic after each restart, see the log: {}", failing.join(", "))),
                count => Err(format!("{count} tasks panicked, see the log; restart the server")),
            }
        })
    }
}

/// Checks that no watch cache is known to differ from the store. A cache that differs is read again.
pub(crate) struct CacheCheck(pub(crate) Catalog);

impl HealthCheck for CacheCheck {
    fn name(&self) -> &str {
        "cache-consistency"
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        let snapshot = self.0.snapshot();
        let differing = snapshot.resources().filter(|resource| !resource.collection.cache.is_consistent());
        let mut names: Vec<String> = differing.map(|resource| resource.group_resource().to_string()).collect();
        names.sort_unstable();
        names.dedup();
        Box::pin(std::future::ready(match names.is_empty() {
            true => Ok(()),
            false => Err(format!("the caches of these resources differ from the store: {}", names.join(", "))),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panicked_tasks_fail_the_check() {
        let (failed, mut tasks) = (FailedTasks::default(), JoinSet::new());
        tasks.spawn(async {});
        failed.wait(&mut tasks).await;
        assert_eq!(failed.check().await, Ok(()));
        tasks.spawn(async { panic!("on purpose") });
        tasks.spawn(async {});
        failed.wait(&mut tasks).await;
        assert!(failed.check().await.is_err_and(|error| error.starts_with("1 tasks")));
    }
}
