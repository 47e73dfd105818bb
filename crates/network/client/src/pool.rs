//! A connection pool for one server, with HTTP/2 if the server supports it and HTTP/1.1 otherwise.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use binnacle_egress::RelayExecutor;
use binnacle_request::{Body, BoxError};
use binnacle_work::{AbortOnDrop, spawn_relay};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use http::{Method, Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustls::ClientConfig;

use crate::certificates::{CertificateMetrics, Flaws};
use crate::error::SendError;
use crate::exchange::transport_error;
use crate::go_client;
use crate::limits::MAX_HEAD_BYTES;
use crate::metered::Meter;
use crate::replay::{ReplayRequest, is_unprocessed};
use crate::target::{ConnectionOptions, DialError, OpenConnection, Target};

/// The maximum number of concurrent requests on a connection. RFC 9113, 6.5.2, recommends that servers allow at least
/// as many.
const MAX_STREAMS: usize = 100;
/// The time after which an idle connection is closed, as in Go's transports.
const IDLE: Duration = Duration::from_secs(90);
/// The maximum number of idle HTTP/1.1 connections per address (Go's `MaxIdleConnsPerHost` of these transports).
const MAX_IDLE: usize = 25;
/// The flow-control window of a stream. The windows of all streams fit into the connection's window, so that an unread
/// stream does not block others.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * (MAX_STREAMS as u32 + 28);
/// The time after which a silent connection is pinged, and the timeout for the response (as in Go's transports).
const PING_AFTER: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// The maximum number of connections on which a request is tried if they turn out to be closed.
const ATTEMPTS: usize = 8;

/// A response on a pooled connection.
pub type PooledAnswer = Response<PooledBody>;

/// The connections to the addresses of one server, with one TLS configuration. Dropping the pool closes idle
/// connections.
pub struct Pool {
    /// Offers HTTP/2 and HTTP/1.1.
    tls: Arc<ClientConfig>,
    /// The name that the server's certificate must have.
    server_name: String,
    certificates: Option<CertificateMetrics>,
    connection: ConnectionOptions,
    hosts: Mutex<HashMap<String, Host>>,
}

#[derive(Default)]
struct Host {
    multiplexed: Vec<Http2Connection>,
    idle: Vec<IdleConnection>,
    /// The connection attempt that all waiting requests share.
    pending_dial: Option<PendingDial>,
    /// True if the server did not negotiate HTTP/2 on the last connection.
    is_http1_only: bool,
}

/// A connection attempt. The first request that finds an HTTP/2 connection open adds it to the pool.
type PendingDial = Shared<BoxFuture<'static, Result<NewConnection, DialError>>>;

/// The result of dialing: a connection for concurrent requests, or one for a single request at a time.
#[derive(Clone)]
enum NewConnection {
    Http2(Http2Connection),
    /// Taken by the first request that finds it.
    Http1(Arc<Mutex<Option<Http1Connection>>>),
}

#[derive(Clone)]
struct Http2Connection {
    sender: http2::SendRequest<Body>,
    streams: Arc<AtomicUsize>,
    used: Arc<Mutex<Instant>>,
    flaws: Flaws,
    meter: Meter,
}

struct IdleConnection {
    connection: Http1Connection,
    since: Instant,
}

/// A connection that serves one request at a time.
struct Http1Connection {
    sender: http1::SendRequest<Body>,
    flaws: Flaws,
    meter: Meter,
    /// Drives the connection.
    _driver: AbortOnDrop,
}

/// A request's stream on a shared connection.
struct Http2Stream(Http2Connection);

impl Drop for Http2Stream {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Ordering::AcqRel);
        *self.0.used.lock() = Instant::now();
    }
}

/// The connection on which a request is sent.
enum Connection {
    Http2(Http2Stream),
    Http1 { connection: Http1Connection, is_fresh: bool },
}

/// The failure of a request on one connection.
struct ExchangeError {
    /// True if no part of the request was sent.
    is_unsent: bool,
    error: hyper::Error,
}

impl Connection {
    /// Returns the stream counter, which identifies a connection that is shared with other requests.
    fn shared(&self) -> Option<Arc<AtomicUsize>> {
        match self {
            Self::Http2(stream) => Some(stream.0.streams.clone()),
            Self::Http1 { .. } => None,
        }
    }

