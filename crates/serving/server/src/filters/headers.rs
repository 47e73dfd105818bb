//! The headers of every response.

use binnacle_meta::go_quote;
use binnacle_request::{Body, Record, Response};
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, STRICT_TRANSPORT_SECURITY, WARNING};
use http::{HeaderName, HeaderValue, StatusCode};
use http_body::Body as _;

pub(crate) static AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Adds the headers that operators configure.
pub(crate) fn add_configured(response: &mut Response, hsts: Option<&HeaderValue>, origin: Option<HeaderValue>) {
    let headers = response.headers_mut();
    if let Some(hsts) = hsts {
        headers.entry(STRICT_TRANSPORT_SECURITY).or_insert_with(|| hsts.clone());
    }
    if let Some(origin) = origin {
        super::cors::allow(headers, origin);
    }
}

/// Adds the audit ID, and `Cache-Control`: caches must not store responses, because everything is subject to
/// authorization.
pub(crate) fn add_standard(mut response: Response, record: &Record, is_head: bool) -> Response {
    let status = response.status().as_u16();
    let mut warnings = Vec::new();
    record.note(|facts| {
        facts.status = status;
        warnings = std::mem::take(&mut facts.warnings);
    });
    for text in &warnings {
        if let Ok(value) = HeaderValue::try_from(format!("299 - {}", go_quote(text))) {
            response.headers_mut().append(WARNING, value);
        }
    }
    if is_head {
        // HTTP/2 needs it too, because its library ignores the method.
        let length = response.body().size_hint().exact();
        let has_length = length.is_some() || response.headers().contains_key(CONTENT_LENGTH);
        // For an empty body, the HTTP/1 library would announce a length of zero.
        *response.body_mut() = if has_length { Body::empty() } else { Body::of_unknown_length() };
        if let Some(length) = length.filter(|_| response.status() != StatusCode::NO_CONTENT) {
            response.headers_mut().entry(CONTENT_LENGTH).or_insert(HeaderValue::from(length));
        }
    }
    let headers = response.headers_mut();
    if !headers.contains_key(&AUDIT_ID)
        && let Ok(id) = HeaderValue::from_bytes(record.audit_id().as_bytes())
    {
        headers.insert(&AUDIT_ID, id);
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    response
}
