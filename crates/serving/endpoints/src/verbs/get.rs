//! GET of one object.

use std::sync::Arc;

use binnacle_meta::Status;
use binnacle_registry::{Context, Match, StoredObject};
use binnacle_request::latency::{Part, measure};
use binnacle_request::{Body, Pieces};
use bytes::Bytes;

use super::{Call, HandlerResult};
use crate::negotiate::{Encoding, Transform};
use crate::{params, respond};

pub(crate) async fn handle(call: Call) -> HandlerResult {
    let output = call.output(false)?;
    params::reject_export(&call.request.query)?;
    let context = call.read_context();
    let resource = Arc::clone(&call.resource);
    let version = version(&call, &context)?;
    let entry = resource.get(&context, call.name(), version).await?;
    let include = call.include(output)?;
    binnacle_work::large(entry.value_len()).await;
    // Usually the encoding is cached.
    if output.transform == Transform::None && !output.pretty {
        match output.encoding {
            Encoding::Json => {
                let mut body = Pieces::from(measure(Part::Serialize, || resource.json(&entry))?);
                body.push(Bytes::from_static(b"\n"));
                return Ok(respond::body(200, Encoding::Json.media_type(), Body::pieces(body)));
            }
            Encoding::Protobuf => {
                let message = measure(Part::Serialize, || resource.protobuf(&entry))?;
                return Ok(respond::protobuf(&resource, 200, &message));
            }
            Encoding::Yaml | Encoding::Cbor => {}
        }
    }
    let object = resource.collection.decode_entry(&entry)?;
    respond::object(&resource, output, include, 200, StoredObject::new(object, entry.revision()))
}

/// Returns the version that a get requires, after its name is checked.
pub(super) fn version(call: &Call, context: &Context) -> Result<Match, Status> {
    let collection = &call.resource.collection;
    collection.check_name(&context.namespace, call.name())?;
    match call.request.query.get("resourceVersion").unwrap_or("") {
        "" => Ok(Match::Consistent),
        text => match params::resource_version(text) {
            Ok(0) => Ok(Match::Any),
            Ok(revision) => Ok(Match::NotOlderThan(revision)),
            Err(why) if !collection.cached || collection.kind.strategy.is_read_from_store() => {
                Err(params::invalid_resource_version(&why))
            }
            // kube-apiserver's cache rejects the version without a reason.
            Err(why) => Err(Status::unknown(500, &why)),
        },
    }
}
