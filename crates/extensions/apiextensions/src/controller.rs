//! Serves CustomResourceDefinitions: validates their names, adds their resources to the catalog, and removes these and
//! all objects when a definition is deleted.

mod cleanup;
mod conditions;
mod conversion;
mod parts;
mod publishing;
mod serving;
#[cfg(test)]
mod testing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use binnacle_controllers::{ChangeWatcher, Changes, Controller, Objects, Queues, RETRY_FIRST, RETRY_LAST};
use binnacle_meta::{Status, StatusReason, Text};
use binnacle_metrics::WorkQueue;
use binnacle_registry::{Catalog, StoredObject};
use binnacle_request::{BoxFuture, Shutdown};
use binnacle_schema::Value;
use binnacle_store::Revision;
use binnacle_watchcache::Entry;
use bytes::Bytes;
use tokio::sync::watch;

pub use self::conversion::ConversionMetrics;
use self::parts::Parts;
use self::serving::Pending;
pub use self::serving::{CustomResources, DefinitionRules};
use crate::names::{self, Taken};
use crate::registrar::VersionRegistrar;
use crate::{Definition, Names};

const GROUP: &str = "apiextensions.k8s.io";
const VERSION: &str = "v1";
const PLURAL: &str = "customresourcedefinitions";
/// The finalizer that keeps a definition until its objects are deleted.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What the controller works with.
struct State {
    resources: Catalog,
    serving: Arc<CustomResources>,
    registrar: Arc<dyn VersionRegistrar>,
    queues: Queues,
}

/// Returns the controller that serves the definitions of a server.
pub fn definition_controller(
    resources: &Catalog,
    serving: CustomResources,
    registrar: Arc<dyn VersionRegistrar>,
    queues: &Queues,
) -> Controller {
    let state = State { resources: resources.clone(), serving: Arc::new(serving), registrar, queues: queues.clone() };
    let also = &["start-apiextensions-informers", "start-apiextensions-controllers"];
    Controller::watching("crd-informer-synced", also, &Arc::new(state), watch)
}

/// Watches all definitions until the shutdown signal.
fn watch(state: Arc<State>, done: watch::Sender<bool>, shutdown: Shutdown) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let Ok(resource) = state.resources.require(GROUP, VERSION, PLURAL) else {
            done.send_replace(true);
            return;
        };
        let mut changes = ChangeWatcher::all(&resource);
        let queue = state.queues.queue("crd_naming_condition_controller");
        let finalizer = state.queues.queue("crd_finalizer");
        let (parts, pending) = (Parts::new(&resource), Pending::default());
        let (known, postponed) = (BTreeMap::new(), Some(BTreeSet::new()));
        let serving = state.serving.clone();
        let mut keeper = Keeper { state: &state, serving, parts, known, pending, finalizer, postponed };
        let mut failed: BTreeSet<Text> = BTreeSet::new();
        let mut retry: Option<Duration> = None;
        loop {
            let mut names: BTreeSet<Text> = tokio::select! {
                changed = changes.changed() => match changed {
                    Changes::Named(names) => names.into_iter().collect(),
                    Changes::Anything => match keeper.everything().await {
                        Ok(names) => names,
                        Err(status) => {
                            tracing::warn!(error = status.message(), "definitions of custom resources will be listed again");
                            changes = ChangeWatcher::all(&resource);
                            tokio::time::sleep(RETRY_FIRST).await;
                            continue;
                        }
                    }
                },
                () = tokio::time::sleep(retry.unwrap_or_default()), if retry.is_some() => BTreeSet::new(),
                () = shutdown.fired() => return,
            };
            names.append(&mut failed);
            keeper.settle_each(names, &queue, &mut failed).await;
            if let Some(postponed) = keeper.postponed.take() {
                keeper.settle_each(postponed, &queue, &mut failed).await;
            }
            keeper.publish_pending();
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

struct Keeper<'w> {
    state: &'w State,
    serving: Arc<CustomResources>,
    parts: Parts,
    /// The last seen state of all definitions, by group.
    known: BTreeMap<Text, Group>,
    /// Definitions that this pass serves, but whose status needs no change: their resources get into the catalog at
    /// its end.
    pending: Pending,
    /// Metrics of definitions whose objects are deleted.
    finalizer: WorkQueue,
    /// Until all definitions were seen, those that lack a name: others that have it may not be seen yet.
    postponed: Option<BTreeSet<Text>>,
}

/// The definitions of a group.
#[derive(Default)]
struct Group {
    /// By name.
    definitions: BTreeMap<Text, Known>,
    /// The names that they were granted.
    taken: Taken,
}

