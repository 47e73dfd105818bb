//! Maintains an APIService for every group version that this server serves.
//!
//! A label determines how an APIService is maintained. Those of built-in groups are only created and updated at the
//! start, so that an administrator may assign a group to another server while this one runs. Those of custom resources
//! are always maintained. An APIService without the label is never changed.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use binnacle_controllers::{ChangeWatcher, Changes, Objects, RETRY_FIRST, RETRY_LAST};
use binnacle_fields::apiregistration::v1::{APIService, APIServiceSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{Status, StatusReason, Text};
use binnacle_metrics::{QueuedItem, WorkItem};
use binnacle_registry::{Catalog, Context, DeleteOptions, Match};
use binnacle_request::{BoxFuture, Shutdown};
use binnacle_schema::{Object, Value, value};
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::State;
use super::{GROUP, PLURAL, VERSION};

const LABEL: &str = "kube-aggregator.kubernetes.io/automanaged";
const ON_START: &str = "onstart";
const ALWAYS: &str = "true";

/// A group version that this server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalApi {
    pub group: Text,
    pub version: Text,
    pub group_priority: i32,
    pub version_priority: i32,
}

/// The desired APIServices. Clones share one set.
#[derive(Clone, Default)]
pub struct Registrations(Arc<Inner>);

#[derive(Default)]
struct Inner {
    desired: Mutex<DesiredApiServices>,
    changed: Notify,
}

#[derive(Default)]
struct DesiredApiServices {
    by_name: BTreeMap<Text, DesiredApiService>,
    /// Names whose entry has changed since the last check.
    changed: BTreeSet<Text>,
}

/// The desired state of an APIService.
#[derive(Clone)]
struct DesiredApiService {
    spec: Value,
    /// The value of the label.
    automanaged: &'static str,
}

impl Registrations {
    /// Returns the desired APIServices of built-in groups. The group of APIServices itself has none, since all others
    /// depend on it.
    pub fn built_in(apis: &[LocalApi]) -> Self {
        let registrations = Self::default();
        apis.iter().filter(|api| api.group != GROUP).for_each(|api| registrations.put(api, ON_START));
        registrations
    }

    /// Maintains an APIService for this group version from now on.
    pub fn keep(&self, api: &LocalApi) {
        self.put(api, ALWAYS);
    }

    /// Removes the APIService of a group version, unless it lacks the label.
    pub fn forget(&self, group: &str, version: &str) {
        let name = name(group, version);
        let mut desired = self.0.desired.lock();
        if desired.by_name.remove(&name).is_some() {
            desired.changed.insert(name);
            self.0.changed.notify_one();
        }
    }

    fn put(&self, api: &LocalApi, automanaged: &'static str) {
        let name = name(&api.group, &api.version);
        let mut desired = self.0.desired.lock();
        desired.by_name.insert(name.clone(), DesiredApiService { spec: api.spec(), automanaged });
        desired.changed.insert(name);
        self.0.changed.notify_one();
    }

    fn get(&self, name: &str) -> Option<DesiredApiService> {
        self.0.desired.lock().by_name.get(name).cloned()
    }

    /// Returns the names of those that are maintained only at the start.
    fn on_start(&self) -> HashSet<Text> {
        let desired = self.0.desired.lock();
        desired.by_name.iter().filter(|(_, one)| one.automanaged == ON_START).map(|(name, _)| name.clone()).collect()
    }

    fn take_changed(&self) -> BTreeSet<Text> {
        std::mem::take(&mut self.0.desired.lock().changed)
    }
}

impl LocalApi {
    fn spec(&self) -> Value {
        let mut spec = Value::default();
        let mut fields = FieldMut::<APIServiceSpec>::root(&mut spec);
        if !self.group.is_empty() {
            fields.set(APIServiceSpec::GROUP, self.group.clone());
        }
        fields.set(APIServiceSpec::VERSION, self.version.clone());
        fields.set(APIServiceSpec::GROUP_PRIORITY_MINIMUM, i64::from(self.group_priority));
        fields.set(APIServiceSpec::VERSION_PRIORITY, i64::from(self.version_priority));
        spec
    }
}

/// Returns the name of an APIService: `v1.apps`, and `v1.` for the core group.
fn name(group: &str, version: &str) -> Text {
    format!("{version}.{group}").into()
}

