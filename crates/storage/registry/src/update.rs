//! Update: optimistic concurrency, immutable fields, and deletes that updates complete.
//!
//! An update is an [`UpdateRequest`], which is retried while other writers change the object. Each attempt is the list
//! of steps in [`UpdateRequest::attempt`].

use std::sync::Arc;

use binnacle_meta::{Status, StatusReason, Text};
use binnacle_schema::Value;
use binnacle_store::KeyValue;
use bytes::Bytes;

use crate::admission::{Attributes, Operation};
use crate::context::Context;
use crate::create::{DUPLICATE_OWNERS_AFTER_ADMISSION, NameSource, ensure_namespace};
use crate::create_gate::CreateGate;
use crate::hooks::{Hooks, NoHooks};
use crate::object;
use crate::resource::Resource;
use crate::stored::StoredObject;
use crate::write_failure::WriteFailure;
use crate::write_object::{Change, WriteObject};

mod checks;
mod prepare;
mod validate;
mod write;

/// The options of an update.
#[derive(Clone, Debug, Default)]
pub struct UpdateOptions {
    /// Empty for the resource itself.
    pub subresource: Text,
    /// Permits the creation of an absent object. `None` except for server-side apply and for kinds that allow it on
    /// PUT.
    pub create: Option<Arc<dyn CreateGate>>,
    /// The uid that the object must have.
    pub uid: Option<Text>,
}

/// The outcome of an update.
#[derive(Debug)]
pub struct UpdateOutcome {
    pub stored: StoredObject,
    pub created: bool,
}

/// An update of one object or of its subresource.
struct UpdateRequest<'a> {
    resource: &'a Resource,
    context: &'a Context,
    name: &'a str,
    options: &'a UpdateOptions,
    key: Bytes,
}

/// The outcome of an attempt.
enum AttemptOutcome {
    Updated(StoredObject),
    /// Another write came first, and left this object.
    Conflict(Option<KeyValue>),
}

/// The state of an object that an update replaces.
#[derive(Clone, Copy)]
struct OldObject<'a> {
    stored: &'a StoredObject,
    /// The bytes from which it was read.
    value: &'a Bytes,
    /// False if it was not read from the store for this update, so that the store may have a newer one.
    is_read: bool,
}

impl Resource {
    /// Updates an object.
    ///
    /// # Errors
    ///
    /// 404, 409 if the resourceVersion or uid of the new object differs from the old one, 422 if the result is invalid,
    /// and the errors of `change` and admission.
    pub async fn update(
        &self,
        context: &Context,
        name: &str,
        options: &UpdateOptions,
        change: &mut Change<'_>,
    ) -> Result<UpdateOutcome, Status> {
        let request = self.update_request(context, name, options)?;
        match request.cached().await {
            Some((known, value)) => request.run_known(change, &known, &value).await,
            None => request.run(change, request.read().await?).await,
        }
    }

    /// Updates an object like [`Resource::update`], starting with an object that was read before, and the bytes from
    /// which it was read. If the store has a newer object, the newer one is updated.
    pub async fn update_known(
        &self,
        context: &Context,
        name: &str,
        options: &UpdateOptions,
        change: &mut Change<'_>,
        (known, value): (&StoredObject, &Bytes),
    ) -> Result<UpdateOutcome, Status> {
        self.update_request(context, name, options)?.run_known(change, known, value).await
    }

    fn update_request<'a>(
        &'a self,
        context: &'a Context,
        name: &'a str,
        options: &'a UpdateOptions,
    ) -> Result<UpdateRequest<'a>, Status> {
        let key = self.collection.key(&context.namespace, name)?;
        Ok(UpdateRequest { resource: self, context, name, options, key })
    }

    /// Returns the error for an object with another uid.
    pub fn uid_conflict(&self, context: &Context, name: &str, expected: &str, found: &str) -> Status {
        match self.collection.key(&context.namespace, name) {
            Ok(key) => {
                let why = self.precondition_failed(context, &key, "UID", expected, found);
                Status::conflict(&self.group_resource(), name, why)
            }
            Err(status) => status,
        }
    }

    /// Returns the error for an object that does not match a precondition, with the message of kube-apiserver's
    /// storage. A dry run ends before the storage adds the root to the key.
    pub(crate) fn precondition_failed(
        &self,
        context: &Context,
        key: &[u8],
        field: &str,
        expected: &str,
        found: &str,
    ) -> String {
        let full_key = String::from_utf8_lossy(key);
        let root = self.collection.root.trim_end_matches('/');
        let key = if context.dry_run { full_key.strip_prefix(root).unwrap_or(&full_key) } else { &full_key };
        format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {field} in precondition: {expected}, {field} in object meta: {found}"
        )
    }
}

