//! Decoding of objects that clients send, of built-in and custom resources.

use binnacle_meta::Status;
use binnacle_registry::{Context, RequestObject, Resource};

use crate::body::{ExpectedKind, decode};
use crate::custom_resource;
use crate::negotiate::Encoding;
use crate::params::FieldValidation;

/// Decodes an object that a client sent for a resource.
///
/// `kind` and `apiVersion` may be omitted; otherwise they must match the resource.
pub(crate) fn decode_object(
    context: &Context,
    resource: &Resource,
    encoding: Encoding,
    body: &[u8],
    validation: FieldValidation,
) -> Result<RequestObject, Status> {
    if let Some(custom) = &resource.collection.kind.custom {
        return custom_resource::decode_object(context, resource, &**custom, encoding, body, validation)
            .map(RequestObject::from);
    }
    let (value, empty_fields) =
        decode(context, &ExpectedKind::of(resource), &resource.message, encoding, body, validation)?;
    Ok(resource.complete(value, empty_fields)?)
}
