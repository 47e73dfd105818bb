//! Watches: `?watch`, the deprecated `/watch/` paths, and watches of a single name.

use std::sync::Arc;
use std::time::Duration;

use binnacle_meta::Status;
use binnacle_registry::WatchFrom;
use binnacle_request::Response;
use binnacle_scheme::Verb;
use binnacle_streams::{as_events, is_websocket};
use http::header::{CONTENT_TYPE, HeaderValue};

use super::{Call, HandlerResult};
use crate::negotiate::{CBOR_SEQUENCE, Encoding};
use crate::params::{self, CollectionParams};
use crate::watch_stream::{self, WatchOptions};

/// The minimum duration of a watch without `timeoutSeconds` (`--min-request-timeout`). The actual duration is random,
/// up to twice as long, so that clients do not all reconnect at the same time.
pub(crate) const MIN_TIMEOUT: Duration = Duration::from_secs(1800);

/// The maximum duration that a client can request, so that the time of its end is representable.
const MAX_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

pub(crate) async fn handle(call: Call, params: CollectionParams) -> HandlerResult {
    let resource = Arc::clone(&call.resource);
    if !resource.description.verbs.contains(Verb::Watch) {
        return Err(Status::method_not_supported(&resource.group_resource(), "watch"));
    }
    let context = call.read_context();
    // kube-apiserver's storage layer rejects the version: 500 without a reason.
    let from = start(&params).map_err(|why| Status::unknown(500, &why))?;
    let watcher = resource.watch(&context, &params.list, from).await?;
    let output = call.output(true)?;
    let include = call.include(output)?;
    let timeout = match params.timeout_seconds.filter(|seconds| *seconds != 0) {
        Some(seconds) => Duration::from_secs(seconds.max(0).unsigned_abs()).min(MAX_TIMEOUT),
        None => call.watch_timeout + Duration::from_nanos(rand_nanos(call.watch_timeout)),
    };
    let mark_initial = matches!(from, WatchFrom::InitialEvents { .. }) && params.allow_bookmarks;
    let options = WatchOptions {
        resource,
        output,
        include,
        bookmarks: params.allow_bookmarks,
        bookmarks_since: call.request.connection.watching_since(),
        mark_initial,
        timeout,
        shutdown: call.request.shutdown.clone(),
        received: call.request.record.received(),
        scope: call.request.info.scope(),
        is_websocket: is_websocket(&call.request.headers),
    };
    if options.is_websocket {
        let text = output.encoding.is_text();
        return as_events(call.request, watch_stream::body(options, watcher), text);
    }
    let mut response = Response::new(watch_stream::body(options, watcher));
    let content_type = match output.encoding {
        Encoding::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        Encoding::Cbor => CBOR_SEQUENCE,
        other => other.media_type(),
    };
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    Ok(response)
}

/// Returns the start of the watch.
///
/// # Errors
///
/// Returns the message about an invalid resourceVersion.
fn start(params: &CollectionParams) -> Result<WatchFrom, String> {
    let text = params.resource_version.as_str();
    let version = if text.is_empty() { None } else { Some(params::resource_version(text)?) };
    Ok(match (params.send_initial_events, version) {
        (Some(true), None) => WatchFrom::InitialEvents { not_older_than: None },
        (Some(true), Some(0)) => WatchFrom::InitialEvents { not_older_than: Some(0) },
        (Some(true), Some(version)) => WatchFrom::InitialEvents { not_older_than: Some(version) },
        (Some(false), None | Some(0)) => WatchFrom::ChangesOnly,
        (None, None) => WatchFrom::Now,
        (None, Some(0)) => WatchFrom::Any,
        (_, Some(version)) => WatchFrom::After(version),
    })
}

/// Returns a random duration below `below`, from the keys of a new hasher.
fn rand_nanos(below: Duration) -> u64 {
    let random = std::hash::BuildHasher::hash_one(&std::collections::hash_map::RandomState::new(), 0u8);
    random % (below.as_nanos() as u64).max(1)
}
