//! A client for one target, with persistent connections.

use std::error::Error as _;
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_client::{Flaws, Meter, is_unprocessed, webhook_certificates};
use binnacle_egress::RelayExecutor;
use binnacle_meta::{GoDuration, GroupResource, Status, StatusReason};
use binnacle_request::trace;
use binnacle_work::{BudgetError, Caller, WorkBudget, WorkLimits, allocate, current};
use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper_util::client::legacy::Client as Pool;
use hyper_util::rt::TokioTimer;
use parking_lot::Mutex;

use crate::body_pieces::BodyPieces;
use crate::connector::{ConnectError, Connector};
use crate::credential::Credential;
use crate::metrics::RequestObserver;
use crate::target::{Target, TargetError};
use crate::tls;

/// The maximum size of a response body.
const MAX_ANSWER: usize = 8 << 20;
/// The maximum number of bytes of an unsuccessful response in an error message, as in Go's client.
const MAX_SHOWN_BYTES: usize = 2048;
/// The interval after which a token file is read again.
const TOKEN_TTL: Duration = Duration::from_secs(60);
/// The time after which an idle connection is closed.
const IDLE: Duration = Duration::from_secs(90);
/// The maximum number of idle connections, as in Go's client.
const MAX_IDLE: usize = 25;
const AGENT: &str = concat!("kube-apiserver/v1.36 (binnacle/", env!("CARGO_PKG_VERSION"), ")");

/// A client for one target. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct Client {
    pool: Pool<Connector, BodyPieces>,
    target: Arc<Target>,
    timeout: Duration,
    /// The URL of the target, with the timeout as a query parameter for the server.
    url: Uri,
    agent: HeaderValue,
    token: Arc<Mutex<Option<(HeaderValue, Instant)>>>,
}

/// A successful response.
#[derive(Clone, Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Released when the response is dropped.
    pub(crate) _memory: MemoryReservation,
}

/// The maximum number of attempts of a call that the webhook does not process because its connection is closing.
const ATTEMPTS: usize = 6;

/// Errors of calls.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebhookError {
    /// The request got no response: `Post "https://...": dial tcp ...`.
    #[error("{message}")]
    Connection { message: String, reset: bool },
    /// The response did not arrive in time.
    #[error("{message}")]
    TimedOut { message: String },
    /// The response reports a failure.
    #[error("{message}")]
    Status {
        code: u16,
        message: String,
        retry_after: Option<u32>,
        /// The Status if the code is 403: some callers return it unchanged.
        forbidden: Option<Box<Status>>,
    },
    /// The response exceeds the size limit.
    #[error("{message}")]
    TooLarge { message: String },
    /// The response cannot be decoded.
    #[error("{0}")]
    Malformed(String),
}

impl WebhookError {
    /// Returns true if a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connection { reset, .. } => *reset,
            Self::Status { code, retry_after, .. } => matches!(code, 429 | 500 | 504) || retry_after.is_some(),
            Self::TimedOut { .. } | Self::TooLarge { .. } | Self::Malformed(_) => false,
        }
    }

    /// Returns the status code of the response, if there was one.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            _ => None,
        }
    }
}

