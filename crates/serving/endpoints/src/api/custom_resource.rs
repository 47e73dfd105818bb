//! Requests for custom resources: a single handler instead of routes.

use std::sync::Arc;

use binnacle_meta::Status;
use binnacle_request::RequestInfo;
use binnacle_scheme::{SubresourceRole, Verb};

use crate::verbs::{self, Call, HandlerResult};

/// Handles a request for a custom resource, by the verb that was authorized.
pub(super) async fn handle(call: Call, info: &RequestInfo) -> HandlerResult {
    let (resource, description) = (call.resource.group_resource(), Arc::clone(&call.resource.description));
    let not_supported = || Err(Status::method_not_supported(&resource, &info.verb));
    let named = || if info.name.is_empty() { Err(Status::bad_request("name must be provided")) } else { Ok(()) };
    // Requests that are rejected for their method or subresource get the deprecation warning too.
    super::warn_of_deprecation(&description, &call.resource.collection.features, &call.request.record, &call.warnings);
    let role = match call.subresource.as_str() {
        "" => None,
        name => match description.subresource(name) {
            Some(subresource) => Some(subresource.role),
            None => return Err(Status::not_found(&resource, &info.name)),
        },
    };
    let verb = match info.verb.as_str() {
        "get" => Verb::Get,
        "update" => Verb::Update,
        "patch" => Verb::Patch,
        "list" if role.is_none() => Verb::List,
        "create" if role.is_none() => Verb::Create,
        "delete" if role.is_none() => Verb::Delete,
        "deletecollection" if role.is_none() => Verb::DeleteCollection,
        _ => return not_supported(),
    };
    match (verb, role) {
        (Verb::Get | Verb::Update | Verb::Patch, Some(SubresourceRole::Scale)) => {
            Box::pin(verbs::scale::handle(call, verb)).await
        }
        (Verb::Patch, _) => {
            verbs::patch::patch_type(&call)?;
            named()?;
            Box::pin(verbs::patch::handle(call)).await
        }
        (Verb::Get | Verb::Update | Verb::Delete, _) => {
            named()?;
            super::call_item_verb(call, verb).await
        }
        _ => super::call_collection_verb(call, verb, false).await,
    }
}
