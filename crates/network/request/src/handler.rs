//! The request as handlers get it, and `Handler`, the trait of parts of the server that handle requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use binnacle_meta::Status;
use bytes::Bytes;
use http::{HeaderMap, Method, Uri};

use crate::{
    Body, BodyError, ConnectionInfo, IncomingBody, Permit, Query, Record, RequestInfo, Shutdown, Upgrade, User,
    waiting_unless_failed,
};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The response to a request.
pub type Response = http::Response<Body>;

/// A request that has passed the filters: parsed, authenticated, authorized.
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
    /// The deadline of the response; `None` for long-running requests.
    pub deadline: Option<Instant>,
    /// Ends long-running handlers.
    pub shutdown: Shutdown,
}

impl Request {
    /// Takes the whole body out of the request, at most `limit` bytes of it (see [`MAX_REQUEST_BODY`]). The request has
    /// no seat while it waits for a slow client.
    ///
    /// [`MAX_REQUEST_BODY`]: crate::MAX_REQUEST_BODY
    pub async fn read_body(&mut self, limit: usize) -> Result<Bytes, BodyError> {
        let body = std::mem::take(&mut self.body);
        let bytes = waiting_unless_failed(body.read(limit)).await??;
        self.record.add_request_bytes(bytes.len() as u64);
        Ok(bytes)
    }

    /// Returns a header's value, if it is text.
    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// A response's extension: the Status in its body, for filters of responses.
#[derive(Clone, Debug)]
pub struct AnsweredStatus(pub Arc<Status>);

/// A part of the server that handles some requests: aggregated groups, built-in resources, custom resources, health.
/// The first link, in order, that claims a request responds, perhaps with "not found".
pub trait Handler: Send + Sync {
    /// Returns true if the link handles requests with this path.
    fn matches(&self, info: &RequestInfo) -> bool;

    fn handle(&self, request: Request) -> BoxFuture<'_, Response>;

    /// Returns the link's paths for the index at `/`.
    fn paths(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A handler that may take a request before the links do, for example to forward it to another server, or to refuse it
/// for now.
pub trait Interceptor: Send + Sync {
    /// Returns true to take the request from the links.
    fn intercepts(&self, request: &Request) -> bool;

    fn handle(&self, request: Request) -> BoxFuture<'_, Response>;
}

/// A response's extension: it has an object or a list, and may be compressed. Logs, proxied responses and watches never
/// are.
#[derive(Clone, Copy, Debug)]
pub struct Compressible;
