//! Delete and deletecollection.
//!
//! A delete is a [`DeleteRequest`], which is retried while other writers change the object. Each attempt runs the
//! checks of [`DeleteRequest::next_step`], then admission, and writes the result of the checks.

use binnacle_meta::{GroupVersion, Status, StatusDetails, StatusReason};
use binnacle_schema::{Value, value};
use binnacle_store::{Expect, KeyValue, Op, Revision, Txn, TxnResponse};
use binnacle_watchcache::Entry;
use bytes::Bytes;
use futures::future::{BoxFuture, try_join_all};

use crate::admission::{Attributes, Operation, OperationOptions};
use crate::context::Context;
use crate::delete_options::DeleteOptions;
use crate::list::{ListOptions, Page};
use crate::object;
use crate::resource::Resource;
use crate::store_failure::store_failure;
use crate::stored::StoredObject;
use crate::write_object::WriteObject;

mod checks;
mod finalizers;
mod grace;
mod preconditions;
mod termination;

use checks::Step;

/// The outcome of a delete.
#[derive(Debug)]
pub enum DeleteOutcome {
    /// The object is deleted; `object` is its last state.
    Gone(StoredObject),
    /// A dry run of a delete that first changes the object, which has this state, and then deletes it.
    WouldBeGone(StoredObject),
    /// The object remains for now (grace period, finalizers), in this state.
    Pending(StoredObject),
}

/// A delete of one object.
struct DeleteRequest<'a> {
    resource: &'a Resource,
    context: &'a Context,
    name: &'a str,
    key: Bytes,
    /// For admission, without the options.
    attributes: Attributes,
    /// The options of the client, completed by the checks with the effective grace period and the uid of a namespace.
    options: DeleteOptions,
    /// True if an earlier attempt has marked the object, so that only the deletion remains.
    marked: bool,
}

/// The outcome of an attempt.
enum AttemptOutcome {
    Done(DeleteOutcome),
    /// The object is now in this state, and the delete continues with it.
    Continue(KeyValue),
}

