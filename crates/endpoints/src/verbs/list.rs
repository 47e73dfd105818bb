//! GET of a collection, `?watch` included.

use std::sync::Arc;

use super::{Answer, Call, watch};
use crate::{list_stream, params};

pub(crate) async fn handle(call: Call, force_watch: bool) -> Answer {
    let resource = Arc::clone(&call.resource);
    let output = call.output(false)?;
    let params = params::collection(&call.request.query, &call.request.info, resource.description, force_watch)?;
    if params.watch {
        return watch::handle(call, params).await;
    }
    let include = call.include(output)?;
    let context = call.context(false);
    let page = resource.list(&context, &params.list).await?;
    list_stream::response(resource, output, include, page)
}
