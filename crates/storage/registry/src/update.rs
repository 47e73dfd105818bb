//! Update: optimistic concurrency, immutable fields, and deletes that updates complete.

use std::sync::Arc;
use std::time::Instant;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Namespace, NamespaceSpec};
use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata as AnyKind};
use binnacle_meta::{GroupKind, Status, StatusReason, Text};
use binnacle_patch::apply::keep_unchanged_times;
use binnacle_schema::Value;
use binnacle_scheme::{Deletion, MetadataCheck};
use binnacle_store::{Expect, KeyValue, Op, Txn, TxnResponse};
use binnacle_validation::metadata as validate_metadata;
use bytes::Bytes;

use crate::accessed::as_accessed;
use crate::admission::Operation;
use crate::context::Context;
use crate::create::{DUPLICATE_OWNERS_AFTER_ADMISSION, Place, ensure_namespace};
use crate::hooks::{Hooks, NoHooks, Review};
use crate::metrics;
use crate::object;
use crate::permission::CreateGate;
use crate::resource::Resource;
use crate::stored::{StoredObject, store_failure};
use crate::write_failure::WriteFailure;
use crate::write_object::WriteObject;

/// Makes the new object from the live one (`None` if there is none and it may be created), both in the storage version.
/// Called again after a conflict.
pub type Change<'a> = dyn FnMut(Option<&Value>) -> Result<WriteObject, Status> + Send + 'a;

/// The options of an update.
#[derive(Clone, Debug, Default)]
pub struct UpdateOptions {
    /// Empty for the resource itself.
    pub subresource: Text,
    /// Permits the creation of an absent object; `None`, except for server-side apply and for kinds that allow it on
    /// PUT.
    pub create: Option<Arc<dyn CreateGate>>,
    /// The uid that the object must have.
    pub uid: Option<Text>,
}

/// The outcome of an update.
#[derive(Debug)]
pub struct Updated {
    pub stored: StoredObject,
    pub created: bool,
}

const MODIFIED: &str = "the object has been modified; please apply your changes to the latest version and try again";

impl Resource {
    /// Updates an object.
    ///
    /// Errors: 404, 409 if the resourceVersion or uid of the new object is not that of the old one, 422 if the result
    /// is invalid, and those of `change` and admission.
    pub async fn update(
        &self,
        context: &Context,
        name: &str,
        options: &UpdateOptions,
        change: &mut Change<'_>,
    ) -> Result<Updated, Status> {
        let key = self.collection.key(&context.namespace, name)?;
        let unread = |error| self.collection.change_failure(error);
        let (current, _) = self.collection.store.get(key.clone(), None).await.map_err(unread)?;
        self.update_from(context, name, options, change, &key, current).await
    }

    /// As [`Resource::update`], beginning with an object that was read before, and the bytes that it was read from. If the
    /// store has a newer one by now, that is updated.
    pub async fn update_known(
        &self,
        context: &Context,
        name: &str,
        options: &UpdateOptions,
        change: &mut Change<'_>,
        (known, value): (&StoredObject, &Bytes),
    ) -> Result<Updated, Status> {
        let key = self.collection.key(&context.namespace, name)?;
        match self.update_once(context, name, options, change, &key, known, value).await? {
            Outcome::Updated(stored) => Ok(Updated { stored, created: false }),
            Outcome::Raced(newer) => self.update_from(context, name, options, change, &key, newer).await,
        }
    }

