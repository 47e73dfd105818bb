//! This server's own requests to other servers.

use std::time::Duration;

use binnacle_client::PooledBody;
use binnacle_meta::Text;
use binnacle_request::{Body, User};
use bytes::Bytes;
use http::header::{ACCEPT, HOST, HeaderName, HeaderValue, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Limited};

use crate::identity;
use crate::remote::{Connections, Remote};

/// The header of requests that a peer has forwarded, which are not forwarded again.
pub(crate) const PEER_PROXIED: HeaderName = HeaderName::from_static("x-kubernetes-peer-proxied");
const AGENT: &str = "Go-http-client/2.0";

/// A request to another server.
pub(crate) struct Question<'a> {
    pub(crate) path: &'a str,
    pub(crate) accept: &'a str,
    /// Empty if there is none.
    pub(crate) if_none_match: &'a str,
    pub(crate) user: &'a User,
    pub(crate) timeout: Duration,
    /// The maximum size of the body; `None` if only the status code matters.
    pub(crate) limit: Option<usize>,
    /// True for a peer, which must not forward the request.
    pub(crate) is_for_peer: bool,
}

/// The response of a server.
pub(crate) struct Fetched {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Fetched {
    pub(crate) fn header(&self, name: HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// The reason for a missing response.
#[derive(Debug)]
pub(crate) enum FetchError {
    /// The address is unknown.
    Unresolved(String),
    /// The server at this address does not respond.
    Unreachable { address: String, why: String },
}

impl std::fmt::Display for FetchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unresolved(why) | Self::Unreachable { why, .. } => f.write_str(why),
        }
    }
}

/// Returns the user for checking availability and reading discovery documents.
pub(crate) fn aggregator_user() -> User {
    User::new("system:kube-aggregator", &["system:masters"])
}

/// Sends a request to the server of an APIService.
pub(crate) async fn fetch(remote: &Remote, question: &Question<'_>) -> Result<Fetched, FetchError> {
    let address = remote.service.address().await.map_err(FetchError::Unresolved)?;
    let unreachable = |why: String| FetchError::Unreachable { address: address.clone(), why };
    let connections = remote.connections.as_ref().map_err(|why| unreachable(why.clone()))?;
    ask(connections, &address, question).await.map_err(unreachable)
}

/// Sends a request to the server of an APIService; returns the status code and the body, which may be without end. The
/// question's timeout is for the headers, its limit is left to the caller.
pub(crate) async fn open(remote: &Remote, question: &Question<'_>) -> Result<(u16, PooledBody), FetchError> {
    let address = remote.service.address().await.map_err(FetchError::Unresolved)?;
    let unreachable = |why: String| FetchError::Unreachable { address: address.clone(), why };
    let connections = remote.connections.as_ref().map_err(|why| unreachable(why.clone()))?;
    let request = request(&address, question).map_err(unreachable)?;
    let sent = tokio::time::timeout(question.timeout, connections.pool.send(&address, request)).await;
    let answer = sent.map_err(|_| unreachable(LATE.to_owned()))?.map_err(|error| unreachable(error.to_string()))?;
    Ok((answer.status().as_u16(), answer.into_body()))
}

/// Go's words for a server that takes too long.
const LATE: &str = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";

/// Sends a request to a server at an address. The error is the reason for a missing response.
pub(crate) async fn ask(connections: &Connections, address: &str, question: &Question<'_>) -> Result<Fetched, String> {
    let request = request(address, question)?;
    let exchange = async {
        let answer = connections.pool.send(address, request).await.map_err(|error| error.to_string())?;
        let (parts, body) = answer.into_parts();
        let body = match question.limit {
            Some(limit) => Limited::new(body, limit).collect().await.map_err(|error| error.to_string())?.to_bytes(),
            None => Bytes::new(),
        };
        Ok(Fetched { code: parts.status.as_u16(), headers: parts.headers, body })
    };
    tokio::time::timeout(question.timeout, exchange).await.map_err(|_| LATE.to_owned())?
}

fn request(address: &str, question: &Question<'_>) -> Result<Request<Body>, String> {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = question.path.parse().map_err(|error| format!("invalid path: {error}"))?;
    let headers = request.headers_mut();
    let put = |headers: &mut HeaderMap, name: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text)
            && !text.is_empty()
        {
            headers.insert(name, value);
        }
    };
    put(headers, HOST, address);
    put(headers, ACCEPT, question.accept);
    put(headers, IF_NONE_MATCH, question.if_none_match);
    put(headers, USER_AGENT, AGENT);
    if question.is_for_peer {
        headers.insert(PEER_PROXIED, HeaderValue::from_static("true"));
    }
    identity::set(headers, question.user)?;
    Ok(request)
}

/// Returns `namespace/name:port`, for the log.
pub(crate) fn shown(remote: &Remote) -> Text {
    format!("{}/{}:{}", remote.service.namespace, remote.service.name, remote.service.port).into()
}
