//! `/configz`: the running configuration, and its differences from the file from which it was loaded.

use std::fmt;
use std::sync::Arc;

use binnacle_request::{Body, BoxFuture, Handler, Request, RequestInfo, Response};
use http::HeaderValue;
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};

const PATH: &str = "/configz";

/// The page, as JSON that is generated per request.
#[derive(Clone)]
pub struct ConfigPage(Arc<dyn Fn() -> String + Send + Sync>);

impl ConfigPage {
    pub fn new(json: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(json))
    }
}

impl fmt::Debug for ConfigPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ConfigPage").finish()
    }
}

impl Handler for ConfigPage {
    fn matches(&self, info: &RequestInfo) -> bool {
        info.path == PATH
    }

    fn handle(&self, _: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            let mut response = Response::new(Body::from((self.0)()));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
            response
        })
    }

    fn paths(&self) -> Vec<String> {
        vec![PATH.to_owned()]
    }
}