impl Resource {
    /// Deletes an object, or marks it for deletion.
    ///
    /// # Errors
    ///
    /// 403 if the kind forbids it, 404 if the object does not exist, 422 for invalid options, 409 for a failed
    /// precondition, and the errors of admission.
    pub async fn delete(
        &self,
        context: &Context,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<DeleteOutcome, Status> {
        if let Some(why) = self.collection.kind.strategy.forbids_delete(name) {
            return Err(Status::forbidden(&self.group_resource(), name, why));
        }
        self.warn_of_delete(context, options);
        self.delete_named(context, name, options, name).await
    }

    /// Deletes an object like [`Resource::delete`]. Admission gets the name in the request, which may be empty.
    async fn delete_named(
        &self,
        context: &Context,
        name: &str,
        options: &DeleteOptions,
        request_name: &str,
    ) -> Result<DeleteOutcome, Status> {
        let collection = &self.collection;
        let key = collection.key(&context.namespace, name)?;
        let read_error = |error| collection.lookup_failure(error);
        let (current, _) = collection.store.get(key.clone(), None).await.map_err(read_error)?;
        let mut kv = current.ok_or_else(|| Status::not_found(&self.group_resource(), name))?;
        options.validate()?;
        let attributes = self.attributes(context, Operation::Delete, request_name, "");
        let options = options.clone();
        let mut request = DeleteRequest { resource: self, context, name, key, attributes, options, marked: false };
        loop {
            match request.attempt(&kv).await? {
                AttemptOutcome::Done(deleted) => return Ok(deleted),
                AttemptOutcome::Continue(newer) => kv = newer,
            }
        }
    }

    /// Deletes all objects of the context's namespace that the list options select, and returns the list. Stops at the
    /// first error, except for objects that were deleted in the meantime.
    pub async fn delete_collection(
        &self,
        context: &Context,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Page, Status> {
        self.delete_collection_with(context, list, options, self.collection.delete_workers).await
    }

    /// Deletes objects like [`Resource::delete_collection`], `workers` at a time.
    pub async fn delete_collection_with(
        &self,
        context: &Context,
        list: &ListOptions,
        options: &DeleteOptions,
        workers: usize,
    ) -> Result<Page, Status> {
        self.warn_of_delete(context, options);
        let mut page = self.list_to_delete(context, list).await?;
        let mut entries = Vec::new();
        while let Some(chunk) = page.next_chunk() {
            entries.extend(chunk);
        }
        // For requests, `--delete-collection-workers` limits the number.
        for chunk in entries.chunks(workers.max(1)) {
            let deletions: Vec<_> = chunk.iter().map(|entry| self.delete_listed(context, entry, options)).collect();
            try_join_all(deletions).await?;
        }
        // The response has the objects that can be encoded.
        entries.retain(|entry| self.collection.read_failure(entry).is_none());
        Ok(Page::of(entries, &page))
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

    /// Writes a marked object, unless it is unchanged. The inner error is a conflict, with the newer object.
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
}

impl DeleteRequest<'_> {
    /// Checks the object in this state, and deletes or marks it.
    async fn attempt(&mut self, kv: &KeyValue) -> Result<AttemptOutcome, Status> {
        let collection = &self.resource.collection;
        binnacle_work::large(kv.value.len()).await;
        let stored = collection.open_to_delete(kv).map_err(|error| collection.lookup_failure(error))?;
        let Some(step) = self.next_step(&stored.object)? else {
            return Ok(AttemptOutcome::Done(DeleteOutcome::Pending(stored)));
        };
        self.admit(&stored.object).await?;
        match step {
            Step::Mark { object, then_delete } => self.mark(kv, stored.revision, object, then_delete).await,
            Step::Delete => self.delete(stored).await,
            // kube-apiserver returns what its update, which then is not done, would fill: an object with nothing set.
            Step::DeleteWithoutFinalizers if self.context.dry_run => {
                let storage = &collection.kind.storage;
                let version = GroupVersion::new(storage.group.clone(), storage.version.clone()).to_string();
                let mut empty = value!({"apiVersion": version, "kind": (storage.kind.clone())});
                collection.kind.canonicalize(&mut empty);
                let empty = StoredObject::new(empty, stored.revision);
                Ok(AttemptOutcome::Done(DeleteOutcome::WouldBeGone(empty)))
            }
            Step::DeleteWithoutFinalizers => self.delete(stored).await,
        }
    }

    /// Runs admission, mutating and then validating, with the options that the checks have completed.
    async fn admit(&mut self, object: &Value) -> Result<(), Status> {
        let (admission, notes) = (&self.resource.collection.admission, &self.context.notes);
        let mut nothing = WriteObject::default();
        self.attributes.options = OperationOptions::Delete(Box::new(self.options_for_admission(object)));
        admission.mutate(&self.attributes, &mut nothing, Some(object), notes).await?;
        admission.validate(&self.attributes, &nothing, Some(object), notes).await
    }

    /// Writes a marked object; a dry run only returns it. With `then_delete`, the delete continues.
    async fn mark(
        &mut self,
        kv: &KeyValue,
        revision: Revision,
        mut object: Value,
        then_delete: bool,
    ) -> Result<AttemptOutcome, Status> {
        let collection = &self.resource.collection;
        if self.context.dry_run {
            collection.kind.canonicalize(&mut object);
            let stored = StoredObject::new(object, revision);
            return Ok(AttemptOutcome::Done(if then_delete {
                DeleteOutcome::WouldBeGone(stored)
            } else {
                DeleteOutcome::Pending(stored)
            }));
        }
        let stored = match self.resource.replace(kv, &mut object).await? {
            Ok(stored) => stored,
            Err(Some(newer)) => return Ok(AttemptOutcome::Continue(newer)),
            Err(None) => return Err(self.not_found()),
        };
        if !then_delete {
            return Ok(AttemptOutcome::Done(DeleteOutcome::Pending(stored)));
        }
        self.marked = true;
        if self.options.resource_version.is_some() {
            self.options.resource_version = Some(stored.revision.0.to_string().into());
        }
        let (current, _) = collection.store.get(self.key.clone(), None).await.map_err(store_failure)?;
        match current {
            Some(newer) => Ok(AttemptOutcome::Continue(newer)),
            // Another component has deleted the marked object.
            None => Ok(self.finish_delete(stored).await),
        }
    }

    /// Removes the object from the store if it is still in this state.
    async fn delete(&self, stored: StoredObject) -> Result<AttemptOutcome, Status> {
        let collection = &self.resource.collection;
        if self.context.dry_run {
            return Ok(AttemptOutcome::Done(DeleteOutcome::Gone(stored)));
        }
        let txn = Txn { key: self.key.clone(), expect: Expect::ModRevision(stored.revision), op: Op::Delete };
        match collection.store.txn(txn).await.map_err(store_failure)? {
            TxnResponse::Done { revision, .. } => {
                let mut object = stored.object;
                collection.stamp(&mut object, revision);
                Ok(self.finish_delete(StoredObject::new(object, revision)).await)
            }
            TxnResponse::Unmet { current: Some(newer), .. } => Ok(AttemptOutcome::Continue(newer)),
            TxnResponse::Unmet { current: None, .. } if self.marked => Ok(self.finish_delete(stored).await),
            TxnResponse::Unmet { current: None, .. } => Err(self.not_found()),
        }
    }

    async fn finish_delete(&self, stored: StoredObject) -> AttemptOutcome {
        self.resource.collection.hooks.after_delete(self.context, &stored.object).await;
        AttemptOutcome::Done(DeleteOutcome::Gone(stored))
    }

    fn not_found(&self) -> Status {
        Status::not_found(&self.resource.group_resource(), self.name)
    }
}
