//! HTTP/1 on one connection.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use binnacle_client::{Meter, MeteredStream};
use binnacle_request::{Body, ConnectionInfo};
use bytes::Bytes;
use http::header::{CONNECTION, EXPECT, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::connections::Connection;
use crate::handlers::{Handlers, OutgoingBody};
use crate::response::{CloseConnection, SendBy, plain_text};
use crate::service::Service;

/// The limit on the headers of one request, as in Go.
const MAX_HEADER_BYTES: usize = 1 << 20;
/// The limit on the number of headers, which Go does not limit; impersonation and proxies may send hundreds.
const MAX_HEADERS: usize = 512;

/// Serves a connection until it ends or is upgraded. When `leave` resolves, it accepts no further requests.
pub(crate) async fn serve<T, S>(
    stream: T,
    handlers: &Handlers<S>,
    info: &Arc<ConnectionInfo>,
    connection: &Arc<Connection>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), hyper::Error>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service,
{
    // The library reads the digits and extensions of chunk sizes without a limit.
    let meter = Meter::default();
    let stream = MeteredStream::new(stream, meter.clone());
    let service = service_fn(|request: Request<Incoming>| {
        let (handlers, info, connection) = (handlers.clone(), info.clone(), connection.clone());
        let meter = meter.clone();
        // Boxed because hyper moves the future several times before polling it.
        Box::pin(async move {
            let active_request = connection.begin_request();
            if let Some(mut rejection) = reject(&request) {
                set_reason_phrase(&mut rejection);
                return Ok::<_, Infallible>(rejection.map(OutgoingBody::Text));
            }
            let request = request.map(|body| RequestBody::body(body, &meter));
            let mut response = handlers.serve(request, info).await;
            match response.status() {
                StatusCode::SWITCHING_PROTOCOLS => meter.upgraded(),
                _ => meter.expect_head(),
            }
            set_reason_phrase(&mut response);
            // Closing an idle connection may race with the next request, which HTTP/1 clients cannot safely retry.
            // `Connection: close` on the last response prevents that.
            let closes = response.status() != StatusCode::SWITCHING_PROTOCOLS
                && (handlers.service.is_shutting_down() || connection.has_large_head());
            if closes || response.extensions().get::<CloseConnection>().is_some() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            if let Some(by) = response.extensions().get::<SendBy>() {
                connection.send_by(by.0);
            }
            // The connection is busy until the response has been handed over, or as long as it is upgraded.
            response.body_mut().hold(active_request);
            Ok(response)
        })
    });
    let mut builder = hyper::server::conn::http1::Builder::new();
    // The timeouts for heads and idle connections are enforced for all connections together.
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEADER_BYTES)
        .title_case_headers(true);
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service).with_upgrades());
    tokio::select! {
        result = serving.as_mut() => result,
        () = shutdown => {
            connection.mark_shutdown();
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    }
}

/// The body of a request, whose data frames refill the allowance for framing bytes.
struct RequestBody {
    body: Incoming,
    meter: Meter,
}

