//! Forwards requests and responses, and passes upgrades through.

use binnacle_client::{Target, path};
use binnacle_meta::Status;
use binnacle_request::{Body, Request, Response};
use binnacle_streams::{is_upgrade, pass_through};
use http::header::{HeaderName, HeaderValue, LOCATION};
use http::{Method, StatusCode};

use crate::headers;
use crate::metered::metered;
use crate::rewrite::{LinkRewriter, has_links, rewrite_links};
use crate::until_shutdown::{OnBodyError, until_shutdown};

const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

/// The destination of a forwarded request.
pub struct Forward<'a> {
    pub target: &'a Target,
    /// The decoded path at the target: empty, or starting with a slash.
    pub path: &'a str,
}

/// Forwards a request, including upgrades, and rewrites links in the response to lead through this server. Returns 503
/// if the target cannot be reached.
pub async fn forward(mut request: Request, to: Forward<'_>) -> Result<Response, Status> {
    let mut path = path::clean_keeping_slash(to.path);
    let query = request.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
    if is_upgrade(&request.headers) {
        let path = if path.is_empty() { "/" } else { path.as_str() };
        return pass_through(request, to.target, &format!("{}{query}", path::escape_path(path))).await;
    }
    let own_path = format!("{}{}", request.info.base_path, request.info.path);
    if path.is_empty() && own_path.ends_with('/') {
        path.push('/');
    }
    if path.is_empty() && matches!(request.method, Method::GET | Method::HEAD) {
        // Relative links in the page need the trailing slash (https://issue.k8s.io/4958).
        return Ok(redirect_to(&format!("{}/{query}", path::escape_path(&own_path))));
    }
    let prefix = own_path.strip_suffix(path.as_str()).unwrap_or(&own_path);
    let escaped = path::escape_path(&path);
    let mut headers = headers::forwarded(&mut request);
    let links = LinkRewriter {
        prefix,
        source: &to.target.authority(),
        requested: headers.get(http::header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default(),
        target: "",
    }
    .owned();
    let forwarded_uri = path::clean_keeping_slash(&format!("{prefix}/{escaped}"));
    if let Ok(value) = HeaderValue::from_str(&forwarded_uri) {
        headers.insert(FORWARDED_URI, value);
    }

    let (connection, shutdown) = (request.connection.clone(), request.shutdown.clone());
    let mut outgoing = http::Request::new(metered(request.body, &connection));
    *outgoing.method_mut() = request.method;
    let uri = if escaped.is_empty() { format!("/{query}") } else { format!("{escaped}{query}") };
    *outgoing.uri_mut() = uri.parse().map_err(|_| Status::bad_request("invalid path"))?;
    *outgoing.headers_mut() = headers;
    headers::announce_body(&mut outgoing);
    let method = outgoing.method().clone();
    let answer = binnacle_client::send(to.target, outgoing)
        .await
        .map_err(|error| Status::service_unavailable(format!("error trying to reach service: {error}")))?;

    let mut response = answer.map(|body| until_shutdown(Body::new(body), &connection, &shutdown, OnBodyError::Fail));
    headers::strip_from_answer(response.headers_mut());
    headers::strip_cors(response.headers_mut());
    headers::leave_length_open(&method, &mut response);
    Ok(match has_links(response.headers()) {
        true => rewrite_links(response, links),
        false => response,
    })
}

fn redirect_to(location: &str) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(LOCATION, location);
    }
    response
}
