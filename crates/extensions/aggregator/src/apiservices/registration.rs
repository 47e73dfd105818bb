//! Keeps an APIService for every group version that is served here.
//!
//! A label tells how an APIService is maintained: those of built-in groups are only created and updated at the start,
//! so that an administrator may give a group to another server while this one runs; those of custom resources are
//! always maintained. An APIService without the label is never changed.

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

/// The wanted APIServices. Clones share one set.
#[derive(Clone, Default)]
pub struct Registrations(Arc<Inner>);

#[derive(Default)]
struct Inner {
    wanted: Mutex<Wanted>,
    changed: Notify,
}

#[derive(Default)]
struct Wanted {
    by_name: BTreeMap<Text, Kept>,
    /// Names whose entry has changed since the last check.
    changed: BTreeSet<Text>,
}

/// The wanted state of an APIService.
#[derive(Clone)]
struct Kept {
    spec: Value,
    /// The value of the label.
    how: &'static str,
}

impl Registrations {
    /// Returns the APIServices of built-in groups. APIServices' own group has none, since they depend on it.
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
        let mut wanted = self.0.wanted.lock();
        if wanted.by_name.remove(&name).is_some() {
            wanted.changed.insert(name);
            self.0.changed.notify_one();
        }
    }

    fn put(&self, api: &LocalApi, how: &'static str) {
        let name = name(&api.group, &api.version);
        let mut wanted = self.0.wanted.lock();
        wanted.by_name.insert(name.clone(), Kept { spec: api.spec(), how });
        wanted.changed.insert(name);
        self.0.changed.notify_one();
    }

    fn get(&self, name: &str) -> Option<Kept> {
        self.0.wanted.lock().by_name.get(name).cloned()
    }

    fn take_changed(&self) -> BTreeSet<Text> {
        std::mem::take(&mut self.0.wanted.lock().changed)
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

/// Creates and updates APIServices: all of them at first, then each changed one.
pub(super) fn watch(state: Arc<State>, done: watch::Sender<bool>, shutdown: Shutdown) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let Ok(resource) = state.resources.require(GROUP, VERSION, PLURAL) else { return };
        let mut changes = ChangeWatcher::all(&resource);
        let queue = state.queues.queue("autoregister");
        let mut keeper = Keeper { state: &state, there_at_start: HashSet::new(), done: HashSet::new() };
        let mut failed: BTreeSet<Text> = BTreeSet::new();
        let mut retry: Option<Duration> = None;
        let mut is_first = true;
        loop {
            let mut names = tokio::select! {
                changed = changes.changed() => match changed {
                    Changes::Named(names) => names.into_iter().collect(),
                    Changes::Anything => match keeper.everything(is_first).await {
                        Ok(names) => {
                            is_first = false;
                            names
                        }
                        Err(status) => {
                            tracing::warn!(error = status.message(), "APIServices will be listed again");
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
            failed = keeper.check_all(names).await;
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

struct Keeper<'a> {
    state: &'a State,
    /// The names that existed when the loop began: later ones that are maintained only at the start are not changed.
    there_at_start: HashSet<Text>,
    /// Names that have been checked.
    done: HashSet<Text>,
}

impl Keeper<'_> {
    async fn everything(&mut self, is_first: bool) -> Result<BTreeSet<Text>, Status> {
        let objects = Objects::new(&self.state.resources, GROUP, VERSION, PLURAL)?;
        let there = objects.list_as("", Match::Any).await?;
        let mut names: BTreeSet<Text> =
            there.iter().map(|object| metadata(object).at(ObjectMeta::NAME).str().into()).collect();
        if is_first {
            self.there_at_start = names.iter().cloned().collect();
        }
        names.extend(self.state.registrations.0.wanted.lock().by_name.keys().cloned());
        Ok(names)
    }

    /// Checks APIServices; returns the names to check again.
    async fn check_all(&mut self, names: BTreeSet<Text>) -> BTreeSet<Text> {
        let checks = names.into_iter().map(|name| {
            let first_time = !self.done.contains(&name);
            let there_at_start = self.there_at_start.contains(&name);
            let wanted = self.state.registrations.get(&name);
            let resources = &self.state.resources;
            async move {
                let result = check(resources, &name, wanted, there_at_start, first_time).await;
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
                    tracing::warn!(api_service = %name, error = status.message(), "will be tried again");
                    failed.insert(name);
                }
            }
        }
        failed
    }
}

/// Creates, updates or deletes one APIService as wanted.
async fn check(
    resources: &Catalog,
    name: &str,
    wanted: Option<Kept>,
    there_at_start: bool,
    first_time: bool,
) -> Result<(), Status> {
    let objects = Objects::new(resources, GROUP, VERSION, PLURAL)?;
    let resource = objects.resource();
    let context = Context::internal("");
    let there = match resource.get_object(&context, name, Match::Any).await {
        Ok(stored) => Some(stored.object),
        Err(status) if status.is(StatusReason::NotFound) => None,
        Err(status) => return Err(status),
    };
    if wanted.as_ref().is_some_and(|wanted| wanted.how == ON_START) && !first_time {
        return Ok(());
    }
    let result = match (there, wanted) {
        (None, None) => Ok(()),
        (None, Some(wanted)) => {
            let labels: Object = [(LABEL, wanted.how)].into_iter().collect();
            let object = value!({"metadata": {"name": name, "labels": labels}, "spec": (wanted.spec)});
            objects.create("", object).await.map(|_| ())
        }
        (Some(there), wanted) => match metadata(&there).at(ObjectMeta::LABELS).key(LABEL).str() {
            ON_START if !there_at_start || !first_time => Ok(()),
            ON_START | ALWAYS => match wanted {
                None => {
                    let uid = Some(metadata(&there).at(ObjectMeta::UID).str().into());
                    let options = DeleteOptions { uid, ..DeleteOptions::default() };
                    resource.delete(&context, name, &options).await.map(|_| ())
                }
                Some(wanted) if *FieldRef::<APIService>::root(&there).at(APIService::SPEC).value() == wanted.spec => {
                    Ok(())
                }
                Some(wanted) => {
                    let update = objects.update("", name, "", |object| {
                        FieldMut::root(object).set(APIService::SPEC, wanted.spec.clone());
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
