//! GET of a collection, including `?watch`.

use std::sync::Arc;

use super::{Call, HandlerResult, watch};
use crate::{list_stream, params};

pub(crate) async fn handle(call: Call, force_watch: bool) -> HandlerResult {
    let resource = Arc::clone(&call.resource);
    let output = call.output(false)?;
    let mut params = params::collection(
        &call.request.query,
        &call.request.info,
        &resource.description,
        &resource.collection.features,
        force_watch,
    )?;
    params.list.shard = params::shard(&call.request.query, &resource.collection.features)?;
    if params.watch {
        return watch::handle(call, params).await;
    }
    // With version `0`, the cache returns all remaining objects.
    let is_any_version_page = params.resource_version == "0" && params.list.continue_token.is_some();
    if is_any_version_page && resource.collection.cached {
        params.list.limit = 0;
    }
    let context = call.read_context();
    let page = resource.list(&context, &params.list).await?;
    let include = call.include(output)?;
    list_stream::response(resource, output, include, page).await
}
