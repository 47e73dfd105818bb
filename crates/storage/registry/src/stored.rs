//! The stored encoding of objects: the protobuf envelope of the storage version. It has no resourceVersion, which is
//! the revision of the key.

use std::sync::Arc;

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata as AnyKind};
use binnacle_meta::Status;
use binnacle_schema::{Message, Value, canonical, nil};
use binnacle_scheme::{CustomSchema, CustomSource, MediaType, StoredKind, StoredType};
use binnacle_store::{KeyValue, Revision, StoreError};
use binnacle_watchcache::Entry;
use bytes::Bytes;

use crate::converting_store::StorageConverter;
use crate::object;
use crate::resource::ResourceStore;
use crate::size::WriteKind;
use crate::store_failure::conversion_failure;

/// An object with its revision in the store.
#[derive(Clone, Debug)]
pub struct StoredObject {
    /// The object in the storage version, canonical, with resourceVersion.
    pub object: Value,
    pub revision: Revision,
    /// The stored bytes of a write, if a read of the object returns exactly these bytes and the revision.
    pub(crate) bytes: Option<Bytes>,
}

impl StoredObject {
    pub fn new(object: Value, revision: Revision) -> Self {
        Self { object, revision, bytes: None }
    }
}

impl ResourceStore {
    /// Returns the bytes to store, or 413 if there are too many. Converts the object to its canonical representation.
    pub async fn encode(&self, object: &mut Value) -> Result<Bytes, Status> {
        let value = self.encode_for_storage(object).await?;
        self.check_size(object, value.len(), WriteKind::Content)?;
        // If the budget ended a loop early, the object may be incomplete.
        binnacle_work::check()?;
        Ok(value)
    }

    /// Prunes a custom object by its schema, if admission, an apply or defaults have added fields that the schema does
    /// not allow. If a conversion follows, the schema of the storage version does this instead, and malformed metadata
    /// is an error.
    pub(crate) fn prune_admitted(&self, unpruned: bool, object: &mut Value) -> Result<(), Status> {
        let Some(custom) = &self.kind.custom else { return Ok(()) };
        if !unpruned && !custom.prunes_defaults() {
            return Ok(());
        }
        let failed = |why: String| Status::unknown(500, &why);
        match custom.is_stored() {
            true => custom.prune(object, CustomSource::Server).map(drop).map_err(failed),
            false => {
                let source = CustomSource::Request { report_unknown: false };
                custom.prune(&mut object.clone(), source).map(drop).map_err(failed)
            }
        }
    }

    /// Encodes an object like [`ResourceStore::encode`] if its only changes mark it as deleted.
    pub(crate) async fn encode_marked(&self, object: &mut Value) -> Result<Bytes, Status> {
        let value = self.encode_for_storage(object).await?;
        self.check_size(object, value.len(), WriteKind::Deletion)?;
        binnacle_work::check()?;
        Ok(value)
    }

    async fn encode_for_storage(&self, object: &mut Value) -> Result<Bytes, Status> {
        let mut metadata = object::metadata_fields(object);
        metadata.remove(ObjectMeta::RESOURCE_VERSION);
        metadata.remove(ObjectMeta::SELF_LINK);
        self.kind.canonicalize(object);
        if let Some(custom) = &self.kind.custom {
            let stored = if custom.is_stored() { None } else { Some(self.to_storage_version(custom, object).await?) };
            let stored = stored.as_ref().unwrap_or(object);
            self.check_depth(stored)?;
            return Ok(Bytes::from(self.codec().write(&self.stored_kind(), self.media_type, stored)));
        }
        let Some(written) = &self.kind.written else {
            return Ok(Bytes::from(self.codec().write(&self.stored_kind(), self.media_type, object)));
        };
        let mut older = object.clone();
        (written.conversion.from_stored)(&mut older);
        canonical::canonicalize(&mut older, &written.message);
        Ok(Bytes::from(self.codec().write(&self.stored_kind().written(written), self.media_type, &older)))
    }

    /// Converts a custom resource to its stored version.
    async fn to_storage_version(&self, custom: &Arc<dyn CustomSchema>, object: &Value) -> Result<Value, Status> {
        let mut stored = object.clone();
        match custom.converter() {
            None => custom.to_stored(&mut stored).map_err(Status::internal)?,
            // An object that is too large to be converted is deleted in its stored version.
            Some(_) if FieldRef::root(&stored).at(AnyKind::API_VERSION).str() == custom.stored_version() => {}
            Some(converter) => {
                let converted = converter.convert(vec![stored], custom.stored_version()).await;
                let converted = converted.map_err(conversion_failure)?;
                // A converter returns one object per input.
                stored = converted.into_iter().next().unwrap_or_default();
                custom.prune(&mut stored, CustomSource::Server).map_err(|why| Status::unknown(500, &why))?;
            }
        }
        self.kind.canonicalize(&mut stored);
        Ok(stored)
    }

    /// Decodes an object from stored bytes. Its resourceVersion is `revision`.
    pub fn decode(&self, value: &[u8], revision: Revision) -> Result<Value, Status> {
        self.read(value, revision).map_err(|why| self.undecodable(why, revision))
    }

