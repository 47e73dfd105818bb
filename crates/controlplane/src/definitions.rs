//! Serves CustomResourceDefinitions: validates their names, adds their resources to the catalog, and removes these and
//! all objects when a definition is deleted.

mod cleanup;
mod conditions;
mod conversion;
mod publishing;
mod serving;
#[cfg(test)]
mod testing;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use binnacle_custom::{Definition, Names, names};
use binnacle_meta::{Status, StatusReason, Text};
use binnacle_request::{BoxFuture, Shutdown};
use binnacle_schema::Value;
use binnacle_store::Revision;
use tokio::sync::watch;

pub use self::conversion::ConversionMetrics;
pub use self::serving::{CustomResources, DefinitionRules};
use crate::follow::{Changed, Follow};
use crate::objects::Objects;
use crate::start::{RETRY_FIRST, RETRY_LAST, Work};

const GROUP: &str = "apiextensions.k8s.io";
const VERSION: &str = "v1";
const PLURAL: &str = "customresourcedefinitions";
/// The finalizer that keeps a definition until its objects are deleted.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Follows all definitions until the shutdown signal.
pub(crate) fn follow(work: Arc<Work>, done: watch::Sender<bool>, shutdown: Shutdown) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let (Some(serving), Ok(resource)) =
            (work.config.custom.clone(), work.resources.require(GROUP, VERSION, PLURAL))
        else {
            done.send_replace(true);
            return;
        };
        let mut changes = Follow::all(&resource);
        let mut keeper = Keeper { work: &work, serving, known: BTreeMap::new() };
        let mut failed: BTreeSet<Text> = BTreeSet::new();
        let mut retry: Option<Duration> = None;
        loop {
            let mut names: BTreeSet<Text> = tokio::select! {
                changed = changes.changed() => match changed {
                    Changed::Named(names) => names.into_iter().collect(),
                    Changed::Anything => match keeper.everything().await {
                        Ok(names) => names,
                        Err(status) => {
                            tracing::warn!(error = status.message(), "definitions of custom resources will be listed again");
                            changes = Follow::all(&resource);
                            tokio::time::sleep(RETRY_FIRST).await;
                            continue;
                        }
                    }
                },
                () = tokio::time::sleep(retry.unwrap_or_default()), if retry.is_some() => BTreeSet::new(),
                () = shutdown.fired() => return,
            };
            names.append(&mut failed);
            for name in names {
                match keeper.settle(&name).await {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(status) => {
                        tracing::warn!(definition = %name, error = status.message(), "a definition will be looked at again");
                    }
                }
                failed.insert(name);
            }
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
    work: &'w Work,
    serving: Arc<CustomResources>,
    /// The last seen state of all definitions: by group, then by name.
    known: BTreeMap<Text, BTreeMap<Text, Known>>,
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

/// A generation before all others.
const UNSEEN: i64 = -1;

/// Returns the group of a definition, whose name is its plural name and its group.
fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}

impl Keeper<'_> {
    fn objects(&self) -> Result<Objects, Status> {
        Objects::new(&self.work.resources, GROUP, VERSION, PLURAL)
    }

    /// Returns the names of all existing and known definitions.
    async fn everything(&self) -> Result<BTreeSet<Text>, Status> {
        let objects = self.objects()?.list("").await?;
        let there = objects.iter().map(|object| Text::from(object.str_at(&["metadata", "name"])));
        Ok(there.chain(self.known.values().flat_map(BTreeMap::keys).cloned()).collect())
    }

    /// Applies one definition. Returns false if it must be processed again.
    async fn settle(&mut self, name: &Text) -> Result<bool, Status> {
        let objects = self.objects()?;
        let Some(entry) = objects.entry("", name).await? else {
            let group = Text::from(group_of(name));
            let Some(others) = self.known.get_mut(&group) else { return Ok(true) };
            if others.remove(name).is_some() {
                if others.is_empty() {
                    self.known.remove(&group);
                }
                self.serving.stop(&group, name, &self.work.registrations);
                // Its names are free for other definitions of the group.
                self.settle_group(&group).await?;
            }
            return Ok(true);
        };
        if self.known(name).is_some_and(|known| known.settled == Some(entry.revision())) {
            return Ok(true);
        }
        let object = objects.decode(&entry)?;
        let has_objects = cleanup::has_objects(&object);
        let definition = Definition::take(object);
        if definition.deleting {
            self.remember(&definition, definition.is("NamesAccepted"), UNSEEN, None);
            return if has_objects { self.clean_up(&objects, &definition).await } else { Ok(true) };
        }
        self.judge(&objects, definition, entry.revision()).await.map(|()| true)
    }

    async fn settle_group(&mut self, group: &str) -> Result<(), Status> {
        let waiting = self.known.get(group).into_iter().flatten().filter(|(_, known)| known.waits);
        let waiting: Vec<Text> = waiting.map(|(name, _)| name.clone()).collect();
        let objects = self.objects()?;
        for name in waiting {
            let Some(entry) = objects.entry("", &name).await? else { continue };
            let definition = Definition::take(objects.decode(&entry)?);
            if !definition.deleting {
                self.judge(&objects, definition, entry.revision()).await?;
            }
        }
        Ok(())
    }

    fn known(&self, name: &str) -> Option<&Known> {
        self.known.get(group_of(name))?.get(name)
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
        self.known.entry(group).or_default().insert(definition.name.clone(), known);
    }

    /// Accepts the names of a definition read at a revision, serves it, and writes its status.
    async fn judge(&mut self, objects: &Objects, mut definition: Definition, revision: Revision) -> Result<(), Status> {
        let others = self.known.get(group_of(&definition.name)).into_iter().flat_map(BTreeMap::values);
        let others = others.filter(|other| other.uid != definition.uid).map(|other| &other.accepted);
        let judgement = names::judge(&definition, others);
        definition.accepted = judgement.accepted.clone();
        let rules = self.serving.rules;
        let established = definition.is("Established")
            || judgement.conflict.is_none() && !(rules.invalid_bundle)(definition.webhook_authorities());
        // Served before `Established` is written, so that clients that wait for the condition find the resource.
        if established {
            self.serving.serve(&definition, false, &self.work.registrations);
        }
        let seen = self.known(&definition.name);
        let seen = seen.is_some_and(|seen| (&seen.uid, seen.generation) == (&definition.uid, definition.generation));
        let generation = if seen { definition.generation } else { UNSEEN };
        self.remember(&definition, judgement.conflict.is_none(), generation, None);
        let mut judged = Text::default();
        let change = |object: &mut Value| {
            judged = Text::from(object.str_at(&["metadata", "resourceVersion"]));
            if object.str_at(&["metadata", "uid"]) == definition.uid {
                conditions::put_names(object, &judgement, established);
                if !seen {
                    conditions::put_structure(object, rules.structure);
                }
            }
        };
        let told = self.tell(objects, &definition.name, change).await?;
        // A definition that was changed meanwhile must be processed again.
        let settled = told.filter(|_| judged == revision.0.to_string());
        self.remember(&definition, judgement.conflict.is_none(), definition.generation, settled);
        Ok(())
    }

    /// Changes the status of a definition, which may be gone; returns its new revision.
    async fn tell(
        &self,
        objects: &Objects,
        name: &str,
        change: impl FnMut(&mut Value) + Send,
    ) -> Result<Option<Revision>, Status> {
        match objects.update_to("", name, "status", change).await {
            Err(status) if status.is(StatusReason::NotFound) => Ok(None),
            told => told.map(Some),
        }
    }
}
