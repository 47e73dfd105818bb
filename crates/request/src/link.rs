//! The request as handlers see it, and `Link`, the way in which a part of the server takes requests.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use binnacle_meta::Status;
use bytes::Bytes;
use http::{HeaderMap, Method, Uri};

use crate::{
    Body, BodyError, ConnectionInfo, IncomingBody, Permit, Query, Record, RequestInfo, Shutdown, Upgrade, User,
};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The answer to a request.
pub type Response = http::Response<Body>;

/// A request that has passed the chain: parsed, authenticated, allowed.
pub struct Request {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    pub body: IncomingBody,
    /// The connection itself, for handlers that answer 101.
    pub upgrade: Option<Upgrade>,
    pub info: Arc<RequestInfo>,
    pub query: Query,
    pub user: Arc<User>,
    pub permit: Permit,
    pub connection: Arc<ConnectionInfo>,
    pub record: Arc<Record>,
    /// The time when an answer is due; none for long-running requests.
    pub deadline: Option<Instant>,
    /// Long-running handlers end when this fires.
    pub shutdown: Shutdown,
}

impl Request {
    /// Takes the whole body out of the request, at most `limit` bytes of it (see [`MAX_REQUEST_BODY`]).
    ///
    /// [`MAX_REQUEST_BODY`]: crate::MAX_REQUEST_BODY
    pub async fn read_body(&mut self, limit: usize) -> Result<Bytes, BodyError> {
        let body = std::mem::take(&mut self.body);
        let bytes = body.read(limit).await?;
        self.record.add_request_bytes(bytes.len() as u64);
        Ok(bytes)
    }

    /// A header's value, if there is one that is text.
    pub fn header(&self, name: impl http::header::AsHeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// An answer's extension: the Status that its body is, for filters that look at answers on their way out.
#[derive(Clone, Debug)]
pub struct AnsweredStatus(pub Arc<Status>);

/// A part of the server that answers some requests: aggregated groups, built-in resources, custom resources, health.
/// Links are asked in order and the first that claims a request answers it, also when the answer is "not found".
pub trait Link: Send + Sync {
    /// Returns true if this request is for this link, judged by the path alone.
    fn claims(&self, info: &RequestInfo) -> bool;

    fn handle(&self, request: Request) -> BoxFuture<'_, Response>;

    /// The paths that the index at `/` names for this link.
    fn paths(&self) -> Vec<String> {
        Vec::new()
    }
}

/// A handler that may take a request before the links are asked, judged by all of it: another server that has what this
/// one lacks, or a reason to refuse it for now.
pub trait Detour: Send + Sync {
    /// True when this request does not go to the links.
    fn takes(&self, request: &Request) -> bool;

    fn handle(&self, request: Request) -> BoxFuture<'_, Response>;
}

/// Marks an answer that is an object or a list of them, as extension: it may leave compressed. Logs, proxied answers and
/// watches never do.
#[derive(Clone, Copy, Debug)]
pub struct Compressible;
