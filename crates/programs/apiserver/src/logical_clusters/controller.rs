//! The controller of the objects `logicalclusters`: it serves a cluster for each, and removes the data of deleted ones.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use binnacle_api_controllers::Selection;
use binnacle_controllers::{ChangeWatcher, Changes, Objects, RETRY_FIRST, RETRY_LAST};
use binnacle_controlplane::Bootstrap;
use binnacle_meta::{GoDuration, Status, StatusReason, Text};
use binnacle_registry::{Catalog, Resource, rfc3339};
use binnacle_request::Shutdown;
use binnacle_schema::{Value, value};
use binnacle_supervise::supervise;
use futures::future::{join, join3};
use futures::{StreamExt, stream};
use tokio::time::timeout;

use super::cluster_info::ClusterInfo;
use super::credentials::{Credentials, NAMESPACE, kubeconfig_secret};
use super::definition::{GROUP, PLURAL, VERSION};
use super::forks::Source;
use super::limits::Quota;
use super::slot::{Slot, Spec};
use super::status::ClusterStatus;
use super::{LogicalClusters, definition, finalizer};

/// The default of `spec.idleAfter`.
const IDLE_AFTER: Duration = Duration::from_secs(600);
/// The interval between checks of all clusters, which renew certificates.
const CHECK_INTERVAL: Duration = Duration::from_secs(3600);
/// The interval between checks whether the usage of quotas has changed.
const USAGE_INTERVAL: Duration = Duration::from_secs(30);
/// The number of clusters that are reconciled at once: one that cannot be started must not delay the others, and writes of
/// several are as fast as of one.
const CONCURRENT: usize = 32;
/// The time after which a deletion shows in the status.
const SHOWN_AFTER: Duration = Duration::from_millis(500);

/// Runs until the shutdown signal.
pub(super) async fn run(clusters: Arc<LogicalClusters>, catalog: Catalog, shutdown: Shutdown) {
    let stopped = shutdown.clone();
    let controller = supervise("logical clusters", || {
        let (clusters, catalog, shutdown) = (clusters.clone(), catalog.clone(), shutdown.clone());
        async move { Controller { clusters, catalog, shutdown }.run().await }
    });
    tokio::select! {
        () = controller => {}
        () = stopped.fired() => {}
    }
}

struct Controller {
    clusters: Arc<LogicalClusters>,
    catalog: Catalog,
    shutdown: Shutdown,
}

/// The resources that a reconciliation uses.
struct Resources {
    objects: Objects,
    credentials: Credentials,
}

impl Controller {
    async fn run(&self) {
        let mut changed = self.catalog.changes();
        loop {
            self.until_done("install the definition", || self.install()).await;
            changed.mark_unchanged();
            match self.catalog.find(GROUP, VERSION, PLURAL) {
                Some(resource) => self.follow(&resource).await,
                // The definition is being served.
                None => drop(tokio::time::timeout(RETRY_LAST, changed.changed()).await),
            }
        }
    }

    /// Creates the definition and the namespace, or updates the definition of an earlier release.
    async fn install(&self) -> Result<(), Status> {
        let definitions = Objects::new(&self.catalog, "apiextensions.k8s.io", "v1", "customresourcedefinitions")?;
        match definitions.create("", definition::definition()).await {
            Err(status) if status.is(StatusReason::AlreadyExists) => {
                let set = |object: &mut Value| drop(object.make_at(&[]).insert("spec", definition::spec()));
                definitions.update("", &definition::name(), "", set).await?;
            }
            created => drop(created?),
        }
        let namespaces = Objects::new(&self.catalog, "", "v1", "namespaces")?;
        match namespaces.create("", value!({"metadata": {"name": NAMESPACE}})).await {
            Err(status) if status.is(StatusReason::AlreadyExists) => Ok(()),
            created => created.map(drop),
        }
    }

    /// Reconciles objects as long as their resource is the one in the catalog.
    async fn follow(&self, resource: &Arc<Resource>) {
        let mut changes = ChangeWatcher::all(resource);
        let mut failed: BTreeSet<Text> = BTreeSet::new();
        let mut retry = RETRY_FIRST;
        let mut usage = tokio::time::interval(USAGE_INTERVAL);
        loop {
            let pause = if failed.is_empty() { CHECK_INTERVAL } else { retry };
            let names = tokio::select! {
                changed = changes.changed() => match changed {
                    Changes::Named(names) => Some(names),
                    Changes::Anything => None,
                },
                _ = usage.tick() => Some(self.clusters.with_unreported_usage()),
                () = tokio::time::sleep(pause) => match failed.is_empty() {
                    true => None,
                    false => Some(Vec::new()),
                },
            };
            let is_current = self.catalog.find(GROUP, VERSION, PLURAL).is_some_and(|now| Arc::ptr_eq(&now, resource));
            if !is_current {
                return;
            }
            let is_check = names.is_none();
            let mut names: BTreeSet<Text> = match names {
                Some(names) => names.into_iter().collect(),
                None => self.until_done("list logical clusters", || self.all_names()).await,
            };
            names.append(&mut failed);
            let reconciled = stream::iter(names).map(async |name| (self.reconcile(&name).await, name));
            failed = reconciled.buffer_unordered(CONCURRENT).filter_map(failed_name).collect().await;
            if is_check {
                self.clusters.mark_known();
            }
            retry = if failed.is_empty() { RETRY_FIRST } else { (retry * 2).min(RETRY_LAST) };
        }
    }

