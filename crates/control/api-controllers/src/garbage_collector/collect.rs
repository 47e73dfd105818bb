//! Decisions about single objects: whether their owners exist, and what becomes of them.

use std::time::Duration;

use binnacle_controllers::Objects;
use binnacle_fields::meta::v1::{ObjectMeta, OwnerReference};
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{Status, StatusReason, Text};
use binnacle_registry::object::{FINALIZER_FOREGROUND, FINALIZER_ORPHAN, metadata_fields, set_finalizers};
use binnacle_registry::{DeleteOptions, object};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;
use futures::StreamExt;

use super::GarbageCollector;
use super::graph::{ObjectKey, Waits};
use super::meta::{Meta, Owner};
use crate::outcome::Outcome;

/// The maximum pause before an owner whose kind is not served is looked up again.
const UNSERVED_RETRY: Duration = Duration::from_secs(1000);
/// The number of dependents that are orphaned at the same time.
const ORPHANED: usize = 20;

/// The owners of an object by their state.
#[derive(Default)]
struct Owners {
    /// Those that keep the object.
    solid: usize,
    dangling: Vec<Text>,
    /// Those that wait for the deletion of their dependents.
    waiting: Vec<Text>,
}

/// What a reference leads to.
enum Reference {
    Found(Meta),
    Dangling,
    /// No resource has objects of this kind now.
    UnknownKind,
    /// A cluster-scoped object cannot have a namespaced owner.
    Invalid,
}

