//! GET of one object.

use std::sync::Arc;

use binnacle_meta::Status;
use binnacle_registry::{Match, StoredObject};
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
    let text = call.request.query.get("resourceVersion").unwrap_or("");
    let version = version(text).map_err(|why| match resource.collection.cached {
        // kube-apiserver's cache rejects the version without a reason.
        true => Status::unknown(500, &why),
        false => params::invalid_resource_version(&why),
    })?;
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

fn version(text: &str) -> Result<Match, String> {
    if text.is_empty() {
        return Ok(Match::Consistent);
    }
    Ok(match params::resource_version(text)? {
        0 => Match::Any,
        revision => Match::NotOlderThan(revision),
    })
}
