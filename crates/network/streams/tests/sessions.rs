//! Remote commands between a client's WebSocket and a kubelet's SPDY connection. The tests play both ends.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]
#![allow(clippy::disallowed_methods, reason = "there are no authorizers here")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use binnacle_client::{ConnectionOptions, Target};
use binnacle_request::{
    Action, Body, ByteStream, ConnectionInfo, Decision, Permit, Query, Record, Request, RequestInfo, Shutdown,
    ShutdownTrigger, Upgrade, User,
};
use binnacle_streams::spdy::{Frame, Reader, Writer, header};
use binnacle_streams::{Streams, as_events, translate};
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

const PATH: &str = "/api/v1/namespaces/n/pods/p/exec";

struct Session {
    client: WebSocketStream<DuplexStream>,
    reader: Reader<tokio::net::tcp::OwnedReadHalf>,
    writer: Writer<tokio::net::tcp::OwnedWriteHalf>,
    stdin: u32,
    stdout: u32,
    error: u32,
    code: oneshot::Receiver<u16>,
    trigger: ShutdownTrigger,
}

/// Opens a session with stdin and stdout on both sides.
async fn session() -> Session {
    let kubelet = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = kubelet.local_addr().unwrap().port();
    let target = Target {
        host: "127.0.0.1".into(),
        port: Some(port),
        tls: None,
        addresses: None,
        server_name: None,
        connection: ConnectionOptions::default(),
    };
    let (client, server) = duplex(16 * 1024);
    let (trigger, shutdown) = ShutdownTrigger::new();
    let request = request(server, shutdown, &[("sec-websocket-protocol", "v5.channel.k8s.io")]);
    let (sender, code) = oneshot::channel();
    let streams = Streams { stdin: true, stdout: true, stderr: false, tty: false };
    let response = translate(request, target, "/exec/n/p/c?input=1&output=1".to_owned(), streams, |code| {
        // Not every test receives it.
        let _ = sender.send(code);
    });
    let response = response.unwrap();
    assert_eq!(response.status(), 101);
    assert_eq!(response.headers()["sec-websocket-protocol"], "v5.channel.k8s.io");
    // The key and the accept value are the example of RFC 6455.
    assert_eq!(response.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");

    let (mut tcp, _) = kubelet.accept().await.unwrap();
    let head = read_head(&mut tcp).await;
    assert!(head.starts_with("POST /exec/n/p/c?input=1&output=1 HTTP/1.1\r\n"), "{head}");
    let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
                  X-Stream-Protocol-Version: v4.channel.k8s.io\r\n\r\n";
    tcp.write_all(agreed.as_bytes()).await.unwrap();
    let (read, write) = tcp.into_split();
    let (mut reader, mut writer) = (Reader::new(read), Writer::new(write));
    let mut ids = [0; 3];
    for (id, kind) in ids.iter_mut().zip(["error", "stdin", "stdout"]) {
        let Some(Frame::Open { stream, headers, .. }) = reader.next().await.unwrap() else { panic!("no stream") };
        assert_eq!(header(&headers, "streamtype"), Some(kind));
        writer.write(&Frame::Reply { stream, fin: false }).await.unwrap();
        *id = stream;
    }
    let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Binary(Bytes::from_static(&[1])));
    let [error, stdin, stdout] = ids;
    Session { client, reader, writer, stdin, stdout, error, code, trigger }
}

