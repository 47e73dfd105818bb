//! Unreadable objects, whose bytes cannot be decoded or whose encryption key is lost: errors for clients, and their
//! deletion (KEP-3926).

use binnacle_meta::{FieldError, FieldPath, GroupKind, Status, StatusDetails};
use binnacle_schema::Value;
use binnacle_scheme::{Deletion, ResourceDescription, too_large_reason};
use binnacle_store::{Expect, KeyValue, Op, RangeRequest, RangeResponse, StoreError, Txn};
use binnacle_watchcache::Entry;
use bytes::Bytes;

use crate::context::Context;
use crate::delete_options::IGNORE_READ_ERROR;
use crate::resource::{Resource, ResourceStore};
use crate::store_failure::store_failure;
use crate::stored::StoredObject;

/// The maximum number of objects in the error of a list.
const MAX_NAMED: usize = 100;
const CORRUPT_OBJECT_CODE: u8 = 7;

impl ResourceStore {
    /// Decodes the object of a stored value.
    pub(crate) fn open(&self, kv: &KeyValue) -> Result<StoredObject, StoreError> {
        self.decode_result(kv, self.codec().read(&self.stored_kind(), &kv.value))
    }

    /// Decodes the object of a stored value to delete it. An object that is too large to be read is used in its stored
    /// version.
    pub(crate) fn open_to_delete(&self, kv: &KeyValue) -> Result<StoredObject, StoreError> {
        self.decode_result(kv, self.codec().read_to_delete(&self.stored_kind(), &kv.value))
    }

    fn decode_result(&self, kv: &KeyValue, read: Result<Value, String>) -> Result<StoredObject, StoreError> {
        match read {
            Ok(object) => Ok(StoredObject::new(self.with_version(object, kv.mod_revision), kv.mod_revision)),
            Err(why) => {
                let error = StoreError::no_object(kv, why);
                if matches!(error, StoreError::Undecodable { .. }) {
                    self.counts.add_undecodable();
                }
                Err(error)
            }
        }
    }

    /// Returns the error of an object that is too large to be read.
    pub(crate) fn read_failure(&self, entry: &Entry) -> Option<StoreError> {
        let value = entry.value();
        let why = too_large_reason(&value).filter(|_| self.kind.custom.is_some())?;
        let key = format!("{}{}", String::from_utf8_lossy(&self.prefix), entry.path());
        Some(StoreError::Undecodable { key, revision: entry.revision(), why: why.to_owned() })
    }

    /// Returns the status for a request that reads or deletes one object.
    pub(crate) fn lookup_failure(&self, error: StoreError) -> Status {
        let (StoreError::Transform { key, .. } | StoreError::Undecodable { key, .. }) = &error else {
            return store_failure(error);
        };
        if !self.unsafe_deletion {
            return store_failure(error);
        }
        // Without the prefix of all keys, except for its slash.
        let key = key.get(self.root.len() - 1..).unwrap_or(key);
        Status::internal(corrupt_object(key, &error))
    }

    /// Returns the status for a request to change an object.
    pub(crate) fn change_failure(&self, error: StoreError) -> Status {
        match &error {
            StoreError::Transform { .. } if self.unsafe_deletion => Status::internal(corruption(&error)),
            StoreError::Undecodable { .. } if self.unsafe_deletion => Status::unknown(500, &corruption(&error)),
            _ => store_failure(error),
        }
    }

    /// Returns a range up to its first unreadable value, and the error of that value.
    pub(crate) async fn readable_range(
        &self,
        request: RangeRequest,
    ) -> Result<(RangeResponse, Option<StoreError>), StoreError> {
        match self.store.range(request.clone()).await {
            Ok(response) => Ok((response, None)),
            Err(StoreError::Transform { key, why }) => {
                let end = Bytes::from(key.clone());
                let failed = StoreError::Transform { key, why };
                if end <= request.range.start {
                    let revision = self.store.current_revision().await?;
                    let nothing = RangeResponse { kvs: Vec::new(), more: false, count: 0, revision };
                    return Ok((nothing, Some(failed)));
                }
                let before = RangeRequest { range: request.range.start..end, ..request };
                Ok((self.store.range(before).await?, Some(failed)))
            }
            Err(error) => Err(error),
        }
    }
}

