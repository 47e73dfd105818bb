//! Connections to a server that are kept between requests: HTTP/2 where the server speaks it, otherwise HTTP/1.1.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use binnacle_request::{Body, BoxError};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use http::{Method, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustls::ClientConfig;
use tokio::task::AbortHandle;

use crate::certificates::{CertificateMetrics, Flaws};
use crate::client::{MAX_HEAD_BYTES, SendError, broken};
use crate::leniency;
use crate::target::{DialError, Target, Way};

/// How many requests share a connection. Servers must bear as many (RFC 9113, 6.5.2, recommends no smaller limit).
const MAX_STREAMS: usize = 100;
/// How long a connection may be unused, as in Go's transports.
const IDLE: Duration = Duration::from_secs(90);
/// How many unused HTTP/1.1 connections are kept for each address (Go's `MaxIdleConnsPerHost` of these transports).
const MAX_IDLE: usize = 25;
/// What a stream may send that nobody has read yet. All streams of a connection fit into its window together, so that
/// one that is not read keeps no other back.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * (MAX_STREAMS as u32 + 28);
/// When a silent connection is asked for a sign of life, and how long the answer may take (as in Go's transports).
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// How many connections a request is tried on that turn out to be closed.
const ATTEMPTS: usize = 8;

/// An answer from a kept connection.
pub type PooledAnswer = Response<PooledBody>;

/// Connections to the addresses of one server, made with one TLS configuration. Dropping it closes those that are not in
/// use.
pub struct Pool {
    /// Offers HTTP/2 and HTTP/1.1.
    tls: Arc<ClientConfig>,
    /// The name that certificates must be for.
    server_name: String,
    certificates: Option<CertificateMetrics>,
    way: Way,
    hosts: Mutex<HashMap<String, Host>>,
}

#[derive(Default)]
struct Host {
    multiplexed: Vec<Multiplexed>,
    idle: Vec<Idle>,
    /// A connection that is being made, for all who wait for one.
    opening: Option<Opening>,
    /// True when the server did not take HTTP/2 the last time.
    is_old: bool,
}

/// The dialing of a connection. HTTP/2 connections are taken up by whoever finds them first.
type Opening = Shared<BoxFuture<'static, Result<Dialed, DialError>>>;

/// What came of dialing: a connection for everybody, or one for a single request at a time.
#[derive(Clone)]
enum Dialed {
    Multiplexed(Multiplexed),
    /// Taken by the first who asks.
    Single(Arc<Mutex<Option<Single>>>),
}

#[derive(Clone)]
struct Multiplexed {
    sender: http2::SendRequest<Body>,
    streams: Arc<AtomicUsize>,
    used: Arc<Mutex<Instant>>,
    flaws: Flaws,
}

struct Idle {
    connection: Single,
    since: Instant,
}

/// A connection for one request at a time.
struct Single {
    sender: http1::SendRequest<Body>,
    flaws: Flaws,
    _driver: Driver,
}

/// Drives an HTTP/1.1 connection; ends it when dropped.
struct Driver(AbortHandle);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A request's place on a shared connection.
struct Stream(Multiplexed);

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
        *self.0.used.lock() = Instant::now();
    }
}

/// What a request is sent on.
enum Connection {
    Stream(Stream),
    Single { connection: Single, is_fresh: bool },
}

impl Connection {
    /// What is wrong with the server's certificate.
    fn flaws(&self) -> Flaws {
        match self {
            Self::Stream(stream) => stream.0.flaws,
            Self::Single { connection, .. } => connection.flaws,
        }
    }
}

impl Pool {
    /// `tls` offers `h2` and `http/1.1`.
    pub fn new(tls: Arc<ClientConfig>, server_name: String, way: Way) -> Arc<Self> {
        Self::counting(tls, server_name, None, way)
    }

    /// The same, with what is wrong with the server's certificates counted.
    pub fn counting(
        tls: Arc<ClientConfig>,
        server_name: String,
        certificates: Option<CertificateMetrics>,
        way: Way,
    ) -> Arc<Self> {
        Arc::new(Self { tls, server_name, certificates, way, hosts: Mutex::default() })
    }

    /// How its connections reach the server.
    pub(crate) fn way(&self) -> &Way {
        &self.way
    }

