//! PartialObjectMetadata: objects reduced to their metadata.

use binnacle_registry::Resource;
use binnacle_schema::{Message, Object, Value};

use crate::negotiate::{MetaVersion, Transform};
use crate::table;

/// The metadata of one object of a resource, in the stored version.
pub(crate) fn of_object(resource: &Resource, object: &Value, version: MetaVersion) -> Value {
    let mut partial = Object::with_capacity(3);
    partial.insert("kind", "PartialObjectMetadata");
    partial.insert("apiVersion", version.api_version());
    let mut metadata = object.get("metadata").cloned().unwrap_or_else(|| Object::new().into());
    for unseen in table::columns(resource).unseen_annotations() {
        let left = metadata.get_mut("annotations").and_then(Value::as_object_mut).map(|annotations| {
            annotations.remove(unseen);
            annotations.len()
        });
        if left == Some(0) {
            metadata.make_object().remove("annotations");
        }
    }
    partial.insert("metadata", metadata);
    Value::Object(partial)
}

/// The schema of what a transformation yields, for protobuf.
pub(crate) fn message(transform: Transform) -> Option<&'static Message> {
    match transform {
        Transform::None => None,
        Transform::Table(_) => Some(binnacle_apimachinery::table()),
        Transform::PartialMetadata(_) => Some(binnacle_apimachinery::partial_object_metadata()),
        Transform::PartialMetadataList(_) => Some(binnacle_apimachinery::partial_object_metadata_list()),
    }
}
