//! The HTTP handler of the documents.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use binnacle_meta::{Encodings, Text};
use binnacle_request::{Body, BoxFuture, Handler, Request, RequestInfo, Response};
use binnacle_scheme::{Kinds, ServedResources, Shared};
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, EXPIRES, LAST_MODIFIED, LOCATION, VARY,
};
use http::response::Builder;
use http::{HeaderValue, StatusCode};

use crate::{OpenApi, OpenApiRequest, OpenApiResponse, RemoteDocuments};

/// Serves `/openapi/v2` and `/openapi/v3`.
pub struct OpenApiHandler {
    /// Returns the currently served resources.
    served: Box<dyn Fn() -> Arc<ServedResources> + Send + Sync>,
    /// Returns the documents of remote servers.
    remote_documents: Box<dyn Fn() -> Arc<RemoteDocuments> + Send + Sync>,
    /// The documents as of the last request.
    documents: ArcSwap<OpenApi>,
    last_modified: SystemTime,
}

const ONE_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

impl OpenApiHandler {
    /// `served` returns the currently served resources, `encodings` are those that the server supports, and `release`
    /// is the emulated one. `shows_enums` is false for documents without the values of built-in enums.
    pub fn new(
        served: impl Fn() -> Arc<ServedResources> + Send + Sync + 'static,
        kinds: Shared<dyn Kinds>,
        encodings: Encodings,
        release: impl Into<Text>,
        shows_enums: bool,
    ) -> Self {
        let documents =
            OpenApi::new(served(), kinds).with_encodings(encodings).with_release(release).with_enum_values(shows_enums);
        let documents = ArcSwap::from_pointee(documents);
        let none = Arc::<RemoteDocuments>::default();
        let remote_documents = Box::new(move || none.clone());
        Self { served: Box::new(served), remote_documents, documents, last_modified: SystemTime::now() }
    }

    /// Adds the documents of remote servers to the index. Another handler, which precedes this one, serves them.
    #[must_use]
    pub fn with_remote_documents(
        self,
        remote_documents: impl Fn() -> Arc<RemoteDocuments> + Send + Sync + 'static,
    ) -> Self {
        Self { remote_documents: Box::new(remote_documents), ..self }
    }

    fn documents(&self) -> Arc<OpenApi> {
        let (served, remote_documents, current) =
            ((self.served)(), (self.remote_documents)(), self.documents.load_full());
        if Arc::ptr_eq(current.served(), &served) && Arc::ptr_eq(current.remote_documents(), &remote_documents) {
            return current;
        }
        let documents = Arc::new(current.update(served, remote_documents));
        self.documents.store(documents.clone());
        documents
    }

    fn http_response(&self, response: OpenApiResponse) -> Response {
        let modified = || httpdate::fmt_http_date(self.last_modified);
        match response {
            // kube-apiserver builds the index for every request, so the current time is its modification time.
            OpenApiResponse::Index(body) => finish(
                start(StatusCode::OK)
                    .header(CONTENT_TYPE, "text/plain; charset=utf-8")
                    .header(LAST_MODIFIED, httpdate::fmt_http_date(SystemTime::now())),
                Body::full(body),
            ),
            OpenApiResponse::Document(document) => {
                let mut response = with_cache_headers(start(StatusCode::OK), &document.etag, document.immutable)
                    .header(CONTENT_TYPE, document.content_type)
                    .header(LAST_MODIFIED, modified());
                if document.compressed {
                    response = response.header(CONTENT_ENCODING, "gzip");
                }
                finish(response, Body::pieces(document.body))
            }
            OpenApiResponse::NotModified { etag, immutable } => {
                finish(with_cache_headers(start(StatusCode::NOT_MODIFIED), &etag, immutable), Body::empty())
            }
            OpenApiResponse::Moved { etag, content_type, location } => finish(
                with_cache_headers(start(StatusCode::MOVED_PERMANENTLY), &etag, false)
                    .header(CONTENT_TYPE, content_type)
                    .header(LOCATION, location),
                Body::empty(),
            ),
            OpenApiResponse::NotFound => finish(start(StatusCode::NOT_FOUND), Body::empty()),
            OpenApiResponse::NotAcceptable => {
                finish(start(StatusCode::NOT_ACCEPTABLE).header(VARY, ACCEPT), Body::empty())
            }
            OpenApiResponse::Unavailable => {
                finish(start(StatusCode::SERVICE_UNAVAILABLE).header(VARY, ACCEPT), Body::empty())
            }
            OpenApiResponse::Empty => finish(start(StatusCode::OK).header(VARY, ACCEPT), Body::empty()),
        }
    }
}

