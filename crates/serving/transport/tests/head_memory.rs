//! The memory of request heads, which clients may send on many connections without authentication.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use std::any::Any;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use binnacle_metrics::Registry;
use binnacle_request::{Body, BoxError, ConnectionInfo, Pieces, ShutdownTrigger};
use binnacle_testkit::frames::{Frame, Frames, HEADERS};
use binnacle_testkit::https::{Client, Handshake};
use binnacle_transport::{
    BoundPort, ConnectionLimits, ConnectionMetrics, DefaultCertificate, ListenerHandle, PortSharing, ResponseBody,
    Service, Tls, TlsFiles, TlsSettings,
};
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame as BodyFrame};
use rcgen::{CertificateParams, KeyPair};
use rustls_pki_types::{PrivateKeyDer, ServerName};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The number of connections, and the size of each head: 360 MB in total.
const CONNECTIONS: usize = 400;
const HEAD: usize = 900_000;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
/// The maximum growth of this process in KiB, with both sides of the connections. A buffer that grows may take twice as
/// much as the 64 MiB that are counted.
const GROWTH: usize = 200 << 10;

/// Answers one path, and keeps all other requests.
struct Waiter;

/// A response body that holds nothing.
struct TestBody(Body);

impl Service for Waiter {
    type Body = TestBody;

    async fn serve(&self, request: Request<Body>, _: Arc<ConnectionInfo>) -> Response<TestBody> {
        if request.uri().path() != "/answered" {
            std::future::pending::<()>().await;
        }
        Response::new(TestBody(Body::from("answer")))
    }

    fn is_probe(&self, _: &str) -> bool {
        false
    }

    fn is_shutting_down(&self) -> bool {
        false
    }
}

impl HttpBody for TestBody {
    type Data = Pieces;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<BodyFrame<Pieces>, BoxError>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }
}

impl ResponseBody for TestBody {
    fn hold(&self, _: impl Any + Send) {}
}

struct Server {
    address: SocketAddr,
    handshake: Handshake,
    _listener: ListenerHandle,
    _trigger: ShutdownTrigger,
}

impl Server {
    async fn start() -> Self {
        let key = KeyPair::generate().unwrap();
        let serving = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        let files =
            TlsFiles { chain: vec![serving.der().clone()], key: PrivateKeyDer::try_from(key.serialize_der()).unwrap() };
        let tls = Tls::new(&TlsSettings::default(), DefaultCertificate::Generated(files), Vec::new(), Vec::new());
        let port = BoundPort::bind(([127, 0, 0, 1], 0).into(), PortSharing::Refused).await.unwrap();
        let (address, (trigger, shutdown)) = (port.address(), ShutdownTrigger::new());
        let limits = ConnectionLimits { total: 1000, unauthenticated: 900, unauthenticated_per_address: 800 };
        let listener = port.with_tls(tls.unwrap()).limits(limits);
        let metrics = ConnectionMetrics::register(&Registry::new()).unwrap();
        let listener = listener.start(Arc::new(Waiter), shutdown, metrics);
        Self { address, handshake: Handshake::new(serving.pem()), _listener: listener, _trigger: trigger }
    }
}

/// Returns the memory of this process in KiB.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Sends the beginning and the end of a head, and a long header between them. The server may close the connection.
async fn http1(server: &Server, begin: &str, long: &[u8], end: &str) -> TlsStream<TcpStream> {
    let tcp = TcpStream::connect(server.address).await.unwrap();
    let connector = TlsConnector::from(Arc::new(server.handshake.clone().alpn(&["http/1.1"]).config()));
    let mut stream = connector.connect(ServerName::try_from("localhost").unwrap(), tcp).await.unwrap();
    for part in [begin.as_bytes(), long, end.as_bytes()] {
        if stream.write_all(part).await.is_err() {
            break;
        }
    }
    let _ = stream.flush().await;
    stream
}

/// Returns the frames of requests with a block of further headers. Their bodies never arrive.
fn requests(streams: u32, block: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for stream in 0..streams {
        let mut head = Frame::request(2 * stream + 1, "POST", "/waiting", &[], false);
        (head.kind, head.flags) = (HEADERS, 0);
        bytes.extend(head.bytes());
        let mut parts = block.chunks(16 << 10).peekable();
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_none() { END_HEADERS } else { 0 };
            bytes.extend(Frame::new(CONTINUATION, flags, head.stream, part).bytes());
        }
    }
    bytes
}

/// Sends frames. The server may close the connection.
async fn http2(server: &Server, frames: &[u8]) -> Frames {
    let mut connection = Frames::connect(server.address, &server.handshake, &[]).await;
    let _ = connection.write(frames).await;
    connection
}

/// Opens all connections, and checks how much memory this process then has, and that others get answers.
async fn check<C>(server: &Server, name: &str, open: impl AsyncFn() -> C) {
    let before = memory();
    let connections = futures::future::join_all((0..CONNECTIONS).map(async |_| open().await)).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let grown = memory().saturating_sub(before);
    assert!(grown < GROWTH, "{name}: {grown} KiB more");
    let mut other = Client::connect(server.address, &server.handshake).await.unwrap();
    assert_eq!(other.get("/answered").await.unwrap().body, "answer");
    drop(connections);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_on_many_connections_take_little_memory() {
    let server = Server::start().await;
    let long = vec![b'x'; HEAD];
    let begin = "GET /waiting HTTP/1.1\r\nhost: localhost\r\nx: ";
    for (name, end) in [("incomplete", ""), ("complete", "\r\n\r\n")] {
        check(&server, name, async || http1(&server, begin, &long, end).await).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_of_http2_take_little_memory() {
    let server = Server::start().await;
    // A literal header with a length of three bytes: 127 + HEAD - 127 in groups of seven bits.
    let rest = HEAD - 127;
    let mut literal = vec![0, 1, b'x', 127, rest as u8 | 128, (rest >> 7) as u8 | 128, (rest >> 14) as u8];
    literal.extend(vec![b'x'; HEAD]);
    let frames = requests(1, &literal);
    check(&server, "literal", async || http2(&server, &frames).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_heads_of_http2_take_little_memory() {
    let server = Server::start().await;
    // One header that is added to the table, and then its index: thirty heads of 2 MB each in memory.
    let mut indexed = vec![0x40, 1, b'x', 1, b'y'];
    indexed.extend([0xbe; 20_000]);
    let frames = requests(30, &indexed);
    check(&server, "compressed", async || http2(&server, &frames).await).await;
}
