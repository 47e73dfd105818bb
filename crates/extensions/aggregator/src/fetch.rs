//! This server's own requests to other servers.

use std::time::Duration;

use binnacle_client::PooledBody;
use binnacle_meta::Text;
use binnacle_request::{Body, User};
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue, IF_NONE_MATCH, USER_AGENT};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Limited};

use crate::identity;
use crate::remote::{Connections, Remote};

/// The header of requests that a peer has forwarded, which are not forwarded again.
pub(crate) const PEER_PROXIED: HeaderName = HeaderName::from_static("x-kubernetes-peer-proxied");
const AGENT: &str = "Go-http-client/2.0";

/// A request to another server: a GET, or a DELETE if it has options for it.
pub(crate) struct FetchRequest<'a> {
    pub(crate) path: &'a str,
    /// As JSON.
    pub(crate) delete_options: Option<&'static str>,
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
pub(crate) struct FetchResponse {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl FetchResponse {
    /// Returns the code and the beginning of the body of a response that is an error.
    pub(crate) fn failure(&self) -> String {
        let body = self.body.get(..512).unwrap_or(&self.body);
        format!("{}: {}", self.code, String::from_utf8_lossy(body))
    }

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
pub(crate) async fn fetch(remote: &Remote, request: &FetchRequest<'_>) -> Result<FetchResponse, FetchError> {
    let address = remote.service.address().await.map_err(FetchError::Unresolved)?;
    let unreachable = |why: String| FetchError::Unreachable { address: address.clone(), why };
    let connections = remote.connections.as_ref().map_err(|why| unreachable(why.clone()))?;
    send(connections, &address, request).await.map_err(unreachable)
}

/// Sends a request to the server of an APIService; returns the status code and the body, which may be endless. The
/// timeout of the request covers the headers only; its limit is left to the caller.
pub(crate) async fn open_stream(remote: &Remote, request: &FetchRequest<'_>) -> Result<(u16, PooledBody), FetchError> {
    let address = remote.service.address().await.map_err(FetchError::Unresolved)?;
    let unreachable = |why: String| FetchError::Unreachable { address: address.clone(), why };
    let connections = remote.connections.as_ref().map_err(|why| unreachable(why.clone()))?;
    let http_request = build_request(&address, request).map_err(unreachable)?;
    let sent = tokio::time::timeout(request.timeout, connections.pool.send(&address, http_request)).await;
    let response = sent
        .map_err(|_| unreachable(HEADER_TIMEOUT_MESSAGE.to_owned()))?
        .map_err(|error| unreachable(error.to_string()))?;
    Ok((response.status().as_u16(), response.into_body()))
}

/// Go's message for a server that takes too long.
const HEADER_TIMEOUT_MESSAGE: &str = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";

/// Sends a request to a server at an address. The error is the reason for a missing response.
pub(crate) async fn send(
    connections: &Connections,
    address: &str,
    request: &FetchRequest<'_>,
) -> Result<FetchResponse, String> {
    let http_request = build_request(address, request)?;
    let round_trip = async {
        let response = connections.pool.send(address, http_request).await.map_err(|error| error.to_string())?;
        let (parts, body) = response.into_parts();
        let body = match request.limit {
            Some(limit) => Limited::new(body, limit).collect().await.map_err(|error| error.to_string())?.to_bytes(),
            None => Bytes::new(),
        };
        Ok(FetchResponse { code: parts.status.as_u16(), headers: parts.headers, body })
    };
    tokio::time::timeout(request.timeout, round_trip).await.map_err(|_| HEADER_TIMEOUT_MESSAGE.to_owned())?
}

fn build_request(address: &str, request: &FetchRequest<'_>) -> Result<Request<Body>, String> {
    let mut http_request = match request.delete_options {
        None => Request::new(Body::empty()),
        Some(options) => {
            let mut deletion = Request::new(Body::from(Bytes::from_static(options.as_bytes())));
            *deletion.method_mut() = Method::DELETE;
            deletion.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            deletion
        }
    };
    *http_request.uri_mut() = request.path.parse().map_err(|error| format!("invalid path: {error}"))?;
    let headers = http_request.headers_mut();
    let put = |headers: &mut HeaderMap, name: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text)
            && !text.is_empty()
        {
            headers.insert(name, value);
        }
    };
    put(headers, HOST, address);
    put(headers, ACCEPT, request.accept);
    put(headers, IF_NONE_MATCH, request.if_none_match);
    put(headers, USER_AGENT, AGENT);
    if request.is_for_peer {
        headers.insert(PEER_PROXIED, HeaderValue::from_static("true"));
    }
    identity::set(headers, request.user)?;
    Ok(http_request)
}

/// Returns `namespace/name:port`, for the log.
pub(crate) fn service_text(remote: &Remote) -> Text {
    format!("{}/{}:{}", remote.service.namespace, remote.service.name, remote.service.port).into()
}
