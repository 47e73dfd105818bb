//! The finalizers of a delete: those set for the garbage collector, and those that block the deletion.

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_meta::Text;
use binnacle_schema::Value;
use binnacle_scheme::{Deletion, GarbageCollection};

use super::DeleteRequest;
use crate::context::Context;
use crate::object::{self, FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use crate::time;

/// What the garbage collector does with the dependents of an object before the object is deleted. If both are false, it
/// deletes them afterwards.
#[derive(Clone, Copy, Debug)]
struct Propagation {
    orphan: bool,
    foreground: bool,
}

impl DeleteRequest<'_> {
    /// Sets or removes the finalizers for the garbage collector, which orphans dependents or deletes them first
    /// (`deletionFinalizersForGarbageCollection`). Without a garbage collector they are not set, since nothing would
    /// remove them.
    pub(super) fn set_propagation_finalizers(&self, object: &mut Value) {
        if self.resource.collection.garbage_collector {
            self.propagate(object);
        }
    }

    /// Sets or removes the finalizers like [`DeleteRequest::set_propagation_finalizers`], even without a garbage
    /// collector.
    pub(super) fn propagate(&self, object: &mut Value) {
        let finalizers = object::finalizers(object);
        let Propagation { orphan, foreground } = self.propagation(&finalizers);
        let remaining = finalizers.iter().copied().filter(|finalizer| !sets_propagation(finalizer));
        let desired: Vec<Text> = remaining
            .chain(orphan.then_some(FINALIZER_ORPHAN))
            .chain(foreground.then_some(FINALIZER_FOREGROUND))
            .map(Text::from)
            .collect();
        // As sets: repeated finalizers are kept.
        let same = finalizers.iter().all(|finalizer| desired.iter().any(|kept| kept == finalizer))
            && desired.iter().all(|kept| finalizers.contains(&kept.as_str()));
        if !same {
            object::set_finalizers(object, desired);
        }
    }

    /// Returns the propagation of the first source that has one: the options, the finalizers set by an earlier delete
    /// or by the client, the default of the kind (`shouldOrphanDependents` and `shouldDeleteDependents`).
    fn propagation(&self, finalizers: &[&str]) -> Propagation {
        const ORPHAN: Propagation = Propagation { orphan: true, foreground: false };
        const FOREGROUND: Propagation = Propagation { orphan: false, foreground: true };
        const BACKGROUND: Propagation = Propagation { orphan: false, foreground: false };
        let description = &self.resource.description;
        if description.garbage_collection == GarbageCollection::Unsupported {
            return BACKGROUND;
        }
        if let Some(orphan) = self.options.orphan_dependents {
            // kube-apiserver interprets this as foreground deletion only for namespaces.
            return Propagation { orphan, foreground: !orphan && description.deletion == Deletion::Namespace };
        }
        match self.options.propagation_policy.as_deref() {
            Some("Orphan") => return ORPHAN,
            Some("Foreground") => return FOREGROUND,
            Some("Background") => return BACKGROUND,
            _ => {}
        }
        match finalizers.iter().copied().find(|finalizer| sets_propagation(finalizer)) {
            Some(FINALIZER_ORPHAN) => ORPHAN,
            Some(_) => FOREGROUND,
            None if description.garbage_collection == GarbageCollection::OrphanDependents => ORPHAN,
            None => BACKGROUND,
        }
    }
}

fn sets_propagation(finalizer: &str) -> bool {
    matches!(finalizer, FINALIZER_ORPHAN | FINALIZER_FOREGROUND)
}

/// Marks an object that only remains because of its finalizers: its deletion time is now at the latest, and its grace
/// period is 0 (`markAsDeleting`).
pub(super) fn mark_deleting(context: &Context, object: &mut Value) {
    if !object::is_deleting(object) {
        increment_generation(object);
    }
    let now = context.now_seconds();
    let mut metadata = object::metadata_fields(object);
    let at = time::to_seconds(metadata.str(ObjectMeta::DELETION_TIMESTAMP));
    if at.is_none_or(|at| at > now) {
        metadata.set(ObjectMeta::DELETION_TIMESTAMP, time::from_seconds(now));
    }
    metadata.set(ObjectMeta::DELETION_GRACE_PERIOD_SECONDS, 0i64);
}

/// Increments the generation of an object that has one, since controllers handle an object in deletion differently
/// (`rest.BeforeDelete`, `markAsDeleting`).
pub(super) fn increment_generation(object: &mut Value) {
    let generation = object::generation(object);
    if generation > 0 {
        object::metadata_fields(object).set(ObjectMeta::GENERATION, generation + 1);
    }
}