impl GarbageCollector {
    pub(super) fn delete(&self, uid: Text) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { self.attempt_to_delete(&uid).await.unwrap_or_else(Outcome::Failed) })
    }

    /// Deletes an object if none of its owners keeps it.
    async fn attempt_to_delete(&self, uid: &Text) -> Result<Outcome, Status> {
        let Some(place) = self.graph.lock().place(uid) else { return Ok(Outcome::Done) };
        // The event of its deletion is still to come otherwise.
        let Some(meta) = self.read(&place).await?.filter(|meta| meta.uid == *uid) else { return Ok(Outcome::Done) };
        if meta.waits_for_dependents() {
            return self.finish_foreground(&place, &meta).await;
        }
        if meta.deleting || meta.owners.is_empty() {
            return Ok(Outcome::Done);
        }
        let mut owners = Owners::default();
        for owner in &meta.owners {
            match self.look_up(owner, &place).await? {
                Reference::Found(found) if found.waits_for_dependents() => owners.waiting.push(owner.uid.clone()),
                Reference::Found(_) => owners.solid += 1,
                Reference::Dangling => owners.dangling.push(owner.uid.clone()),
                Reference::UnknownKind => return Ok(Outcome::Again(UNSERVED_RETRY)),
                Reference::Invalid => return Ok(Outcome::Done),
            }
        }
        if owners.solid > 0 {
            let gone = [owners.dangling, owners.waiting].concat();
            if !gone.is_empty() {
                self.remove_owners(&place, uid, &gone).await?;
            }
            return Ok(Outcome::Done);
        }
        let dependents = self.graph.lock().dependents_of(uid);
        let policy = if !owners.waiting.is_empty() && !dependents.is_empty() {
            let waits = |it: &Text| self.graph.lock().waits(it) == Waits::Deletion;
            if dependents.iter().any(waits) {
                // A cycle may have formed, in which each object waits for the next.
                self.unblock_owners(&place, uid).await?;
            }
            "Foreground"
        } else if meta.orphan {
            "Orphan"
        } else if meta.foreground {
            "Foreground"
        } else {
            "Background"
        };
        self.delete_object(&place, &meta, policy).await
    }

    /// Deletes an object in this state; its owners are checked again if it has changed meanwhile.
    async fn delete_object(&self, place: &ObjectKey, meta: &Meta, policy: &'static str) -> Result<Outcome, Status> {
        let options = DeleteOptions {
            uid: Some(meta.uid.clone()),
            resource_version: Some(meta.resource_version.clone()),
            propagation_policy: Some(policy.into()),
            has_preconditions: true,
            ..DeleteOptions::default()
        };
        let deletion = self.objects(place);
        match deletion.delete_with(&place.namespace, &place.name, &options).await {
            Err(status) if status.is(StatusReason::Conflict) => {
                let now = self.read(place).await?;
                if !now.is_some_and(|now| now.uid == meta.uid && now.owners == meta.owners) {
                    return Ok(Outcome::After(Duration::ZERO));
                }
                // Frequent changes of anything else must not keep the object alive.
                let options = DeleteOptions { resource_version: None, ..options };
                deletion.delete_with(&place.namespace, &place.name, &options).await.map(|()| Outcome::Done)
            }
            deleted => deleted.map(|()| Outcome::Done),
        }
    }

    /// Lets an object go whose dependents are deleted, or checks those that remain.
    async fn finish_foreground(&self, place: &ObjectKey, meta: &Meta) -> Result<Outcome, Status> {
        if self.graph.lock().blocking_dependents(&meta.uid).is_empty() {
            self.monitors.catch_up().await;
        }
        let blocking = self.graph.lock().blocking_dependents(&meta.uid);
        if blocking.is_empty() {
            self.remove_finalizer(place, &meta.uid, FINALIZER_FOREGROUND).await?;
        }
        for dependent in blocking {
            if self.graph.lock().waits(&dependent) != Waits::Deletion {
                self.deletions.add(dependent);
            }
        }
        Ok(Outcome::Done)
    }

    /// Removes an object from the owners of its dependents, and then lets it go.
    pub(super) fn orphan(&self, uid: Text) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { self.attempt_to_orphan(&uid).await.into() })
    }

    async fn attempt_to_orphan(&self, uid: &Text) -> Result<(), Status> {
        let Some(place) = self.graph.lock().place(uid) else { return Ok(()) };
        self.monitors.catch_up().await;
        let dependents: Vec<(Text, ObjectKey)> = {
            let graph = self.graph.lock();
            let place = |dependent: Text| graph.place(&dependent).map(|place| (dependent, place));
            graph.dependents_of(uid).into_iter().filter_map(place).collect()
        };
        let removals = dependents.into_iter().map(|(dependent, place)| async move {
            self.remove_owners(&place, &dependent, std::slice::from_ref(uid)).await
        });
        let removed: Vec<Result<(), Status>> =
            futures::stream::iter(removals).buffer_unordered(ORPHANED).collect().await;
        removed.into_iter().collect::<Result<(), Status>>()?;
        self.remove_finalizer(&place, uid, FINALIZER_ORPHAN).await
    }

    async fn look_up(&self, owner: &Owner, dependent: &ObjectKey) -> Result<Reference, Status> {
        let snapshot = self.context.resources.snapshot();
        let Some(resource) = owner.resource(&snapshot) else { return Ok(Reference::UnknownKind) };
        let namespaced = resource.description.namespaced;
        if namespaced && dependent.namespace.is_empty() {
            return Ok(Reference::Invalid);
        }
        let namespace = if namespaced { dependent.namespace.clone() } else { Text::default() };
        let place = ObjectKey { resource: resource.clone(), namespace, name: owner.name.clone() };
        match self.read(&place).await? {
            Some(found) if found.uid == owner.uid => Ok(Reference::Found(found)),
            _ => {
                self.report_other_namespace(owner, &place, dependent).await;
                Ok(Reference::Dangling)
            }
        }
    }

    /// Reads the metadata of an object, including all writes acknowledged before.
    async fn read(&self, place: &ObjectKey) -> Result<Option<Meta>, Status> {
        let objects = Objects::of(place.resource.clone());
        let Some(entry) = objects.entry(&place.namespace, &place.name).await? else { return Ok(None) };
        let object = objects.decode(&entry)?;
        Ok(Some(Meta::of(&object)))
    }

    async fn remove_owners(&self, place: &ObjectKey, uid: &Text, gone: &[Text]) -> Result<(), Status> {
        let stays = |reference: &Value| {
            let owner = FieldRef::<OwnerReference>::root(reference).at(OwnerReference::UID).str();
            !gone.iter().any(|uid| uid == owner)
        };
        self.change(place, uid, |object| {
            let mut metadata = metadata_fields(object);
            let owners = metadata.list_entry(ObjectMeta::OWNER_REFERENCES);
            owners.retain(stays);
            if owners.is_empty() {
                metadata.remove(ObjectMeta::OWNER_REFERENCES);
            }
        })
        .await
    }

    async fn unblock_owners(&self, place: &ObjectKey, uid: &Text) -> Result<(), Status> {
        self.change(place, uid, |object| {
            for reference in metadata_fields(object).list_entry(ObjectMeta::OWNER_REFERENCES) {
                let mut reference = FieldMut::<OwnerReference>::root(reference);
                if reference.read().at(OwnerReference::BLOCK_OWNER_DELETION).bool() {
                    reference.set(OwnerReference::BLOCK_OWNER_DELETION, false);
                }
            }
        })
        .await
    }

    async fn remove_finalizer(&self, place: &ObjectKey, uid: &Text, finalizer: &str) -> Result<(), Status> {
        self.change(place, uid, |object| {
            let others = object::finalizers(object).into_iter().filter(|one| *one != finalizer);
            let others: Vec<Text> = others.map(Text::from).collect();
            set_finalizers(object, others);
        })
        .await
    }

    /// Changes an object; does nothing if it is gone or was replaced.
    async fn change(
        &self,
        place: &ObjectKey,
        uid: &Text,
        change: impl Fn(&mut Value) + Send + Sync,
    ) -> Result<(), Status> {
        let objects = self.objects(place);
        let changed = objects.update(&place.namespace, &place.name, "", |object| {
            if metadata(object).at(ObjectMeta::UID).str() == uid.as_str() {
                change(object);
            }
        });
        match changed.await {
            Err(status) if status.is(StatusReason::NotFound) => Ok(()),
            changed => changed,
        }
    }
}