    /// Updates an object, of which the store had this state.
    async fn update_from(
        &self,
        context: &Context,
        name: &str,
        options: &UpdateOptions,
        change: &mut Change<'_>,
        key: &Bytes,
        mut current: Option<KeyValue>,
    ) -> Result<Updated, Status> {
        let collection = &self.collection;
        let unread = |error| collection.change_failure(error);
        loop {
            let Some(kv) = current else {
                let Some(gate) = &options.create else {
                    return Err(Status::not_found(&self.group_resource(), name));
                };
                if let Some(wanted) = &options.uid {
                    return Err(self.uid_conflict(context, name, wanted, ""));
                }
                let mut object = self.changed(context, change, None).await?;
                let version = object::resource_version(&object);
                if !version.is_empty() {
                    object::version_number(version)?;
                }
                // A new object has no resourceVersion.
                object::set_metadata(&mut object, "resourceVersion", None);
                match self.create_through(context, &**gate, object, Place::Named(name)).await {
                    // Another request has created it: that object is updated.
                    Err(status) if status.is(StatusReason::AlreadyExists) => {
                        current = collection.store.get(key.clone(), None).await.map_err(unread)?.0;
                        if current.is_none() {
                            return Err(status);
                        }
                        continue;
                    }
                    created => return created.map(|stored| Updated { stored, created: true }),
                }
            };
            binnacle_work::large(kv.value.len()).await;
            let old = collection.decode_kv(&kv)?;
            match self.update_once(context, name, options, change, key, &old, &kv.value).await? {
                Outcome::Updated(stored) => return Ok(Updated { stored, created: false }),
                Outcome::Raced(newer) => current = newer,
            }
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one attempt, which has one caller")]
    async fn update_once(
        &self,
        context: &Context,
        name: &str,
        options: &UpdateOptions,
        change: &mut Change<'_>,
        key: &Bytes,
        old: &StoredObject,
        old_value: &Bytes,
    ) -> Result<Outcome, Status> {
        let collection = &self.collection;
        if let Some(wanted) = &options.uid
            && wanted != object::uid(&old.object)
        {
            return Err(self.uid_conflict(context, name, wanted, object::uid(&old.object)));
        }
        let mut object = self.changed(context, change, Some(&old.object)).await?;
        // Admission sees the namespace even if the client omitted it.
        ensure_namespace(self.namespace_of(context), &mut object)?;
        let attributes = self.attributes(context, Operation::Update, name, &options.subresource);
        collection.admission.mutate(&attributes, &mut object, Some(&old.object), &context.notes).await?;
        if let Some(uids) = object::dedup_owner_references(&mut object) {
            context.warn(format!("{}{uids}", DUPLICATE_OWNERS_AFTER_ADMISSION));
        }
        self.check_version(name, &mut object, old)?;
        self.prepare_update(context, &options.subresource, &mut object, &old.object)?;
        // Subresources do not affect what hooks allocate.
        let hooks: &dyn Hooks = if options.subresource.is_empty() { &*collection.hooks } else { &NoHooks };
        hooks.begin_update(context, &mut object, &old.object).await?;
        let result = match self.validate_update(context, &options.subresource, &object, &old.object).await {
            Ok(()) => self.finish_update(context, &attributes, object, key, old, old_value).await,
            Err(status) => Err((object.into_value(), status.into())),
        };
        match result {
            Ok(Ok(stored)) => {
                if context.dry_run {
                    hooks.abort(context, &stored.object, Some(&old.object)).await;
                } else if options.subresource.is_empty() {
                    hooks.after_update(context, &stored.object, &old.object).await;
                } else {
                    let (subresource, object) = (&options.subresource, &stored.object);
                    collection.hooks.after_subresource(subresource, object, &old.object).await;
                }
                Ok(Outcome::Updated(stored))
            }
            Ok(Err((object, newer))) => {
                hooks.abort(context, &object, Some(&old.object)).await;
                Ok(Outcome::Raced(newer))
            }
            Err((_, failure)) if failure.outcome_unknown => {
                tracing::warn!(name, "an object may or may not have been updated");
                Err(failure.status)
            }
            Err((object, failure)) => {
                hooks.abort(context, &object, Some(&old.object)).await;
                Err(failure.status)
            }
        }
    }

    /// Returns the error for an object with another uid.
    pub fn uid_conflict(&self, context: &Context, name: &str, wanted: &str, found: &str) -> Status {
        match self.collection.key(&context.namespace, name) {
            Ok(key) => {
                let why = self.precondition_failed(context, &key, "UID", wanted, found);
                Status::conflict(&self.group_resource(), name, why)
            }
            Err(status) => status,
        }
    }

    /// Returns the error for an object that does not match a precondition, in the words of kube-apiserver's storage. A
    /// dry run is stopped before the storage puts the root in front of the key.
    pub(crate) fn precondition_failed(
        &self,
        context: &Context,
        key: &[u8],
        what: &str,
        wanted: &str,
        found: &str,
    ) -> String {
        let shown = String::from_utf8_lossy(key);
        let root = self.collection.root.trim_end_matches('/');
        let key = if context.dry_run { shown.strip_prefix(root).unwrap_or(&shown) } else { &shown };
        format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}"
        )
    }