/// Returns a request for a WebSocket on the other end of the client's connection.
fn request(server: DuplexStream, shutdown: Shutdown, more: &[(&'static str, &str)]) -> Request {
    let mut headers = http::HeaderMap::new();
    let usual = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    for (name, value) in usual.iter().chain(more) {
        headers.insert(*name, value.parse().unwrap());
    }
    Request {
        method: Method::GET,
        uri: PATH.parse().unwrap(),
        headers,
        body: Body::empty(),
        upgrade: Some(Upgrade::new(async { Ok(Box::new(server) as Box<dyn ByteStream>) })),
        info: Arc::new(RequestInfo::parse(&Method::GET, PATH, &Query::default(), PATH).unwrap()),
        query: Query::default(),
        user: Arc::new(User::new("u", &[])),
        permit: Permit::from_decision(&Decision::Allow("".into()), Action::default()).unwrap(),
        connection: Arc::new(ConnectionInfo::default()),
        record: Record::open(Method::GET, PATH.into(), None, None),
        deadline: None,
        shutdown,
    }
}

#[tokio::test]
async fn sends_each_event_as_one_message() {
    const ORIGIN: (&str, &str) = ("origin", "https://page.example");
    let protocol = |name| ("sec-websocket-protocol", name);
    for (headers, want, spoken) in [
        (vec![ORIGIN], 101, None),
        (vec![ORIGIN, protocol("base64.binary.k8s.io")], 101, Some("base64.binary.k8s.io")),
        (vec![ORIGIN, protocol("anything")], 101, Some("anything")),
        // The server does not choose among several protocols.
        (vec![ORIGIN, protocol("binary.k8s.io, base64.binary.k8s.io")], 400, None),
        (vec![], 403, None),
        (vec![("origin", "null")], 403, None),
        (vec![ORIGIN, ("sec-websocket-version", "8")], 400, None),
    ] {
        let (_, server) = duplex(64);
        let (_trigger, shutdown) = ShutdownTrigger::new();
        let response = as_events(request(server, shutdown, &headers), Body::empty(), true).unwrap();
        let agreed = response.headers().get("sec-websocket-protocol").map(|name| name.to_str().unwrap());
        assert_eq!((response.status().as_u16(), agreed), (want, spoken), "{headers:?}");
    }
    // Each event is one message of any length; then the server closes the connection.
    let long = Bytes::from("x".repeat(100_000));
    let short = Bytes::from_static(b"short");
    for text in [true, false] {
        let (client, server) = duplex(16 * 1024);
        let (_trigger, shutdown) = ShutdownTrigger::new();
        let events = [short.clone(), long.clone()].map(Ok::<_, std::io::Error>);
        let body = Body::stream(futures::stream::iter(events));
        as_events(request(server, shutdown, &[ORIGIN]), body, text).unwrap();
        let mut client = WebSocketStream::from_raw_socket(client, Role::Client, None).await;
        for want in [&short, &long] {
            let message = client.next().await.unwrap().unwrap();
            assert_eq!((message.is_text(), &message.into_data()), (text, want));
        }
        let Message::Close(Some(frame)) = client.next().await.unwrap().unwrap() else { panic!("no good-bye") };
        assert_eq!(frame.code, CloseCode::Normal);
    }
    // Every client that closes gets the same response, preceded by an error frame if it violated the protocol.
    for (says, want) in [
        (&[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe9][..], &[0x88, 2, 0x03, 0xe8][..]),
        (&[0x88, 0x80, 0, 0, 0, 0], &[0x88, 2, 0x03, 0xe8]),
        (&[0x81, 1, b'x'], &[0x88, 2, 0x03, 0xea, 0x88, 2, 0x03, 0xe8]),
    ] {
        let (mut client, server) = duplex(16 * 1024);
        let (_trigger, shutdown) = ShutdownTrigger::new();
        let body = Body::stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
        as_events(request(server, shutdown, &[ORIGIN]), body, true).unwrap();
        client.write_all(says).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, want, "{says:?}");
    }
}

async fn read_head(tcp: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

fn data(stream: u32, fin: bool, text: &'static [u8]) -> Frame {
    Frame::Data { stream, fin, data: Bytes::from_static(text) }
}

#[tokio::test]
async fn translates_stdin_stdout_and_the_outcome() {
    let Session { mut client, mut reader, mut writer, stdin, stdout, error, code, .. } = session().await;
    client.send(Message::Binary(Bytes::from_static(b"\0hello"))).await.unwrap();
    assert_eq!(reader.next().await.unwrap(), Some(data(stdin, false, b"hello")));
    writer.write(&data(stdout, false, b"world")).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Binary(Bytes::from_static(b"\x01world")));
    // The end of stdin is forwarded once; later data is dropped.
    for message in [&[255, 0][..], &[255, 0], &[0, b'x'], &[9, b'x'], &[]] {
        client.send(Message::Binary(Bytes::copy_from_slice(message))).await.unwrap();
    }
    assert_eq!(reader.next().await.unwrap(), Some(data(stdin, true, b"")));
    writer.write(&data(stdout, true, b"bye")).await.unwrap();
    let status = br#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"4"}]}}"#;
    writer.write(&data(error, true, status)).await.unwrap();
    assert_eq!(client.next().await.unwrap().unwrap(), Message::Binary(Bytes::from_static(b"\x01bye")));
    let Message::Binary(outcome) = client.next().await.unwrap().unwrap() else { panic!("no outcome") };
    let status: serde_json::Value = serde_json::from_slice(&outcome[1..]).unwrap();
    assert_eq!((outcome[0], &status["reason"]), (3, &"NonZeroExitCode".into()));
    assert_eq!(status["details"]["causes"][0]["message"], "4");
    assert!(matches!(client.next().await, Some(Ok(Message::Close(_)))));
    assert_eq!(code.await.unwrap(), 200);
}

/// The output of a command is read only as fast as its client reads.
#[tokio::test]
async fn propagates_back_pressure_to_the_kubelet() {
    let Session { mut client, reader: _reader, mut writer, stdout, .. } = session().await;
    let written = Arc::new(AtomicUsize::new(0));
    let count = written.clone();
    let kubelet = tokio::spawn(async move {
        let frame = Frame::Data { stream: stdout, fin: false, data: Bytes::from(vec![b'x'; 32 * 1024]) };
        while writer.write(&frame).await.is_ok() {
            count.fetch_add(32 * 1024, Ordering::Relaxed);
        }
    });
    // Until writing stalls.
    let mut last = usize::MAX;
    while last != written.load(Ordering::Relaxed) {
        last = written.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // The kernel buffers of a local connection hold a few megabytes.
    assert!(last < 32 << 20, "{last} bytes are somewhere");
    let mut read = 0;
    while read <= last + (4 << 20) {
        let Message::Binary(data) = client.next().await.unwrap().unwrap() else { panic!("no data") };
        read += data.len() - 1;
    }
    drop(client);
    kubelet.await.unwrap();
}

#[tokio::test]
async fn closes_both_sides_when_either_ends_or_the_server_stops() {
    // The kubelet disconnects without an outcome.
    let Session { mut client, reader, writer, .. } = session().await;
    drop((reader, writer));
    let Message::Binary(outcome) = client.next().await.unwrap().unwrap() else { panic!("no outcome") };
    let status: serde_json::Value = serde_json::from_slice(&outcome[1..]).unwrap();
    assert_eq!(status["message"], "Internal error occurred: error reading from error stream: unexpected EOF");

    // The client disconnects: the streams are reset.
    let Session { client, mut reader, writer: _writer, .. } = session().await;
    drop(client);
    assert_streams_are_reset(&mut reader).await;

    // The server shuts down: the client and the kubelet are notified.
    let Session { mut client, mut reader, writer: _writer, trigger, .. } = session().await;
    trigger.fire();
    assert!(matches!(client.next().await, Some(Ok(Message::Close(_)))));
    assert_streams_are_reset(&mut reader).await;
}

/// Asserts that streams are reset and the connection ends, cleanly or by a reset.
async fn assert_streams_are_reset(reader: &mut Reader<tokio::net::tcp::OwnedReadHalf>) {
    while let Ok(Some(frame)) = reader.next().await {
        assert!(matches!(frame, Frame::Reset { .. } | Frame::GoAway), "{frame:?}");
    }
}