    /// Sends a request to a `host:port`. Its URI is the path and query; its headers are complete.
    pub async fn send(self: &Arc<Self>, address: &str, request: Request<Body>) -> Result<PooledAnswer, SendError> {
        let mut request = request;
        // A kept connection may have been closed by the other side meanwhile. What changes nothing is sent once more.
        let is_repeatable = matches!(*request.method(), Method::GET | Method::HEAD) && request.body().is_end_stream();
        let mut may_repeat = is_repeatable;
        for _ in 0..ATTEMPTS {
            let connection = self.connection(address).await.inspect_err(|error| {
                if let Some(certificates) = &self.certificates {
                    certificates.failed(&error.text);
                }
            })?;
            let flaws = connection.flaws();
            let copy = may_repeat.then(|| copy_of(&request));
            let is_kept = !matches!(connection, Connection::Single { is_fresh: true, .. });
            match self.exchange(address, connection, request).await {
                Ok(answer) => {
                    if let Some(certificates) = &self.certificates {
                        certificates.answered(flaws);
                    }
                    return leniency::taken(answer);
                }
                // It never left.
                Err((Some(unsent), _)) if is_kept => request = unsent,
                Err((_, error)) => match copy {
                    Some(copy) if is_kept => {
                        may_repeat = false;
                        request = copy;
                    }
                    _ => return Err(broken(&error)),
                },
            }
        }
        Err(SendError::Broken("http2: client conn not usable".to_owned()))
    }

    /// Sends a request on a connection. The error has the request where none of it was sent.
    async fn exchange(
        self: &Arc<Self>,
        address: &str,
        connection: Connection,
        mut request: Request<Body>,
    ) -> Result<PooledAnswer, (Option<Request<Body>>, hyper::Error)> {
        let failed = |mut error: TrySendError<Request<Body>>| (error.take_message(), error.into_error());
        match connection {
            Connection::Stream(mut stream) => {
                // HTTP/2 has scheme and authority in the place of the Host header.
                complete_uri(&mut request, address);
                let answer = stream.0.sender.try_send_request(request).await.map_err(failed)?;
                Ok(answer.map(|body| PooledBody { body, kept: Some(Kept::Stream { _stream: stream }) }))
            }
            Connection::Single { mut connection, .. } => {
                let answer = connection.sender.try_send_request(request).await.map_err(failed)?;
                let upgrades = answer.status() == http::StatusCode::SWITCHING_PROTOCOLS;
                let kept = (!upgrades).then(|| Kept::Single {
                    connection: Some(connection),
                    pool: self.clone(),
                    address: address.to_owned(),
                });
                let mut answer = answer.map(|body| PooledBody { body, kept });
                if answer.body().body.is_end_stream() {
                    answer.body_mut().ended();
                }
                Ok(answer)
            }
        }
    }

    /// A connection with room for a request: one that is there, or a new one.
    async fn connection(self: &Arc<Self>, address: &str) -> Result<Connection, DialError> {
        loop {
            let opening = {
                let mut hosts = self.hosts.lock();
                // Addresses that are not asked any more are forgotten with their connections.
                hosts.retain(|known, host| known == address || host.sweep());
                let host = hosts.entry(address.to_owned()).or_default();
                host.sweep();
                if let Some(stream) = host.stream() {
                    return Ok(Connection::Stream(stream));
                }
                if let Some(idle) = host.idle.pop() {
                    Opened::Idle(idle.connection)
                } else if host.is_old {
                    Opened::Own
                } else {
                    let opening = host.opening.get_or_insert_with(|| self.open(address));
                    Opened::Shared(opening.clone())
                }
            };
            match opening {
                Opened::Idle(mut connection) => {
                    // Ready as soon as the last answer has been read to its end.
                    if connection.sender.ready().await.is_ok() {
                        return Ok(Connection::Single { connection, is_fresh: false });
                    }
                }
                Opened::Own => match dial(&self.target(address)?).await? {
                    Dialed::Single(connection) => {
                        if let Some(connection) = connection.lock().take() {
                            return Ok(Connection::Single { connection, is_fresh: true });
                        }
                    }
                    Dialed::Multiplexed(connection) => self.keep(address, connection),
                },
                Opened::Shared(opening) => {
                    let waiting = Waiting { pool: self, address, opening: opening.clone() };
                    let dialed = opening.clone().await;
                    drop(waiting);
                    let mut hosts = self.hosts.lock();
                    let host = hosts.entry(address.to_owned()).or_default();
                    if host.opening.as_ref().is_some_and(|current| current.ptr_eq(&opening)) {
                        host.opening = None;
                    }
                    match dialed? {
                        Dialed::Multiplexed(connection) => host.add(connection),
                        Dialed::Single(connection) => {
                            host.is_old = true;
                            if let Some(connection) = connection.lock().take() {
                                return Ok(Connection::Single { connection, is_fresh: true });
                            }
                        }
                    }
                }
            }
        }
    }

    fn keep(&self, address: &str, connection: Multiplexed) {
        let mut hosts = self.hosts.lock();
        let host = hosts.entry(address.to_owned()).or_default();
        host.is_old = false;
        host.add(connection);
    }

    fn open(&self, address: &str) -> Opening {
        let target = self.target(address);
        async move { dial(&target?).await }.boxed().shared()
    }

    fn target(&self, address: &str) -> Result<Target, DialError> {
        let target = Target::of_address(address, Some(self.tls.clone()), Some(self.server_name.clone()))?;
        Ok(Target { way: self.way.clone(), ..target })
    }
}

