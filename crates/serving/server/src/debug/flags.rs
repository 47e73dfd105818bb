//! `/debug/flags`: flags that can be set while the server runs.

use std::fmt::{self, Write};
use std::sync::Arc;

use binnacle_request::{Body, BoxFuture, Handler, Request, RequestInfo, Response};
use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, StatusCode};

use super::below;

const PATH: &str = "/debug/flags";
/// The maximum length of a value, in bytes.
const MAX_VALUE_BYTES: usize = 1 << 10;

/// Sets a value and returns a message about the result.
type Setter = Arc<dyn Fn(&str) -> Result<String, String> + Send + Sync>;

/// A flag that can be set.
#[derive(Clone)]
pub struct DebugFlag {
    name: &'static str,
    set: Setter,
}

impl DebugFlag {
    pub fn new(name: &'static str, set: impl Fn(&str) -> Result<String, String> + Send + Sync + 'static) -> Self {
        Self { name, set: Arc::new(set) }
    }
}

impl fmt::Debug for DebugFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DebugFlag").field(&self.name).finish()
    }
}

/// Serves the flags, which are not in the index of paths.
#[derive(Clone)]
pub struct DebugFlagsHandler(pub Vec<DebugFlag>);

impl DebugFlagsHandler {
    fn page(&self) -> Response {
        let mut page = "<html>\n<head>\n<title>/debug/flags/</title>\n</head>\n<body>\n/debug/flags/<br>\n<br>\nflags:<br>\n<table>\n"
            .to_owned();
        for flag in &self.0 {
            // Writing to a string cannot fail.
            let _ = writeln!(page, "<tr>{}<br>", flag.name);
        }
        page.push_str("</table>\n<br>\nfull flags configurable<br>\n</body>\n</html>\n");
        let mut response = Response::new(Body::from(page));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        response
    }

    pub(super) fn matches_path(path: &str) -> bool {
        below(path, PATH).is_some()
    }

    /// Handles a request. `body` is only read if needed.
    pub(super) async fn respond(
        &self,
        method: &Method,
        path: &str,
        body: impl Future<Output = Result<String, String>>,
    ) -> Response {
        let name = below(path, PATH).and_then(|rest| rest.strip_prefix('/')).unwrap_or_default();
        match self.0.iter().find(|flag| flag.name == name) {
            Some(flag) => Self::set(flag, method, body).await,
            None => self.page(),
        }
    }

    async fn set(flag: &DebugFlag, method: &Method, body: impl Future<Output = Result<String, String>>) -> Response {
        if method != Method::PUT {
            return text_response(StatusCode::NOT_ACCEPTABLE, "unsupported http method");
        }
        let body = match body.await {
            Ok(body) => body,
            Err(error) => {
                return text_response(StatusCode::BAD_REQUEST, &format!("error reading request body: {error}"));
            }
        };
        match (flag.set)(&body) {
            Ok(text) => text_response(StatusCode::OK, &text),
            Err(why) => text_response(StatusCode::BAD_REQUEST, &why),
        }
    }
}

fn text_response(code: StatusCode, text: &str) -> Response {
    let mut response = Response::new(Body::from(format!("{text}\n")));
    *response.status_mut() = code;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

impl Handler for DebugFlagsHandler {
    fn matches(&self, info: &RequestInfo) -> bool {
        Self::matches_path(&info.path)
    }

    fn handle(&self, mut request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            let (method, info) = (request.method.clone(), request.info.clone());
            let body = async {
                let body = request.read_body(MAX_VALUE_BYTES).await.map_err(|error| error.to_string())?;
                Ok(String::from_utf8_lossy(&body).into_owned())
            };
            self.respond(&method, &info.path, body).await
        })
    }
}
