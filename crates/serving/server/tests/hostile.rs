//! Tests of misbehaving clients and their effect on others.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

mod rig;

use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_testkit::frames::{
    DATA, END_STREAM, Frame, Frames, GOAWAY, INITIAL_WINDOW, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use binnacle_testkit::https::Handshake;
use binnacle_testkit::{TIMEOUT, wait_until};
use binnacle_transport::ConnectionLimits;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use rig::{Options, TestServer};

async fn tls(server: &TestServer, handshake: &Handshake) -> TlsStream<TcpStream> {
    let tcp = TcpStream::connect(server.address).await.unwrap();
    let connector = TlsConnector::from(Arc::new(handshake.clone().alpn(&["http/1.1"]).config()));
    connector.connect(ServerName::try_from("localhost").unwrap(), tcp).await.unwrap()
}

/// Sends a text and reads until the server closes the connection.
async fn send_and_read_to_end(server: &TestServer, text: &[u8]) -> String {
    let mut stream = tls(server, &server.identity("me")).await;
    stream.write_all(text).await.unwrap();
    let mut response = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut response)).await;
    read.expect("the connection is closed").unwrap();
    String::from_utf8(response).unwrap()
}

async fn bounded<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, future).await.expect("it ends")
}

#[tokio::test]
async fn aborts_unread_responses() {
    let server = TestServer::with(Options { request_timeout: Duration::from_secs(1), ..Options::default() }).await;
    let mut frames = Frames::connect(server.address, &server.identity("me"), &[(INITIAL_WINDOW, 0)]).await;
    for stream in 0..20 {
        frames.send(&Frame::request(2 * stream + 1, "GET", "/who", &[], true)).await.unwrap();
    }
    let mut reset = 0;
    while reset < 20 {
        let frame = bounded(frames.next_answering()).await.expect("the connection goes on");
        assert_ne!(frame.kind, DATA);
        reset += usize::from(frame.kind == RST_STREAM);
    }
    // A window of one byte has the same effect: no response that was sent waits in the connection.
    let mut frames = Frames::connect(server.address, &server.identity("me"), &[(INITIAL_WINDOW, 1)]).await;
    frames.send(&Frame::request(1, "GET", "/large", &[], true)).await.unwrap();
    let mut sent = 0;
    loop {
        let frame = bounded(frames.next_answering()).await.expect("the connection goes on");
        sent += if frame.kind == DATA { frame.payload.len() } else { 0 };
        if frame.kind == RST_STREAM {
            break;
        }
    }
    assert_eq!(sent, 1);
    // HTTP/1 has no streams: the connection ends.
    let mut stream = tls(&server, &server.identity("me")).await;
    stream.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let state = bounded(async {
        // Part of the body is buffered; then the stream ends early.
        tokio::time::sleep(Duration::from_secs(4)).await;
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all).await;
        all.len()
    });
    assert!(state.await < 10 << 20);
    server.stop().await;
}

#[tokio::test]
async fn unread_responses_do_not_delay_shutdown() {
    let server = TestServer::start().await;
    let mut unread = Vec::new();
    for _ in 0..4 {
        let mut frames = Frames::connect(server.address, &server.identity("me"), &[(INITIAL_WINDOW, 0)]).await;
        for stream in 0..50 {
            frames.send(&Frame::request(2 * stream + 1, "GET", "/who", &[], true)).await.unwrap();
        }
        // The heads of all responses have arrived, so the responses have been built.
        let mut heads = 0;
        while heads < 50 {
            heads += usize::from(bounded(frames.next_answering()).await.unwrap().kind == 1);
        }
        unread.push(tokio::spawn(async move { frames.rest().await }));
    }
    let took = server.stop().await;
    assert!(took < Duration::from_secs(10), "{took:?}");
    for frames in unread {
        bounded(frames).await.unwrap();
    }
}

#[tokio::test]
async fn closes_connections_of_anonymous_users_that_do_not_read() {
    let server = TestServer::with(Options { request_timeout: Duration::from_secs(1), ..Options::default() }).await;
    let mut frames = Frames::connect(server.address, &server.handshake(), &[(INITIAL_WINDOW, 0)]).await;
    for stream in 0..100 {
        frames.send(&Frame::request(2 * stream + 1, "GET", "/who", &[], true)).await.unwrap();
    }
    // Pings are still acknowledged; the connection shuts down with the first response, and ends.
    let received = bounded(frames.rest()).await;
    assert!(received.iter().any(|frame| frame.kind == GOAWAY));
    server.stop().await;
}