impl Group {
    fn insert(&mut self, name: &Text, known: Known) {
        self.taken.add(&known.accepted);
        if let Some(before) = self.definitions.insert(name.clone(), known) {
            self.taken.remove(&before.accepted);
        }
    }

    /// Returns false if there is none of the name.
    fn remove(&mut self, name: &str) -> bool {
        let gone = self.definitions.remove(name);
        gone.iter().for_each(|known| self.taken.remove(&known.accepted));
        gone.is_some()
    }
}

/// The remembered part of a definition; the rest is read again.
struct Known {
    uid: Text,
    accepted: Names,
    /// True while the definition lacks a requested name.
    waits: bool,
    /// The generation whose schemas were checked.
    generation: i64,
    /// The revision that this server wrote: until the definition changes, nothing is left to do.
    settled: Option<Revision>,
}

/// The steps per byte of checking and serving a definition.
const STEPS: u64 = 10;

/// A generation before all others.
const UNSEEN: i64 = -1;

/// Returns the group of a definition, whose name is its plural name and its group.
fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}

impl Keeper<'_> {
    fn objects(&self) -> Result<Objects, Status> {
        Objects::new(&self.state.resources, GROUP, VERSION, PLURAL)
    }

    /// Returns the names of all existing and known definitions.
    async fn everything(&self) -> Result<BTreeSet<Text>, Status> {
        let there = self.objects()?.names("").await?;
        Ok(there.into_iter().chain(self.known.values().flat_map(|group| group.definitions.keys()).cloned()).collect())
    }

    /// Applies definitions; adds those to `failed` that must be processed again.
    async fn settle_each(&mut self, names: BTreeSet<Text>, queue: &WorkQueue, failed: &mut BTreeSet<Text>) {
        let waiting = queue.add_all(names.len());
        for (name, item) in names.into_iter().zip(waiting) {
            let _item = item.begin();
            match self.settle(&name).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(status) => {
                    tracing::warn!(definition = %name, error = status.message(), "a definition will be looked at again");
                }
            }
            failed.insert(name);
        }
    }

    /// Applies one definition. Returns false if it must be processed again.
    async fn settle(&mut self, name: &Text) -> Result<bool, Status> {
        let objects = self.objects()?;
        let Some(entry) = objects.entry("", name).await? else {
            let group = Text::from(group_of(name));
            let Some(others) = self.known.get_mut(&group) else { return Ok(true) };
            if others.remove(name) {
                if others.definitions.is_empty() {
                    self.known.remove(&group);
                }
                self.publish_pending();
                self.serving.stop(&group, name, &*self.state.registrar);
                // Its names are free for other definitions of the group.
                self.settle_group(&group).await?;
            }
            return Ok(true);
        };
        if self.known(name).is_some_and(|known| known.settled == Some(entry.revision())) {
            // The former value is not needed any more.
            self.serving.renew(group_of(name), name, &self.parts.origin(&entry));
            return Ok(true);
        }
        let part = self.parts.of(&entry)?;
        if self.state.resources.features().read_only {
            self.observe(&entry, &part);
            return Ok(true);
        }
        if !Definition::is_deleting(&part) {
            return self.judge(&objects, &entry, part).await.map(|()| true);
        }
        self.publish_pending();
        let has_objects = cleanup::has_objects(&part);
        let definition = Definition::part(&part, self.parts.origin(&entry));
        self.remember(&definition, definition.is("NamesAccepted"), UNSEEN, None);
        if !has_objects {
            return Ok(true);
        }
        let _item = self.finalizer.add().begin();
        self.clean_up(&objects, &definition).await
    }

    /// Serves a definition as the server that writes the store has accepted it, also while its objects are deleted.
    fn observe(&mut self, entry: &Arc<Entry>, part: &Value) {
        let definition = Definition::part(part, self.parts.origin(entry));
        if definition.is("Established") {
            self.serving.serve_later(&definition, &mut self.pending, &*self.state.registrar);
        }
        self.remember(&definition, true, definition.generation, Some(entry.revision()));
    }

    async fn settle_group(&mut self, group: &str) -> Result<(), Status> {
        let known = self.known.get(group).into_iter().flat_map(|group| &group.definitions);
        let waiting = known.filter(|(_, known)| known.waits);
        let waiting: Vec<Text> = waiting.map(|(name, _)| name.clone()).collect();
        let objects = self.objects()?;
        for name in waiting {
            let Some(entry) = objects.entry("", &name).await? else { continue };
            let part = self.parts.of(&entry)?;
            if !Definition::is_deleting(&part) {
                self.judge(&objects, &entry, part).await?;
            }
        }
        Ok(())
    }

    /// Puts the resources of all definitions that are served into the catalog.
    fn publish_pending(&mut self) {
        self.serving.publish_pending(&mut self.pending, &*self.state.registrar);
    }

    fn known(&self, name: &str) -> Option<&Known> {
        self.known.get(group_of(name))?.definitions.get(name)
    }

    fn remember(&mut self, definition: &Definition, has_names: bool, generation: i64, settled: Option<Revision>) {
        let known = Known {
            uid: definition.uid.clone(),
            accepted: definition.accepted.clone(),
            waits: !has_names,
            generation,
            settled,
        };
        let group = Text::from(group_of(&definition.name));
        self.known.entry(group).or_default().insert(&definition.name, known);
    }

    /// Accepts the names of a definition, of which `part` is a part, serves it, and writes its status.
    async fn judge(&mut self, objects: &Objects, entry: &Arc<Entry>, part: Value) -> Result<(), Status> {
        // Nothing is locked here: a large definition does not keep the worker from other tasks.
        binnacle_work::pace(STEPS * entry.value_len() as u64);
        let mut asked = Definition::part(&part, self.parts.origin(entry));
        if let Some(postponed) = &mut self.postponed
            && !asked.is("NamesAccepted")
        {
            postponed.insert(asked.name.clone());
            self.remember(&asked, false, UNSEEN, None);
            return Ok(());
        }
        let none = Taken::default();
        let taken = self.known.get(group_of(&asked.name)).map_or(&none, |group| &group.taken);
        // A definition of the same name that is gone has left its names to this one.
        let own = self.known(&asked.name).map(|known| &known.accepted);
        let judgement = names::judge(&asked, taken, own);
        let rules = self.serving.rules;
        let established = asked.is("Established")
            || judgement.conflict.is_none() && !(rules.invalid_bundle)(asked.webhook_authorities());
        let known = self.known(&asked.name);
        let seen = known.is_some_and(|seen| (&seen.uid, seen.generation) == (&asked.uid, asked.generation));
        // The server that established the definition has judged its schemas, and said so if it found errors.
        let was_judged = seen || known.is_none() && asked.is("Established");
        let whole = !was_judged || asked.preserve_unknown || asked.condition(conditions::NON_STRUCTURAL).is_some();
        let mut object = part;
        if whole {
            object = objects.decode(entry)?;
            asked.check(&object);
        }
        let put_status = |object: &mut Value| {
            conditions::put_names(object, &judgement, established);
            if whole && !seen {
                conditions::put_structure(object, rules.structure);
            }
        };
        let status = object.get("status").cloned();
        put_status(&mut object);
        // As nearly all are when the server starts.
        let is_told = object.get("status") == status.as_ref();
        let known = (whole && !is_told).then(|| {
            let members = object.make_object();
            match status {
                Some(status) => drop(members.insert("status", status)),
                None => drop(members.remove("status")),
            }
            StoredObject::new(object, entry.revision())
        });
        let definition = Definition { accepted: judgement.accepted.clone(), ..asked };
        match (established, is_told) {
            (true, true) => self.serving.serve_later(&definition, &mut self.pending, &*self.state.registrar),
            // Served before `Established` is written, so that clients that wait for the condition find the resource.
            (true, false) => {
                self.publish_pending();
                self.serving.serve(&definition, false, &*self.state.registrar);
            }
            (false, _) => {}
        }
        let has_names = judgement.conflict.is_none();
        if is_told {
            self.remember(&definition, has_names, definition.generation, Some(entry.revision()));
            return Ok(());
        }
        let generation = if seen { definition.generation } else { UNSEEN };
        self.remember(&definition, has_names, generation, None);
        let mut judged = Text::default();
        let change = |object: &mut Value| {
            judged = Text::from(object.str_at(&["metadata", "resourceVersion"]));
            if object.str_at(&["metadata", "uid"]) == definition.uid {
                put_status(object);
            }
        };
        let value = entry.value();
        let known = known.as_ref().map(|known| (known, &*value));
        let told = self.tell(objects, &definition.name, known, change).await?;
        // A definition that was changed meanwhile must be processed again.
        let settled = told.filter(|_| judged == entry.revision().0.to_string());
        self.remember(&definition, has_names, definition.generation, settled);
        Ok(())
    }

    /// Changes the status of a definition, which may be known with its stored bytes, and may be gone; returns its new
    /// revision.
    async fn tell(
        &self,
        objects: &Objects,
        name: &str,
        known: Option<(&StoredObject, &Bytes)>,
        change: impl FnMut(&mut Value) + Send,
    ) -> Result<Option<Revision>, Status> {
        let told = match known {
            Some(known) => objects.update_known(known, ("", name, "status"), change).await,
            None => objects.update_to("", name, "status", change).await,
        };
        match told {
            Err(status) if status.is(StatusReason::NotFound) => Ok(None),
            told => told.map(Some),
        }
    }
}
