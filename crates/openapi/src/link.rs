//! The documents as a link of the server.

use std::time::{Duration, SystemTime};

use binnacle_discovery::Served;
use binnacle_request::{Body, BoxFuture, Link, Request, RequestInfo, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, EXPIRES, LAST_MODIFIED, LOCATION, VARY};
use http::response::Builder;
use http::{HeaderValue, StatusCode};

use crate::{Answer, Ask, OpenApi};

/// Serves `/openapi/v2` and `/openapi/v3`.
pub struct OpenApiLink {
    documents: OpenApi,
    since: SystemTime,
}

const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

impl OpenApiLink {
    pub fn new(served: Served) -> Self {
        Self { documents: OpenApi::new(served), since: SystemTime::now() }
    }

    fn respond(&self, answer: Answer) -> Response {
        let modified = || httpdate::fmt_http_date(self.since);
        match answer {
            // It is put together anew for every request, so it counts as changed just now.
            Answer::Index(body) => finish(
                start(StatusCode::OK)
                    .header(CONTENT_TYPE, "text/plain; charset=utf-8")
                    .header(LAST_MODIFIED, httpdate::fmt_http_date(SystemTime::now())),
                Body::full(body),
            ),
            Answer::Document(document) => finish(
                cached(start(StatusCode::OK), &document.etag, document.immutable)
                    .header(CONTENT_TYPE, document.content_type)
                    .header(LAST_MODIFIED, modified()),
                Body::full(document.body),
            ),
            Answer::NotModified { etag, immutable } => {
                finish(cached(start(StatusCode::NOT_MODIFIED), &etag, immutable), Body::empty())
            }
            Answer::Moved { etag, content_type, location } => finish(
                cached(start(StatusCode::MOVED_PERMANENTLY), &etag, false)
                    .header(CONTENT_TYPE, content_type)
                    .header(LOCATION, location),
                Body::empty(),
            ),
            Answer::NotFound => finish(start(StatusCode::NOT_FOUND), Body::empty()),
            Answer::NotAcceptable => finish(start(StatusCode::NOT_ACCEPTABLE).header(VARY, ACCEPT), Body::empty()),
            Answer::Unavailable => finish(start(StatusCode::SERVICE_UNAVAILABLE).header(VARY, ACCEPT), Body::empty()),
            Answer::Nothing => finish(start(StatusCode::OK).header(VARY, ACCEPT), Body::empty()),
        }
    }
}

const ACCEPT: HeaderValue = HeaderValue::from_static("Accept");

impl Link for OpenApiLink {
    fn claims(&self, info: &RequestInfo) -> bool {
        OpenApi::claims(&info.path)
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            let ask = Ask {
                path: &request.info.path,
                hash: request.query.get("hash").unwrap_or_default(),
                accept: request.header(http::header::ACCEPT).unwrap_or_default(),
                if_none_match: request.header(http::header::IF_NONE_MATCH).unwrap_or_default(),
            };
            self.respond(self.documents.answer(&ask).unwrap_or(Answer::NotFound))
        })
    }

    fn paths(&self) -> Vec<String> {
        ["/openapi/v2", "/openapi/v3", "/openapi/v3/"].map(str::to_owned).into()
    }
}

fn start(status: StatusCode) -> Builder {
    http::Response::builder().status(status)
}

fn cached(response: Builder, etag: &str, immutable: bool) -> Builder {
    let response = response.header(ETAG, etag).header(VARY, ACCEPT);
    if !immutable {
        return response;
    }
    let expires = httpdate::fmt_http_date(SystemTime::now() + A_YEAR);
    response.header(CACHE_CONTROL, "public, immutable").header(EXPIRES, expires)
}

fn finish(response: Builder, body: Body) -> Response {
    // A builder fails only on a header that is none; all of these are ASCII: dates, hashes, media types and URLs of
    // names of groups.
    response.body(body).unwrap_or_else(|_| {
        let mut failed = http::Response::new(Body::empty());
        *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        failed
    })
}