/// The unreadable objects of a list. The first one ends the list, unless the feature is enabled: then the error lists
/// all of them.
pub(crate) struct UnreadableObjects<'a> {
    resource: &'a Resource,
    found: usize,
    status: Status,
}

impl<'a> UnreadableObjects<'a> {
    pub(crate) fn of(resource: &'a Resource) -> Self {
        Self { resource, found: 0, status: Status::store_read_error(&resource.group_resource()) }
    }

    /// Records an unreadable object. Returns an error if it ends the list.
    pub(crate) fn record(&mut self, error: StoreError) -> Result<(), Status> {
        let (StoreError::Transform { key, .. } | StoreError::Undecodable { key, .. }) = &error else {
            return Err(store_failure(error));
        };
        if !self.resource.collection.unsafe_deletion {
            return Err(match error {
                // Includes the object's key, since the list has many objects.
                StoreError::Transform { .. } => Status::internal(error),
                error => store_failure(error),
            });
        }
        let status = self.status.clone();
        if self.found == MAX_NAMED {
            return Err(status.with_cause("FieldValueTooMany", "too many errors, the list is truncated", ""));
        }
        self.found += 1;
        self.status = status.with_cause("UnexpectedServerResponse", &corrupt_object(key, &error), key);
        Ok(())
    }

    /// Returns the error of the list, if there are unreadable objects.
    pub(crate) fn finish(self) -> Result<(), Status> {
        if self.found == 0 { Ok(()) } else { Err(self.status) }
    }
}

impl Resource {
    /// Returns true if unreadable objects can be deleted. This is not the case for resources whose storage
    /// kube-apiserver wraps.
    pub fn deletes_unreadable(&self) -> bool {
        let ResourceDescription { deletion, group, .. } = &*self.description;
        *deletion != Deletion::Namespace && group != "rbac.authorization.k8s.io"
    }

    /// Deletes an unreadable object, without preconditions, finalizers, admission or hooks.
    ///
    /// # Errors
    ///
    /// 422 if the object does not exist or is readable.
    pub async fn delete_unreadable(&self, context: &Context, name: &str) -> Result<(), Status> {
        let collection = &self.collection;
        let key = collection.key(&context.namespace, name)?;
        let unreadable = match collection.store.get(key.clone(), None).await {
            Ok((Some(kv), _)) => collection.open(&kv).is_err_and(|error| error.is_unreadable()),
            Ok((None, _)) => false,
            Err(error) => error.is_unreadable(),
        };
        if !unreadable {
            let detail = "is exclusively used to delete corrupt object(s), try again by removing this option";
            let errors = FieldError::invalid(&FieldPath::new(IGNORE_READ_ERROR), true, detail).into();
            // As in kube-apiserver, with the resource instead of the kind.
            let kind = GroupKind::new(self.description.group.clone(), self.description.plural.clone());
            return Err(Status::invalid(&kind, name, &errors));
        }
        tracing::warn!(namespace = %context.namespace, name, "deleting object that cannot be decoded");
        let txn = Txn { key, expect: Expect::Anything, op: Op::Delete };
        collection.store.txn(txn).await.map(drop).map_err(store_failure)
    }

    /// Returns the Status for the delete of an unreadable object.
    pub fn deleted_unreadable(&self, name: &str) -> Status {
        let details = StatusDetails {
            name: name.to_owned(),
            kind: self.description.kind.to_string(),
            ..StatusDetails::default()
        };
        Status::success(details).with_code()
    }
}

/// Returns the error of a value, with the message of kube-apiserver's storage.
fn corruption(error: &StoreError) -> String {
    match error {
        StoreError::Transform { why, .. } => format!("data from the storage is not transformable revision=0: {why}"),
        StoreError::Undecodable { revision, why, .. } => {
            format!("object not decodable revision={}: {why}", revision.0)
        }
        other => other.to_string(),
    }
}

fn corrupt_object(key: &str, error: &StoreError) -> String {
    let why = corruption(error);
    format!(
        "StorageError: corrupt object, Code: {CORRUPT_OBJECT_CODE}, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    )
}