    /// Repeats a call until it succeeds.
    async fn until_done<T, F: Future<Output = Result<T, Status>>>(&self, what: &str, call: impl Fn() -> F) -> T {
        let mut retry = RETRY_FIRST;
        loop {
            match call().await {
                Ok(done) => return done,
                Err(status) => tracing::warn!(error = status.message(), "failed to {what}, retrying"),
            }
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(RETRY_LAST);
        }
    }

    /// Returns the names of all objects, and of all clusters that are served.
    async fn all_names(&self) -> Result<BTreeSet<Text>, Status> {
        let objects = Objects::new(&self.catalog, GROUP, VERSION, PLURAL)?;
        let names = objects.names("").await?;
        Ok(names.into_iter().chain(self.clusters.names()).collect())
    }

    async fn reconcile(&self, name: &Text) -> Result<(), Status> {
        let resources = Resources {
            objects: Objects::new(&self.catalog, GROUP, VERSION, PLURAL)?,
            credentials: Credentials::new(&self.catalog)?,
        };
        let Some(object) = resources.objects.get("", name).await? else {
            self.clusters.remove(name).await;
            return Ok(());
        };
        let uid = Text::from(object.str_at(&["metadata", "uid"]));
        if self.clusters.find(name).is_some_and(|slot| *slot.uid() != uid) {
            self.clusters.remove(name).await;
        }
        if !object.str_at(&["metadata", "deletionTimestamp"]).is_empty() {
            return self.delete(&resources, name, &object, &uid).await;
        }
        if !finalizer::is_in(&object) {
            // A client has removed it. The change is reconciled as one by a client.
            return resources.objects.update("", name, "", finalizer::add).await;
        }
        let outcome = self.serve(&resources, name, &object, &uid).await;
        let (phase, message) = match &outcome {
            Ok(phase) => (*phase, ""),
            Err(status) => ("Failed", status.message()),
        };
        self.set_status(&resources, name, &object, (phase, message)).await?;
        outcome.map(drop)
    }

