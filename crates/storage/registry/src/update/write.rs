//! The write of a valid object: validating admission, then the store, unless the object is unchanged or its last
//! finalizer was removed. The steps are in the order of kube-apiserver's `Store.Update` and `GuaranteedUpdate`.

use std::time::Instant;

use binnacle_patch::apply::keep_unchanged_times;
use binnacle_schema::Value;
use binnacle_store::{Expect, Op, Revision, Txn, TxnResponse};
use bytes::Bytes;

use super::{AttemptOutcome, OldObject, UpdateRequest};
use crate::admission::Attributes;
use crate::metrics;
use crate::object;
use crate::store_failure::store_failure;
use crate::stored::StoredObject;
use crate::write_failure::WriteFailure;
use crate::write_object::WriteObject;

impl UpdateRequest<'_> {
    /// Runs validating admission, then writes the object, or deletes it if its last finalizer was removed.
    pub(super) async fn write(
        &self,
        attributes: &Attributes,
        object: &mut WriteObject,
        old: OldObject<'_>,
    ) -> Result<AttemptOutcome, WriteFailure> {
        let (collection, context) = (&self.resource.collection, self.context);
        let old_object = &old.stored.object;
        object.remove_empty_fields();
        let started = Instant::now();
        metrics::record_comparison(keep_unchanged_times(old_object, object), started.elapsed());
        collection.admission.validate(attributes, object, Some(old_object), &context.notes).await?;
        collection.prune_admitted(object.is_unpruned(), object)?;
        if self.completes_deletion(object, old_object) {
            return self.delete_finalized(object, old.stored).await;
        }
        let value = collection.encode(object).await?;
        collection.apply_storage_round_trip(object, &value).await?;
        let mut is_unchanged = collection.is_same(object, &value, old.value);
        if is_unchanged && !old.is_read {
            // Only a write would show that the store has another object, or this one in another encoding.
            match self.read().await? {
                Some(kv) if kv.mod_revision == old.stored.revision => {
                    is_unchanged = collection.is_same(object, &value, &kv.value);
                }
                newer => return Ok(AttemptOutcome::Conflict(newer)),
            }
        }
        if context.dry_run || is_unchanged && !self.is_stale(old.stored.revision).await? {
            collection.stamp(object, old.stored.revision);
            return Ok(AttemptOutcome::Updated(StoredObject::new(take(object), old.stored.revision)));
        }
        self.put(object, value, old.stored).await
    }

    /// Returns true if an update removes the last finalizer of an object in deletion (`deleteWithoutFinalizers` after
    /// `ShouldDeleteDuringUpdate`). The finalizers of a namespace's spec count, too.
    fn completes_deletion(&self, object: &Value, old: &Value) -> bool {
        !object::has_finalizers(object)
            && object::is_deleting(old)
            && object::deletion_grace(old).is_none_or(|seconds| seconds == 0)
            && !self.resource.has_spec_finalizers(object)
    }

    /// Deletes an object whose last finalizer an update has removed, unless another request has deleted it. An object
    /// that was changed in the meantime stays, and is updated again; kube-apiserver would delete it regardless of the
    /// change.
    async fn delete_finalized(
        &self,
        object: &mut WriteObject,
        old: &StoredObject,
    ) -> Result<AttemptOutcome, WriteFailure> {
        let collection = &self.resource.collection;
        if !self.context.dry_run {
            let txn = Txn { key: self.key.clone(), expect: Expect::ModRevision(old.revision), op: Op::Delete };
            // After an error the object is not written, so its allocations are unused in any case.
            match collection.store.txn(txn).await.map_err(store_failure)? {
                TxnResponse::Done { .. } => collection.hooks.after_delete(self.context, object).await,
                // The other request has released the object's allocations, which another object may use now.
                TxnResponse::Unmet { current: Some(newer), .. } => return Ok(AttemptOutcome::Conflict(Some(newer))),
                TxnResponse::Unmet { current: None, .. } => {}
            }
        }
        collection.kind.canonicalize(object);
        Ok(AttemptOutcome::Updated(StoredObject::new(take(object), old.revision)))
    }

    /// Returns true if an object is written although it is unchanged, since it should be encrypted with a new key
    /// (`GuaranteedUpdate`). Other unchanged objects keep their versions.
    async fn is_stale(&self, revision: Revision) -> Result<bool, WriteFailure> {
        let is_stale = self.resource.collection.store.is_stale(self.key.clone(), revision).await;
        Ok(is_stale.map_err(store_failure)?)
    }

    /// Writes the object to the store if the store still has the old one.
    async fn put(
        &self,
        object: &mut WriteObject,
        value: Bytes,
        old: &StoredObject,
    ) -> Result<AttemptOutcome, WriteFailure> {
        let collection = &self.resource.collection;
        let size = value.len();
        let lease = match &collection.ttl {
            Some(leases) => Some(leases.get().await.map_err(store_failure)?),
            None => None,
        };
        let op = Op::Put { value: value.clone(), lease };
        let txn = Txn { key: self.key.clone(), expect: Expect::ModRevision(old.revision), op };
        match collection.store.txn(txn).await {
            Ok(TxnResponse::Done { revision, .. }) => {
                collection.stamp(object, revision);
                Ok(AttemptOutcome::Updated(collection.stored_object(take(object), revision, value)))
            }
            Ok(TxnResponse::Unmet { current, .. }) => Ok(AttemptOutcome::Conflict(current)),
            Err(error) => Err(collection.write_failure(error, object, size)),
        }
    }
}

/// Moves the written object out of the attempt.
fn take(object: &mut WriteObject) -> Value {
    std::mem::take(&mut **object)
}