impl RequestBody {
    fn body(body: Incoming, meter: &Meter) -> Body {
        if body.is_end_stream() {
            meter.expect_head();
            return Body::empty();
        }
        meter.expect_body();
        Body::new(Self { body, meter: meter.clone() })
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.meter.delivered(frame.data_ref().map_or(0, Bytes::len));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Returns the response to requests that Go's HTTP server rejects before any handler, with the same text.
fn reject<B>(request: &Request<B>) -> Option<Response<Body>> {
    let headers = request.headers();
    let (code, text) = match () {
        () if headers.get_all(HOST).iter().count() > 1 => (StatusCode::BAD_REQUEST, "400 Bad Request"),
        () if request.version() == Version::HTTP_11
            && request.method() != Method::CONNECT
            && !headers.contains_key(HOST) =>
        {
            (StatusCode::BAD_REQUEST, "400 Bad Request: missing required Host header")
        }
        () if !headers.get(HOST).is_none_or(is_host) => {
            (StatusCode::BAD_REQUEST, "400 Bad Request: malformed Host header")
        }
        () if has_unsupported_coding(headers) => (StatusCode::NOT_IMPLEMENTED, "Unsupported transfer encoding"),
        () if has_unknown_expectation(headers) => (StatusCode::EXPECTATION_FAILED, ""),
        () => return None,
    };
    let mut response = if text.is_empty() { Response::new(Body::empty()) } else { plain_text(text) };
    *response.status_mut() = code;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    Some(response)
}

/// Sets the reason phrase where Go's is older than the library's.
fn set_reason_phrase<B>(response: &mut Response<B>) {
    let phrase: &'static [u8] = match response.status() {
        StatusCode::PAYLOAD_TOO_LARGE => b"Request Entity Too Large",
        StatusCode::RANGE_NOT_SATISFIABLE => b"Requested Range Not Satisfiable",
        _ => return,
    };
    response.extensions_mut().insert(ReasonPhrase::from_static(phrase));
}

/// Returns true if the Expect header has a value other than `100-continue`.
fn has_unknown_expectation(headers: &HeaderMap) -> bool {
    let known = |value: &HeaderValue| {
        value.as_bytes().split(|byte| *byte == b',').any(|one| one.trim_ascii().eq_ignore_ascii_case(b"100-continue"))
    };
    headers.get(EXPECT).is_some_and(|value| !value.is_empty() && !known(value))
}

/// Returns true if the body has a transfer coding other than `chunked`, or several.
fn has_unsupported_coding(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let chunked = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    codings.next().is_some_and(|coding| !chunked(coding)) || codings.next().is_some()
}

/// Returns true if Go accepts all bytes in a Host header: letters, digits and the punctuation of addresses and user
/// information.
fn is_host(value: &HeaderValue) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=@[]_~".contains(byte);
    value.as_bytes().iter().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_requests_like_go() {
        let rejection = |version: Version, method: &str, headers: &[(&'static str, &'static str)]| {
            let mut request = Request::builder().version(version).method(method).uri("/");
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let response = reject(&request.body(()).unwrap())?;
            let text = response.body().whole().unwrap();
            Some((response.status().as_u16(), String::from_utf8(text.to_vec()).unwrap()))
        };
        let rejected = |code: u16, text: &str| Some((code, text.to_owned()));
        let (one, old) = (Version::HTTP_11, Version::HTTP_10);
        let missing = rejected(400, "400 Bad Request: missing required Host header");
        let malformed = rejected(400, "400 Bad Request: malformed Host header");
        let coded = rejected(501, "Unsupported transfer encoding");
        for (version, method, headers, want) in [
            (one, "GET", &[("host", "a:1")][..], None),
            (one, "GET", &[("host", "[::1]:6443")], None),
            (one, "GET", &[("host", "")], None),
            (one, "GET", &[], missing),
            (one, "CONNECT", &[], None),
            (one, "POST", &[("host", "a"), ("expect", "100-Continue")], None),
            (one, "POST", &[("host", "a"), ("expect", "x, 100-continue")], None),
            (one, "POST", &[("host", "a"), ("expect", "")], None),
            (one, "POST", &[("host", "a"), ("expect", "200-ok")], rejected(417, "")),
            (old, "GET", &[], None),
            (one, "GET", &[("host", "a"), ("host", "a")], rejected(400, "400 Bad Request")),
            (one, "GET", &[("host", "a/b")], malformed),
            (one, "POST", &[("host", "a"), ("transfer-encoding", "Chunked")], None),
            (one, "POST", &[("host", "a"), ("transfer-encoding", "gzip, chunked")], coded.clone()),
            (one, "POST", &[("host", "a"), ("transfer-encoding", "gzip")], coded.clone()),
            (one, "POST", &[("host", "a"), ("transfer-encoding", "chunked"), ("transfer-encoding", "chunked")], coded),
        ] {
            assert_eq!(rejection(version, method, headers), want, "{version:?} {method} {headers:?}");
        }
    }
}
