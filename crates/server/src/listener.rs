//! Accepts connections, shakes hands, and runs HTTP on them.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use binnacle_request::{Body, ConnectionInfo, Shutdown};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::server::Acceptor;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::answer::CloseConnection;
use crate::cork::{Corked, Flushes, Gate};
use crate::linger::Lingering;
use crate::{Chain, Tls};

/// How long a client may take for its half of the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection may idle between requests (the reference's `IdleTimeout`), and how long the head of a request
/// may take to arrive.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);
/// What Go accepts as headers of one request.
const MAX_HEADER_BYTES: usize = 1 << 20;
/// Go has no limit of its own on their number; impersonation and proxies may send some hundreds.
const MAX_HEADERS: usize = 512;
/// What `--http2-max-streams-per-connection=0` means.
const MAX_STREAMS: u32 = 250;
/// Most request bodies fit into this, so that they arrive without waiting for a window (the reference's choice).
const STREAM_WINDOW: u32 = 256 * 1024;
/// Bounds what one connection may make the server hold of bodies that nobody reads yet.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// What one stream may hold of an answer that its client does not read yet: the rest waits where it is shared.
const SEND_BUFFER: usize = 64 * 1024;
/// How often a silent HTTP/2 client is asked whether it is there, and how long it may take to answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// Whether others may listen on the same port (`--permit-port-sharing`, `SO_REUSEPORT`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortSharing {
    #[default]
    Refused,
    Permitted,
}

/// A bound port whose connections are not yet answered.
pub struct BoundPort {
    tcp: TcpListener,
    address: SocketAddr,
}

/// A bound port with the certificate it shows.
pub struct Listener {
    tcp: TcpListener,
    tls: Tls,
    max_streams: u32,
}

/// The port cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("failed to create listener: failed to listen on {address}: {error}")]
pub struct ListenError {
    address: SocketAddr,
    error: std::io::Error,
}

impl BoundPort {
    /// Takes the port; 0 takes any free one. Clients can connect from here on, and wait for [`Server::run`].
    ///
    /// [`Server::run`]: crate::Server::run
    pub async fn bind(address: SocketAddr, sharing: PortSharing) -> Result<Self, ListenError> {
        let failed = |error| ListenError { address, error };
        let tcp = listen(address, sharing).map_err(failed)?;
        let address = tcp.local_addr().map_err(failed)?;
        Ok(Self { tcp, address })
    }

    /// Where it really listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn with_tls(self, tls: Tls) -> Listener {
        Listener { tcp: self.tcp, tls, max_streams: MAX_STREAMS }
    }
}

/// Must be called on a runtime. An address can always be taken while old connections to it linger (`SO_REUSEADDR`).
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
    /// How many requests one HTTP/2 connection may have in flight (`--http2-max-streams-per-connection`).
    #[must_use]
    pub fn max_streams(self, max_streams: u32) -> Self {
        Self { max_streams, ..self }
    }

    /// Accepts connections until the server stops, and hands back those that are still open.
    pub(crate) async fn accept(self, chain: Arc<Chain>) -> JoinSet<()> {
        let mut connections = JoinSet::new();
        let tls = Arc::new(self.tls);
        let certificates = tls.certificates().clone();
        if certificates.has_files() {
            let stopped = chain.shutdown().fired();
            connections.spawn(async move {
                tokio::select! {
                    () = certificates.follow() => {}
                    () = stopped => {}
                }
            });
        }
        let mut stopped = pin!(chain.shutdown().fired());
        loop {
            tokio::select! {
                biased;
                () = &mut stopped => return connections,
                // Finished connections are forgotten as they end.
                Some(_) = connections.join_next() => {}
                accepted = self.tcp.accept() => match accepted {
                    Ok((tcp, peer)) => {
                        connections.spawn(connection(tls.clone(), tcp, peer, self.max_streams, chain.clone()));
                    }
                    Err(error) => {
                        tracing::warn!("accepting a connection failed: {error}");
                        // Out of file descriptors, most likely: asking again at once would only burn the processor.
                        if !is_of_one_connection(&error) {
                            tokio::time::sleep(Duration::from_millis(50)).await;
                        }
                    }
                },
            }
        }
    }
}