    /// Returns the flaws of the server's certificate.
    fn flaws(&self) -> Flaws {
        match self {
            Self::Http2(stream) => stream.0.flaws,
            Self::Http1 { connection, .. } => connection.flaws,
        }
    }
}

impl Pool {
    /// Creates a pool. `tls` must offer `h2` and `http/1.1`.
    pub fn new(tls: Arc<ClientConfig>, server_name: String, connection: ConnectionOptions) -> Arc<Self> {
        Self::counting(tls, server_name, None, connection)
    }

    /// Like [`Pool::new`], and counts the flaws of the server's certificates.
    pub fn counting(
        tls: Arc<ClientConfig>,
        server_name: String,
        certificates: Option<CertificateMetrics>,
        connection: ConnectionOptions,
    ) -> Arc<Self> {
        Arc::new(Self { tls, server_name, certificates, connection, hosts: Mutex::default() })
    }

    /// Returns the settings of the pool's connections.
    pub fn connection(&self) -> &ConnectionOptions {
        &self.connection
    }

    /// Sends a request to a `host:port`. Its URI is the path and query, and its headers must be complete.
    pub async fn send(self: &Arc<Self>, address: &str, request: Request<Body>) -> Result<PooledAnswer, SendError> {
        let request = ReplayRequest::new(request);
        // The server may have closed a pooled connection. A request that changes nothing is retried once.
        let mut may_retry = matches!(*request.method(), Method::GET | Method::HEAD) && request.has_no_body();
        let mut unprocessed = false;
        for _ in 0..ATTEMPTS {
            let Some(copy) = request.copy() else { break };
            let connection = self.acquire(address).await.inspect_err(|error| {
                if let Some(certificates) = &self.certificates {
                    certificates.failed(&error.text);
                }
            })?;
            let flaws = connection.flaws();
            let is_reused = !matches!(connection, Connection::Http1 { is_fresh: true, .. });
            let shared = connection.shared();
            let error = match self.exchange(address, connection, copy).await {
                Ok(answer) => {
                    if let Some(certificates) = &self.certificates {
                        certificates.answered(flaws);
                    }
                    return go_client::accepted(answer);
                }
                Err(error) => error,
            };
            let is_unprocessed = is_unprocessed(&error.error);
            if let Some(streams) = shared.filter(|_| is_unprocessed) {
                self.remove(address, &streams);
            }
            let retries = match error.is_unsent || is_unprocessed {
                true => is_reused,
                // An unreadable response does not mean that the connection was closed.
                false => is_reused && !error.error.is_parse() && std::mem::take(&mut may_retry),
            };
            if !retries {
                return Err(transport_error(&error.error));
            }
            unprocessed = is_unprocessed;
        }
        let why = match unprocessed {
            true => {
                "http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] \
                 after Request.Body was written; define Request.GetBody to avoid this error"
            }
            false => "http2: client conn not usable",
        };
        Err(SendError::Broken(why.to_owned()))
    }

    /// Removes a connection that the server is about to close.
    fn remove(&self, address: &str, streams: &Arc<AtomicUsize>) {
        if let Some(host) = self.hosts.lock().get_mut(address) {
            host.multiplexed.retain(|connection| !Arc::ptr_eq(&connection.streams, streams));
        }
    }

    /// Sends a request on a connection.
    async fn exchange(
        self: &Arc<Self>,
        address: &str,
        connection: Connection,
        mut request: Request<Body>,
    ) -> Result<PooledAnswer, ExchangeError> {
        let failed = |mut error: TrySendError<Request<Body>>| ExchangeError {
            is_unsent: error.take_message().is_some(),
            error: error.into_error(),
        };
        match connection {
            Connection::Http2(mut stream) => {
                // HTTP/2 has scheme and authority instead of the Host header, and frames instead of transfer encodings.
                request.headers_mut().remove(http::header::TRANSFER_ENCODING);
                complete_uri(&mut request, address);
                let answer = stream.0.sender.try_send_request(request).await.map_err(failed)?;
                let meter = stream.0.meter.clone();
                meter.expect_body();
                Ok(answer.map(|body| PooledBody { body, meter, lease: Some(Lease::Http2 { _stream: stream }) }))
            }
            Connection::Http1 { mut connection, .. } => {
                let meter = connection.meter.clone();
                meter.expect_head();
                meter.watch(&mut request);
                let answer = connection.sender.try_send_request(request).await.map_err(failed)?;
                meter.expect_body();
                let upgrades = answer.status() == http::StatusCode::SWITCHING_PROTOCOLS;
                // After a response in HTTP/1.0, hyper would send all requests of this connection in that version.
                let pool = (answer.version() == http::Version::HTTP_11).then(|| self.clone());
                let lease = (!upgrades).then(|| Lease::Http1 {
                    connection: Some(connection),
                    pool,
                    address: address.to_owned(),
                });
                let mut answer = answer.map(|body| PooledBody { body, meter, lease });
                if answer.body().body.is_end_stream() {
                    answer.body_mut().release();
                }
                Ok(answer)
            }
        }
    }

