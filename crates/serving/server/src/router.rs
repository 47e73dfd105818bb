//! The links in the order in which they are asked, and the answer if none of them claims a request.

use std::sync::Arc;

use binnacle_meta::{Status, StatusDetails};
use binnacle_request::{Detour, Link, Preferences, Request, Response};
use http::Method;

use crate::FailureWriter;
use crate::response::{page_not_found, raw_json};

/// The parts of the server; the first that claims a request answers it. Together they make the index at `/`.
#[derive(Clone)]
pub struct Links {
    handlers: Arc<[Arc<dyn Link>]>,
    interceptors: Arc<[Arc<dyn Detour>]>,
    /// Returns true once all links have all their paths.
    complete: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Links {
    pub fn new(handlers: Vec<Arc<dyn Link>>) -> Self {
        Self { handlers: handlers.into(), interceptors: Arc::new([]), complete: Arc::new(|| true) }
    }

    /// Until `complete` is true, clients should retry requests that no link claims, because controllers treat "not
    /// found" as final.
    #[must_use]
    pub fn complete_once(self, complete: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { complete: Arc::new(complete), ..self }
    }

    /// Adds detours, which take requests before the links do.
    #[must_use]
    pub fn with_detours(self, interceptors: Vec<Arc<dyn Detour>>) -> Self {
        Self { interceptors: interceptors.into(), ..self }
    }

    /// Passes the request to the first link that claims it.
    pub(crate) async fn dispatch(&self, request: Request, failure: FailureWriter) -> Response {
        // An answer of success would end HTTP on the connection.
        if request.method == Method::CONNECT {
            return page_not_found();
        }
        if let Some(interceptor) = self.interceptors.iter().find(|interceptor| interceptor.takes(&request)) {
            return interceptor.handle(request).await;
        }
        if let Some(handler) = self.handlers.iter().find(|handler| handler.claims(&request.info)) {
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