fn is_of_one_connection(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

async fn connection(tls: Arc<Tls>, tcp: TcpStream, peer: SocketAddr, max_streams: u32, chain: Arc<Chain>) {
    // Answers are written in whole pieces, so waiting for more would only delay them.
    let _ = tcp.set_nodelay(true);
    let stopped = chain.shutdown().fired();
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, shake_hands(&tls, tcp)) => shaken,
        () = stopped => return,
    };
    let error = match shaken {
        Ok(Ok(stream)) => return serve(stream, peer, max_streams, chain).await,
        Ok(Err(error)) => error.to_string(),
        Err(_) => "timeout".to_owned(),
    };
    chain.metrics().handshake_failed();
    tracing::debug!("http: TLS handshake error from {peer}: {error}");
}

async fn shake_hands(tls: &Tls, tcp: TcpStream) -> std::io::Result<TlsStream<Gate<TcpStream>>> {
    let own = tcp.local_addr().ok().map(|address| address.ip().to_canonical());
    let start = LazyConfigAcceptor::new(Acceptor::default(), Gate::new(tcp)).await?;
    let config = tls.answer_to(&start.client_hello(), own);
    start.into_stream(config).await
}

async fn serve(stream: TlsStream<Gate<TcpStream>>, peer: SocketAddr, max_streams: u32, chain: Arc<Chain>) {
    let (_, session) = stream.get_ref();
    let certificates =
        session.peer_certificates().unwrap_or_default().iter().map(|der| der.clone().into_owned()).collect();
    let alpn = session.alpn_protocol().map(<[u8]>::to_vec);
    let http2 = alpn.as_deref() == Some(b"h2");
    let info = Arc::new(ConnectionInfo::new(peer, certificates, alpn));
    let shutdown = chain.shutdown().clone();
    let leave = Arc::new(Notify::new());
    let stream = Corked::new(stream, if http2 { Flushes::WhenIdle } else { Flushes::All });

    let service = service_fn({
        let leave = leave.clone();
        move |request: hyper::Request<Incoming>| {
            let (chain, info, leave) = (chain.clone(), info.clone(), leave.clone());
            // Hyper moves what it is given several times before it polls it.
            Box::pin(async move {
                let response = chain.serve(request.map(Body::new), info).await;
                if response.extensions().get::<CloseConnection>().is_some() {
                    leave.notify_one();
                }
                Ok::<_, Infallible>(response)
            })
        }
    });
    let ended = if http2 {
        let owed = stream.owed();
        let io = TokioIo::new(Lingering::new(stream));
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(max_streams)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .max_header_list_size(MAX_HEADER_BYTES as u32)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        let mut running = pin!(builder.serve_connection(io, service));
        tokio::select! {
            ended = owed.watch(running.as_mut()) => ended,
            () = until_leaving(&shutdown, &leave) => {
                running.as_mut().graceful_shutdown();
                owed.watch(running.as_mut()).await
            }
        }
    } else {
        let io = TokioIo::new(stream);
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE_TIMEOUT)
            .max_headers(MAX_HEADERS)
            .max_buf_size(MAX_HEADER_BYTES)
            .title_case_headers(true);
        let mut running = pin!(builder.serve_connection(io, service).with_upgrades());
        tokio::select! {
            ended = running.as_mut() => ended,
            () = until_leaving(&shutdown, &leave) => {
                running.as_mut().graceful_shutdown();
                running.await
            }
        }
    };
    if let Err(error) = ended {
        // Clients go away without saying good-bye all the time.
        tracing::trace!("connection from {peer}: {error}");
    }
}

/// Resolves when the connection should take no further requests.
async fn until_leaving(shutdown: &Shutdown, leave: &Notify) {
    tokio::select! {
        () = shutdown.fired() => {}
        () = leave.notified() => {}
    }
}
