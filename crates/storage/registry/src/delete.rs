//! Delete and deletecollection: preconditions, graceful deletion, finalizers, propagation policies.

use binnacle_fields::apiextensions::v1::{
    CustomResourceDefinition as Definition, CustomResourceDefinitionCondition as DefinitionCondition,
    CustomResourceDefinitionStatus as DefinitionStatus,
};
use binnacle_fields::core::v1::{Namespace, NamespaceSpec, NamespaceStatus};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{GroupResource, Status, StatusDetails, StatusReason, Text};
use binnacle_schema::{Value, value};
use binnacle_scheme::DeleteGrace;
use binnacle_scheme::{Deletion, GarbageCollection};
use binnacle_store::{Expect, KeyValue, Op, Txn, TxnResponse};
use binnacle_watchcache::Entry;
use futures::future::{BoxFuture, try_join_all};

use crate::admission::{Operation, OperationOptions};
use crate::context::Context;
use crate::delete_options::DeleteOptions;
use crate::list::{ListOptions, Page};
use crate::object::{self, FINALIZER_FOREGROUND, FINALIZER_ORPHAN};
use crate::resource::Resource;
use crate::stored::{StoredObject, store_failure};
use crate::time;
use crate::write_object::WriteObject;

/// The outcome of a delete.
#[derive(Debug)]
pub enum Deleted {
    /// The object is deleted; `object` is its last state.
    Gone(StoredObject),
    /// The object stays for now (grace period, finalizers), in this state.
    Pending(StoredObject),
}

/// The next step of a delete.
enum Step {
    /// Write this object, and with `then_delete` continue with the delete.
    Mark {
        object: Value,
        then_delete: bool,
    },
    DeleteNow,
    AlreadyPending,
}

impl Resource {
    /// Deletes an object, or marks it as being deleted.
    ///
    /// # Errors
    ///
    /// 403 if the kind forbids it, 404 if there is none, 422 for invalid options, 409 for a precondition, or the verdict
    /// of admission.
    pub async fn delete(&self, context: &Context, name: &str, options: &DeleteOptions) -> Result<Deleted, Status> {
        if let Some(why) = self.collection.kind.strategy.forbids_delete(name) {
            return Err(Status::forbidden(&self.group_resource(), name, why));
        }
        self.warn_of_delete(context, options);
        self.delete_named(context, name, options, name).await
    }

    /// As [`Resource::delete`]; admission gets the name in the request, which may be empty.
    async fn delete_named(
        &self,
        context: &Context,
        name: &str,
        options: &DeleteOptions,
        name_of_request: &str,
    ) -> Result<Deleted, Status> {
        let collection = &self.collection;
        let key = collection.key(&context.namespace, name)?;
        let unread = |error| collection.lookup_failure(error);
        let (current, _) = collection.store.get(key.clone(), None).await.map_err(unread)?;
        let mut kv = current.ok_or_else(|| Status::not_found(&self.group_resource(), name))?;
        options.validate()?;
        let mut attributes = self.attributes(context, Operation::Delete, name_of_request, "");
        let mut options = options.clone();
        let mut marked = false;
        loop {
            binnacle_work::large(kv.value.len()).await;
            let stored = collection.open_to_delete(&kv).map_err(unread)?;
            let mut nothing = WriteObject::default();
            let step = self.delete_step(context, name, &mut options, &stored, marked)?;
            if matches!(step, Step::AlreadyPending) {
                return Ok(Deleted::Pending(stored));
            }
            attributes.options = OperationOptions::Delete(Box::new(self.options_told(&options, &stored.object)));
            collection.admission.mutate(&attributes, &mut nothing, Some(&stored.object), &context.notes).await?;
            collection.admission.validate(&attributes, &nothing, Some(&stored.object), &context.notes).await?;
            match step {
                Step::AlreadyPending => return Ok(Deleted::Pending(stored)),
                Step::Mark { mut object, then_delete } => {
                    if context.dry_run {
                        collection.kind.canonicalize(&mut object);
                        let stored = StoredObject::new(object, stored.revision);
                        return Ok(if then_delete { Deleted::Gone(stored) } else { Deleted::Pending(stored) });
                    }
                    match self.replace(&kv, &mut object).await? {
                        Ok(stored) if !then_delete => return Ok(Deleted::Pending(stored)),
                        Ok(stored) => {
                            marked = true;
                            if options.resource_version.is_some() {
                                options.resource_version = Some(stored.revision.0.to_string().into());
                            }
                            let (current, _) = collection.store.get(key.clone(), None).await.map_err(store_failure)?;
                            match current {
                                Some(newer) => kv = newer,
                                // Another component has deleted the marked object.
                                None => return self.gone(context, stored).await,
                            }
                        }
                        Err(Some(newer)) => kv = newer,
                        Err(None) => return Err(Status::not_found(&self.group_resource(), name)),
                    }
                }
                Step::DeleteNow => {
                    if context.dry_run {
                        return Ok(Deleted::Gone(stored));
                    }
                    let txn = Txn { key: key.clone(), expect: Expect::ModRevision(stored.revision), op: Op::Delete };
                    match collection.store.txn(txn).await.map_err(store_failure)? {
                        TxnResponse::Done { revision, .. } => {
                            let mut object = stored.object;
                            collection.stamp(&mut object, revision);
                            return self.gone(context, StoredObject::new(object, revision)).await;
                        }
                        TxnResponse::Unmet { current: Some(newer), .. } => kv = newer,
                        TxnResponse::Unmet { current: None, .. } if marked => return self.gone(context, stored).await,
                        TxnResponse::Unmet { current: None, .. } => {
                            return Err(Status::not_found(&self.group_resource(), name));
                        }
                    }
                }
            }
        }
    }

