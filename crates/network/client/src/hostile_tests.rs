//! Servers that violate the protocol: each connection is closed or throttled after a bounded number of bytes.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use binnacle_request::Body;
use bytes::{BufMut, Bytes};
use http::Request;
use http_body_util::BodyExt;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpListener;

use crate::exchange::{self, exchange};
use crate::limits::MAX_HEAD_BYTES;
use crate::metered::{Meter, MeteredStream};
use crate::target::{ConnectionOptions, Target};
use crate::tls::{Verification, client_config};
use crate::{Pool, SendError};

/// Sends the beginning of a response, and then a pattern until the client disconnects.
async fn send_for_ever(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, begin: &[u8], pattern: &[u8]) {
    let mut request = [0; 4096];
    let _ = stream.read(&mut request).await;
    let endless = pattern.repeat(1 + (64 << 10) / pattern.len());
    let mut next = begin.to_vec();
    while stream.write_all(&next).await.is_ok() && stream.flush().await.is_ok() {
        next.clone_from(&endless);
    }
}

/// Starts a server for one connection. With TLS, it offers this protocol.
async fn server(begin: &'static [u8], pattern: Vec<u8>, protocol: Option<&'static [u8]>) -> Target {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.expect("a connection");
        match protocol {
            None => send_for_ever(tcp, begin, &pattern).await,
            Some(protocol) => {
                let stream = acceptor(protocol).accept(tcp).await.expect("a handshake");
                send_for_ever(stream, begin, &pattern).await;
            }
        }
    });
    let tls = protocol.map(|_| client_config(Verification::None, None).expect("a configuration"));
    Target {
        host: "127.0.0.1".into(),
        port: Some(port),
        tls,
        addresses: None,
        server_name: None,
        connection: ConnectionOptions::default(),
    }
}

