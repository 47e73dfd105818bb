//! Accepting connections, TLS handshakes, and protocol selection.

use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_request::{ConnectionInfo, Shutdown};
use binnacle_supervise::supervise;
use bytes::{Bytes, BytesMut};
use rustls::server::Acceptor;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::connections::{Connection, ConnectionLimits, Connections, Protocol, Slot};
use crate::cork::{CorkedStream, FlushMode, Gate};
use crate::frame_meter::FrameMeter;
use crate::handlers::Handlers;
use crate::linger::LingeringStream;
use crate::meter::ConnectionMeter;
use crate::metrics::ConnectionMetrics;
use crate::relocate::ConnectionTask;
use crate::service::Service;
use crate::sniff::{self, FirstRequest};
use crate::throttle::Throttle;
use crate::{Tls, http1, http2};

/// The timeout for a client's part of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout for the first bytes of a request (Go's `ReadHeaderTimeout`, and the preface of its HTTP/2 server).
const FIRST_BYTES_HTTP1: Duration = Duration::from_secs(32);
const FIRST_BYTES_HTTP2: Duration = Duration::from_secs(10);
/// The maximum wait for the first request of a connection. Few HTTP/2 clients send no request before they receive
/// bytes; this delays their start.
const SNIFF_TIMEOUT: Duration = Duration::from_millis(250);
const SNIFF_BYTES: usize = 4096;
/// The value for `--http2-max-streams-per-connection=0`: clients assume it before they receive settings, as in Go.
pub const DEFAULT_MAX_STREAMS: u32 = 100;
/// Go's answer to an HTTP request without TLS.
const PLAIN_HTTP_ANSWER: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
/// The first and the maximum delay after a failed accept.
const MIN_ACCEPT_PAUSE: Duration = Duration::from_millis(50);
const MAX_ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The limit on connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Whether other processes may listen on the same port (`--permit-port-sharing`, `SO_REUSEPORT`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortSharing {
    #[default]
    Refused,
    Permitted,
}

/// A bound port whose connections are not accepted yet.
pub struct BoundPort {
    tcp: TcpListener,
    address: SocketAddr,
}

/// A bound port with its TLS configuration.
pub struct Listener {
    tcp: TcpListener,
    tls: Arc<Tls>,
    max_streams: u32,
    limits: ConnectionLimits,
    front: Option<Handle>,
}

/// The error of a port that cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("failed to create listener: failed to listen on {address}: {error}")]
pub struct ListenError {
    address: SocketAddr,
    error: std::io::Error,
}

impl ListenError {
    /// Returns true if another socket has the port.
    pub fn is_in_use(&self) -> bool {
        self.error.kind() == std::io::ErrorKind::AddrInUse
    }
}

impl BoundPort {
    /// Binds the port; 0 selects a free one. Clients can connect from now on, but wait until [`Listener::start`].
    pub async fn bind(address: SocketAddr, sharing: PortSharing) -> Result<Self, ListenError> {
        let failed = |error| ListenError { address, error };
        let tcp = listen(address, sharing).map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        Ok(Self { tcp, address })
    }

    /// Returns the actual address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn with_tls(self, tls: impl Into<Arc<Tls>>) -> Listener {
        Listener {
            tcp: self.tcp,
            tls: tls.into(),
            max_streams: DEFAULT_MAX_STREAMS,
            limits: ConnectionLimits::default(),
            front: None,
        }
    }
}

/// Must be called on a runtime. An address can be bound while old connections to it linger (`SO_REUSEADDR`).
fn listen(address: SocketAddr, sharing: PortSharing) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    if sharing == PortSharing::Permitted {
        socket.set_reuseport(true)?;
    }
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

impl Listener {
    /// Limits concurrent requests on one HTTP/2 connection (`--http2-max-streams-per-connection`).
    #[must_use]
    pub fn max_streams(self, max_streams: u32) -> Self {
        Self { max_streams, ..self }
    }

    /// Sets the limits on connections.
    #[must_use]
    pub fn limits(self, limits: ConnectionLimits) -> Self {
        Self { limits, ..self }
    }

    /// Sets the runtime that accepts connections, performs handshakes and serves health checks, independently of other
    /// requests. Without one, all of this runs on the runtime on which [`Listener::start`] is called.
    #[must_use]
    pub fn front(self, front: Handle) -> Self {
        Self { front: Some(front), ..self }
    }

