//! The controller that serves CustomResourceDefinitions: it accepts their names, adds their resources to the catalog,
//! and removes the resources and all their objects when a definition is deleted.

mod cleanup;
mod conditions;
mod conversion;
mod partial_decoder;
mod publishing;
mod serving;
#[cfg(test)]
mod testing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use binnacle_controllers::{ChangeWatcher, Changes, Controller, Objects, Queues, RETRY_FIRST, RETRY_LAST};
use binnacle_fields::apiextensions::v1::CustomResourceDefinition as Crd;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
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
use self::partial_decoder::PartialDecoder;
use self::serving::PendingDefinitions;
pub use self::serving::{CustomResources, DefinitionRules};
use crate::names::{self, ReservedNames};
use crate::registrar::VersionRegistrar;
use crate::{Definition, Names};

const GROUP: &str = "apiextensions.k8s.io";
const VERSION: &str = "v1";
const PLURAL: &str = "customresourcedefinitions";
/// The finalizer that keeps a definition until its objects are deleted.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The state of the controller.
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
    Controller::watch("crd-informer-synced", also, &Arc::new(state), watch)
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
        let (decoder, pending) = (PartialDecoder::new(&resource), PendingDefinitions::default());
        let (cached, postponed) = (BTreeMap::new(), Some(BTreeSet::new()));
        let serving = state.serving.clone();
        let mut reconciler = Reconciler { state: &state, serving, decoder, cached, pending, finalizer, postponed };
        let mut failed: BTreeSet<Text> = BTreeSet::new();
        let mut retry: Option<Duration> = None;
        loop {
            let mut names: BTreeSet<Text> = tokio::select! {
                changed = changes.changed() => match changed {
                    Changes::Named(names) => names.into_iter().collect(),
                    Changes::Anything => match reconciler.list_names().await {
                        Ok(names) => names,
                        Err(status) => {
                            tracing::warn!(error = status.message(), "failed to list CustomResourceDefinitions, retrying");
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
            reconciler.reconcile_each(names, &queue, &mut failed).await;
            if let Some(postponed) = reconciler.postponed.take() {
                reconciler.reconcile_each(postponed, &queue, &mut failed).await;
            }
            reconciler.publish_pending();
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

struct Reconciler<'w> {
    state: &'w State,
    serving: Arc<CustomResources>,
    decoder: PartialDecoder,
    /// The last seen state of all definitions, by group.
    cached: BTreeMap<Text, Group>,
    /// Definitions that this pass serves, but whose status needs no change. Their resources are added to the catalog at
    /// the end of the pass.
    pending: PendingDefinitions,
    /// Metrics of definitions whose objects are deleted.
    finalizer: WorkQueue,
    /// Until all definitions have been read, those without accepted names: a definition that holds one of the names may
    /// not have been read yet.
    postponed: Option<BTreeSet<Text>>,
}

/// The definitions of a group.
#[derive(Default)]
struct Group {
    /// By name.
    definitions: BTreeMap<Text, CachedDefinition>,
    /// Their accepted names.
    reserved: ReservedNames,
}

impl Group {
    fn insert(&mut self, name: &Text, cached: CachedDefinition) {
        self.reserved.add(&cached.accepted);
        if let Some(before) = self.definitions.insert(name.clone(), cached) {
            self.reserved.remove(&before.accepted);
        }
    }

    /// Removes a definition; returns false if it does not exist.
    fn remove(&mut self, name: &str) -> bool {
        let gone = self.definitions.remove(name);
        gone.iter().for_each(|cached| self.reserved.remove(&cached.accepted));
        gone.is_some()
    }
}

/// The cached part of a definition; the rest is read again when it is needed.
struct CachedDefinition {
    uid: Text,
    accepted: Names,
    /// True while the definition lacks a requested name.
    awaits_names: bool,
    /// The generation whose schemas were checked.
    generation: i64,
    /// The revision that this server wrote: until the definition changes, nothing is left to do.
    reconciled: Option<Revision>,
}

/// The work steps per byte for validating and serving a definition.
const STEPS: u64 = 10;

/// A generation before all others.
const NO_GENERATION: i64 = -1;

/// Returns the group of a definition, whose name is its plural name and its group.
fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}

impl Reconciler<'_> {
    fn objects(&self) -> Result<Objects, Status> {
        Objects::new(&self.state.resources, GROUP, VERSION, PLURAL)
    }

    /// Returns the names of all existing and cached definitions.
    async fn list_names(&self) -> Result<BTreeSet<Text>, Status> {
        let existing = self.objects()?.names("").await?;
        Ok(existing
            .into_iter()
            .chain(self.cached.values().flat_map(|group| group.definitions.keys()).cloned())
            .collect())
    }

    /// Reconciles definitions; adds those to `failed` that must be retried.
    async fn reconcile_each(&mut self, names: BTreeSet<Text>, queue: &WorkQueue, failed: &mut BTreeSet<Text>) {
        let queued = queue.add_all(names.len());
        for (name, item) in names.into_iter().zip(queued) {
            let _item = item.begin();
            match self.reconcile(&name).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(status) => {
                    tracing::warn!(definition = %name, error = status.message(), "failed to sync CustomResourceDefinition, retrying");
                }
            }
            failed.insert(name);
        }
    }

    /// Reconciles one definition; returns false if it must be retried.
    async fn reconcile(&mut self, name: &Text) -> Result<bool, Status> {
        let objects = self.objects()?;
        let Some(entry) = objects.entry("", name).await? else {
            let group = Text::from(group_of(name));
            let Some(others) = self.cached.get_mut(&group) else { return Ok(true) };
            if others.remove(name) {
                if others.definitions.is_empty() {
                    self.cached.remove(&group);
                }
                self.publish_pending();
                self.serving.stop(&group, name, &*self.state.registrar);
                // Its names are free for other definitions of the group.
                self.reconcile_group(&group).await?;
            }
            return Ok(true);
        };
        if self.cached(name).is_some_and(|cached| cached.reconciled == Some(entry.revision())) {
            // Releases the previous value of the definition.
            self.serving.renew(group_of(name), name, &self.decoder.origin(&entry));
            return Ok(true);
        }
        let part = self.decoder.of(&entry)?;
        if self.state.resources.features().read_only {
            self.observe(&entry, &part);
            return Ok(true);
        }
        if !Definition::is_deleting(&part) {
            return self.reconcile_names(&objects, &entry, part).await.map(|()| true);
        }
        self.publish_pending();
        let has_objects = cleanup::has_objects(&part);
        let definition = Definition::part(&part, self.decoder.origin(&entry));
        self.cache(&definition, definition.is("NamesAccepted"), NO_GENERATION, None);
        if !has_objects {
            return Ok(true);
        }
        let _item = self.finalizer.add().begin();
        self.clean_up(&objects, &definition).await
    }

    /// Serves a definition as the server that writes the store has accepted it, also while its objects are deleted.
    fn observe(&mut self, entry: &Arc<Entry>, part: &Value) {
        let definition = Definition::part(part, self.decoder.origin(entry));
        if definition.is("Established") {
            self.serving.serve_later(&definition, &mut self.pending, &*self.state.registrar);
        }
        self.cache(&definition, true, definition.generation, Some(entry.revision()));
    }

    async fn reconcile_group(&mut self, group: &str) -> Result<(), Status> {
        let cached = self.cached.get(group).into_iter().flat_map(|group| &group.definitions);
        let queued = cached.filter(|(_, cached)| cached.awaits_names);
        let queued: Vec<Text> = queued.map(|(name, _)| name.clone()).collect();
        let objects = self.objects()?;
        for name in queued {
            let Some(entry) = objects.entry("", &name).await? else { continue };
            let part = self.decoder.of(&entry)?;
            if !Definition::is_deleting(&part) {
                self.reconcile_names(&objects, &entry, part).await?;
            }
        }
        Ok(())
    }

    /// Adds the resources of all pending definitions to the catalog.
    fn publish_pending(&mut self) {
        self.serving.publish_pending(&mut self.pending, &*self.state.registrar);
    }

    fn cached(&self, name: &str) -> Option<&CachedDefinition> {
        self.cached.get(group_of(name))?.definitions.get(name)
    }

    fn cache(&mut self, definition: &Definition, has_names: bool, generation: i64, reconciled: Option<Revision>) {
        let cached = CachedDefinition {
            uid: definition.uid.clone(),
            accepted: definition.accepted.clone(),
            awaits_names: !has_names,
            generation,
            reconciled,
        };
        let group = Text::from(group_of(&definition.name));
        self.cached.entry(group).or_default().insert(&definition.name, cached);
    }

    /// Accepts the names of a definition, serves it, and writes its status. `part` is the definition without its
    /// schemas.
    async fn reconcile_names(&mut self, objects: &Objects, entry: &Arc<Entry>, part: Value) -> Result<(), Status> {
        // No lock is held here, so a large definition does not block other tasks of the worker.
        binnacle_work::pace(STEPS * entry.value_len() as u64);
        let mut requested = Definition::part(&part, self.decoder.origin(entry));
        if let Some(postponed) = &mut self.postponed
            && !requested.is("NamesAccepted")
        {
            postponed.insert(requested.name.clone());
            self.cache(&requested, false, NO_GENERATION, None);
            return Ok(());
        }
        let none = ReservedNames::default();
        let reserved = self.cached.get(group_of(&requested.name)).map_or(&none, |group| &group.reserved);
        // These include the names of a deleted definition with the same name.
        let own = self.cached(&requested.name).map(|cached| &cached.accepted);
        let verdict = names::evaluate(&requested, reserved, own);
        let rules = self.serving.rules;
        let established = requested.is("Established")
            || verdict.conflict.is_none() && !(rules.invalid_bundle)(requested.webhook_authorities());
        let cached = self.cached(&requested.name);
        let is_same_generation =
            cached.is_some_and(|cached| (&cached.uid, cached.generation) == (&requested.uid, requested.generation));
        // The server that established the definition has validated its schemas, and has written a condition if it found
        // errors.
        let was_validated = is_same_generation || cached.is_none() && requested.is("Established");
        let is_full_check =
            !was_validated || requested.preserve_unknown || requested.condition(conditions::NON_STRUCTURAL).is_some();
        let mut object = part;
        if is_full_check {
            object = objects.decode(entry)?;
            requested.check(&object);
        }
        let put_status = |object: &mut Value| {
            conditions::put_names(object, &verdict, established);
            if is_full_check && !is_same_generation {
                conditions::put_structure(object, rules.structure);
            }
        };
        let status = object.get(Crd::STATUS.name()).cloned();
        put_status(&mut object);
        // True for nearly all definitions when the server starts.
        let is_current = object.get(Crd::STATUS.name()) == status.as_ref();
        let cached = (is_full_check && !is_current).then(|| {
            let members = object.make_object();
            match status {
                Some(status) => drop(members.insert(Crd::STATUS.name(), status)),
                None => drop(members.remove(Crd::STATUS.name())),
            }
            StoredObject::new(object, entry.revision())
        });
        let definition = Definition { accepted: verdict.accepted.clone(), ..requested };
        match (established, is_current) {
            (true, true) => self.serving.serve_later(&definition, &mut self.pending, &*self.state.registrar),
            // Served before `Established` is written, so that clients that wait for the condition find the resource.
            (true, false) => {
                self.publish_pending();
                self.serving.serve(&definition, false, &*self.state.registrar);
            }
            (false, _) => {}
        }
        let has_names = verdict.conflict.is_none();
        if is_current {
            self.cache(&definition, has_names, definition.generation, Some(entry.revision()));
            return Ok(());
        }
        let generation = if is_same_generation { definition.generation } else { NO_GENERATION };
        self.cache(&definition, has_names, generation, None);
        let mut validated_version = Text::default();
        let change = |object: &mut Value| {
            validated_version = Text::from(metadata(object).at(ObjectMeta::RESOURCE_VERSION).str());
            if metadata(object).at(ObjectMeta::UID).str() == definition.uid {
                put_status(object);
            }
        };
        let value = entry.value();
        let cached = cached.as_ref().map(|cached| (cached, &*value));
        let updated = self.update_status(objects, &definition.name, cached, change).await?;
        // A definition that has changed meanwhile must be reconciled again.
        let reconciled = updated.filter(|_| validated_version == entry.revision().0.to_string());
        self.cache(&definition, has_names, definition.generation, reconciled);
        Ok(())
    }

    /// Updates the status of a definition; returns its new revision, or `None` if the definition has been deleted.
    /// `cached` is the definition with its stored bytes, if it was decoded before.
    async fn update_status(
        &self,
        objects: &Objects,
        name: &str,
        cached: Option<(&StoredObject, &Bytes)>,
        change: impl FnMut(&mut Value) + Send,
    ) -> Result<Option<Revision>, Status> {
        let updated = match cached {
            Some(cached) => objects.update_known(cached, ("", name, "status"), change).await,
            None => objects.update_to("", name, "status", change).await,
        };
        match updated {
            Err(status) if status.is(StatusReason::NotFound) => Ok(None),
            updated => updated.map(Some),
        }
    }
}