    /// Serves a cluster, and returns its phase.
    async fn serve(
        &self,
        resources: &Resources,
        name: &Text,
        object: &Value,
        uid: &Text,
    ) -> Result<&'static str, Status> {
        let spec = spec_of(object)?;
        let source = Source::of(object);
        if let Some(source) = &source {
            self.clusters.forks.ensure(&self.clusters, uid, source).await?;
        }
        let is_ready = object.str_at(&["status", "phase"]) == "Ready";
        // A suspended cluster may be about to be restored.
        let is_new = source.is_none() && !is_ready && !spec.suspended;
        let slot = self.slot(resources, (name, uid), &spec, (is_new, source.as_ref())).await?;
        slot.set_spec(spec.clone()).await;
        if is_ready && !spec.suspended {
            // It can serve while the rest is checked.
            self.clusters.insert(slot.clone());
        }
        let trusted = tokio::fs::read_to_string(self.clusters.host().authorities()).await.map_err(Status::internal)?;
        let urls = self.clusters.host().urls_of(name, spec.port);
        let url = urls.first().map_or("", String::as_str);
        let kubeconfig = resources.credentials.ensure_kubeconfig((name, uid), slot.keys(), (url, &trusted));
        if spec.suspended {
            kubeconfig.await?;
            self.clusters.insert(slot.clone());
            slot.stop().await;
        } else if !is_ready {
            // The first start creates the objects that every cluster has.
            let (written, begun) = join(kubeconfig, slot.clone().begin()).await;
            written?;
            drop(begun.map_err(Status::internal)?);
        } else {
            kubeconfig.await?;
        }
        self.clusters.insert(slot.clone());
        let opened = self.clusters.ports.set(&slot, spec.port).await;
        opened.map_err(|error| Status::service_unavailable(error.to_string()))?;
        Ok(if spec.suspended { "Suspended" } else { "Ready" })
    }

    /// Returns the cluster if it is served. Otherwise, reads its keys, or makes them, while it gets its first objects.
    async fn slot(
        &self,
        resources: &Resources,
        (name, uid): (&Text, &Text),
        spec: &Spec,
        (is_new, source): (bool, Option<&Source>),
    ) -> Result<Arc<Slot>, Status> {
        let mut keys = None;
        if let Some(slot) = self.clusters.find(name) {
            if !slot.is_suspended() || spec.suspended {
                return Ok(slot);
            }
            // It may have been restored meanwhile, with other keys.
            let current = resources.credentials.keys(name, uid).await?;
            if *slot.keys() == current {
                return Ok(slot);
            }
            self.clusters.remove(name).await;
            keys = Some(current);
        }
        let get_keys = async {
            match keys {
                Some(keys) => Ok(keys),
                None => resources.credentials.keys(name, uid).await,
            }
        };
        let prepare = async {
            match source {
                None if is_new => self.clusters.starts.prepare(uid).await.map_err(Status::internal),
                Some(source) if self.has_bootstrap_objects(source) => Ok(Bootstrap::Complete),
                _ => Ok(Bootstrap::Unknown),
            }
        };
        let (keys, bootstrap) = join(get_keys, prepare).await;
        let (starts, shutdown) = (self.clusters.starts.clone(), self.shutdown.clone());
        let info = ClusterInfo::new((name.clone(), uid.clone()), keys?, spec.quota, bootstrap?);
        Ok(Arc::new(Slot::new(info, starts, shutdown, spec.clone())))
    }

    /// Returns true if a fork of the source, as it is now, has the objects that every cluster has.
    fn has_bootstrap_objects(&self, source: &Source) -> bool {
        source.revision.is_none() && self.clusters.find(&source.cluster).is_some_and(|slot| slot.has_started())
    }

    /// Deletes the data of a cluster, and then its object.
    async fn delete(&self, resources: &Resources, name: &Text, object: &Value, uid: &Text) -> Result<(), Status> {
        if !finalizer::is_in(object) {
            self.clusters.remove(name).await;
            return Ok(());
        }
        let deleted = self.delete_data(resources, name, uid);
        tokio::pin!(deleted);
        let soon = timeout(SHOWN_AFTER, &mut deleted).await;
        if !matches!(soon, Ok(Ok(()))) {
            self.set_status(resources, name, object, ("Deleting", "")).await?;
        }
        match soon {
            Ok(deleted) => deleted?,
            Err(_) => deleted.await?,
        }
        match resources.objects.update("", name, "", finalizer::remove).await {
            Err(status) if status.is(StatusReason::NotFound) => Ok(()),
            updated => updated,
        }
    }

    async fn delete_data(&self, resources: &Resources, name: &Text, uid: &Text) -> Result<(), Status> {
        self.clusters.remove(name).await;
        let (storage, forks) = (self.clusters.host().storage_of(uid), &self.clusters.forks);
        let contents = async {
            // Before the contents, which say what the base is.
            forks.release(&storage, uid).await?;
            storage.delete_all().await
        };
        let (contents, forgotten, secrets) =
            join3(contents, forks.forget(&storage, uid), resources.credentials.delete(name)).await;
        contents.and(forgotten).map_err(Status::internal)?;
        secrets
    }

    async fn set_status(
        &self,
        resources: &Resources,
        name: &str,
        object: &Value,
        (phase, message): (&'static str, &str),
    ) -> Result<(), Status> {
        let status = ClusterStatus {
            phase,
            message,
            urls: &self.clusters.host().urls_of(name, port_of(object)),
            kubeconfig_secret: &format!("{NAMESPACE}/{}", kubeconfig_secret(name)),
            usage: self.clusters.find(name).and_then(|slot| slot.report_usage()),
        };
        status.write(&resources.objects, name, object, &rfc3339(SystemTime::now())).await
    }
}

/// Returns the name of a cluster to reconcile again.
async fn failed_name((outcome, name): (Result<(), Status>, Text)) -> Option<Text> {
    let status = outcome.err()?;
    tracing::warn!(%name, error = status.message(), "failed to reconcile the logical cluster, retrying");
    Some(name)
}

fn spec_of(object: &Value) -> Result<Spec, Status> {
    let idle_after = match object.str_at(&["spec", "idleAfter"]) {
        "" => Some(IDLE_AFTER),
        text => {
            let nanoseconds = GoDuration::parse(text).map_err(|error| Status::bad_request(error.to_string()))?.0;
            Some(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))).filter(|idle| !idle.is_zero())
        }
    };
    Ok(Spec {
        idle_after,
        suspended: object.bool_at(&["spec", "suspended"]),
        port: port_of(object),
        quota: Quota::of(object)?,
        controllers: controllers_of(object)?,
    })
}

fn controllers_of(object: &Value) -> Result<Option<Selection>, Status> {
    if object.get("spec").and_then(|spec| spec.get("controllers")).is_none() {
        return Ok(None);
    }
    let items = object.list_at(&["spec", "controllers"]).iter().filter_map(Value::as_str);
    Selection::parse(items).map(Some).map_err(|error| Status::bad_request(format!("spec.controllers: {error}")))
}

fn port_of(object: &Value) -> Option<u16> {
    object.int_at(&["spec", "port"]).and_then(|port| u16::try_from(port).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_specs() {
        for (spec, want) in [
            (value!({}), Some((Some(600), false))),
            (value!({"idleAfter": "90s", "suspended": true}), Some((Some(90), true))),
            (value!({"idleAfter": "0s"}), Some((None, false))),
            (value!({"idleAfter": "soon"}), None),
            (value!({"controllers": ["*", "-namespace"]}), Some((Some(600), false))),
            (value!({"controllers": ["daemonset"]}), None),
        ] {
            let object = value!({"spec": spec});
            let got = spec_of(&object).ok().map(|spec| (spec.idle_after.map(|idle| idle.as_secs()), spec.suspended));
            assert_eq!(got, want, "{object:?}");
        }
    }
}
