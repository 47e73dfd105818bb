//! Response extensions for the connection, and the texts that a connection itself sends.

use binnacle_request::{Body, Response};
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};

/// Response extension: the connection is closed after this response.
#[derive(Clone, Copy, Debug)]
pub struct CloseConnection;

/// Response extension: the time by which the response must have been sent. Long-running requests have none.
#[derive(Clone, Copy, Debug)]
pub struct SendBy(pub std::time::Instant);

/// Returns a text with status 200.
pub fn plain_text(text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Returns a plain text with an error code; browsers must not sniff another type.
pub fn error_text(code: StatusCode, mut text: String) -> Response {
    text.push('\n');
    let mut response = plain_text(text);
    *response.status_mut() = code;
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