    /// Deletes all objects of the context's namespace that the list options select, and returns the list. Stops at the
    /// first error, except for objects that were already deleted.
    pub async fn delete_collection(
        &self,
        context: &Context,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Page, Status> {
        self.warn_of_delete(context, options);
        let mut page = self.list_to_delete(context, list).await?;
        let mut entries = Vec::new();
        while let Some(chunk) = page.next_chunk() {
            entries.extend(chunk);
        }
        // Concurrently, as limited by `--delete-collection-workers`.
        for some in entries.chunks(self.collection.delete_workers.max(1)) {
            let deletions: Vec<_> = some.iter().map(|entry| self.delete_listed(context, entry, options)).collect();
            try_join_all(deletions).await?;
        }
        // The answer has the objects that can be shown.
        entries.retain(|entry| self.collection.read_failure(entry).is_none());
        Ok(Page::of(entries, &page))
    }

    /// Returns the options for admission. Deletes of namespaces and definitions always have the uid.
    fn options_told(&self, options: &DeleteOptions, object: &Value) -> DeleteOptions {
        let mut told = options.clone();
        if matches!(self.description.deletion, Deletion::Namespace | Deletion::CustomResourceDefinition) {
            told.uid.get_or_insert_with(|| object::uid(object).into());
        }
        told
    }

    fn warn_of_delete(&self, context: &Context, options: &DeleteOptions) {
        let propagation_given = options.propagation_policy.is_some() || options.orphan_dependents.is_some();
        let warnings = self.collection.kind.strategy.warnings_on_delete(propagation_given);
        warnings.into_iter().for_each(|text| context.warn(text));
    }

    fn delete_listed<'a>(
        &'a self,
        context: &Context,
        entry: &'a Entry,
        options: &'a DeleteOptions,
    ) -> BoxFuture<'a, Result<(), Status>> {
        let context = context.for_one_object();
        Box::pin(async move {
            match self.delete_named(&context, entry.name(), options, "").await {
                Ok(_) => Ok(()),
                Err(status) if status.is(StatusReason::NotFound) => Ok(()),
                Err(status) => Err(status),
            }
        })
    }

    /// Returns the Status of a delete, for kinds whose deletes do not return the object.
    pub fn deleted_status(&self, object: &Value) -> Status {
        Status::success(StatusDetails::of(
            &self.description.group,
            &self.description.plural,
            object::name(object),
            object::uid(object),
        ))
    }

    async fn gone(&self, context: &Context, stored: StoredObject) -> Result<Deleted, Status> {
        self.collection.hooks.after_delete(context, &stored.object).await;
        Ok(Deleted::Gone(stored))
    }

    /// Writes a marked object, unless it is unchanged.
    async fn replace(
        &self,
        old: &KeyValue,
        object: &mut Value,
    ) -> Result<Result<StoredObject, Option<KeyValue>>, Status> {
        let collection = &self.collection;
        let value = collection.encode_marked(object).await?;
        let mut revision = old.mod_revision;
        let size = value.len();
        if !collection.is_same(object, &value, &old.value) {
            let op = Op::Put { value, lease: old.lease };
            let txn = Txn { key: old.key.clone(), expect: Expect::ModRevision(revision), op };
            let written = collection.store.txn(txn).await;
            match written.map_err(|error| collection.write_failure(error, object, size).status)? {
                TxnResponse::Done { revision: written, .. } => revision = written,
                TxnResponse::Unmet { current, .. } => return Ok(Err(current)),
            }
        }
        collection.stamp(object, revision);
        Ok(Ok(StoredObject::new(std::mem::take(object), revision)))
    }

    fn delete_step(
        &self,
        context: &Context,
        name: &str,
        options: &mut DeleteOptions,
        stored: &StoredObject,
        marked: bool,
    ) -> Result<Step, Status> {
        self.check_preconditions(name, options, &stored.object)?;
        if marked {
            return Ok(Step::DeleteNow);
        }
        if self.description.deletion == Deletion::Namespace {
            // Admission gets the uid, too.
            options.uid.get_or_insert_with(|| object::uid(&stored.object).into());
        }
        if self.description.deletion == Deletion::Namespace
            && let Some(step) = self.namespace_step(context, options, &stored.object)
        {
            return Ok(step);
        }
        if self.description.deletion == Deletion::CustomResourceDefinition && !object::is_deleting(&stored.object) {
            return Ok(Step::Mark { object: terminating_definition(context, &stored.object), then_delete: false });
        }
        if options.grace_period_seconds.is_some_and(|seconds| seconds < 0) {
            options.grace_period_seconds = Some(1);
        }
        let mut object = stored.object.clone();
        let graceful = match self.grace(context, options, &mut object) {
            Grace::Pending => return Ok(Step::AlreadyPending),
            Grace::Begin => true,
            Grace::None => false,
        };
        if self.collection.garbage_collector {
            self.propagate(options, &mut object);
        }
        let finalizers = !object::finalizers(&object).is_empty();
        if graceful {
            let then_delete = !finalizers && options.grace_period_seconds == Some(0);
            return Ok(Step::Mark { object, then_delete });
        }
        if finalizers {
            mark_deleting(context, &mut object);
            return Ok(Step::Mark { object, then_delete: false });
        }
        Ok(Step::DeleteNow)
    }

    /// Returns the step for a namespace. It terminates first: with that phase it stays until `spec.finalizers` is
    /// empty. `None` if it is deleted like any other object.
    fn namespace_step(&self, context: &Context, options: &DeleteOptions, namespace: &Value) -> Option<Step> {
        if object::is_deleting(namespace) {
            let namespace = FieldRef::<Namespace>::root(namespace);
            let is_held = !namespace.at(Namespace::SPEC).at(NamespaceSpec::FINALIZERS).is_empty();
            return is_held.then_some(Step::AlreadyPending);
        }
        let mut object = namespace.clone();
        let now = time::from_seconds(context.now_seconds());
        object::metadata_fields(&mut object).set(ObjectMeta::DELETION_TIMESTAMP, now);
        FieldMut::root(&mut object).entry(Namespace::STATUS).set(NamespaceStatus::PHASE, "Terminating");
        self.propagate(options, &mut object);
        Some(Step::Mark { object, then_delete: false })
    }

    fn check_preconditions(&self, name: &str, options: &DeleteOptions, object: &Value) -> Result<(), Status> {
        if let Some(uid) = &options.uid
            && uid != object::uid(object)
        {
            return Err(self.unmet_precondition(name, "UID", uid, object::uid(object)));
        }
        if let Some(version) = &options.resource_version
            && version != object::resource_version(object)
        {
            return Err(self.unmet_precondition(name, "ResourceVersion", version, object::resource_version(object)));
        }
        Ok(())
    }

    /// Returns the conflict about `what`, which is `wanted` but is `found`. kube-apiserver's storage of namespaces and
    /// definitions has its own text; the others name the kind in place of the resource.
    fn unmet_precondition(&self, name: &str, what: &str, wanted: &str, found: &str) -> Status {
        if matches!(self.description.deletion, Deletion::Namespace | Deletion::CustomResourceDefinition) {
            let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
            return Status::conflict(&self.group_resource(), name, why);
        }
        let about = GroupResource::new(self.description.group.clone(), self.description.kind.clone());
        let hint = match what {
            "UID" => "deleted and then recreated",
            _ => "modified",
        };
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have been {hint}"
        );
        Status::conflict(&about, name, why)
    }

    /// Starts graceful deletion: sets the deletion time and grace period, once; later deletes can only shorten it.
    fn grace(&self, context: &Context, options: &mut DeleteOptions, object: &mut Value) -> Grace {
        let now = context.now_seconds();
        let strategy = &*self.collection.kind.strategy;
        if object::is_deleting(object) {
            // Other kinds have no graceful deletion.
            if strategy.delete_grace(object, options.grace_period_seconds) == DeleteGrace::Unsupported {
                return Grace::None;
            }
            let current = match object::deletion_grace(object) {
                None | Some(0) => return Grace::None,
                Some(seconds) => seconds.max(1),
            };
            let Some(mut period) = options.grace_period_seconds else {
                options.grace_period_seconds = Some(current);
                return Grace::Pending;
            };
            if period >= current {
                return Grace::Pending;
            }
            let mut metadata = object::metadata_fields(object);
            let deletion = metadata.str(ObjectMeta::DELETION_TIMESTAMP);
            let mut at = time::to_seconds(deletion).unwrap_or(now) - current + period;
            if at < now {
                at = now;
                if period != 0 {
                    period = 1;
                }
            }
            metadata.set(ObjectMeta::DELETION_TIMESTAMP, time::from_seconds(at));
            metadata.set(ObjectMeta::DELETION_GRACE_PERIOD_SECONDS, period);
            return Grace::Begin;
        }
        match strategy.delete_grace(object, options.grace_period_seconds) {
            DeleteGrace::Unsupported => Grace::None,
            DeleteGrace::Seconds(seconds) => {
                options.grace_period_seconds = Some(seconds);
                let at = time::from_seconds(now.saturating_add(seconds));
                let mut metadata = object::metadata_fields(object);
                metadata.set(ObjectMeta::DELETION_TIMESTAMP, at);
                metadata.set(ObjectMeta::DELETION_GRACE_PERIOD_SECONDS, seconds);
                bump_generation(object);
                Grace::Begin
            }
        }
    }

    /// Sets the finalizers for the garbage collector, which orphans dependents or deletes them first.
    fn propagate(&self, options: &DeleteOptions, object: &mut Value) {
        let default = self.description.garbage_collection;
        let finalizers = object::finalizers(object);
        let (orphan, foreground) = if default == GarbageCollection::Unsupported {
            (false, false)
        } else if let Some(orphan) = options.orphan_dependents {
            // Only for namespaces does kube-apiserver read this as foreground deletion.
            (orphan, !orphan && self.description.deletion == Deletion::Namespace)
        } else {
            match options.propagation_policy.as_deref() {
                Some("Orphan") => (true, false),
                Some("Foreground") => (false, true),
                Some("Background") => (false, false),
                _ => match finalizers.iter().find(|f| **f == FINALIZER_ORPHAN || **f == FINALIZER_FOREGROUND) {
                    Some(&FINALIZER_ORPHAN) => (true, false),
                    Some(_) => (false, true),
                    None => (default == GarbageCollection::OrphanDependents, false),
                },
            }
        };
        let mut wanted: Vec<Text> = finalizers
            .iter()
            .filter(|f| **f != FINALIZER_ORPHAN && **f != FINALIZER_FOREGROUND)
            .map(|f| Text::from(*f))
            .collect();
        if orphan {
            wanted.push(FINALIZER_ORPHAN.into());
        }
        if foreground {
            wanted.push(FINALIZER_FOREGROUND.into());
        }
        let same = wanted.len() == finalizers.len() && finalizers.iter().all(|f| wanted.iter().any(|w| w == f));
        if !same {
            object::set_finalizers(object, wanted);
        }
    }
}

