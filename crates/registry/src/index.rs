//! How the watch cache reads the stored objects of a resource: their labels and selectable fields.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_resources::ResourceDescription;
use binnacle_schema::{Message, MessageRef, proto};
use binnacle_store::Revision;
use binnacle_watchcache::{Attrs, IndexError, Indexer};
use bytes::Bytes;

/// Reads attributes out of the protobuf envelope.
pub struct ResourceIndexer {
    /// What is decoded: the kind's message, or only its metadata where no other field can be selected by.
    message: MessageRef,
    description: &'static ResourceDescription,
    names: Vec<Text>,
}

/// Attributes stand close to the root; deeper nesting is skipped or fails here as it would anywhere.
const DEPTH: usize = 256;

impl ResourceIndexer {
    pub fn new(message: &'static Message, description: &'static ResourceDescription) -> Self {
        let names: Vec<Text> =
            description.selectable_fields.iter().map(|f| Text::from(f.name)).filter(|n| !of_key(n)).collect();
        let message = match message.get("metadata") {
            Some(metadata) if names.is_empty() => {
                MessageRef::Shared(Arc::new(Message::new(message.name.clone(), vec![metadata.clone()])))
            }
            _ => MessageRef::Static(message),
        };
        Self { message, description, names }
    }
}

impl Indexer for ResourceIndexer {
    fn fields(&self) -> &[Text] {
        &self.names
    }

    fn index(&self, _key: &[u8], value: &Bytes, _revision: Revision) -> Result<Attrs, IndexError> {
        let failed = |error: proto::ProtoError| IndexError(error.to_string());
        let envelope = proto::unwrap(value).map_err(failed)?;
        let object = proto::decode(envelope.raw, &self.message, DEPTH).map_err(failed)?;
        let labels = object.object_at(&["metadata", "labels"]).into_iter().flat_map(|labels| labels.iter());
        let labels = labels.map(|(key, value)| (key.clone(), value.as_str().unwrap_or("").into())).collect();
        let selectable = self.description.selectable_fields.iter().filter(|f| !of_key(f.name));
        let fields = selectable.map(|field| field.of(&object)).collect();
        Ok(Attrs { labels, fields, value: None })
    }
}

/// What the cache knows from the key alone.
fn of_key(field: &str) -> bool {
    field == "metadata.name" || field == "metadata.namespace"
}
