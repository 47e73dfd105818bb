//! The labels and selectable fields of stored objects, for the watch cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata as AnyKind};
use binnacle_meta::Text;
use binnacle_schema::{Message, Object};
use binnacle_scheme::{SelectableField, StoredKind, StoredType, too_large_reason};
use binnacle_store::Revision;
use binnacle_watchcache::{Attrs, IndexError, Indexer, UID};
use bytes::Bytes;

const LABELS_PATH: &[&str] = &[AnyKind::METADATA.name(), ObjectMeta::LABELS.name()];
const UID_PATH: &[&str] = &[AnyKind::METADATA.name(), ObjectMeta::UID.name()];

/// Reads labels and fields from stored bytes.
pub struct ResourceIndexer {
    /// True if objects are also selected by shards, which use the UID as the last field.
    sharded: bool,
    kind: Arc<StoredType>,
    api_version: Text,
    names: Vec<Text>,
    /// Set once an object was too large to be read.
    too_large: Arc<AtomicBool>,
}

impl ResourceIndexer {
    /// Creates an indexer for objects in the version in which they are handled.
    pub fn new(kind: Arc<StoredType>, sharded: bool, too_large: Arc<AtomicBool>) -> Self {
        let mut names: Vec<Text> = selectable(&kind).map(|field| field.name.clone()).collect();
        names.extend(sharded.then(|| Text::new_static(UID)));
        let api_version = kind.storage.group_version_kind().api_version();
        Self { sharded, kind, api_version, names, too_large }
    }

    /// Returns the message for decoding, which only has the labels and the sources of selectable fields.
    fn message(&self) -> &Message {
        self.kind.indexed.get_or_init(|| {
            let reads: Vec<Vec<&str>> = selectable(&self.kind).flat_map(|field| field.value.reads()).collect();
            let mut paths: Vec<&[&str]> = vec![LABELS_PATH];
            paths.extend(reads.iter().map(Vec::as_slice));
            paths.extend(self.sharded.then_some(UID_PATH));
            self.kind.codec().narrow(&self.kind.message, &paths)
        })
    }
}

impl Indexer for ResourceIndexer {
    fn fields(&self) -> &[Text] {
        &self.names
    }

    fn index(&self, _key: &[u8], value: &Bytes, _revision: Revision) -> Result<Attrs, IndexError> {
        let kind = StoredKind::new(&self.kind, &self.api_version);
        let (object, rewritten) = self.kind.codec().index(&kind, self.message(), value).map_err(IndexError)?;
        if self.kind.custom.is_some() && too_large_reason(rewritten.as_ref().unwrap_or(value)).is_some() {
            self.too_large.store(true, Ordering::Release);
        }
        let root = FieldRef::<AnyKind>::root(&object);
        let metadata = root.at(AnyKind::METADATA);
        let labels = metadata.at(ObjectMeta::LABELS).object().into_iter().flat_map(Object::iter);
        let labels = labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or("").into())).collect();
        let mut fields: Vec<Text> = selectable(&self.kind).map(|field| field.of(&object)).collect();
        fields.extend(self.sharded.then(|| metadata.at(ObjectMeta::UID).str().into()));
        Ok(Attrs { labels, fields, value: rewritten })
    }

    /// The names of the fields determine what is read.
    fn sharing_key(&self) -> Option<Bytes> {
        let identity = self.kind.identity.as_ref()?;
        Some(format!("{identity} {}", self.names.join(",")).into())
    }

    fn compresses(&self) -> bool {
        self.kind.strategy.is_rarely_read()
    }
}

/// Returns the fields that are read from objects.
fn selectable(kind: &StoredType) -> impl Iterator<Item = &SelectableField> {
    kind.selectable_fields.iter().filter(|field| !of_key(&field.name))
}

/// Returns true if the cache derives the field from the key.
fn of_key(field: &str) -> bool {
    field == "metadata.name" || field == "metadata.namespace"
}