impl Client {
    /// Creates a client. `timeout` limits one call, including reading the response.
    pub fn new(target: Target, timeout: Duration) -> Result<Self, TargetError> {
        let connector = Connector {
            tls: Arc::new(tls::config(&target)?),
            server_name: target.server_name.clone(),
            service: target.service.clone(),
            dialer: target.dialer.clone(),
        };
        let pool = Pool::builder(RelayExecutor)
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MAX_IDLE)
            .build(connector);
        let url = with_timeout(&target.url, timeout)?;
        let agent = HeaderValue::from_static(AGENT);
        Ok(Self { pool, target: Arc::new(target), timeout, url, agent, token: Arc::default() })
    }

    /// Replaces the `User-Agent`.
    #[must_use]
    pub fn named(self, agent: &'static str) -> Self {
        Self { agent: HeaderValue::from_static(agent), ..self }
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Posts a JSON document to the target's URL.
    pub async fn post(&self, json: impl Into<Bytes>) -> Result<Answer, WebhookError> {
        self.send(Method::POST, self.url.clone(), json.into(), self.authorization(), self.timeout).await
    }

    /// Posts a JSON document with its own time limit, which is also sent to the target, in whole seconds. With `None`,
    /// the target gets no timeout, and the client's own limit applies.
    pub async fn post_within(&self, json: impl Into<Bytes>, left: Option<Duration>) -> Result<Answer, WebhookError> {
        let Some(left) = left else {
            return self
                .send(Method::POST, self.target.url.clone(), json.into(), self.authorization(), self.timeout)
                .await;
        };
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let url = with_timeout(&self.target.url, Duration::from_secs(seconds));
        let url = url.map_err(|error| WebhookError::Malformed(error.to_string()))?;
        self.send(Method::POST, url, json.into(), self.authorization(), left).await
    }

    /// Fetches a document from a URL of the server.
    pub async fn get(&self, url: Uri) -> Result<Answer, WebhookError> {
        self.send(Method::GET, url, Bytes::new(), self.authorization(), self.timeout).await
    }

    /// Like [`Client::get`], with a credential other than the target's.
    pub async fn get_as(&self, url: Uri, authorization: Option<HeaderValue>) -> Result<Answer, WebhookError> {
        let authorization = authorization.map(|mut value| {
            value.set_sensitive(true);
            value
        });
        self.send(Method::GET, url, Bytes::new(), authorization, self.timeout).await
    }

    async fn send(
        &self,
        method: Method,
        url: Uri,
        body: Bytes,
        authorization: Option<HeaderValue>,
        timeout: Duration,
    ) -> Result<Answer, WebhookError> {
        let verb = if method == Method::POST { "Post" } else { "Get" };
        let shown = url.to_string();
        let malformed = |error: http::Error| WebhookError::Malformed(format!("{verb} \"{shown}\": {error}"));
        let url = match &self.target.own {
            Some(loopback) => loopback.own_url(url),
            None => url,
        };
        let mut request = Request::builder()
            .method(method)
            .uri(url)
            .header(ACCEPT, "application/json, */*")
            .header(USER_AGENT, self.agent.clone());
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(value) = authorization {
            request = request.header(AUTHORIZATION, value);
        }
        let size = body.len();
        let mut request = request.body(BodyPieces(body)).map_err(malformed)?;
        let observer = RequestObserver::start(request.method(), request.uri(), size);
        let started = Instant::now();
        let method = request.method().clone();
        let mut span = trace::begin_request(&method, || shown.clone(), request.headers_mut());
        let failed = |error: &str, reset: bool| WebhookError::Connection {
            message: format!("{verb} \"{shown}\": {error}"),
            reset,
        };
        let exchange = async {
            let _turn = match &self.target.own {
                Some(loopback) => loopback.acquire().await,
                None => None,
            };
            let mut attempts = 1;
            let response = loop {
                match self.pool.request(request.clone()).await {
                    // The connection is closing and the webhook has not processed the request.
                    Err(error) if is_unprocessed(&error) && attempts < ATTEMPTS => attempts += 1,
                    response => break response,
                }
            };
            let response = response.map_err(|error| {
                let connect = error.source().and_then(|source| source.downcast_ref::<ConnectError>());
                match connect {
                    Some(connect) => failed(&connect.message, connect.reset),
                    None => failed(&root_cause(&error), is_reset(&error)),
                }
            })?;
            if let Some(flaws) = response.extensions().get::<Flaws>() {
                webhook_certificates().answered(*flaws);
            }
            read(response).await
        };
        let outcome = tokio::time::timeout(timeout, exchange).await;
        let answer = outcome.as_ref().ok().map(Result::as_ref);
        let code = answer.and_then(|answer| answer.map_or_else(WebhookError::code, |answer| Some(answer.code)));
        let received = answer.and_then(Result::ok).map(|answer| answer.body.len());
        observer.finish(code, received, started.elapsed());
        if let Some(span) = &mut span {
            match &outcome {
                Ok(Ok(answer)) => span.answered(answer.code),
                Ok(Err(error)) => span.fail(error.to_string()),
                Err(_) => span.fail("context deadline exceeded"),
            }
        }
        match outcome {
            Ok(outcome) => outcome,
            Err(_) => Err(WebhookError::TimedOut { message: format!("{verb} \"{shown}\": context deadline exceeded") }),
        }
    }

    fn authorization(&self) -> Option<HeaderValue> {
        let mut value = match &self.target.credential {
            Credential::None => None,
            Credential::Bearer(token) => HeaderValue::try_from(format!("Bearer {token}")).ok(),
            Credential::BearerFile(path) => self.read_token(path),
            Credential::Basic { username, password } => {
                let pair = BASE64_STANDARD.encode(format!("{username}:{password}"));
                HeaderValue::try_from(format!("Basic {pair}")).ok()
            }
        };
        if let Some(value) = &mut value {
            value.set_sensitive(true);
        }
        value
    }

    /// Reads a token file. On failure, the previous token remains in use, since it may still be valid.
    fn read_token(&self, path: &Path) -> Option<HeaderValue> {
        let mut cached = self.token.lock();
        if let Some((value, read)) = &*cached
            && read.elapsed() < TOKEN_TTL
        {
            return Some(value.clone());
        }
        if let Ok(text) = fs::read_to_string(path)
            && !text.trim().is_empty()
            && let Ok(value) = HeaderValue::try_from(format!("Bearer {}", text.trim()))
        {
            *cached = Some((value, Instant::now()));
        }
        cached.as_ref().map(|(value, _)| value.clone())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("target", &self.target).field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

fn with_timeout(url: &Uri, timeout: Duration) -> Result<Uri, TargetError> {
    let nanos = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
    let mut parts = url.clone().into_parts();
    let separator = if url.query().is_some() { '&' } else { '?' };
    let path =
        format!("{}{separator}timeout={}", url.path_and_query().map_or("/", |path| path.as_str()), GoDuration(nanos));
    parts.path_and_query = Some(path.parse().map_err(|error| TargetError(format!("{url}: {error}")))?);
    Uri::from_parts(parts).map_err(|error| TargetError(format!("{url}: {error}")))
}

async fn read(response: Response<Incoming>) -> Result<Answer, WebhookError> {
    let (parts, body) = response.into_parts();
    let meter = parts.extensions.get::<Meter>().cloned().unwrap_or_else(Meter::unlimited);
    meter.expect_body();
    let reservation = MemoryReservation::new();
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(MAX_ANSWER);
    let body = body.map_frame(|frame| {
        meter.delivered(frame.data_ref().map_or(0, Bytes::len));
        frame
    });
    let body = Limited::new(body, MAX_ANSWER);
    let body = collect(body, announced, &reservation).await;
    meter.expect_head();
    let unread = |error: Box<dyn std::error::Error + Send + Sync>| {
        let too_large = error.is::<LengthLimitError>();
        let why = if too_large { error.to_string() } else { root_cause(&*error) };
        let why = if why == "EOF" { "unexpected EOF" } else { &why };
        let message = format!("unexpected error when reading response body. Please retry. Original error: {why}");
        if too_large { WebhookError::TooLarge { message } } else { WebhookError::Connection { message, reset: false } }
    };
    let body = body.map_err(unread)?;
    let code = parts.status.as_u16();
    if (200..=206).contains(&code) {
        return Ok(Answer { code, headers: parts.headers, body, _memory: reservation });
    }
    let retry_after = parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    // Errors do not show binary bodies.
    let media = parts.headers.get(CONTENT_TYPE).map_or("text/plain", |value| value.to_str().unwrap_or(""));
    let shown = &body[..body.len().min(MAX_SHOWN_BYTES)];
    let text = if media.starts_with("text/") { String::from_utf8_lossy(shown) } else { "unknown".into() };
    Err(failure(code, &body, text.trim(), retry_after))
}

/// Returns the error for an unsuccessful response, from its Status if the body is one.
fn failure(code: u16, body: &[u8], text: &str, retry_after: Option<u32>) -> WebhookError {
    let status = parse_status(body);
    if let Some(parsed) = status.as_ref().and_then(parse_failure) {
        let (status_code, message, forbidden) = parsed;
        let code = status_code.unwrap_or(code);
        return WebhookError::Status { code, message, retry_after, forbidden };
    }
    let status = Status::of_server(code, "POST", &GroupResource::new("", ""), "", text);
    let message = status.message().to_owned();
    let status = status.with_cause("UnexpectedServerResponse", text, "");
    let forbidden = status.is(StatusReason::Forbidden).then(|| Box::new(status));
    WebhookError::Status { code, message, retry_after, forbidden }
}

/// Reads the whole body, whose head has announced this length, or less. Its memory is charged to the caller's share for
/// large requests.
async fn collect(
    mut body: impl Body<Data = Bytes, Error = Box<dyn std::error::Error + Send + Sync>> + Unpin,
    announced: usize,
    reservation: &MemoryReservation,
) -> Result<Bytes, Box<dyn std::error::Error + Send + Sync>> {
    let (mut first, mut reserved) = (Bytes::new(), 0);
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        if first.is_empty() && whole.is_empty() {
            // Most responses arrive in one chunk, which is not copied.
            first = data;
            continue;
        }
        if whole.is_empty() {
            // A buffer that grows is copied several times, and leaves its earlier parts to the allocator.
            reserved = announced.min(MAX_ANSWER).max(first.len());
            reservation.take(reserved)?;
            whole.reserve(reserved);
            whole.extend_from_slice(&std::mem::take(&mut first));
        }
        if whole.len() + data.len() > reserved {
            reservation.take(data.len())?;
        }
        whole.extend_from_slice(&data);
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

/// The memory that is reserved for a response while the response is in use.
#[derive(Clone)]
pub(crate) struct MemoryReservation(WorkBudget);

impl MemoryReservation {
    pub(crate) fn new() -> Self {
        let reservation = WorkBudget::new(WorkLimits { steps: u64::MAX, memory: 2 * MAX_ANSWER });
        reservation.set_caller(current().map_or_else(Caller::default, |budget| budget.caller()));
        Self(reservation)
    }

    fn take(&self, bytes: usize) -> Result<(), BudgetError> {
        self.0.enter(|| allocate(bytes))
    }
}

impl fmt::Debug for MemoryReservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryReservation").field(&self.0.memory()).finish()
    }
}

/// Parses a body that may be a Status. Longer bodies are not parsed: a tree needs many times the memory of its text.
fn parse_status(body: &[u8]) -> Option<serde_json::Value> {
    const MAX_STATUS: usize = 256 << 10;
    if body.len() > MAX_STATUS {
        return None;
    }
    serde_json::from_slice(body).ok()
}

/// Returns code and message of a Status that reports a failure, and the Status itself if it is Forbidden.
fn parse_failure(status: &serde_json::Value) -> Option<(Option<u16>, String, Option<Box<Status>>)> {
    if status["kind"] != "Status" || status["status"] != "Failure" {
        return None;
    }
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let message = status["message"].as_str().unwrap_or_default().to_owned();
    let reason = status["reason"].as_str().unwrap_or_default();
    let is_forbidden = reason == StatusReason::Forbidden.as_str() || reason.is_empty() && code == Some(403);
    let forbidden = is_forbidden.then(|| Box::new(Status::forbidden_remote(message.clone())));
    Some((code, message, forbidden))
}

impl Answer {
    /// Returns an error if the body is a Status that reports a failure, instead of the requested document.
    pub fn failure(&self) -> Option<WebhookError> {
        let status = parse_status(&self.body)?;
        let (code, message, forbidden) = parse_failure(&status)?;
        Some(WebhookError::Status { code: code.unwrap_or(self.code), message, retry_after: None, forbidden })
    }
}

/// Returns the message of the innermost error.
fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    match last.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
        Some(std::io::ErrorKind::ConnectionReset) => "connection reset by peer".to_owned(),
        Some(std::io::ErrorKind::UnexpectedEof) => "EOF".to_owned(),
        _ => match last.to_string() {
            text if text == "connection closed before message completed" => "EOF".to_owned(),
            text => text,
        },
    }
}

fn is_reset(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let io = error.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionReset) {
            return true;
        }
        next = error.source();
    }
    false
}
