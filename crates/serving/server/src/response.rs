//! Responses of the server itself: rejections, plain texts, small JSON documents.

use std::sync::Arc;

use binnacle_meta::Status;
use binnacle_request::{AnsweredStatus, Body, Preferences, Response};
pub(crate) use binnacle_transport::{CloseConnection, SendBy, error_text, plain_text};
use http::header::{CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};

/// Converts a Status to a response in an encoding that the client accepts.
pub type FailureWriter = fn(&Status, &Preferences) -> Response;

/// The reason why a filter rejected a request.
#[derive(Debug)]
pub(crate) enum Rejection {
    /// A Status in the encoding that the client prefers.
    Status(Status),
    /// A Status whose message quotes the client's input: browsers must not sniff another type.
    Quoting(Status),
    /// A Status for an unauthenticated caller, whose HTTP/2 connection is closed. HTTP/2 is easily abused
    /// (CVE-2023-44487), so such callers lose the connection, as in kube-apiserver
    /// (`UnauthenticatedHTTP2DOSMitigation`).
    StatusThenClose(Status),
    /// The server is too busy or shutting down; the client should retry.
    RetryAfter { code: StatusCode, text: &'static str, seconds: u32, close: bool },
    /// A plain text, as Go's `http.Error` writes it.
    Text(StatusCode, String),
}

impl From<Status> for Rejection {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl Rejection {
    pub(crate) fn into_response(self, write: FailureWriter, preferences: &Preferences) -> Response {
        match self {
            Self::Status(status) => write(&status, preferences),
            Self::Quoting(status) => {
                let mut response = write(&status, preferences);
                response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
                response
            }
            Self::StatusThenClose(status) => {
                let mut response = write(&status, preferences);
                response.extensions_mut().insert(CloseConnection);
                response
            }
            Self::RetryAfter { code, text, seconds, close } => {
                let mut response = error_text(code, text.to_owned());
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
                if close {
                    response.extensions_mut().insert(CloseConnection);
                }
                response
            }
            Self::Text(code, text) => error_text(code, text),
        }
    }
}

/// Response extension: the response was built before auditing started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuditExempt;

/// Response extension: the message of the panic whose response this is.
#[derive(Clone, Debug)]
pub(crate) struct PanicMessage(pub(crate) String);

/// Returns a Status as JSON, regardless of Accept headers: the failure writer of a server whose handlers produce only
/// JSON.
pub fn json_failure(status: &Status, _: &Preferences) -> Response {
    let mut text = status.to_json();
    text.push('\n');
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::from_u16(status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.extensions_mut().insert(AnsweredStatus(Arc::new(status.clone())));
    if let Some(seconds) = status.details().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Returns the response for paths without a handler.
pub(crate) fn page_not_found() -> Response {
    error_text(StatusCode::NOT_FOUND, "404 page not found".to_owned())
}

/// Returns a document that is not an API object, indented as in kube-apiserver.
pub(crate) fn raw_json(document: &serde_json::Value) -> Response {
    let mut response = Response::new(Body::from(format!("{document:#}")));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
