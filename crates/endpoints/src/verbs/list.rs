//! GET of a collection, `?watch` included.

use std::sync::Arc;

use super::{Answer, Call, watch};
use crate::{list_stream, params};

pub(crate) async fn handle(call: Call, force_watch: bool) -> Answer {
    let resource = Arc::clone(&call.resource);
    let watching = force_watch || call.request.query.flag("watch");
    let output = call.output(watching)?;
    let params = params::collection(&call.request.query, &call.request.info, resource.description, force_watch)?;
    if params.watch {
        return watch::handle(call, output, params).await;
    }
    let include = call.include()?;
    let context = call.context(false);
    let page = resource.list(&context, &params.list).await?;
    list_stream::response(resource, output, include, page)
}
