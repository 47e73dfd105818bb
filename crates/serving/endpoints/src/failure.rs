//! Responses with a Status.

use std::sync::Arc;

use binnacle_meta::Status;
use binnacle_request::latency::{Part, measure};
use binnacle_request::{AnsweredStatus, Body, Preferences, Request, Response};
use binnacle_schema::{Value, json};
use http::StatusCode;
use http::header::{ACCEPT, HeaderValue, RETRY_AFTER};

use crate::negotiate::{self, Encoding, Encodings, Output};
use crate::respond;

/// Returns a Status in an encoding that the client accepts, or JSON if there is none.
pub(crate) fn response(request: &Request, status: &Status) -> Response {
    of_accept(status, request.headers.get(ACCEPT), negotiate::wants_pretty(request), Encodings::STANDARD)
}

/// Returns a Status by the preferences of a request.
pub fn of_preferences(status: &Status, preferences: &Preferences) -> Response {
    of_accept(status, preferences.accept.as_ref(), preferences.pretty, Encodings::STANDARD)
}

/// As [`of_preferences`], for endpoints that offer CBOR.
pub fn of_preferences_or_cbor(status: &Status, preferences: &Preferences) -> Response {
    of_accept(status, preferences.accept.as_ref(), preferences.pretty, Encodings::new(true))
}

/// Returns a Status in an encoding that the Accept header names and the server supports.
pub(crate) fn of_accept(status: &Status, accept: Option<&HeaderValue>, pretty: bool, encodings: Encodings) -> Response {
    let accept = accept.and_then(|accept| accept.to_str().ok()).unwrap_or("");
    match negotiate::encoding(accept, encodings) {
        Some((encoding, pretty_requested)) => of_encoding(status, encoding, pretty || pretty_requested),
        // If no encoding is accepted, kube-apiserver writes indented JSON.
        None => of_encoding(status, Encoding::Json, true),
    }
}

/// Returns a Status in the negotiated encoding, as for deletes.
pub fn status(output: Output, code: u16, status: &Status) -> Response {
    let mut response = of_encoding(status, output.encoding, output.pretty);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::OK);
    response
}

/// Returns kube-apiserver's response for paths without an API: plain text.
pub(crate) fn plain_not_found() -> Response {
    respond::bytes(404, "text/plain; charset=utf-8", b"404 page not found\n".to_vec())
}

/// Returns a Status in the negotiated encoding.
pub(crate) fn of_encoding(status: &Status, encoding: Encoding, pretty: bool) -> Response {
    let body = match encoding {
        Encoding::Json if pretty => respond::encode(&as_value(status), None, encoding, true),
        Encoding::Json => measure(Part::Serialize, || {
            let mut text = status.to_json();
            text.push('\n');
            text.into_bytes()
        }),
        other => respond::encode(&as_value(status), Some(binnacle_apimachinery::status()), other, false),
    };
    let mut response = respond::bytes(status.code(), encoding.media_type(), body);
    response.extensions_mut().insert(AnsweredStatus(Arc::new(status.clone())));
    if let Some(seconds) = status.details().map(|d| d.retry_after_seconds).filter(|s| *s > 0) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Returns a Status as an object tree.
pub(crate) fn as_value(status: &Status) -> Value {
    // The output of our own encoder is valid.
    json::parse(status.to_json().as_bytes(), &binnacle_schema::Limits::default()).unwrap_or_default()
}

/// Returns a response without a body.
pub(crate) fn empty(code: u16) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response
}
