//! The router: tries the handlers in order, and responds if none of them matches.

use std::sync::Arc;

use binnacle_meta::{Status, StatusDetails};
use binnacle_request::{Handler, Interceptor, Preferences, Request, Response};
use http::Method;

use crate::FailureWriter;
use crate::response::{page_not_found, raw_json};

/// The handlers of the server; the first that matches serves the request. Their paths form the index at `/`.
#[derive(Clone)]
pub struct Router {
    handlers: Arc<[Arc<dyn Handler>]>,
    interceptors: Arc<[Arc<dyn Interceptor>]>,
    /// Returns true once all handlers have all their paths.
    complete: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Router {
    pub fn new(handlers: Vec<Arc<dyn Handler>>) -> Self {
        Self { handlers: handlers.into(), interceptors: Arc::new([]), complete: Arc::new(|| true) }
    }

    /// Until `complete` returns true, clients should retry requests without a handler, because controllers treat "not
    /// found" as permanent.
    #[must_use]
    pub fn complete_once(self, complete: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { complete: Arc::new(complete), ..self }
    }

    /// Adds interceptors, which are tried before the handlers.
    #[must_use]
    pub fn with_interceptors(self, interceptors: Vec<Arc<dyn Interceptor>>) -> Self {
        Self { interceptors: interceptors.into(), ..self }
    }

    /// Passes the request to the first handler that matches.
    pub(crate) async fn dispatch(&self, request: Request, failure: FailureWriter) -> Response {
        // A successful response would end HTTP on the connection.
        if request.method == Method::CONNECT {
            return page_not_found();
        }
        if let Some(interceptor) = self.interceptors.iter().find(|interceptor| interceptor.intercepts(&request)) {
            return interceptor.handle(request).await;
        }
        if let Some(handler) = self.handlers.iter().find(|handler| handler.matches(&request.info)) {
            return handler.handle(request).await;
        }
        match request.info.path.as_str() {
            "" | "/" | "/index.html" => self.index(),
            _ if !(self.complete)() => {
                let why = "the request has been made before all known HTTP paths have been installed, please try again";
                let details = StatusDetails { retry_after_seconds: 5, ..StatusDetails::default() };
                let status = Status::service_unavailable(why).with_details(details);
                failure(&status, &Preferences::of(&request.headers, &request.query))
            }
            _ => page_not_found(),
        }
    }

    fn index(&self) -> Response {
        let mut paths: Vec<String> = self.handlers.iter().flat_map(|handler| handler.paths()).collect();
        paths.sort_unstable();
        paths.dedup();
        raw_json(&serde_json::json!({ "paths": paths }))
    }
}