    /// Decodes the object of a cache entry, with its resourceVersion.
    pub fn decode_entry(&self, entry: &Entry) -> Result<Value, Status> {
        let revision = entry.revision();
        let object = self.codec().read_cached(&self.stored_kind(), &entry.value());
        let mut object = object.map_err(|why| self.undecodable(why, revision))?;
        self.set_version(&mut object, revision);
        Ok(object)
    }

    pub(crate) fn with_version(&self, mut object: Value, revision: Revision) -> Value {
        self.set_version(&mut object, revision);
        object
    }

    /// Returns a message for [`ResourceStore::part`] with the fields at these paths.
    pub fn narrowed(&self, paths: &[&[&str]]) -> Message {
        self.codec().narrow(&self.kind.message, paths)
    }

    /// Decodes only the fields of a narrowed message from an object in the cache, which costs less than decoding all
    /// fields.
    pub fn part(&self, narrowed: &Message, value: &Bytes, revision: Revision) -> Result<Value, Status> {
        let part = self.codec().index(&self.stored_kind(), narrowed, value);
        part.map(|(object, _)| object).map_err(|why| self.undecodable(why, revision))
    }

    /// Returns the status for a value that is not a valid object.
    pub(crate) fn undecodable(&self, why: impl ToString, revision: Revision) -> Status {
        let why = why.to_string();
        tracing::error!(kind = %self.kind.storage.kind, why, "stored object cannot be decoded");
        self.change_failure(StoreError::Undecodable { key: String::new(), revision, why })
    }

    /// Decodes an object like [`ResourceStore::decode`]; an error is only the reason.
    pub(crate) fn read(&self, value: &[u8], revision: Revision) -> Result<Value, String> {
        let mut object = self.codec().read(&self.stored_kind(), value)?;
        self.set_version(&mut object, revision);
        Ok(object)
    }

    /// Changes a canonical object as writing and reading it would: empty lists and maps become null if Go writes nil
    /// ones as `null`. Responses contain objects as they are read.
    pub(crate) async fn apply_storage_round_trip(&self, object: &mut Value, value: &Bytes) -> Result<(), Status> {
        if let Some(custom) = &self.kind.custom {
            // Fields that are not in the schema of the stored version are dropped.
            if !custom.is_stored() {
                let read = StorageConverter::new(custom).convert_one(value).await;
                let read = read.and_then(|value| self.codec().read(&self.stored_kind(), &value).map_err(Into::into));
                *object = read.map_err(conversion_failure)?;
            } else if custom.set_defaults(object) {
                // This sets the defaults of the status, which a create cannot set.
                self.kind.canonicalize(object);
            }
            return Ok(());
        }
        nil::nil_empty(object, &self.kind.message);
        if self.kind.strategy.complete_stored(object) {
            self.kind.canonicalize(object);
        }
        Ok(())
    }

    /// Returns an object that was stored as `value`.
    pub(crate) fn stored_object(&self, object: Value, revision: Revision, value: Bytes) -> StoredObject {
        let kind = &self.kind;
        let is_read_as_stored = kind.custom.is_none()
            && kind.written.is_none()
            && self.media_type == MediaType::Protobuf
            && !kind.strategy.completes_stored();
        StoredObject { object, revision, bytes: Some(value).filter(|_| is_read_as_stored) }
    }

    /// Returns true if `object`, which is stored as `value`, is equal to `old`.
    pub(crate) fn is_same(&self, object: &Value, value: &Bytes, old: &Bytes) -> bool {
        match &self.kind.custom {
            // The old value was converted when it was read, so converted objects are compared.
            Some(custom) if custom.converter().is_some() => {
                let mut object = object.clone();
                object::metadata_fields(&mut object).remove(ObjectMeta::RESOURCE_VERSION);
                // The encoding in a store that converts.
                self.codec().write(&self.stored_kind(), MediaType::Json, &object) == *old
            }
            _ => value == old,
        }
    }

    pub(crate) fn decode_kv(&self, kv: &KeyValue) -> Result<StoredObject, Status> {
        self.open(kv).map_err(|error| self.change_failure(error))
    }

    /// Sets `apiVersion`, `kind` and the resourceVersion of a canonical object, which stays canonical.
    pub(crate) fn stamp(&self, object: &mut Value, revision: Revision) {
        let members = object.make_object();
        self.kind.set(members, "kind", self.kind.storage.kind.clone());
        self.kind.set(members, "apiVersion", self.api_version.clone());
        self.set_version(object, revision);
    }

    fn set_version(&self, object: &mut Value, revision: Revision) {
        let metadata = object::metadata_mut(object);
        self.codec().set_resource_version(&self.kind.message, metadata, revision.0.to_string());
    }
}

/// Decodes a stored object of a kind, in the version in which objects are handled. An error is the reason why this
/// release cannot read it.
pub fn decode_stored(kind: &StoredType, stored: &[u8]) -> Result<Value, String> {
    let api_version = kind.storage.group_version_kind().api_version();
    kind.codec().read(&StoredKind::new(kind, &api_version), stored)
}
