//! Headers of forwarded requests and responses.

use binnacle_request::{Body, Request, Response};
use binnacle_streams::{complete_headers, strip_hop_by_hop};
use http::header::{CONTENT_LENGTH, EXPECT, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING};
use http::{HeaderMap, Method};
use http_body::Body as _;

/// The headers with which a backend could allow other origins than the API server does.
const CORS: [HeaderName; 4] = [
    HeaderName::from_static("access-control-allow-credentials"),
    HeaderName::from_static("access-control-allow-headers"),
    HeaderName::from_static("access-control-allow-methods"),
    HeaderName::from_static("access-control-allow-origin"),
];

/// Takes the headers of a request for the next server, without the hop-by-hop headers.
pub(crate) fn forwarded(request: &mut Request) -> HeaderMap {
    let mut headers = std::mem::take(&mut request.headers);
    let trailers = headers
        .get(TE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.to_ascii_lowercase().contains("trailers"));
    strip_hop_by_hop(&mut headers);
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    // The listener has already handled it.
    headers.remove(EXPECT);
    complete_headers(&mut headers, &request.uri, request.connection.peer);
    headers
}

/// Removes the hop-by-hop headers of a response, but keeps the announcement of forwarded trailers.
pub(crate) fn strip_from_answer(headers: &mut HeaderMap) {
    let announced: Vec<HeaderValue> = headers.get_all(TRAILER).iter().cloned().collect();
    let is_chunked = headers.contains_key(TRANSFER_ENCODING);
    strip_hop_by_hop(headers);
    if is_chunked {
        headers.extend(announced.into_iter().map(|names| (TRAILER, names)));
    }
}

pub(crate) fn strip_cors(headers: &mut HeaderMap) {
    for name in &CORS {
        headers.remove(name);
    }
}

/// Announces the request body like Go's client: `Content-Length: 0` only for methods that expect a body, and chunked
/// encoding where the HTTP library would otherwise drop a body that it does not expect.
pub(crate) fn announce_body(request: &mut http::Request<Body>) {
    let is_empty = request.body().is_end_stream();
    let sends = matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH);
    let headers = request.headers_mut();
    if is_empty {
        headers.remove(CONTENT_LENGTH);
        if sends {
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
    } else if !headers.contains_key(CONTENT_LENGTH) {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

/// Leaves the length of a response to HEAD open unless the backend sends it.
pub(crate) fn leave_length_open(method: &Method, response: &mut Response) {
    if *method == Method::HEAD && !response.headers().contains_key(CONTENT_LENGTH) {
        *response.body_mut() = Body::of_unknown_length();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(name, value);
        }
        map
    }

    #[test]
    fn keeps_trailer_announcements_of_chunked_responses() {
        let mut headers = map(&[("transfer-encoding", "chunked"), ("trailer", "X-T"), ("connection", "close")]);
        strip_from_answer(&mut headers);
        assert_eq!(headers, map(&[("trailer", "X-T")]));
        let mut headers = map(&[("content-length", "2"), ("trailer", "X-T")]);
        strip_from_answer(&mut headers);
        assert_eq!(headers, map(&[("content-length", "2")]));
    }

    #[test]
    fn announces_bodies_like_go() {
        let chunks = || Body::stream(futures::stream::once(async { Ok::<_, std::io::Error>(bytes::Bytes::from("x")) }));
        let length = |text| Some(("content-length", text));
        let chunked = Some(("transfer-encoding", "chunked"));
        for (method, body, told, want) in [
            (Method::GET, Body::empty(), None, None),
            (Method::GET, Body::empty(), length("0"), None),
            (Method::DELETE, Body::empty(), length("0"), None),
            (Method::POST, Body::empty(), None, length("0")),
            (Method::POST, Body::full("x"), length("1"), length("1")),
            (Method::GET, Body::full("x"), length("1"), length("1")),
            (Method::GET, chunks(), None, chunked),
            (Method::POST, chunks(), None, chunked),
        ] {
            let case = format!("{method} {told:?}");
            let mut request = http::Request::new(body);
            *request.method_mut() = method;
            *request.headers_mut() = map(told.as_slice());
            announce_body(&mut request);
            assert_eq!(*request.headers(), map(want.as_slice()), "{case}");
        }
    }
}
