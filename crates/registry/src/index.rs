//! How the watch cache reads the stored objects of a resource: their labels and selectable fields.

use std::borrow::Cow;

use binnacle_meta::Text;
use binnacle_resources::{ResourceDescription, Storage};
use binnacle_schema::{Message, proto};
use binnacle_store::Revision;
use binnacle_watchcache::{Attrs, IndexError, Indexer};
use bytes::Bytes;

use crate::media::StoredKind;

/// Reads attributes out of the protobuf envelope.
pub struct ResourceIndexer {
    /// What is decoded: of the kind's message no more than labels and what selectable fields come from.
    message: Message,
    storage: Storage,
    api_version: Text,
    stored: &'static Message,
    description: &'static ResourceDescription,
    names: Vec<Text>,
}

/// Attributes stand close to the root; deeper nesting is skipped or fails here as it would anywhere.
const DEPTH: usize = 256;

impl ResourceIndexer {
    /// `stored` is the schema of the storage version.
    pub fn new(
        storage: Storage,
        api_version: &str,
        stored: &'static Message,
        description: &'static ResourceDescription,
    ) -> Self {
        let names: Vec<Text> =
            description.selectable_fields.iter().map(|f| Text::from(f.name)).filter(|n| !of_key(n)).collect();
        let mut paths: Vec<&[&str]> = vec![&["metadata", "labels"]];
        let selectable = description.selectable_fields.iter().filter(|field| !of_key(field.name));
        paths.extend(selectable.flat_map(|field| field.value.reads()));
        let message = proto::narrow(stored, &paths);
        Self { message, storage, api_version: api_version.into(), stored, description, names }
    }
}

impl Indexer for ResourceIndexer {
    fn fields(&self) -> &[Text] {
        &self.names
    }

    fn index(&self, _key: &[u8], value: &Bytes, _revision: Revision) -> Result<Attrs, IndexError> {
        let failed = |error: proto::ProtoError| IndexError(error.to_string());
        let kind = StoredKind {
            group: self.storage.group,
            version: self.storage.version,
            kind: self.storage.kind,
            api_version: &self.api_version,
            message: self.stored,
        };
        let (value, rewritten) = match kind.envelope(value).map_err(IndexError)? {
            Cow::Borrowed(_) => (value.clone(), None),
            Cow::Owned(envelope) => {
                let envelope = Bytes::from(envelope);
                (envelope.clone(), Some(envelope))
            }
        };
        let envelope = proto::unwrap(&value).map_err(failed)?;
        let object = proto::decode(envelope.raw, &self.message, DEPTH).map_err(failed)?;
        let labels = object.object_at(&["metadata", "labels"]).into_iter().flat_map(|labels| labels.iter());
        let labels = labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or("").into())).collect();
        let selectable = self.description.selectable_fields.iter().filter(|f| !of_key(f.name));
        let fields = selectable.map(|field| field.of(&object)).collect();
        Ok(Attrs { labels, fields, value: rewritten })
    }
}

/// What the cache knows from the key alone.
fn of_key(field: &str) -> bool {
    field == "metadata.name" || field == "metadata.namespace"
}