/// Returns true for paths whose requests kube-apiserver counts, which are those of v3.
fn is_v3_path(path: &str) -> bool {
    path.strip_prefix("/openapi/v3").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

const ACCEPT: HeaderValue = HeaderValue::from_static("Accept");

impl Handler for OpenApiHandler {
    fn matches(&self, info: &RequestInfo) -> bool {
        OpenApi::is_openapi_path(&info.path)
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        let header = |name| request.header(name).unwrap_or_default().to_owned();
        let (accept, if_none_match) = (header(http::header::ACCEPT), header(http::header::IF_NONE_MATCH));
        let accept_encoding = header(ACCEPT_ENCODING);
        let varies = OpenApi::varies_by_encoding(&request.info.path);
        if is_v3_path(&request.info.path) {
            request.record.note(|facts| facts.served = true);
        }
        let hash = request.query.get("hash").unwrap_or_default().to_owned();
        let (documents, info) = (self.documents(), request.info.clone());
        // The first request for the largest document takes 20 ms or more, which would delay other requests on this
        // thread.
        let respond = move || {
            let request = OpenApiRequest {
                path: &info.path,
                hash: &hash,
                accept: &accept,
                if_none_match: &if_none_match,
                accept_encoding: &accept_encoding,
            };
            documents.respond(&request).unwrap_or(OpenApiResponse::NotFound)
        };
        Box::pin(async move {
            let outcome = tokio::task::spawn_blocking(respond).await;
            let mut response = self.http_response(outcome.unwrap_or(OpenApiResponse::Unavailable));
            if varies {
                response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
            }
            response
        })
    }

    fn paths(&self) -> Vec<String> {
        ["/openapi/v2", "/openapi/v3", "/openapi/v3/"].map(str::to_owned).into()
    }
}

fn start(status: StatusCode) -> Builder {
    http::Response::builder().status(status)
}

fn with_cache_headers(response: Builder, etag: &str, immutable: bool) -> Builder {
    let response = response.header(ETAG, etag).header(VARY, ACCEPT);
    if !immutable {
        return response;
    }
    let expires = httpdate::fmt_http_date(SystemTime::now() + ONE_YEAR);
    response.header(CACHE_CONTROL, "public, immutable").header(EXPIRES, expires)
}

fn finish(response: Builder, body: Body) -> Response {
    // Only invalid headers are errors. All of these are ASCII: dates, hashes, media types and URLs with group names.
    response.body(body).unwrap_or_else(|_| {
        let mut failed = http::Response::new(Body::empty());
        *failed.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        failed
    })
}

#[cfg(test)]
mod tests {
    use binnacle_request::Pieces;
    use bytes::Bytes;

    use super::*;
    use crate::Document;

    #[test]
    fn sets_headers_of_responses() {
        let handler = OpenApiHandler::new(
            Arc::default,
            Shared::Static(&binnacle_scheme::NoKinds),
            Encodings::STANDARD,
            "1.36",
            true,
        );
        let etag = || "\"E\"".to_owned();
        let document = |immutable| Document {
            content_type: "application/json",
            etag: etag(),
            immutable,
            compressed: false,
            body: Pieces::default(),
        };
        for (expected, status, want) in [
            (OpenApiResponse::Index(Bytes::new()), 200, "content-type last-modified"),
            (OpenApiResponse::Document(document(false)), 200, "content-type etag last-modified vary"),
            (
                OpenApiResponse::Document(document(true)),
                200,
                "cache-control content-type etag expires last-modified vary",
            ),
            (OpenApiResponse::NotModified { etag: etag(), immutable: false }, 304, "etag vary"),
            (OpenApiResponse::NotModified { etag: etag(), immutable: true }, 304, "cache-control etag expires vary"),
            (
                OpenApiResponse::Moved {
                    etag: etag(),
                    content_type: "application/json",
                    location: "/x?hash=E".to_owned(),
                },
                301,
                "content-type etag location vary",
            ),
            (OpenApiResponse::NotFound, 404, ""),
            (OpenApiResponse::NotAcceptable, 406, "vary"),
            (OpenApiResponse::Empty, 200, "vary"),
            (OpenApiResponse::Unavailable, 503, "vary"),
        ] {
            let response = handler.http_response(expected.clone());
            let mut names: Vec<_> = response.headers().keys().map(|name| name.as_str()).collect();
            names.sort_unstable();
            assert_eq!((response.status().as_u16(), names.join(" ").as_str()), (status, want), "{expected:?}");
        }
    }
}