enum Grace {
    /// The object is marked now.
    Begin,
    /// It was marked already, with a period that is not longer than requested.
    Pending,
    None,
}

/// Marks a CustomResourceDefinition as terminating: it stays until its custom resources are deleted.
fn terminating_definition(context: &Context, definition: &Value) -> Value {
    const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
    let mut object = definition.clone();
    let now = time::from_seconds(context.now_seconds());
    object::metadata_fields(&mut object).set(ObjectMeta::DELETION_TIMESTAMP, now.clone());
    let mut finalizers: Vec<Text> = object::finalizers(&object).into_iter().map(Text::from).collect();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        finalizers.push(Text::new_static(CLEANUP));
    }
    object::set_finalizers(&mut object, finalizers);
    let condition = value!({
        "type": "Terminating", "status": "True", "lastTransitionTime": now, "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
    });
    let mut definition = FieldMut::<Definition>::root(&mut object);
    let mut status = definition.entry(Definition::STATUS);
    let conditions = status.list_entry(DefinitionStatus::CONDITIONS);
    conditions.retain(|known| FieldRef::root(known).at(DefinitionCondition::TYPE).str() != "Terminating");
    conditions.push(condition);
    object
}

/// Marks an object that stays only for its finalizers.
fn mark_deleting(context: &Context, object: &mut Value) {
    if !object::is_deleting(object) {
        bump_generation(object);
    }
    let now = context.now_seconds();
    let mut metadata = object::metadata_fields(object);
    let at = time::to_seconds(metadata.str(ObjectMeta::DELETION_TIMESTAMP));
    if at.is_none_or(|at| at > now) {
        metadata.set(ObjectMeta::DELETION_TIMESTAMP, time::from_seconds(now));
    }
    metadata.set(ObjectMeta::DELETION_GRACE_PERIOD_SECONDS, 0i64);
}

fn bump_generation(object: &mut Value) {
    let generation = object::generation(object);
    if generation > 0 {
        object::metadata_fields(object).set(ObjectMeta::GENERATION, generation + 1);
    }
}