    /// Returns a pooled connection with capacity, or a new one.
    async fn acquire(self: &Arc<Self>, address: &str) -> Result<Connection, DialError> {
        loop {
            let source = {
                let mut hosts = self.hosts.lock();
                // Other addresses are removed together with their last connection.
                hosts.retain(|other, host| other == address || host.sweep());
                let host = hosts.entry(address.to_owned()).or_default();
                host.sweep();
                if let Some(stream) = host.stream() {
                    return Ok(Connection::Http2(stream));
                }
                if let Some(idle) = host.idle.pop() {
                    ConnectionSource::Idle(idle.connection)
                } else if host.is_http1_only {
                    ConnectionSource::Dial
                } else {
                    let opening = host.pending_dial.get_or_insert_with(|| self.open(address));
                    ConnectionSource::Pending(opening.clone())
                }
            };
            match source {
                ConnectionSource::Idle(mut connection) => {
                    // The connection is ready as soon as the last response has been read completely.
                    if connection.sender.ready().await.is_ok() {
                        return Ok(Connection::Http1 { connection, is_fresh: false });
                    }
                }
                ConnectionSource::Dial => match dial(&self.target(address)?).await? {
                    NewConnection::Http1(connection) => {
                        if let Some(connection) = connection.lock().take() {
                            return Ok(Connection::Http1 { connection, is_fresh: true });
                        }
                    }
                    NewConnection::Http2(connection) => self.add(address, connection),
                },
                ConnectionSource::Pending(opening) => {
                    let waiting = DialWaiter { pool: self, address, opening: opening.clone() };
                    let dialed = opening.clone().await;
                    drop(waiting);
                    let mut hosts = self.hosts.lock();
                    let host = hosts.entry(address.to_owned()).or_default();
                    if host.pending_dial.as_ref().is_some_and(|current| current.ptr_eq(&opening)) {
                        host.pending_dial = None;
                    }
                    match dialed? {
                        NewConnection::Http2(connection) => host.add(connection),
                        NewConnection::Http1(connection) => {
                            host.is_http1_only = true;
                            if let Some(connection) = connection.lock().take() {
                                return Ok(Connection::Http1 { connection, is_fresh: true });
                            }
                        }
                    }
                }
            }
        }
    }

    fn add(&self, address: &str, connection: Http2Connection) {
        let mut hosts = self.hosts.lock();
        let host = hosts.entry(address.to_owned()).or_default();
        host.is_http1_only = false;
        host.add(connection);
    }

    fn open(&self, address: &str) -> PendingDial {
        let target = self.target(address);
        async move { dial(&target?).await }.boxed().shared()
    }

    fn target(&self, address: &str) -> Result<Target, DialError> {
        let target = Target::of_address(address, Some(self.tls.clone()), Some(self.server_name.clone()))?;
        Ok(Target { connection: self.connection.clone(), ..target })
    }
}

/// A request that waits for a connection attempt. If all its requests are dropped, the attempt is abandoned, so that no
/// later request joins an attempt that nothing drives.
struct DialWaiter<'a> {
    pool: &'a Pool,
    address: &'a str,
    opening: PendingDial,
}

impl Drop for DialWaiter<'_> {
    fn drop(&mut self) {
        let mut hosts = self.pool.hosts.lock();
        let Some(host) = hosts.get_mut(self.address) else { return };
        // This request holds two references, and the host one.
        let is_last = self.opening.peek().is_none() && self.opening.strong_count().is_some_and(|count| count <= 3);
        if is_last && host.pending_dial.as_ref().is_some_and(|current| current.ptr_eq(&self.opening)) {
            host.pending_dial = None;
        }
    }
}