#[tokio::test]
async fn limits_streams_per_connection() {
    let server = TestServer::start().await;
    let mut frames = Frames::connect(server.address, &server.identity("me"), &[]).await;
    let settings = loop {
        let frame = bounded(frames.next()).await.unwrap();
        if frame.kind == SETTINGS && frame.flags == 0 {
            break frame;
        }
    };
    let most = settings.payload.chunks(6).find(|setting| setting[..2] == [0, 3]).unwrap();
    assert_eq!(most[2..], [0, 0, 0, 100]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closes_connections_on_frame_floods() {
    let server = TestServer::start().await;
    let frame = |kind, flags, payload: &[u8]| Frame::new(kind, flags, 0, payload).bytes();
    for (name, one) in [
        ("pings", frame(PING, 0, &[0; 8])),
        ("settings", frame(SETTINGS, 0, &[])),
        ("kinds that do not exist", frame(77, 0, &[0; 20])),
        ("windows", frame(WINDOW_UPDATE, 0, &[0, 0, 0, 1])),
        ("priorities", Frame::new(2, 0, 1, &[0, 0, 0, 0, 1]).bytes()),
    ] {
        let frames = Frames::connect(server.address, &server.identity("me"), &[]).await;
        assert!(frames.flood(&one.repeat(1000), 400).await, "{name}");
    }
    // Empty data on a stream that stays open.
    let mut frames = Frames::connect(server.address, &server.identity("me"), &[]).await;
    frames.send(&Frame::request(1, "POST", "/api/v1/pods", &[], false)).await.unwrap();
    assert!(frames.flood(&Frame::new(DATA, 0, 1, &[]).bytes().repeat(1000), 400).await, "empty data");
    // Other clients are not affected.
    assert_eq!(server.connect(&server.identity("me")).await.get("/who").await.unwrap().body, "me");
    server.stop().await;
}

#[tokio::test]
async fn closes_connections_on_rapid_resets() {
    let server = TestServer::start().await;
    for (handshake, most) in [(server.handshake(), 60), (server.identity("me"), 5000)] {
        let mut frames = Frames::connect(server.address, &handshake, &[]).await;
        if most > 60 {
            // The connection is authenticated.
            frames.send(&Frame::request(1, "GET", "/who", &[], true)).await.unwrap();
            while !bounded(frames.next_answering()).await.unwrap().ends_stream() {}
        }
        let mut ended = false;
        for n in 1..=most {
            let stream = 2 * n + 1;
            // One after the other, so that the server has received each request before it is cancelled.
            let mut both = Frame::request(stream, "GET", "/api/v1/stubborn?watch=1", &[], true).bytes();
            both.extend(Frame::new(RST_STREAM, 0, stream, &8u32.to_be_bytes()).bytes());
            if frames.write(&both).await.is_err() {
                ended = true;
                break;
            }
            tokio::task::yield_now().await;
        }
        assert!(ended || tokio::time::timeout(TIMEOUT, frames.rest()).await.is_ok(), "{most}");
    }
    server.stop().await;
}

#[tokio::test]
async fn closes_connections_on_provoked_resets() {
    let server = TestServer::start().await;
    let mut frames = Frames::connect(server.address, &server.identity("me"), &[]).await;
    let mut ended = false;
    for n in 0..2000 {
        let mut both = Frame::request(2 * n + 1, "GET", "/api/v1/stubborn?watch=1", &[], true).bytes();
        // More than the maximum window.
        both.extend(Frame::new(WINDOW_UPDATE, 0, 2 * n + 1, &0x7fff_ffffu32.to_be_bytes()).bytes());
        if frames.write(&both).await.is_err() {
            ended = true;
            break;
        }
        tokio::task::yield_now().await;
    }
    assert!(ended || tokio::time::timeout(TIMEOUT, frames.rest()).await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn responds_before_resetting_the_stream() {
    let server = TestServer::start().await;
    for _ in 0..8 {
        let mut frames = Frames::connect(server.address, &server.identity("me"), &[]).await;
        let total = 3 * 1024 * 1024;
        let length = total.to_string();
        let head = Frame::request(1, "POST", "/api/v1/pods", &[("content-length", &length)], false);
        frames.send(&head).await.unwrap();
        // As much as the windows allow, in frames like curl's; the response arrives in between.
        let (mut sent, mut room, mut done) = (0usize, 65_535usize, false);
        let (mut stream_room, mut early) = (256 * 1024usize, false);
        while !done || sent < total {
            let piece = room.min(stream_room).min(16 * 1024).min(total - sent);
            if piece > 0 {
                let last = sent + piece == total;
                let flags = if last { END_STREAM } else { 0 };
                frames.send(&Frame::new(DATA, flags, 1, &vec![b'x'; piece])).await.unwrap();
                (sent, room, stream_room) = (sent + piece, room - piece, stream_room - piece);
                if !last || done {
                    continue;
                }
            }
            let frame = bounded(frames.next_answering()).await.expect("the connection goes on");
            match frame.kind {
                WINDOW_UPDATE => {
                    let more = u32::from_be_bytes(frame.payload.try_into().unwrap()) as usize;
                    *(if frame.stream == 0 { &mut room } else { &mut stream_room }) += more;
                }
                RST_STREAM => {
                    early = true;
                    break;
                }
                _ => done |= frame.ends_stream(),
            }
        }
        assert!(!early && done, "reset after {sent} bytes");
    }
    // HTTP/1: the whole body is written before anything is read.
    for _ in 0..8 {
        let body = vec![b'x'; 3 * 1024 * 1024];
        let mut stream = tls(&server, &server.identity("me")).await;
        let head = format!(
            "POST /api/v1/pods HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let written = stream.write_all(&body).await;
        let mut response = Vec::new();
        let read = bounded(stream.read_to_end(&mut response)).await;
        let text = String::from_utf8_lossy(&response);
        assert!(text.starts_with("HTTP/1.1 413") && text.contains("limit is 100"), "{written:?} {read:?} {text}");
    }
    server.stop().await;
}

#[tokio::test]
async fn rejects_http1_heads_like_go() {
    let server = TestServer::start().await;
    for (head, want) in [
        ("GET /who HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ("GET /who HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ("GET /who HTTP/1.1\r\nHost: a/b\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (
            "POST /api/v1/pods HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
            "HTTP/1.1 501 Not Implemented",
        ),
    ] {
        let response = send_and_read_to_end(&server, head.as_bytes()).await;
        assert!(response.starts_with(want) && response.contains("Connection: close"), "{head:?}: {response}");
    }
    server.stop().await;
}

#[tokio::test]
async fn closes_connections_after_ten_failed_logins() {
    let server = TestServer::start().await;
    let stranger = TestServer::start().await;
    // A certificate of an unknown CA.
    let handshake = rig::identity(server.handshake(), "me", &stranger.issuer).alpn(&["http/1.1"]);
    let mut client = server.connect(&handshake).await;
    let mut responses = 0;
    while let Ok(response) = client.get("/who").await {
        assert_eq!(response.status, 401);
        responses += 1;
        assert!(responses <= 10);
    }
    assert_eq!(responses, 10);
    server.stop().await;
    stranger.stop().await;
}

#[tokio::test]
async fn evicts_idle_connections_for_new_clients() {
    let limits = ConnectionLimits { total: 40, unauthenticated: 30, unauthenticated_per_address: 20 };
    let server = TestServer::with(Options { limits, ..Options::default() }).await;
    let mut other_client = server.connect(&server.identity("me")).await;
    assert_eq!(other_client.get("/who").await.unwrap().body, "me");
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    assert_eq!(server.connect(&server.identity("other")).await.get("/who").await.unwrap().body, "other");
    assert_eq!(other_client.get("/who").await.unwrap().body, "me");
    wait_until("idle connections are closed", async || {
        let mut closed = 0;
        for stream in &mut idle {
            let read = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut [0])).await;
            closed += usize::from(!matches!(read, Err(_) | Ok(Ok(1..))));
        }
        (closed >= 80).then_some(())
    })
    .await;
    server.stop().await;
}

/// Health checks are served while all workers are blocked.
#[test]
fn responds_to_probes_while_workers_are_blocked() {
    let runtime =
        |threads| tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap();
    let (front, workers, clients) = (runtime(2), runtime(2), runtime(2));
    let options = Options { front: Some(front.handle().clone()), ..Options::default() };
    let server = workers.block_on(TestServer::with(options));
    clients.block_on(async {
        let mut probes = Vec::new();
        for alpn in ["h2", "http/1.1"] {
            let mut probe = server.connect(&server.identity("me").alpn(&[alpn])).await;
            assert_eq!(probe.get("/livez").await.unwrap().body, "ok");
            // Other requests on the same connection are served too, with its caller.
            assert_eq!(probe.get("/who").await.unwrap().body, "me");
            assert_eq!(probe.get("/large").await.unwrap().body.len(), 10 << 20);
            probes.push(probe);
        }
        let mut blocking = Vec::new();
        let mut blockers = Vec::new();
        for _ in 0..6 {
            let mut client = server.connect(&server.identity("me")).await;
            // It was forwarded to the workers.
            assert_eq!(client.get("/who").await.unwrap().body, "me");
            blockers.push(client);
        }
        for mut client in blockers {
            blocking.push(tokio::spawn(async move { client.get("/block").await }));
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
        let (mut slowest, mut probe_count) = (Duration::ZERO, 0);
        // While workers are blocked.
        while blocking.iter().all(|request| !request.is_finished()) {
            let fresh = server.connect(&server.handshake()).await;
            for client in probes.iter_mut().chain([fresh].iter_mut()) {
                for path in ["/livez", "/readyz"] {
                    let sent = Instant::now();
                    // Unauthenticated callers lose their connection.
                    match client.get(path).await {
                        Ok(response) => assert_eq!((response.status, response.body.as_str()), (200, "ok")),
                        Err(error) => assert_eq!(path, "/readyz", "{error}"),
                    }
                    probe_count += 1;
                    if blocking.iter().all(|request| !request.is_finished()) {
                        slowest = slowest.max(sent.elapsed());
                    }
                }
            }
        }
        println!("slowest of {probe_count} answers: {slowest:?}");
        assert!(probe_count > 12, "{probe_count}");
        // The target is 50 ms; the limit is higher because the machine may run all tests at the same time.
        assert!(slowest < Duration::from_secs(1), "{slowest:?}");
        for request in blocking {
            assert_eq!(request.await.unwrap().unwrap().body, "blocked");
        }
    });
    workers.block_on(server.stop());
    for runtime in [front, workers, clients] {
        runtime.shutdown_background();
    }
}
