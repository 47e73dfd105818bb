//! Forwarding of requests to the servers of APIServices.

use std::time::Duration;

use binnacle_endpoints::failure_response;
use binnacle_meta::Status;
use binnacle_request::{Body, Preferences, Request, RequestInfo, Response, served_remotely};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};

use crate::aggregator::Inner;
use crate::forward::{Destination, ForwardError, ForwardMark, forward};
use crate::remote::Remote;

/// The timeout for a server's discovery document, for which clients wait.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(5);
const LOOP_MESSAGE: &str =
    "this server has handed the request on before: its APIServices and those of others lead in a circle";

impl Inner {
    /// Forwards a request. This server's own error responses are plain text, as in Go.
    pub(crate) async fn proxy(&self, request: Request, remote: &Remote) -> Response {
        if let Err(refusal) = release_seat(&request) {
            return *refusal;
        }
        match self.try_proxy(request, remote).await {
            Ok(response) => response,
            Err((code, text)) => error_text(code, text),
        }
    }

    async fn try_proxy(&self, request: Request, remote: &Remote) -> Result<Response, (StatusCode, String)> {
        const UNAVAILABLE: StatusCode = StatusCode::SERVICE_UNAVAILABLE;
        let record = request.record.clone();
        let refuse = |code: StatusCode, text: &str| {
            record.note(|facts| facts.given_up_by = Some("aggregator"));
            (code, text.to_owned())
        };
        let unavailable = || refuse(UNAVAILABLE, "service unavailable");
        if !remote.is_available {
            return Err(unavailable());
        }
        let connections = remote.connections.as_ref();
        let connections = connections.map_err(|why| refuse(StatusCode::INTERNAL_SERVER_ERROR, why))?;
        let address = remote.service.address().await.map_err(|why| {
            tracing::error!("error resolving {}/{}: {why}", remote.service.namespace, remote.service.name);
            unavailable()
        })?;
        let is_discovery = is_discovery(&request.info);
        let to = Destination {
            address: &address,
            connections,
            mark: ForwardMark::Hop(&self.hop),
            rejects_redirects: self.rejects_redirects,
        };
        let response = forward(request, to);
        let response = match is_discovery {
            true => tokio::time::timeout(DISCOVERY_TIMEOUT, response)
                .await
                .map_err(|_| (UNAVAILABLE, "error trying to reach service: context deadline exceeded".to_owned()))?,
            false => response.await,
        };
        response.map_err(|error| match error {
            ForwardError::Loop => refuse(StatusCode::LOOP_DETECTED, LOOP_MESSAGE),
            ForwardError::Unreachable(text) => (UNAVAILABLE, text),
        })
    }
}

/// Releases the seat of a request that is about to be forwarded.
///
/// # Errors
/// Returns the response to a caller that already has too many requests at other servers.
pub(crate) fn release_seat(request: &Request) -> Result<(), Box<Response>> {
    served_remotely(&request.info).map_err(|error| {
        let preferences = Preferences::of(&request.headers, &request.query);
        Box::new(failure_response(&Status::from(error), &preferences))
    })
}

/// Returns true for `/apis/GROUP/VERSION`.
fn is_discovery(info: &RequestInfo) -> bool {
    !info.is_resource_request && info.path.trim_matches('/').split('/').count() == 3
}

/// Returns an error response as plain text, with the header that keeps browsers from guessing another type.
pub(crate) fn error_text(code: StatusCode, mut text: String) -> Response {
    text.push('\n');
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests;
