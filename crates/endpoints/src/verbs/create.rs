//! POST of a collection.

use std::sync::Arc;

use binnacle_meta::Status;
use binnacle_registry::object;

use super::{Answer, Call, DUPLICATE_OWNERS};
use crate::params::{self, WriteKind};
use crate::{audit, body, managed, respond};

pub(crate) async fn handle(mut call: Call) -> Answer {
    let output = call.output(false)?;
    let include = call.include(output)?;
    // Before the options are parsed, as in kube-apiserver, for this verb only.
    let encoding = call.input()?;
    let bytes = body::read(&mut call.request).await?;
    let params = params::write(&call.request.query, WriteKind::Create)?;
    let context = call.context(params.options());
    let resource = Arc::clone(&call.resource);
    let mut object = body::object(&context, &resource, encoding, &bytes, params.validation)?;
    audit::note_request_object(&call.request.record, &object);
    if let Some(uids) = object::dedup_owner_references(&mut object) {
        context.warn(format!("{}{uids}", DUPLICATE_OWNERS));
    }
    managed::created(&context, &resource, &call.manager(&params), &mut object);
    let object = resource.sent(object);
    // A request that was not authorized as a create is refused.
    let permit = call.request.permit.for_create();
    let permit = permit.ok_or_else(|| Status::internal("the request was not authorized as a create"))?;
    let stored = managed::create(&context, &resource, &permit, object, bytes.len()).await?;
    respond::object(&resource, output, include, 201, stored.object)
}
