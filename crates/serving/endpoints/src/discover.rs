//! Discovery documents as responses.

use binnacle_discovery::{Discovery, DiscoveryRequest, DiscoveryResponse};
use binnacle_request::{Body, Request, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, VARY};

use crate::failure;
use crate::negotiate::{self, Encoding};

/// Returns the response to a request for a discovery document; `None` for other paths.
pub fn response(request: &Request, documents: &Discovery) -> Option<Response> {
    let discovery_request = DiscoveryRequest {
        method: request.method.as_str(),
        path: &request.info.path,
        accept: request.header("accept").unwrap_or(""),
        content_type: request.header("content-type").unwrap_or(""),
        if_none_match: request.header("if-none-match").unwrap_or(""),
        client: request.connection.peer.map(|peer| peer.ip()),
    };
    let discovery_response = documents.respond(&discovery_request)?;
    let aggregated = match &discovery_response {
        DiscoveryResponse::Document(document) => document.content_type.contains("as=APIGroupDiscoveryList"),
        DiscoveryResponse::NotModified { .. } => true,
        DiscoveryResponse::NotFound | DiscoveryResponse::Failure(_) => false,
    };
    // kube-apiserver counts only requests for aggregated documents.
    request.record.note(|facts| facts.served |= aggregated);
    Some(match discovery_response {
        DiscoveryResponse::Document(document) => {
            let is_json = document.content_type.starts_with(Encoding::Json.media_type());
            let pretty = is_json && negotiate::pretty_json(request);
            let body = if pretty { indented(&document.body) } else { document.body };
            let mut response = Response::new(Body::full(body));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(document.content_type));
            if let Some(etag) = document.etag {
                set_cache_headers(&mut response, &etag);
            }
            response
        }
        DiscoveryResponse::NotModified { etag } => {
            let mut response = failure::empty(304);
            set_cache_headers(&mut response, &etag);
            response
        }
        DiscoveryResponse::NotFound => failure::plain_not_found(),
        DiscoveryResponse::Failure(status) => failure::response(request, &status),
    })
}

fn set_cache_headers(response: &mut Response, etag: &str) {
    let headers = response.headers_mut();
    if let Ok(etag) = HeaderValue::from_str(etag) {
        headers.insert(ETAG, etag);
    }
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
}

/// Returns an indented copy of a document.
fn indented(document: &[u8]) -> Bytes {
    let mut text = Vec::with_capacity(2 * document.len());
    binnacle_schema::json::indent(document.trim_ascii_end(), &mut text);
    text.into()
}
