//! PUT of one object, or of a subresource with the whole object.

use std::sync::Arc;

use binnacle_registry::{UpdateOptions, object, record_request_object};
use binnacle_schema::Value;

use super::create_gate::AuthorizerGate;
use super::{Call, DUPLICATE_OWNERS, HandlerResult, check_name};
use crate::decode_object::decode_object;
use crate::params::{self, WriteKind};
use crate::{body, managed_fields, respond};

pub(crate) async fn handle(mut call: Call) -> HandlerResult {
    let output = call.output(false)?;
    let include = call.include(output)?;
    let bytes = body::read(&mut call.request).await?;
    let params = params::write(&call.request.query, WriteKind::Update)?;
    let context = call.context(params.options());
    let resource = Arc::clone(&call.resource);
    let mut received = decode_object(&context, &resource, call.input()?, &bytes, params.validation)?;
    record_request_object(&call.request.record, &received);
    check_name(&received, call.name(), &resource, &context)?;
    if let Some(uids) = object::dedup_owner_references(&mut received) {
        context.warn(format!("{}{uids}", DUPLICATE_OWNERS));
    }
    let uid = object::uid(&received);
    let options = UpdateOptions {
        subresource: call.subresource.clone(),
        create: (resource.description.create_on_update && call.subresource.is_empty())
            .then(|| AuthorizerGate::for_call(&call)),
        uid: (!uid.is_empty()).then(|| uid.into()),
    };
    let manager = call.manager(&params);
    let mut change = |live: Option<&Value>| {
        let mut object = received.clone();
        object.with_fields_of_apply(|object| {
            managed_fields::track_update(&context, &resource, &manager, &call.subresource, live, object);
        });
        Ok(resource.to_write_object(object))
    };
    let updated = managed_fields::update(&context, &resource, call.name(), &options, &mut change).await?;
    let code = if updated.created { 201 } else { 200 };
    respond::object(&resource, output, include, code, updated.stored)
}
