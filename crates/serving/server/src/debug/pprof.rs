//! `/debug/pprof/`: profiles of this process for `go tool pprof`, with Go's paths and parameters.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use binnacle_request::{Body, BoxFuture, Handler, Query, Request, RequestInfo, Response};
use binnacle_telemetry::profiles::{CpuError, Stacks};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderName, LOCATION, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, StatusCode};

use super::below;
use crate::response::{error_text, plain_text};

const PATH: &str = "/debug/pprof";
/// Go's default duration.
const DEFAULT_SECONDS: u64 = 30;
/// The maximum duration of a profile.
const MAX_SECONDS: u64 = 3600;
/// The size of the program in which names are looked up, in bytes.
const SYMBOL_LOOKUP_BYTES: usize = 32 << 20;
/// The limit on addresses in a symbol request.
const MAX_SYMBOLS: usize = 10_000;
const FAILED: HeaderName = HeaderName::from_static("x-go-pprof");

/// Returns a profile of the memory in use, in pprof's format, or an error message. It may take a second.
#[derive(Clone)]
pub struct HeapProfile(Arc<dyn Fn() -> Result<Vec<u8>, String> + Send + Sync>);

impl HeapProfile {
    pub fn new(build: impl Fn() -> Result<Vec<u8>, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(build))
    }
}

impl fmt::Debug for HeapProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeapProfile")
    }
}

/// Serves profiles, which are not in the index of paths.
#[derive(Clone, Default)]
pub struct PprofHandler {
    heap: Option<HeapProfile>,
}

/// The profiles, each with its description in the index.
const PROFILES: [(&str, &str); 6] = [
    (
        "goroutine",
        "Tasks of the runtime: those that go on for as long as the server by name, all others in one number.",
    ),
    ("heap", "Memory in use, where the allocator was told to take samples (_RJEM_MALLOC_CONF=prof:true)."),
    ("profile", "Processor time. How long samples are taken is given in seconds; 30 if not set."),
    ("symbol", "Names of addresses, 0x1234+0x5678 in the query or the body."),
    ("threadcreate", "Threads by name."),
    ("cmdline", "The command line; on the socket of --debug-socket-path only, as with the Go server."),
];

impl PprofHandler {
    /// Returns the handler; without `heap` there are no memory profiles.
    pub fn new(heap: Option<HeapProfile>) -> Self {
        Self { heap }
    }

    pub(super) fn matches_path(path: &str) -> bool {
        below(path, PATH).is_some()
    }

    /// Handles a request. `raw` is the raw query; `body` is only read if needed.
    pub(super) async fn respond(
        &self,
        method: &Method,
        path: &str,
        raw: &str,
        body: impl Future<Output = String>,
    ) -> Response {
        let Some(name) = below(path, PATH).and_then(|rest| rest.strip_prefix('/')) else {
            let mut response = Response::new(Body::default());
            *response.status_mut() = StatusCode::FOUND;
            response.headers_mut().insert(LOCATION, HeaderValue::from_static("/debug/pprof/"));
            return response;
        };
        let query = &Query::parse(raw);
        let is_text = query.get("debug").is_some_and(|debug| !matches!(debug, "" | "0"));
        match name {
            "" => index(),
            "profile" => cpu(query).await,
            "symbol" => {
                let addresses = if method == Method::POST { body.await } else { raw.to_owned() };
                text(symbols(&addresses))
            }
            "goroutine" | "threadcreate" | "heap" if query.get("seconds").is_some() => {
                failure(StatusCode::BAD_REQUEST, "\"seconds\" parameter is not supported for this profile type")
            }
            "goroutine" => stacks(name, &binnacle_telemetry::profiles::tasks(), is_text),
            "threadcreate" => match binnacle_telemetry::profiles::threads() {
                Ok(threads) => stacks(name, &threads, is_text),
                Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
            },
            "heap" => self.heap().await,
            "trace" => failure(
                StatusCode::NOT_IMPLEMENTED,
                "There are no execution traces: see --tracing-config-file for spans of requests, or use perf on the process",
            ),
            _ => failure(StatusCode::NOT_FOUND, "Unknown profile"),
        }
    }

    async fn heap(&self) -> Response {
        let Some(heap) = self.heap.clone() else { return failure(StatusCode::NOT_FOUND, "Unknown profile") };
        match tokio::task::spawn_blocking(move || (heap.0)()).await {
            Ok(Ok(profile)) => attachment("heap", profile),
            Ok(Err(why)) => failure(StatusCode::NOT_IMPLEMENTED, &why),
            Err(error) => failure(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        }
    }
}

impl Handler for PprofHandler {
    fn matches(&self, info: &RequestInfo) -> bool {
        Self::matches_path(&info.path)
    }

    fn handle(&self, mut request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            let (method, uri, info) = (request.method.clone(), request.uri.clone(), request.info.clone());
            let body = async {
                let body = request.read_body(MAX_SYMBOLS * 19).await.unwrap_or_default();
                String::from_utf8_lossy(&body).into_owned()
            };
            // Names are looked up in the whole program, which takes long.
            binnacle_work::large(SYMBOL_LOOKUP_BYTES).await;
            self.respond(&method, &info.path, uri.query().unwrap_or_default(), body).await
        })
    }
}

async fn cpu(query: &Query) -> Response {
    let seconds = query.get("seconds").and_then(|text| text.parse().ok()).filter(|seconds| *seconds > 0);
    let seconds = seconds.unwrap_or(DEFAULT_SECONDS).min(MAX_SECONDS);
    match binnacle_telemetry::profiles::cpu(Duration::from_secs(seconds)).await {
        Ok(profile) => attachment("profile", profile),
        Err(error @ (CpuError::Busy | CpuError::Failed(_))) => {
            failure(StatusCode::INTERNAL_SERVER_ERROR, &format!("Could not enable CPU profiling: {error}"))
        }
    }
}

/// Returns symbols in pprof's own protocol: a line that symbols are available, then a line per address.
fn symbols(addresses: &str) -> String {
    let mut text = "num_symbols: 1\n".to_owned();
    for address in addresses.split('+').take(MAX_SYMBOLS) {
        let address = address.trim().strip_prefix("0x").and_then(|hex| usize::from_str_radix(hex, 16).ok());
        if let Some((address, name)) =
            address.and_then(|address| Some((address, binnacle_telemetry::profiles::function_name(address)?)))
        {
            text.push_str(&format!("{address:#x} {name}\n"));
        }
    }
    text
}

fn stacks(name: &str, stacks: &Stacks, is_text: bool) -> Response {
    if is_text { text(stacks.text(name)) } else { attachment(name, stacks.encode()) }
}

fn index() -> Response {
    let mut page =
        "<html>\n<head>\n<title>/debug/pprof/</title>\n</head>\n<body>\n/debug/pprof/<br>\n<br>\n<table>\n".to_owned();
    for (name, description) in PROFILES {
        page.push_str(&format!("<tr><td><a href='{name}'>{name}</a></td><td>{description}</td></tr>\n"));
    }
    page.push_str("</table>\n</body>\n</html>\n");
    let mut response = Response::new(Body::from(page));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub(super) fn text(text: String) -> Response {
    let mut response = plain_text(text);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

fn attachment(name: &str, profile: Vec<u8>) -> Response {
    let mut response = Response::new(Body::full(profile));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(disposition) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    response
}

fn failure(code: StatusCode, why: &str) -> Response {
    let mut response = error_text(code, why.to_owned());
    response.headers_mut().insert(FAILED, HeaderValue::from_static("1"));
    response
}
