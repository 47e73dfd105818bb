//! PartialObjectMetadata: objects reduced to their metadata.

use binnacle_schema::{Message, Object, Value};

use crate::negotiate::{MetaVersion, Transform};

/// The metadata of one object.
pub(crate) fn of_object(object: &Value, version: MetaVersion) -> Value {
    let mut partial = Object::with_capacity(3);
    partial.insert("kind", "PartialObjectMetadata");
    partial.insert("apiVersion", version.api_version());
    partial.insert("metadata", object.get("metadata").cloned().unwrap_or_else(|| Object::new().into()));
    Value::Object(partial)
}

/// The schema of what a transformation yields, for protobuf.
pub(crate) fn message(transform: Transform) -> Option<&'static Message> {
    let kind = match transform {
        Transform::None => return None,
        Transform::Table(_) => "Table",
        Transform::PartialMetadata(_) => "PartialObjectMetadata",
        Transform::PartialMetadataList(_) => "PartialObjectMetadataList",
    };
    binnacle_kinds::tables::message(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}"))
}