/// Somebody who waits for a connection that is being made. When all of them have left, nobody makes it any more: who comes
/// later must not find it half made.
struct Waiting<'a> {
    pool: &'a Pool,
    address: &'a str,
    opening: Opening,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut hosts = self.pool.hosts.lock();
        let Some(host) = hosts.get_mut(self.address) else { return };
        // This one's two and the host's own.
        let is_last = self.opening.peek().is_none() && self.opening.strong_count().is_some_and(|count| count <= 3);
        if is_last && host.opening.as_ref().is_some_and(|current| current.ptr_eq(&self.opening)) {
            host.opening = None;
        }
    }
}

/// How a request gets its connection.
enum Opened {
    Idle(Single),
    Own,
    Shared(Opening),
}

impl Host {
    /// Drops what is closed or has not been used for long; false when nothing is left.
    fn sweep(&mut self) -> bool {
        let now = Instant::now();
        let is_unused = |since: Instant| now.duration_since(since) >= IDLE;
        self.multiplexed.retain(|connection| {
            let idle = connection.streams.load(Ordering::Acquire) == 0 && is_unused(*connection.used.lock());
            !idle && !connection.sender.is_closed()
        });
        self.idle.retain(|idle| !idle.connection.sender.is_closed() && !is_unused(idle.since));
        !self.multiplexed.is_empty() || !self.idle.is_empty() || self.opening.is_some()
    }

    /// Adds a connection, once.
    fn add(&mut self, connection: Multiplexed) {
        if !self.multiplexed.iter().any(|known| Arc::ptr_eq(&known.streams, &connection.streams)) {
            self.multiplexed.push(connection);
        }
    }

    /// A place on the connection with the most requests that has one: the others may end.
    fn stream(&self) -> Option<Stream> {
        let streams = |connection: &&Multiplexed| connection.streams.load(Ordering::Acquire);
        let candidates = self.multiplexed.iter().filter(|connection| streams(connection) < MAX_STREAMS);
        let connection = candidates.max_by_key(streams)?;
        connection.streams.fetch_add(1, Ordering::AcqRel);
        Some(Stream(connection.clone()))
    }
}

async fn dial(target: &Target) -> Result<Dialed, DialError> {
    let (stream, multiplexed, flaws) = target.dial_negotiated().await.map_err(|error| match error.text.as_str() {
        // What Go's HTTP client says, which looks at the first bytes: mostly it is a server without TLS.
        "tls: first record does not look like a TLS handshake" => {
            DialError { text: "http: server gave HTTP response to HTTPS client".to_owned(), ..error }
        }
        _ => error,
    })?;
    let failed = |error: hyper::Error| DialError { text: error.to_string(), unverified: false };
    if multiplexed {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(failed)?;
        // It ends when nobody can send or reads any more; what went wrong is told to those.
        tokio::spawn(async move { drop(connection.await) });
        let used = Arc::new(Mutex::new(Instant::now()));
        return Ok(Dialed::Multiplexed(Multiplexed { sender, streams: Arc::default(), used, flaws }));
    }
    let (sender, connection) = leniency::connections().handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let driver = Driver(tokio::spawn(async move { drop(connection.await) }).abort_handle());
    Ok(Dialed::Single(Arc::new(Mutex::new(Some(Single { sender, flaws, _driver: driver })))))
}

/// The same request; it has no body.
fn copy_of(request: &Request<Body>) -> Request<Body> {
    let mut copy = Request::new(Body::empty());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}

/// Puts scheme and authority into the URI.
fn complete_uri(request: &mut Request<Body>, address: &str) {
    let authority = request.headers_mut().remove(http::header::HOST);
    let authority = authority.as_ref().and_then(|host| host.to_str().ok()).unwrap_or(address);
    let mut parts = request.uri().clone().into_parts();
    parts.scheme = Some(http::uri::Scheme::HTTPS);
    parts.authority = authority.parse().ok();
    if let Ok(uri) = http::Uri::from_parts(parts) {
        *request.uri_mut() = uri;
    }
}

/// The body of an answer. Read to its end, it makes its connection free for others.
pub struct PooledBody {
    body: Incoming,
    kept: Option<Kept>,
}

/// What the body of an answer came on.
enum Kept {
    Stream { _stream: Stream },
    Single { connection: Option<Single>, pool: Arc<Pool>, address: String },
}

impl PooledBody {
    fn ended(&mut self) {
        if let Some(Kept::Single { connection, pool, address }) = self.kept.take()
            && let Some(connection) = connection
            && !connection.sender.is_closed()
        {
            let mut hosts = pool.hosts.lock();
            let host = hosts.entry(address).or_default();
            if host.idle.len() < MAX_IDLE {
                host.idle.push(Idle { connection, since: Instant::now() });
            }
        }
    }
}

impl HttpBody for PooledBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.ended();
        }
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