    /// Starts accepting connections, until the shutdown. Connections without health checks run on the current runtime.
    pub fn start<S: Service>(self, service: Arc<S>, shutdown: Shutdown, metrics: ConnectionMetrics) -> ListenerHandle {
        let connections = Connections::new(self.limits);
        let certificates = self.tls.certificates().clone();
        if certificates.has_files() {
            let stopped = shutdown.clone();
            tokio::spawn(async move {
                tokio::select! {
                    () = supervise("serving certificates", || certificates.clone().watch_files()) => {}
                    () = stopped.fired() => {}
                }
            });
        }
        let workers = Handle::current();
        let front = self.front.clone().unwrap_or_else(|| workers.clone());
        let shared = Arc::new(Shared {
            tls: self.tls,
            service,
            shutdown,
            metrics,
            max_streams: self.max_streams,
            workers: self.front.is_some().then_some(workers),
        });
        let swept = connections.clone();
        let sweeping = front.spawn(async move { supervise("connections", || swept.clone().sweep()).await });
        let handle = front.spawn(accept(self.tcp, shared, connections.clone()));
        ListenerHandle { connections, handle, sweeping }
    }
}

/// A running listener.
pub struct ListenerHandle {
    connections: Arc<Connections>,
    /// Completes when the server stops.
    handle: JoinHandle<()>,
    sweeping: JoinHandle<()>,
}

impl ListenerHandle {
    /// Resolves when the port is closed after the shutdown.
    pub async fn wait_until_closed(&mut self) {
        if let Err(error) = (&mut self.handle).await {
            tracing::error!("the listener panicked: {error}");
        }
    }

    /// Returns the number of open connections, except upgraded ones, which end independently.
    pub fn open_connections(&self) -> usize {
        self.connections.open_count()
    }

    /// Resolves when a connection has ended.
    pub fn next_change(&self) -> impl Future<Output = ()> {
        self.connections.next_change()
    }

    /// Closes all remaining connections immediately.
    pub fn close_all(&self) {
        self.connections.close_all();
    }
}

impl Drop for ListenerHandle {
    fn drop(&mut self) {
        self.handle.abort();
        self.sweeping.abort();
    }
}

/// State that all connections share.
struct Shared<S> {
    tls: Arc<Tls>,
    service: Arc<S>,
    shutdown: Shutdown,
    metrics: ConnectionMetrics,
    max_streams: u32,
    /// The runtime of connections that do not start with a health check.
    workers: Option<Handle>,
}

/// Accepts connections until the server stops.
async fn accept<S: Service>(tcp: TcpListener, shared: Arc<Shared<S>>, connections: Arc<Connections>) {
    // The port was bound on another runtime.
    let tcp = match tcp.into_std().and_then(TcpListener::from_std) {
        Ok(tcp) => tcp,
        Err(error) => return tracing::error!("the listener cannot be moved: {error}"),
    };
    supervise("listener", || accept_all(&tcp, &shared, &connections)).await;
}

async fn accept_all<S: Service>(tcp: &TcpListener, shared: &Arc<Shared<S>>, connections: &Arc<Connections>) {
    static FAILURES: Throttle = Throttle::every(Duration::from_secs(10));
    let mut stopped = pin!(shared.shutdown.fired());
    let mut pause = MIN_ACCEPT_PAUSE;
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stopped => return,
            accepted = tcp.accept() => accepted,
        };
        match accepted {
            Ok((tcp, peer)) => {
                pause = MIN_ACCEPT_PAUSE;
                if let Some(slot) = connections.admit(client_network(peer.ip())) {
                    binnacle_work::spawn("new connection", connection(shared.clone(), tcp, peer, slot));
                }
            }
            Err(error) => {
                if let Some(more) = FAILURES.pass() {
                    tracing::warn!(more, "failed to accept connection: {error}");
                }
                if !is_connection_error(&error) {
                    // Usually no file descriptors are left; an immediate retry would only waste CPU time.
                    connections.close_idle();
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(MAX_ACCEPT_PAUSE);
                }
            }
        }
    }
}

/// Returns the address for limits per client. An IPv6 client controls a /64 network, which counts as one address.
fn client_network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(std::net::Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
        address => address,
    }
}

