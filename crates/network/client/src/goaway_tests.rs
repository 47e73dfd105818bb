//! HTTP/2 servers that shut down their connections: exactly the requests that they did not process are retried.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use binnacle_request::{Body, BoxError};
use bytes::{BufMut, Bytes};
use http::{Method, Request};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::hostile_tests::{acceptor, frame};
use crate::target::ConnectionOptions;
use crate::tls::{Verification, client_config};
use crate::{Pool, SendError};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// How a connection ends with its first request.
#[derive(Clone, Copy)]
enum ConnectionEnd {
    /// Sends GOAWAY that excludes the request.
    Before,
    /// Sends GOAWAY without a last stream, then GOAWAY that excludes the request.
    BeforeGracefully,
    /// Refuses the stream.
    Refuses,
    /// Sends GOAWAY that includes the request, without a response.
    After,
    /// Closes the connection without GOAWAY.
    Breaks,
}

struct Server {
    pool: Arc<Pool>,
    address: String,
    connections: Arc<AtomicUsize>,
    bodies: Arc<Mutex<Vec<Bytes>>>,
}

impl Server {
    /// Starts a server whose first connections end as given; later connections respond.
    async fn start(ends: &'static [ConnectionEnd]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (connections, bodies) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::default()));
        let (count, received) = (connections.clone(), bodies.clone());
        let acceptor = acceptor(b"h2");
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let end = ends.get(count.fetch_add(1, Ordering::SeqCst)).copied();
                tokio::spawn(connection(acceptor.clone(), tcp, end, received.clone()));
            }
        });
        let tls = client_config(Verification::None, None).expect("a configuration");
        let mut tls = Arc::unwrap_or_clone(tls);
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Self {
            pool: Pool::new(Arc::new(tls), "localhost".to_owned(), ConnectionOptions::default()),
            address,
            connections,
            bodies,
        }
    }

    async fn send(&self, method: Method, body: Body) -> Result<u16, SendError> {
        let request = Request::builder().method(method).uri("/").body(body).expect("a request");
        Ok(self.pool.send(&self.address, request).await?.status().as_u16())
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn bodies(&self) -> Vec<Bytes> {
        self.bodies.lock().clone()
    }
}

async fn connection(
    acceptor: tokio_rustls::TlsAcceptor,
    tcp: TcpStream,
    end: Option<ConnectionEnd>,
    bodies: Arc<Mutex<Vec<Bytes>>>,
) -> std::io::Result<()> {
    let mut stream = acceptor.accept(tcp).await?;
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
    let mut body = Vec::new();
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let [a, b, c, kind, flags, w, x, y, z] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut payload).await?;
        let id = u32::from_be_bytes([w, x, y, z]);
        match (kind, end) {
            (SETTINGS, _) if flags == 0 => stream.write_all(&frame(SETTINGS, 1, 0, &[])).await?,
            (HEADERS, Some(ConnectionEnd::Before)) => stream.write_all(&go_away(0)).await?,
            (HEADERS, Some(ConnectionEnd::BeforeGracefully)) => {
                stream.write_all(&[go_away(u32::MAX >> 1), go_away(0)].concat()).await?;
            }
            (HEADERS, Some(ConnectionEnd::Refuses)) => {
                stream.write_all(&frame(RST_STREAM, 0, id, &[0, 0, 0, 7])).await?
            }
            (HEADERS, Some(ConnectionEnd::After)) => {
                stream.write_all(&go_away(id)).await?;
                return stream.shutdown().await;
            }
            (HEADERS, Some(ConnectionEnd::Breaks)) => return Ok(()),
            _ => {}
        }
        if kind == DATA {
            body.extend_from_slice(&payload);
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 && end.is_none() {
            bodies.lock().push(Bytes::from(std::mem::take(&mut body)));
            // `:status: 200` is the eighth entry of HPACK's static table.
            stream.write_all(&frame(HEADERS, END_STREAM | END_HEADERS, id, &[0x88])).await?;
        }
    }
}

fn go_away(last: u32) -> Vec<u8> {
    let mut payload = Vec::new();
    payload.put_u32(last);
    payload.put_u32(0);
    frame(GOAWAY, 0, 0, &payload)
}

fn received() -> Body {
    Body::stream(futures::stream::iter([Ok::<_, BoxError>(Bytes::from("ab")), Ok(Bytes::from("c"))]))
}

#[tokio::test]
async fn retries_requests_that_were_not_processed() {
    let cases: [&'static [ConnectionEnd]; 4] = [
        &[ConnectionEnd::Before],
        &[ConnectionEnd::BeforeGracefully],
        &[ConnectionEnd::Refuses],
        &[ConnectionEnd::Before, ConnectionEnd::Refuses, ConnectionEnd::BeforeGracefully, ConnectionEnd::Before],
    ];
    for ends in cases {
        for method in [Method::GET, Method::POST, Method::DELETE, Method::PATCH] {
            for (body, want) in [(Body::empty(), ""), (Body::full("whole"), "whole"), (received(), "abc")] {
                let server = Server::start(ends).await;
                assert_eq!(server.send(method.clone(), body).await.expect("an answer"), 200);
                assert_eq!((server.connections(), server.bodies()), (ends.len() + 1, vec![Bytes::from(want)]));
            }
        }
    }
}

#[tokio::test]
async fn retries_only_reads_that_may_have_been_processed() {
    for ends in [&[ConnectionEnd::After][..], &[ConnectionEnd::Breaks][..]] {
        let server = Server::start(ends).await;
        let error = server.send(Method::DELETE, Body::empty()).await.expect_err("no answer");
        assert!(matches!(error, SendError::Broken(_)), "{error}");
        assert!(server.send(Method::POST, Body::full("x")).await.is_ok());
        assert_eq!((server.connections(), server.bodies()), (2, vec![Bytes::from("x")]));

        let server = Server::start(ends).await;
        assert_eq!(server.send(Method::GET, Body::empty()).await.expect("an answer"), 200);
        assert_eq!(server.connections(), 2);
    }
}

#[tokio::test]
async fn gives_up_after_eight_connections() {
    let server = Server::start(&[ConnectionEnd::Before; 20]).await;
    let error = server.send(Method::GET, Body::empty()).await.expect_err("no answer");
    assert!(error.to_string().contains("GOAWAY"), "{error}");
    assert_eq!(server.connections(), 8);
}
