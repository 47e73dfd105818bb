//! The request as handlers receive it, and the trait [`Handler`] for handlers.

use std::sync::Arc;
use std::time::Instant;

use binnacle_meta::Status;
use bytes::Bytes;
use http::{HeaderMap, Method, Uri};

use crate::{
    Body, BodyError, BoxFuture, ConnectionInfo, IncomingBody, Permit, Query, Record, RequestInfo, Shutdown, Upgrade,
    User, waiting_unless_failed,
};

/// The response to a request.
pub type Response = http::Response<Body>;

/// A request that has passed the filters: parsed, authenticated, and authorized.
pub struct Request {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: IncomingBody,
    /// The upgrade of the connection, for handlers that respond with 101.
    pub upgrade: Option<Upgrade>,
    pub info: Arc<RequestInfo>,
    pub query: Query,
    pub user: Arc<User>,
    pub permit: Permit,
    pub connection: Arc<ConnectionInfo>,
    pub record: Arc<Record>,
    /// The deadline for the response, or `None` for long-running requests.
    pub deadline: Option<Instant>,
    /// Ends long-running requests when the server shuts down.
    pub shutdown: Shutdown,
}

impl Request {
    /// Reads the whole body of the request, at most `limit` bytes (see [`MAX_REQUEST_BODY`]). The request gives its
    /// seat back while it waits for a slow client.
    ///
    /// [`MAX_REQUEST_BODY`]: crate::MAX_REQUEST_BODY
    pub async fn read_body(&mut self, limit: usize) -> Result<Bytes, BodyError> {
        let body = std::mem::take(&mut self.body);
        let bytes = waiting_unless_failed(body.read(limit)).await??;
        self.record.add_request_bytes(bytes.len() as u64);
        Ok(bytes)
    }

    /// Returns the value of a header if it is text.
    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A response extension: the Status in the body, for filters that process responses.
#[derive(Clone, Debug)]
pub struct AnsweredStatus(pub Arc<Status>);

/// A handler for some requests: aggregated groups, built-in resources, custom resources, or health checks. The first
/// handler that matches the path serves the request, possibly with "not found".
pub trait Handler: Send + Sync {
    /// Returns true if this handler serves requests with this path.
    fn matches(&self, info: &RequestInfo) -> bool;

    fn handle(&self, request: Request) -> BoxFuture<'_, Response>;

    /// Returns the handler's paths for the index at `/`.
    fn paths(&self) -> Vec<String> {
        Vec::new()
    }
}

/// An interceptor that may take a request before the handlers do, for example to proxy it to another server or to
/// reject it temporarily.
pub trait Interceptor: Send + Sync {
    /// Returns true to intercept the request.
    fn intercepts(&self, request: &Request) -> bool;

    fn handle(&self, request: Request) -> BoxFuture<'_, Response>;
}

/// A response extension: the body is an object or a list and may be compressed. Logs, proxied responses and watches are
/// never compressed.
#[derive(Clone, Copy, Debug)]
pub struct Compressible;
