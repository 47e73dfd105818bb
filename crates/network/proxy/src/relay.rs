//! Forwards requests to servers of aggregated APIs, with unchanged paths.

use std::sync::Arc;

use binnacle_client::{Pool, SendError, Target, path};
use binnacle_request::{Body, Request, Response, trace};
use binnacle_streams::{is_upgrade, pass_through};
use http::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue, LOCATION, UPGRADE};
use http::{HeaderMap, StatusCode, Uri};
use rustls::ClientConfig;

use crate::content_type;
use crate::headers;
use crate::metered::metered;
use crate::rewrite::{LinkRewriter, has_links, rewrite_links};
use crate::until_shutdown::{OnBodyError, until_shutdown};

const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// The server that receives the requests.
pub struct Relay<'a> {
    /// The `host:port` to dial, which is also sent as the Host header.
    pub address: &'a str,
    pub pool: &'a Arc<Pool>,
    /// The TLS configuration for upgraded connections, which need HTTP/1.1.
    pub upgrade_tls: &'a Arc<ClientConfig>,
    /// The name that the server's certificate must have.
    pub server_name: &'a str,
    /// True if redirects are rejected: clients would follow them with their credentials (CVE-2022-3172).
    pub rejects_redirects: bool,
}

/// Forwards a request with its path and query, including upgrades. The authorized path is escaped again, so that the
/// backend reads the same path. The error is a message for the client.
pub async fn relay(mut request: Request, to: Relay<'_>) -> Result<Response, String> {
    let escaped = path::escape_path_of(request.uri.path(), &request.info.path);
    // A query that could not be parsed here is not forwarded.
    let query = path::encode_query_of(request.uri.query(), request.query.iter().collect());
    let uri: Uri = format!("{escaped}{query}").parse().map_err(|error| format!("invalid path: {error}"))?;
    let host = HeaderValue::from_str(to.address).map_err(|error| format!("invalid host: {error}"))?;
    if is_upgrade(&request.headers) {
        request.headers.insert(HOST, host);
        let (tls, name) = (Some(to.upgrade_tls.clone()), Some(to.server_name.to_owned()));
        let mut target =
            Target::of_address(to.address, tls, name).map_err(|error| format!("error dialing backend: {error}"))?;
        target.connection = to.pool.connection().clone();
        let upgraded = pass_through(request, &target, &uri.to_string()).await;
        return upgraded.map_err(|status| status.message().to_owned());
    }
    let mut headers = headers::forwarded(&mut request);
    add_forwarded(&mut headers, &escaped, &host);
    headers.insert(HOST, host);
    let (connection, shutdown) = (request.connection.clone(), request.shutdown.clone());
    let mut outgoing = http::Request::new(metered(request.body, &connection));
    *outgoing.method_mut() = request.method;
    *outgoing.uri_mut() = uri;
    *outgoing.headers_mut() = headers;
    headers::announce_body(&mut outgoing);
    let (method, uri) = (outgoing.method().clone(), outgoing.uri().clone());
    let url = || format!("https://{}{uri}", to.address);
    let mut span = trace::begin_request(&method, url, outgoing.headers_mut());
    let answer = to.pool.send(to.address, outgoing).await.map_err(|error| unreachable_message(&error));
    if let Some(span) = &mut span {
        match &answer {
            Ok(answer) => span.answered(answer.status().as_u16()),
            Err(why) => span.fail(why.as_str()),
        }
    }
    drop(span);
    let answer = answer?;
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        // The request did not contain an upgrade, so this is not a valid response.
        let offered = answer.headers().get(UPGRADE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        return Err(format!("backend tried to switch protocol {offered:?} when \"\" was requested"));
    }
    let is_redirect = answer.status().is_redirection() && answer.headers().contains_key(LOCATION);
    if is_redirect && to.rejects_redirects {
        let text = "the backend attempted to redirect this request, which is not permitted";
        let mut refused = Response::new(Body::from(text));
        *refused.status_mut() = StatusCode::BAD_GATEWAY;
        refused.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        return Ok(refused);
    }
    // Detected types are for browsers only, as in Go.
    let links = has_links(answer.headers())
        .then(|| LinkRewriter { prefix: "", source: to.address, requested: to.address, target: to.address }.owned());
    let answer = content_type::with_content_type(answer).await;
    let mut response = answer.map(|body| until_shutdown(Body::new(body), &connection, &shutdown, OnBodyError::Fail));
    *response.version_mut() = http::Version::HTTP_11;
    headers::strip_from_answer(response.headers_mut());
    headers::strip_cors(response.headers_mut());
    headers::leave_length_open(&method, &mut response);
    Ok(match links {
        Some(links) => rewrite_links(response, links),
        None => response,
    })
}

/// Returns the message for a server that cannot be reached.
fn unreachable_message(error: &SendError) -> String {
    format!("error trying to reach service: {error}")
}

/// Adds the headers with path, host and scheme of the original request.
fn add_forwarded(headers: &mut HeaderMap, escaped: &str, host: &HeaderValue) {
    let mut forwarded = path::clean(escaped);
    if escaped.ends_with('/') && !forwarded.ends_with('/') {
        forwarded.push('/');
    }
    if let Ok(value) = HeaderValue::from_str(&forwarded) {
        headers.insert(FORWARDED_URI, value);
    }
    headers.insert(FORWARDED_HOST, host.clone());
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static("https"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_x_forwarded_headers() {
        for (escaped, want) in [("/apis/g/v1/x", "/apis/g/v1/x"), ("/apis//g/../v1/", "/apis/v1/")] {
            let mut headers = HeaderMap::new();
            add_forwarded(&mut headers, escaped, &HeaderValue::from_static("10.0.0.1:443"));
            assert_eq!(headers["x-forwarded-uri"], want);
            assert_eq!(
                (&headers["x-forwarded-host"], &headers["x-forwarded-proto"]),
                (&"10.0.0.1:443".parse().unwrap(), &"https".parse().unwrap())
            );
        }
    }
}