fn is_connection_error(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connection<S: Service>(shared: Arc<Shared<S>>, tcp: TcpStream, peer: SocketAddr, slot: Slot) {
    // Responses are written in large pieces, so Nagle's algorithm would only delay them.
    let _ = tcp.set_nodelay(true);
    let state = slot.connection().clone();
    let started = tokio::select! {
        biased;
        () = state.close_requested() => return,
        () = shared.shutdown.fired() => return,
        started = start(&shared, tcp, peer, &state) => started,
    };
    let Some(NewConnection { mut stream, read_ahead, first }) = started else { return };
    let info = connection_info(&stream, peer, &state);
    let Some(workers) = shared.workers.clone() else {
        return serve(shared, stream, read_ahead, info, slot, None).await;
    };
    if first == FirstRequest::Health {
        return serve(shared, stream, read_ahead, info, slot, Some(workers)).await;
    }
    // The socket moves from this runtime to the workers'.
    let Some(Ok(tcp)) = stream.get_mut().0.take().map(TcpStream::into_std) else { return };
    let served = {
        let info = info.clone();
        async move {
            let Ok(tcp) = TcpStream::from_std(tcp) else { return };
            stream.get_mut().0.put(tcp);
            serve(shared, stream, read_ahead, info, slot, None).await;
        }
    };
    ConnectionTask::spawn(&workers, state, info, served);
}

/// A connection after its handshake.
struct NewConnection {
    stream: Box<TlsStream<Gate<TcpStream>>>,
    /// Bytes that were read ahead.
    read_ahead: Bytes,
    first: FirstRequest,
}

async fn start<S>(shared: &Shared<S>, tcp: TcpStream, peer: SocketAddr, state: &Connection) -> Option<NewConnection> {
    let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, accept_tls(&shared.tls, tcp)).await;
    let error = match handshake {
        Ok(Ok(mut stream)) => {
            let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            state.set_protocol(if http2 { Protocol::Http2 } else { Protocol::Http1 });
            if shared.workers.is_none() {
                return Some(NewConnection { stream, read_ahead: Bytes::new(), first: FirstRequest::Other });
            }
            let (first, read_ahead) = sniff(&mut stream, http2, state).await?;
            return Some(NewConnection { stream, read_ahead, first });
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "timeout".to_owned(),
    };
    shared.metrics.handshake_errors.inc();
    tracing::debug!("http: TLS handshake error from {peer}: {error}");
    None
}

async fn accept_tls(tls: &Tls, mut tcp: TcpStream) -> std::io::Result<Box<TlsStream<Gate<TcpStream>>>> {
    if begins_like_http(&tcp).await? {
        // Unread bytes would reset the connection before the client has read the answer.
        let _ = tcp.try_read(&mut [0; SNIFF_BYTES]);
        tcp.write_all(PLAIN_HTTP_ANSWER).await?;
        return Err(std::io::Error::other("client sent an HTTP request to an HTTPS server"));
    }
    let local_address = tcp.local_addr().ok().map(|address| address.ip().to_canonical());
    let start = LazyConfigAcceptor::new(Acceptor::default(), Gate::new(tcp)).await?;
    let config = tls.config_for(&start.client_hello(), local_address);
    // Boxed because tasks reserve space for each variable that holds it.
    start.into_stream(config).await.map(Box::new)
}

/// Returns true if the first bytes of a connection are those of an HTTP request without TLS, as Go recognizes them.
async fn begins_like_http(tcp: &TcpStream) -> std::io::Result<bool> {
    let mut bytes = [0; 5];
    let count = tcp.peek(&mut bytes).await?;
    Ok(matches!(&bytes[..count], b"GET /" | b"HEAD " | b"POST " | b"PUT /" | b"OPTIO"))
}

/// Reads until the kind of the connection is known.
async fn sniff(
    stream: &mut TlsStream<Gate<TcpStream>>,
    http2: bool,
    state: &Connection,
) -> Option<(FirstRequest, Bytes)> {
    let mut bytes = BytesMut::with_capacity(512);
    loop {
        let timeout = match () {
            () if !bytes.is_empty() => SNIFF_TIMEOUT,
            () if http2 => FIRST_BYTES_HTTP2,
            () => FIRST_BYTES_HTTP1,
        };
        match tokio::time::timeout(timeout, stream.read_buf(&mut bytes)).await {
            Ok(Ok(count)) if count > 0 => _ = state.mark_received(0),
            Err(_) if !bytes.is_empty() => return Some((FirstRequest::Other, bytes.freeze())),
            _ => return None,
        }
        let first = if http2 { sniff::http2(&bytes) } else { sniff::http1(&bytes) };
        match first {
            FirstRequest::Undecided if bytes.len() < SNIFF_BYTES => {}
            FirstRequest::Undecided => return Some((FirstRequest::Other, bytes.freeze())),
            first => return Some((first, bytes.freeze())),
        }
    }
}

fn connection_info(
    stream: &TlsStream<Gate<TcpStream>>,
    peer: SocketAddr,
    state: &Arc<Connection>,
) -> Arc<ConnectionInfo> {
    let (_, session) = stream.get_ref();
    let certificates =
        session.peer_certificates().unwrap_or_default().iter().map(|der| der.clone().into_owned()).collect();
    let alpn = session.alpn_protocol().map(<[u8]>::to_vec);
    let info = ConnectionInfo::new(peer, certificates, alpn).with_server_name(session.server_name());
    let state = state.clone();
    Arc::new(info.when_identified(move || state.mark_authenticated()))
}

/// Serves a connection until it ends, on the current runtime; handlers run on that of the `workers`, if set.
async fn serve<S: Service>(
    shared: Arc<Shared<S>>,
    stream: Box<TlsStream<Gate<TcpStream>>>,
    read_ahead: Bytes,
    info: Arc<ConnectionInfo>,
    slot: Slot,
    workers: Option<Handle>,
) {
    let http2 = info.alpn.as_deref() == Some(b"h2");
    let state = slot.connection().clone();
    let handlers = Handlers { service: shared.service.clone(), workers };
    let shutdown = &shared.shutdown;
    let graceful_shutdown = async {
        tokio::select! {
            () = shutdown.fired() => {}
            () = state.shutdown_requested() => {}
        }
    };
    let stream = CorkedStream::new(stream, if http2 { FlushMode::WhenIdle } else { FlushMode::All }, read_ahead);
    let pending_flush = stream.pending_flush();
    let frames = http2.then(|| FrameMeter::new(Instant::now()));
    let stream = ConnectionMeter::new(LingeringStream::new(stream), slot, frames);
    let ended = async {
        // Boxed so that neither protocol reserves the space of the other.
        if http2 {
            let served =
                http2::serve(stream, pending_flush, shared.max_streams, &handlers, &info, &state, graceful_shutdown);
            Box::pin(served).await.map_err(|error| error.to_string())
        } else {
            let served = Box::pin(http1::serve(stream, &handlers, &info, &state, graceful_shutdown)).await;
            // A connection that is still open was upgraded and belongs to its new owner.
            state.mark_upgraded();
            served.map_err(|error| error.to_string())
        }
    };
    let ended = tokio::select! {
        biased;
        () = state.close_requested() => Err("closed".to_owned()),
        ended = ended => ended,
    };
    if let Err(error) = ended {
        // Clients often disconnect without closing the connection properly.
        tracing::trace!(peer = ?info.peer, "connection: {error}");
    }
}

#[cfg(test)]
mod tests {
    use binnacle_request::Body;

    use super::*;
    use crate::service::ResponseBody;

    /// A service whose futures are as large as those of a real handler chain.
    struct LargeService;

    impl Service for LargeService {
        type Body = Body;

        async fn serve(&self, request: http::Request<Body>, _: Arc<ConnectionInfo>) -> http::Response<Body> {
            let state = [request.uri().path().len(); 1024];
            tokio::task::yield_now().await;
            http::Response::new(Body::from(format!("{state:?}")))
        }

        fn is_probe(&self, _: &str) -> bool {
            false
        }

        fn is_shutting_down(&self) -> bool {
            false
        }
    }

    impl ResponseBody for Body {
        fn hold(&self, guard: impl std::any::Any + Send) {
            drop(guard);
        }
    }

    /// Tasks exist as long as their connections, so their size matters for each client.
    #[test]
    fn connection_tasks_are_small() {
        fn size<A, B, C, D, E, F, T: Future>(_: impl Fn(A, B, C, D, E, F) -> T) -> usize {
            size_of::<T>()
        }
        let size = size(serve::<LargeService>);
        assert!(size <= 1024, "{size}");
    }

    #[test]
    fn groups_clients_by_network() {
        for (address, want) in
            [("10.1.2.3", "10.1.2.3"), ("::ffff:10.1.2.3", "10.1.2.3"), ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::")]
        {
            assert_eq!(client_network(address.parse().unwrap()), want.parse::<IpAddr>().unwrap());
        }
    }
}