    /// Checks the resourceVersion. Without one the newest object is updated, if the kind allows that.
    fn check_version(&self, name: &str, object: &mut Value, old: &StoredObject) -> Result<(), Status> {
        let given = match object::resource_version(object) {
            "" => 0,
            given => object::version_number(given)?,
        };
        if given == 0 {
            if !self.description.unconditional_update {
                let root = FieldRef::<AnyKind>::root(object);
                let metadata = root.at(AnyKind::METADATA);
                let version = metadata.at(ObjectMeta::RESOURCE_VERSION);
                let error = version.invalid_as(0i64, "must be specified for an update");
                let kind = GroupKind::new(self.description.group.clone(), self.description.plural.clone());
                return Err(Status::invalid(&kind, name, &error.into()));
            }
            object::metadata_fields(object).set(ObjectMeta::RESOURCE_VERSION, old.revision.0.to_string());
            return Ok(());
        }
        if given != old.revision.0 {
            return Err(Status::conflict(&self.group_resource(), name, MODIFIED));
        }
        Ok(())
    }

    /// Restores immutable fields, and resets those of the kind's strategy.
    fn prepare_update(
        &self,
        context: &Context,
        subresource: &str,
        object: &mut WriteObject,
        old: &Value,
    ) -> Result<(), Status> {
        let collection = &self.collection;
        let (strategy, situation) =
            (&*collection.kind.strategy, context.situation(self.api_version(), &collection.features));
        ensure_namespace(self.namespace_of(context), object)?;
        let old_root = FieldRef::<AnyKind>::root(old);
        let old_metadata = old_root.at(AnyKind::METADATA);
        object::metadata_fields(object).keep(old_metadata, ObjectMeta::GENERATION);
        object.restore_lists();
        if subresource.is_empty() {
            strategy.prepare_for_update(&situation, object, old);
        } else {
            strategy.prepare_for_subresource(subresource, &situation, object, old);
        }
        let mut metadata = object::metadata_fields(object);
        if metadata.str(ObjectMeta::UID).is_empty() {
            metadata.keep(old_metadata, ObjectMeta::UID);
        }
        for field in [ObjectMeta::CREATION_TIMESTAMP, ObjectMeta::DELETION_TIMESTAMP] {
            if let Some(time) = old_metadata.at(field).get() {
                metadata.set(field, time.clone());
            }
        }
        let grace = ObjectMeta::DELETION_GRACE_PERIOD_SECONDS;
        if metadata.read().at(grace).int().is_none()
            && let Some(seconds) = old_metadata.at(grace).get()
        {
            metadata.set(grace, seconds.clone());
        }
        Ok(())
    }

    /// Validates metadata and object; then adds the kind's warnings.
    async fn validate_update(
        &self,
        context: &Context,
        subresource: &str,
        object: &WriteObject,
        old: &Value,
    ) -> Result<(), Status> {
        let object = &*as_accessed(object);
        let collection = &self.collection;
        let (strategy, situation) =
            (&*collection.kind.strategy, context.situation(self.api_version(), &collection.features));
        let root = FieldRef::<AnyKind>::root(object);
        let metadata = root.at(AnyKind::METADATA);
        let path = metadata.path();
        let (new_metadata, old_metadata) = (metadata.value(), object::metadata(old));
        // The name cannot change, so it is validated only as a path segment.
        let mut errors = validate_metadata::validate(
            new_metadata,
            collection.kind.namespaced,
            binnacle_validation::names::path_segment,
            &path,
        );
        errors.extend(validate_metadata::validate_update(new_metadata, old_metadata, &path));
        for check in strategy.metadata_checks(&situation).of(subresource) {
            match check {
                MetadataCheck::Change if self.is_of_another_type(object) => {}
                MetadataCheck::Change => {
                    errors.extend(validate_metadata::validate_update(new_metadata, old_metadata, &path));
                }
                MetadataCheck::Whole => {
                    let rule = |name: &str, prefix: bool| strategy.validate_name(&collection.features, name, prefix);
                    errors.extend(validate_metadata::validate(new_metadata, collection.kind.namespaced, rule, &path));
                }
                MetadataCheck::Domains if strategy.checks_finalizer_domains() => {
                    errors.extend(validate_metadata::finalizers_have_domains(new_metadata, &path));
                }
                MetadataCheck::Domains => {}
            }
        }
        let mut tolerated = Vec::new();
        let found = strategy.validate_change(subresource, &situation, object, old, &mut tolerated);
        tolerated.into_iter().for_each(|text| context.warn(text));
        let review = Review { context, subresource, object, old: Some(old) };
        errors.extend(collection.hooks.review(review, found).await);
        if !errors.is_empty() {
            return Err(Status::invalid(&collection.kind_of(object), object::name(object), &errors));
        }
        let warnings = if subresource.is_empty() {
            strategy.warnings(object, Some(old))
        } else {
            strategy.warnings_on_subresource(subresource, object)
        };
        warnings.into_iter().for_each(|warning| context.warn(warning));
        Ok(())
    }

