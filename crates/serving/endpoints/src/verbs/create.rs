//! POST of a collection or of an object's path, which are equivalent.

use std::sync::Arc;

use binnacle_authz::permit_create;
use binnacle_meta::Status;
use binnacle_registry::{object, record_request_object};
use binnacle_request::{CreatePermit, RequestInfo};

use super::{Call, DUPLICATE_OWNERS, HandlerResult};
use crate::decode_object::decode_object;
use crate::params::{self, WriteKind};
use crate::{body, managed_fields, respond};

pub(crate) async fn handle(mut call: Call) -> HandlerResult {
    let output = call.output(false)?;
    let include = call.include(output)?;
    // Checked before the options are parsed, as in kube-apiserver for this verb only.
    let encoding = call.input()?;
    let bytes = body::read(&mut call.request).await?;
    let params = params::write(&call.request.query, WriteKind::Create)?;
    let context = call.context(params.options());
    let resource = Arc::clone(&call.resource);
    let mut object = decode_object(&context, &resource, encoding, &bytes, params.validation)?;
    record_request_object(&call.request.record, &object);
    resource.check_namespace(&context, &object)?;
    if let Some(uids) = object::dedup_owner_references(&mut object) {
        context.warn(format!("{}{uids}", DUPLICATE_OWNERS));
    }
    managed_fields::track_create(&context, &resource, &call.manager(&params), &mut object);
    let is_other = |name: &&str| !call.name().is_empty() && *name != call.name();
    let other_name = Some(object::name(&object)).filter(is_other).map(str::to_owned);
    let object = resource.to_write_object(object);
    // Requests that were not authorized as a create are rejected.
    let permit = call.request.permit.for_create();
    let permit = permit.ok_or_else(|| Status::internal("the request was not authorized as a create"))?;
    let permit = match other_name {
        Some(name) => authorize_name(&call, &name).await?,
        None => permit,
    };
    let stored = managed_fields::create(&context, &resource, &permit, object, bytes.len()).await?;
    respond::object(&resource, output, include, 201, stored)
}

/// Authorizes an object that was sent to a path with another name. A user who may create only an object of that name
/// must not create another one.
fn authorize_name(call: &Call, name: &str) -> impl Future<Output = Result<CreatePermit, Status>> + Send + use<> {
    let info = RequestInfo { name: name.into(), ..(*call.request.info).clone() };
    let (authorizer, user) = (Arc::clone(&call.authorizer), Arc::clone(&call.request.user));
    async move { permit_create(&*authorizer, &info, &user).await }
}