/// The source of a request's connection.
enum ConnectionSource {
    Idle(Http1Connection),
    Dial,
    Pending(PendingDial),
}

impl Host {
    /// Drops connections that are closed or have been idle too long. Returns false if nothing is left.
    fn sweep(&mut self) -> bool {
        let now = Instant::now();
        let is_unused = |since: Instant| now.duration_since(since) >= IDLE;
        self.multiplexed.retain(|connection| {
            let idle = connection.streams.load(Ordering::Acquire) == 0 && is_unused(*connection.used.lock());
            !idle && !connection.sender.is_closed()
        });
        self.idle.retain(|idle| !idle.connection.sender.is_closed() && !is_unused(idle.since));
        !self.multiplexed.is_empty() || !self.idle.is_empty() || self.pending_dial.is_some()
    }

    /// Adds a connection, unless the pool contains it.
    fn add(&mut self, connection: Http2Connection) {
        if !self.multiplexed.iter().any(|other| Arc::ptr_eq(&other.streams, &connection.streams)) {
            self.multiplexed.push(connection);
        }
    }

    /// Returns a stream on the busiest connection with capacity, so that the other connections can become idle.
    fn stream(&self) -> Option<Http2Stream> {
        let streams = |connection: &&Http2Connection| connection.streams.load(Ordering::Acquire);
        let candidates = self.multiplexed.iter().filter(|connection| streams(connection) < MAX_STREAMS);
        let connection = candidates.max_by_key(streams)?;
        connection.streams.fetch_add(1, Ordering::AcqRel);
        Some(Http2Stream(connection.clone()))
    }
}

async fn dial(target: &Target) -> Result<NewConnection, DialError> {
    let OpenConnection { stream, meter, is_multiplexed, flaws } =
        target.dial().await.map_err(|error| match error.text.as_str() {
            // The message of Go's HTTP client, which checks the first bytes: the server most likely does not use TLS.
            "tls: first record does not look like a TLS handshake" => {
                DialError { text: "http: server gave HTTP response to HTTPS client".to_owned(), ..error }
            }
            _ => error,
        })?;
    let failed = |error: hyper::Error| DialError { text: error.to_string(), unverified: false };
    if is_multiplexed {
        let mut builder = http2::Builder::new(RelayExecutor);
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(MAX_HEAD_BYTES as u32)
            .keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_TIMEOUT)
            .keep_alive_while_idle(true);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(failed)?;
        // The task ends when nothing can be sent or read any more. Errors are returned to the senders and readers.
        spawn_relay("connection to a server", async move { drop(connection.await) });
        let used = Arc::new(Mutex::new(Instant::now()));
        return Ok(NewConnection::Http2(Http2Connection { sender, streams: Arc::default(), used, flaws, meter }));
    }
    let (sender, connection) = go_client::connections().handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let driver = AbortOnDrop(spawn_relay("connection to a server", async move { drop(connection.await) }));
    Ok(NewConnection::Http1(Arc::new(Mutex::new(Some(Http1Connection { sender, flaws, meter, _driver: driver })))))
}

/// Sets scheme and authority of the URI.
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

/// The body of a response. At its end, the connection becomes available to other requests.
pub struct PooledBody {
    body: Incoming,
    meter: Meter,
    lease: Option<Lease>,
}

/// The connection on which the body of a response arrives.
enum Lease {
    Http2 {
        _stream: Http2Stream,
    },
    /// `pool` is the pool to return the connection to, if it can be reused.
    Http1 {
        connection: Option<Http1Connection>,
        pool: Option<Arc<Pool>>,
        address: String,
    },
}

impl PooledBody {
    fn release(&mut self) {
        if let Some(Lease::Http1 { connection, pool, address }) = self.lease.take()
            && let (Some(connection), Some(pool)) = (connection, pool)
            && !connection.sender.is_closed()
        {
            let mut hosts = pool.hosts.lock();
            let host = hosts.entry(address).or_default();
            if host.idle.len() < MAX_IDLE {
                host.idle.push(IdleConnection { connection, since: Instant::now() });
            }
        }
    }
}

impl HttpBody for PooledBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.meter.delivered(frame.data_ref().map_or(0, Bytes::len));
        }
        if matches!(polled, Poll::Ready(None)) || self.body.is_end_stream() {
            self.release();
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