/// Reconciles APIServices: first all of them, then each one that changes.
pub(super) fn watch(state: Arc<State>, done: watch::Sender<bool>, shutdown: Shutdown) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let Ok(resource) = state.resources.require(GROUP, VERSION, PLURAL) else { return };
        let mut changes = ChangeWatcher::all(&resource);
        let queue = state.queues.queue("autoregister");
        let done_before = if state.is_resumed { state.registrations.on_start() } else { HashSet::new() };
        let mut reconciler = Reconciler { state: &state, existed_at_start: HashSet::new(), done: done_before };
        let mut failed: BTreeSet<Text> = BTreeSet::new();
        let mut retry: Option<Duration> = None;
        let mut is_first = true;
        loop {
            let mut names = tokio::select! {
                changed = changes.changed() => match changed {
                    Changes::Named(names) => names.into_iter().collect(),
                    Changes::Anything => match reconciler.list_names(is_first).await {
                        Ok(names) => {
                            is_first = false;
                            names
                        }
                        Err(status) => {
                            tracing::warn!(error = status.message(), "failed to list APIServices, retrying");
                            changes = ChangeWatcher::all(&resource);
                            tokio::time::sleep(RETRY_FIRST).await;
                            continue;
                        }
                    }
                },
                () = state.registrations.0.changed.notified(), if !is_first => state.registrations.take_changed(),
                () = tokio::time::sleep(retry.unwrap_or_default()), if retry.is_some() => BTreeSet::new(),
                () = shutdown.fired() => return,
            };
            names.append(&mut failed);
            let items: Vec<WorkItem> = queue.add_all(names.len()).into_iter().map(QueuedItem::begin).collect();
            failed = reconciler.reconcile_all(names).await;
            drop(items);
            queue.retry(failed.len());
            retry = if failed.is_empty() {
                done.send_replace(true);
                None
            } else {
                Some(retry.map_or(RETRY_FIRST, |retry| (retry * 2).min(RETRY_LAST)))
            };
        }
    })
}

struct Reconciler<'a> {
    state: &'a State,
    /// The APIServices that existed at the start. Later ones that are maintained only at the start are not changed.
    existed_at_start: HashSet<Text>,
    /// The names that have been reconciled once.
    done: HashSet<Text>,
}

impl Reconciler<'_> {
    async fn list_names(&mut self, is_first: bool) -> Result<BTreeSet<Text>, Status> {
        let objects = Objects::new(&self.state.resources, GROUP, VERSION, PLURAL)?;
        let mut names: BTreeSet<Text> = objects.names("").await?.into_iter().collect();
        if is_first {
            self.existed_at_start = names.iter().cloned().collect();
        }
        names.extend(self.state.registrations.0.desired.lock().by_name.keys().cloned());
        Ok(names)
    }

    /// Reconciles APIServices; returns the names to retry.
    async fn reconcile_all(&mut self, names: BTreeSet<Text>) -> BTreeSet<Text> {
        let checks = names.into_iter().map(|name| {
            let is_first_time = !self.done.contains(&name);
            let existed_at_start = self.existed_at_start.contains(&name);
            let desired = self.state.registrations.get(&name);
            let resources = &self.state.resources;
            async move {
                let result = reconcile(resources, &name, desired, existed_at_start, is_first_time).await;
                (name, result)
            }
        });
        let mut failed = BTreeSet::new();
        for (name, result) in join_all(checks).await {
            match result {
                Ok(()) => {
                    self.done.insert(name);
                }
                Err(status) => {
                    tracing::warn!(api_service = %name, error = status.message(), "sync failed, retrying");
                    failed.insert(name);
                }
            }
        }
        failed
    }
}

/// Creates, updates or deletes one APIService to match its desired state.
async fn reconcile(
    resources: &Catalog,
    name: &str,
    desired: Option<DesiredApiService>,
    existed_at_start: bool,
    is_first_time: bool,
) -> Result<(), Status> {
    if desired.as_ref().is_some_and(|desired| desired.automanaged == ON_START) && !is_first_time {
        return Ok(());
    }
    let objects = Objects::new(resources, GROUP, VERSION, PLURAL)?;
    let resource = objects.resource();
    let context = Context::internal("");
    let existing = match resource.get_object(&context, name, Match::Any).await {
        Ok(stored) => Some(stored.object),
        Err(status) if status.is(StatusReason::NotFound) => None,
        Err(status) => return Err(status),
    };
    let result = match (existing, desired) {
        (None, None) => Ok(()),
        (None, Some(desired)) => {
            let labels: Object = [(LABEL, desired.automanaged)].into_iter().collect();
            let object = value!({"metadata": {"name": name, "labels": labels}, "spec": (desired.spec)});
            objects.create("", object).await.map(|_| ())
        }
        (Some(existing), desired) => match metadata(&existing).at(ObjectMeta::LABELS).key(LABEL).str() {
            ON_START if !existed_at_start || !is_first_time => Ok(()),
            ON_START | ALWAYS => match desired {
                None => {
                    let uid = Some(metadata(&existing).at(ObjectMeta::UID).str().into());
                    let options = DeleteOptions { uid, ..DeleteOptions::default() };
                    resource.delete(&context, name, &options).await.map(|_| ())
                }
                Some(desired)
                    if *FieldRef::<APIService>::root(&existing).at(APIService::SPEC).value() == desired.spec =>
                {
                    Ok(())
                }
                Some(desired) => {
                    let update = objects.update("", name, "", |object| {
                        FieldMut::root(object).set(APIService::SPEC, desired.spec.clone());
                    });
                    update.await
                }
            },
            _ => Ok(()),
        },
    };
    match result {
        // Another writer was faster: its change is handled when its watch event arrives.
        Err(status)
            if status.is(StatusReason::AlreadyExists)
                || status.is(StatusReason::NotFound)
                || status.is(StatusReason::Conflict) =>
        {
            Ok(())
        }
        result => result,
    }
}