    /// Runs validating admission, then writes. The inner error is a conflict, with the newer object.
    async fn finish_update(
        &self,
        context: &Context,
        attributes: &crate::admission::Attributes,
        mut object: WriteObject,
        key: &Bytes,
        old: &StoredObject,
        old_value: &Bytes,
    ) -> Result<Result<StoredObject, (Value, Option<KeyValue>)>, (Value, WriteFailure)> {
        let collection = &self.collection;
        object.withdraw_empties();
        let begun = Instant::now();
        metrics::compared(keep_unchanged_times(&old.object, &mut object), begun.elapsed());
        if let Err(status) = collection.admission.validate(attributes, &object, Some(&old.object), &context.notes).await
        {
            return Err((object.into_value(), status.into()));
        }
        let unpruned = object.is_unpruned();
        let mut object = object.into_value();
        if let Err(status) = collection.prune_admitted(unpruned, &mut object) {
            return Err((object, status.into()));
        }
        if deletes(&object, &old.object) && !self.held_by_spec(&object) {
            let deleted = self.delete_finalized(context, key, &object, old).await;
            collection.kind.canonicalize(&mut object);
            return match deleted {
                Ok(None) => Ok(Ok(StoredObject::new(object, old.revision))),
                Ok(newer) => Ok(Err((object, newer))),
                // The object is not written, so its allocations are unused in any case.
                Err(status) => Err((object, status.into())),
            };
        }
        let value = match collection.encode(&mut object).await {
            Ok(value) => value,
            Err(status) => return Err((object, status.into())),
        };
        let size = value.len();
        if let Err(status) = collection.as_stored(&mut object, &value).await {
            return Err((object, status.into()));
        }
        // An unchanged object is not written and keeps its version, unless it should be encrypted with a new key.
        let same = collection.is_same(&object, &value, old_value);
        let stale = same
            && match collection.store.is_stale(key.clone(), old.revision).await {
                Ok(stale) => stale,
                Err(error) => return Err((object, store_failure(error).into())),
            };
        if same && !stale || context.dry_run {
            collection.stamp(&mut object, old.revision);
            return Ok(Ok(StoredObject::new(object, old.revision)));
        }
        let lease = match &collection.ttl {
            Some(leases) => match leases.get().await {
                Ok(lease) => Some(lease),
                Err(error) => return Err((object, store_failure(error).into())),
            },
            None => None,
        };
        let txn = Txn {
            key: key.clone(),
            expect: Expect::ModRevision(old.revision),
            op: Op::Put { value: value.clone(), lease },
        };
        match collection.store.txn(txn).await {
            Ok(TxnResponse::Done { revision, .. }) => {
                collection.stamp(&mut object, revision);
                Ok(Ok(collection.written(object, revision, value)))
            }
            Ok(TxnResponse::Unmet { current, .. }) => Ok(Err((object, current))),
            Err(error) => {
                let failure = collection.write_failure(error, &object, size);
                Err((object, failure))
            }
        }
    }

    /// Returns true if finalizers in the spec keep an object, as for namespaces.
    fn held_by_spec(&self, object: &Value) -> bool {
        self.description.deletion == Deletion::Namespace
            && !FieldRef::<Namespace>::root(object).at(Namespace::SPEC).at(NamespaceSpec::FINALIZERS).is_empty()
    }

    /// Deletes an object whose last finalizer an update removed, unless another request did. Returns an object that was
    /// changed meanwhile, which stays: kube-apiserver would delete it regardless of the change.
    async fn delete_finalized(
        &self,
        context: &Context,
        key: &Bytes,
        object: &Value,
        old: &StoredObject,
    ) -> Result<Option<KeyValue>, Status> {
        if context.dry_run {
            return Ok(None);
        }
        let txn = Txn { key: key.clone(), expect: Expect::ModRevision(old.revision), op: Op::Delete };
        match self.collection.store.txn(txn).await.map_err(store_failure)? {
            TxnResponse::Done { .. } => {
                self.collection.hooks.after_delete(context, object).await;
                Ok(None)
            }
            // The other request has released the object's allocations, which another object may use now.
            TxnResponse::Unmet { current, .. } => Ok(current),
        }
    }
}

enum Outcome {
    Updated(StoredObject),
    /// Another write came first, and left this object.
    Raced(Option<KeyValue>),
}

/// Returns true if an update removes the last finalizer of an object in deletion.
fn deletes(object: &Value, old: &Value) -> bool {
    object::finalizers(object).is_empty()
        && object::is_deleting(old)
        && object::deletion_grace(old).is_none_or(|seconds| seconds == 0)
}
