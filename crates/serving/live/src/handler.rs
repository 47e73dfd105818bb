//! `/debug/live`, with the ticket and the socket below it. All three paths are subject to authorization.

use std::sync::Arc;
use std::time::SystemTime;

use binnacle_request::{Body, BoxFuture, Handler, Request, RequestInfo, Response};
use binnacle_streams::push;
use http::header::{ALLOW, CONTENT_TYPE, HOST, LOCATION, ORIGIN, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Method, StatusCode};

use crate::page::{PAGE, policy};
use crate::sampler::{MAX_PAGES, Sampler};
use crate::ticket::{PREFIX, Tickets, is_own_origin};

const PATH: &str = "/debug/live";
/// The subprotocol of the socket.
const PROTOCOL: &str = "live.binnacle";
const PROTOCOLS: HeaderName = HeaderName::from_static("sec-websocket-protocol");
const HTML: &str = "text/html; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Headers of all responses: browsers neither sniff content types nor embed the responses in other pages.
const SECURITY_HEADERS: [(&str, &str); 6] = [
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("cache-control", "no-store"),
];

/// Serves the page, which is not in the index of paths.
pub struct LiveHandler {
    sampler: Arc<Sampler>,
    tickets: Option<Tickets>,
    policy: HeaderValue,
}

impl LiveHandler {
    pub fn new(sampler: Arc<Sampler>) -> Self {
        // The policy consists of fixed text and base64. The fallback policy would disable the page.
        let policy = HeaderValue::try_from(policy()).unwrap_or(HeaderValue::from_static("default-src 'none'"));
        Self { sampler, tickets: Tickets::new(), policy }
    }

    fn respond(&self, request: Request) -> Response {
        let mut response = match request.info.path.as_str().strip_prefix(PATH).unwrap_or_default() {
            _ if !matches!(request.method, Method::GET | Method::HEAD) => {
                let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                response
            }
            "" => {
                let mut response = response_with(StatusCode::OK, HTML, Body::from(PAGE));
                response.headers_mut().insert("content-security-policy", self.policy.clone());
                response
            }
            "/" => {
                let mut response = text(StatusCode::FOUND, "");
                // Relative, since a proxy may serve the page below another path.
                response.headers_mut().insert(LOCATION, HeaderValue::from_static("../live"));
                response
            }
            "/ticket" => self.ticket(&request),
            "/socket" => return self.socket(request),
            _ => text(StatusCode::NOT_FOUND, "404 page not found"),
        };
        add_security_headers(&mut response);
        response
    }

    fn ticket(&self, request: &Request) -> Response {
        let ticket = self.tickets.as_ref().map(|tickets| tickets.issue(&request.user.name, SystemTime::now()));
        let body = serde_json::json!({ "ticket": ticket, "free": self.sampler.available_pages(), "pages": MAX_PAGES });
        response_with(StatusCode::OK, JSON, Body::from(body.to_string()))
    }

    fn socket(&self, request: Request) -> Response {
        if !self.is_from_own_page(&request) {
            return with_security_headers(text(
                StatusCode::FORBIDDEN,
                "the socket is opened by pages of this server only",
            ));
        }
        let Some(viewer) = self.sampler.open() else {
            let mut response = text(StatusCode::SERVICE_UNAVAILABLE, "too many pages are open");
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
            return with_security_headers(response);
        };
        match push(request, PROTOCOL, viewer.messages()) {
            Ok(response) => response,
            Err(_) => with_security_headers(text(StatusCode::BAD_REQUEST, "WebSockets need HTTP/1.1")),
        }
    }

    /// Returns true if the request comes from a page of this server or not from a browser; browsers always send the
    /// origin.
    fn is_from_own_page(&self, request: &Request) -> bool {
        let origins: Vec<_> = request.headers.get_all(ORIGIN).iter().collect();
        let host = request.header(HOST).unwrap_or_default();
        match origins[..] {
            [] => true,
            [origin] if origin.to_str().is_ok_and(|origin| is_own_origin(origin, host)) => true,
            _ => self.has_ticket(request),
        }
    }

    fn has_ticket(&self, request: &Request) -> bool {
        let Some(tickets) = &self.tickets else { return false };
        let offered = request.headers.get_all(PROTOCOLS).iter().filter_map(|value| value.to_str().ok());
        let mut offered = offered.flat_map(|value| value.split(',')).map(str::trim);
        let ticket = offered.find(|protocol| protocol.starts_with(PREFIX));
        ticket.is_some_and(|ticket| tickets.is_valid(ticket, &request.user.name, SystemTime::now()))
    }
}

impl Handler for LiveHandler {
    fn matches(&self, info: &RequestInfo) -> bool {
        info.path.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move { self.respond(request) })
    }
}

fn response_with(code: StatusCode, kind: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn text(code: StatusCode, text: &'static str) -> Response {
    response_with(code, TEXT, Body::from(text))
}

fn with_security_headers(mut response: Response) -> Response {
    add_security_headers(&mut response);
    response
}

fn add_security_headers(response: &mut Response) {
    for (name, value) in SECURITY_HEADERS {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
}