pub(crate) fn acceptor(protocol: &[u8]) -> tokio_rustls::TlsAcceptor {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let key = rustls_pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(binnacle_crypto::tls::provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.expect("versions").with_no_client_auth();
    let mut config = config.with_single_cert(vec![own.cert.der().clone()], key).expect("a configuration");
    config.alpn_protocols = vec![protocol.to_vec()];
    Arc::new(config).into()
}

fn get() -> Request<Body> {
    Request::get("/").body(Body::empty()).expect("a request")
}

const CHUNKED: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The name of a response, its beginning and its repeated part, the maximum number of bytes read, and the error.
type Endless = (&'static str, &'static [u8], Vec<u8>, u64, &'static str);

fn endless() -> Vec<Endless> {
    const HEAD: u64 = MAX_HEAD_BYTES as u64 + (256 << 10);
    const BODY: u64 = 512 << 10;
    let zeros_before_each_byte = [&[b'0'; 40_000][..], b"1\r\nx\r\n"].concat();
    let non_data = "chunked encoding contains too much non-data";
    let headers = "server response headers exceeded";
    vec![
        ("digits of a chunk size", CHUNKED, b"0".to_vec(), BODY, non_data),
        (
            "spaces after a chunk size",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1",
            b" ".to_vec(),
            BODY,
            non_data,
        ),
        ("digits before each byte", CHUNKED, zeros_before_each_byte, 2 * BODY, non_data),
        (
            "extensions",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
            b"x".to_vec(),
            BODY,
            "extensions over limit",
        ),
        ("extensions of each chunk", CHUNKED, b"1;xxxxxxxxxxxxxxxx\r\nx\r\n".to_vec(), BODY, "extensions over limit"),
        (
            "trailers",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
            b"a: b\r\n".to_vec(),
            BODY,
            "trailers",
        ),
        ("informational responses", b"", b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(), HEAD, headers),
        ("early hints", b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n".to_vec(), HEAD, headers),
        ("a long header", b"HTTP/1.1 200 OK\r\nX: ", b"x".to_vec(), HEAD, "message head is too large"),
        ("many headers", b"HTTP/1.1 200 OK\r\n", b"X: y\r\n".to_vec(), HEAD, "head is too large"),
        ("empty lines", b"", b"\r\n".to_vec(), HEAD, "head"),
    ]
}

/// Reads a response completely; returns the error.
async fn read_all<E: std::fmt::Display>(mut body: impl http_body::Body<Data = Bytes, Error = E> + Unpin) -> String {
    loop {
        match body.frame().await.expect("no end") {
            Ok(_) => {}
            Err(error) => return error.to_string(),
        }
    }
}

fn root(error: &(dyn std::error::Error + 'static)) -> String {
    let mut last = error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[tokio::test]
async fn limits_endless_responses() {
    for (name, begin, pattern, most, want) in endless() {
        let target = server(begin, pattern, None).await;
        let connected = target.dial().await.expect("a connection");
        let meter = connected.meter.clone();
        let error = match exchange(connected, &target, get()).await {
            Ok(answer) => {
                let mut body = answer.into_body();
                loop {
                    if let Err(error) = body.frame().await.expect("no end") {
                        break root(&*error);
                    }
                }
            }
            Err(error) => error.to_string(),
        };
        assert!(error.contains(want), "{name}: {error}");
        assert!(meter.read() <= most, "{name}: {}", meter.read());
    }
}

#[tokio::test]
async fn limits_endless_responses_over_tls() {
    for (name, begin, pattern, _, _) in endless() {
        let target = server(begin, pattern, Some(b"http/1.1")).await;
        let pool = Pool::new(target.tls.clone().expect("TLS"), "localhost".to_owned(), ConnectionOptions::default());
        let outcome: Result<_, SendError> = pool.send(&target.authority(), get()).await;
        if let Ok(answer) = outcome {
            read_all(answer.into_body()).await;
            assert!(!name.contains("informational"));
        }
    }
}

/// The behavior of a server on a new HTTP/2 connection, after its settings.
async fn flood(mut stream: DuplexStream, frames: Vec<u8>, sent: Arc<AtomicU64>) {
    let mut preface = vec![0; 24];
    stream.read_exact(&mut preface).await.expect("a preface");
    let (mut from_client, mut to_client) = tokio::io::split(stream);
    let reading = async {
        let mut buffer = vec![0; 16 << 10];
        while from_client.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
    };
    let writing = async {
        let settings = frame(4, 0, 0, &[]);
        if to_client.write_all(&settings).await.is_err() {
            return;
        }
        while to_client.write_all(&frames).await.is_ok() {
            sent.fetch_add(frames.len() as u64, Ordering::Relaxed);
        }
    };
    tokio::join!(reading, writing);
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.put_u32(stream);
    frame.extend_from_slice(payload);
    frame
}

/// Sends a request to a server that floods the connection. Returns the number of bytes sent in one second, and whether
/// the connection is still open.
async fn flooded(frames: Vec<u8>) -> (u64, bool) {
    let (near, far) = duplex(64 << 10);
    let sent = Arc::new(AtomicU64::new(0));
    tokio::spawn(flood(far, frames, sent.clone()));
    let meter = Meter::default();
    meter.share();
    let builder = http2::Builder::new(TokioExecutor::new());
    let stream = TokioIo::new(MeteredStream::new(near, meter.clone()));
    let (mut sender, connection) = builder.handshake::<_, Body>(stream).await.expect("a handshake");
    tokio::spawn(connection);
    let request = Request::get("https://localhost/").body(Body::empty()).expect("a request");
    let answered = sender.send_request(request);
    let open = within_a_second(answered).await.is_none();
    (meter.read(), open)
}

async fn within_a_second<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(Duration::from_secs(1), work).await.ok()
}

#[tokio::test(start_paused = true)]
async fn throttles_floods_of_frames() {
    const MOST: u64 = MAX_HEAD_BYTES as u64 + (1 << 20);
    let ping = frame(6, 0, 0, &[0; 8]).repeat(100);
    let pong = frame(6, 1, 0, &[0; 8]).repeat(100);
    let settings = frame(4, 0, 0, &[0, 4, 0, 1, 0, 0]).repeat(100);
    let tables = frame(4, 0, 0, &[0, 1, 0xff, 0xff, 0xff, 0xff]).repeat(100);
    let priority = frame(2, 0, 1, &[0, 0, 0, 3, 7]).repeat(100);
    let unknown = frame(0xfe, 0, 1, &[7; 1000]);
    let windows = frame(8, 0, 1, &1u32.to_be_bytes()).repeat(100);
    for (name, frames) in [
        ("ping", ping),
        ("pong", pong),
        ("settings", settings),
        ("tables", tables),
        ("priority", priority),
        ("unknown", unknown),
        ("windows", windows),
    ] {
        let (read, _) = flooded(frames).await;
        assert!(read <= MOST, "{name}: {read}");
    }
    // These are errors.
    let continuations = [frame(1, 0, 1, &[0x88]), frame(9, 0, 1, &[0x88; 1000]).repeat(2000)].concat();
    let resets = frame(3, 0, 9, &[0; 4]).repeat(100);
    let pushes = frame(5, 4, 1, &[0, 0, 0, 2, 0x88]).repeat(100);
    for (name, frames) in [("continuation", continuations), ("reset", resets), ("push", pushes)] {
        let (read, open) = flooded(frames).await;
        assert!(!open && read <= MOST, "{name}: {read}");
    }
}

#[tokio::test]
async fn errors_name_the_exceeded_limit() {
    let target = server(b"", b"HTTP/1.1 102 Processing\r\n\r\n".to_vec(), None).await;
    let error = exchange::send(&target, get()).await.err().expect("no answer");
    assert_eq!(error.to_string(), "net/http: server response headers exceeded 1048576 bytes; aborted");
}