impl UpdateRequest<'_> {
    /// Reads the object from the store.
    async fn read(&self) -> Result<Option<KeyValue>, Status> {
        let collection = &self.resource.collection;
        let read = collection.store.get(self.key.clone(), None).await;
        read.map(|(current, _)| current).map_err(|error| collection.change_failure(error))
    }

    /// Returns the object in the cache and its bytes, if that saves a call of another process. A webhook may convert the
    /// object differently now, and a dry run returns what the store has.
    async fn cached(&self) -> Option<(StoredObject, Bytes)> {
        let collection = &self.resource.collection;
        if !collection.cached
            || !collection.store.is_remote()
            || collection.has_conversion_webhook()
            || self.context.dry_run
        {
            return None;
        }
        let entry = collection.cache.get(&collection.path(&self.context.namespace, self.name))?;
        binnacle_work::large(entry.value_len()).await;
        let value = entry.value().clone();
        let object = collection.decode(&value, entry.revision()).ok()?;
        Some((StoredObject::new(object, entry.revision()), value))
    }

    /// Updates the object from a state that may be outdated. An error counts if the store has no other state
    /// (`GuaranteedUpdate` with a cached object).
    async fn run_known(
        &self,
        change: &mut Change<'_>,
        known: &StoredObject,
        value: &Bytes,
    ) -> Result<UpdateOutcome, Status> {
        let failure = match self.attempt(change, OldObject { stored: known, value, is_read: false }).await {
            Ok(AttemptOutcome::Updated(stored)) => return Ok(UpdateOutcome { stored, created: false }),
            Ok(AttemptOutcome::Conflict(newer)) => return self.run(change, newer).await,
            Err(failure) => failure,
        };
        if failure.outcome_unknown {
            return Err(failure.status);
        }
        match self.read().await? {
            Some(kv) if kv.mod_revision == known.revision => Err(failure.status),
            current => self.run(change, current).await,
        }
    }

    /// Updates the object, whose state in the store was `current`, and retries until no other write comes first.
    async fn run(&self, change: &mut Change<'_>, mut current: Option<KeyValue>) -> Result<UpdateOutcome, Status> {
        loop {
            let Some(kv) = current else {
                match self.create(change).await? {
                    Ok(stored) => return Ok(UpdateOutcome { stored, created: true }),
                    Err(newer) => current = Some(newer),
                }
                continue;
            };
            binnacle_work::large(kv.value.len()).await;
            let old = self.resource.collection.decode_kv(&kv)?;
            let old = OldObject { stored: &old, value: &kv.value, is_read: true };
            match self.attempt(change, old).await.map_err(|failure| failure.status)? {
                AttemptOutcome::Updated(stored) => return Ok(UpdateOutcome { stored, created: false }),
                AttemptOutcome::Conflict(newer) => current = newer,
            }
        }
    }

    /// Creates an absent object if the update may do that (`Store.Update` with `AllowCreateOnUpdate`). The inner error
    /// is the object that another request has created in the meantime.
    async fn create(&self, change: &mut Change<'_>) -> Result<Result<StoredObject, KeyValue>, Status> {
        let gate = self.create_gate()?;
        let object = self.resource.apply_change(self.context, change, None).await?;
        match self.resource.create_with_gate(self.context, gate, object, NameSource::Named(self.name)).await {
            Err(status) if status.is(StatusReason::AlreadyExists) => self.read().await?.map(Err).ok_or(status),
            created => created.map(Ok),
        }
    }

    /// Updates the object from this state. The steps are in the order of kube-apiserver's `Store.Update`.
    async fn attempt(&self, change: &mut Change<'_>, old: OldObject<'_>) -> Result<AttemptOutcome, WriteFailure> {
        let (resource, old_object) = (self.resource, &old.stored.object);
        self.check_uid(old_object)?;
        let mut object = resource.apply_change(self.context, change, Some(old_object)).await?;
        // Admission gets the namespace even if the client omitted it.
        ensure_namespace(resource.namespace_of(self.context), &mut object)?;
        let attributes = resource.attributes(self.context, Operation::Update, self.name, &self.options.subresource);
        self.mutate(&attributes, &mut object, old_object).await?;
        self.check_version(&mut object, old.stored)?;
        self.prepare(&mut object, old_object)?;
        self.hooks().begin_update(self.context, &mut object, old_object).await?;
        let result = match self.validate(&object, old_object).await {
            Ok(()) => self.write(&attributes, &mut object, old).await,
            Err(status) => Err(status.into()),
        };
        self.finish(result, object, old_object).await
    }

    /// Runs mutating admission, which may add duplicate owner references.
    async fn mutate(&self, attributes: &Attributes, object: &mut WriteObject, old: &Value) -> Result<(), Status> {
        let (admission, notes) = (&self.resource.collection.admission, &self.context.notes);
        admission.mutate(attributes, object, Some(old), notes).await?;
        if let Some(uids) = object::dedup_owner_references(object) {
            self.context.warn(format!("{DUPLICATE_OWNERS_AFTER_ADMISSION}{uids}"));
        }
        Ok(())
    }

    /// Returns the hooks that allocate for the object. Subresources do not affect the allocations.
    fn hooks(&self) -> &dyn Hooks {
        if self.options.subresource.is_empty() { &*self.resource.collection.hooks } else { &NoHooks }
    }

    /// Calls the hooks for the result of an attempt: those after an update, or those that release the allocations of an
    /// object that was not written. If the outcome is unknown, all allocations are kept.
    async fn finish(
        &self,
        result: Result<AttemptOutcome, WriteFailure>,
        object: WriteObject,
        old: &Value,
    ) -> Result<AttemptOutcome, WriteFailure> {
        let (hooks, context) = (self.hooks(), self.context);
        match &result {
            Ok(AttemptOutcome::Updated(stored)) if context.dry_run => {
                hooks.abort(context, &stored.object, Some(old)).await
            }
            Ok(AttemptOutcome::Updated(stored)) if self.options.subresource.is_empty() => {
                hooks.after_update(context, &stored.object, old).await;
            }
            Ok(AttemptOutcome::Updated(stored)) => {
                let (hooks, subresource) = (&self.resource.collection.hooks, &self.options.subresource);
                hooks.after_subresource(subresource, &stored.object, old).await;
            }
            Err(failure) if failure.outcome_unknown => {
                tracing::warn!(name = self.name, "an object may or may not have been updated");
            }
            Ok(AttemptOutcome::Conflict(_)) | Err(_) => hooks.abort(context, &object.into_value(), Some(old)).await,
        }
        result
    }
}
