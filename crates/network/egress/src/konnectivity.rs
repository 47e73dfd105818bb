//! The gRPC protocol of konnectivity: a stream of packets to the proxy server carries one connection.
//!
//! The messages are written by hand, like those of the etcd engine, because they never change.

use std::path::Path;
use std::time::Duration;

use binnacle_work::spawn_relay;
use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use prost::{Message, Oneof};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic::{Status, Streaming};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::executor::RelayExecutor;
use crate::grpc_transport::{GrpcAllowance, GrpcTransport};

/// The timeout of the Go client for connecting to the proxy and for the response to a dial request.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout for the response to a close request.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The size of a tunnel's buffer.
const BUFFER: usize = 64 << 10;
const PIECE: usize = 32 << 10;
const PACKETS: usize = 16;
/// The maximum number of consecutive useless packets: packets of other connections, which do not belong on this stream,
/// and packets without data. The Go client ignores them.
const MAX_USELESS: u32 = 1000;

const DIAL_REQ: i32 = 0;
const CLOSE_REQ: i32 = 2;
const DATA: i32 = 4;

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(oneof = "Payload", tags = "2, 3, 4, 5, 6, 7")]
    payload: Option<Payload>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Payload {
    #[prost(message, tag = "2")]
    DialRequest(DialRequest),
    #[prost(message, tag = "3")]
    DialResponse(DialResponse),
    #[prost(message, tag = "4")]
    Data(Data),
    #[prost(message, tag = "5")]
    CloseRequest(CloseRequest),
    #[prost(message, tag = "6")]
    CloseResponse(CloseResponse),
    #[prost(message, tag = "7")]
    CloseDial(CloseDial),
}

#[derive(Clone, PartialEq, Message)]
struct DialRequest {
    #[prost(string, tag = "1")]
    protocol: String,
    #[prost(string, tag = "2")]
    address: String,
    #[prost(int64, tag = "3")]
    random: i64,
}

#[derive(Clone, PartialEq, Message)]
struct DialResponse {
    #[prost(string, tag = "1")]
    error: String,
    #[prost(int64, tag = "2")]
    connection: i64,
    #[prost(int64, tag = "3")]
    random: i64,
}

#[derive(Clone, PartialEq, Message)]
struct CloseRequest {
    #[prost(int64, tag = "1")]
    connection: i64,
}

#[derive(Clone, PartialEq, Message)]
struct CloseResponse {
    #[prost(string, tag = "1")]
    error: String,
    #[prost(int64, tag = "2")]
    connection: i64,
}

#[derive(Clone, PartialEq, Message)]
struct CloseDial {
    #[prost(int64, tag = "1")]
    random: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Data {
    #[prost(int64, tag = "1")]
    connection: i64,
    #[prost(string, tag = "2")]
    error: String,
    #[prost(bytes = "vec", tag = "3")]
    data: Vec<u8>,
}

/// A stream of packets to the proxy server, for one connection.
pub(crate) struct Session {
    outgoing: mpsc::Sender<Packet>,
    incoming: Incoming,
}

/// The packets from the proxy server.
struct Incoming {
    packets: Streaming<Packet>,
    useless: u32,
    /// The credit for bytes besides the data of packets.
    allowance: GrpcAllowance,
}

impl Incoming {
    /// Returns the next payload that `select` accepts, or `None` at the end of the stream.
    async fn next<T>(&mut self, select: impl Fn(Payload) -> Option<T>) -> Result<Option<T>, Status> {
        loop {
            // Thousands of packets may have arrived together.
            tokio::task::consume_budget().await;
            let Some(packet) = self.packets.message().await? else { return Ok(None) };
            let size = packet.encoded_len();
            if let Some(found) = packet.payload.and_then(&select) {
                self.allowance.delivered(size);
                self.useless = 0;
                return Ok(Some(found));
            }
            self.useless += 1;
            if self.useless > MAX_USELESS {
                return Err(Status::resource_exhausted("the proxy server sends packets without a use"));
            }
        }
    }
}

/// A packet for the open connection.
enum ProxyEvent {
    Data(Vec<u8>),
    Closed,
}

/// Returns the event of a payload for this connection, or `None` if it is useless.
fn event_of(payload: Payload, connection: i64) -> Option<ProxyEvent> {
    match payload {
        Payload::Data(data) if data.connection == connection && !data.data.is_empty() => {
            Some(ProxyEvent::Data(data.data))
        }
        Payload::CloseResponse(closed) if closed.connection == connection => Some(ProxyEvent::Closed),
        _ => None,
    }
}

impl Session {
    /// Opens a stream to the socket of a proxy server.
    pub(crate) async fn open(socket: &Path) -> Result<Self, String> {
        let (path, allowance) = (socket.to_owned(), GrpcAllowance::default());
        let allowed = allowance.clone();
        let connect = service_fn(move |_: Uri| {
            let (path, allowance) = (path.clone(), allowance.clone());
            async move { UnixStream::connect(path).await.map(|stream| TokioIo::new(GrpcTransport::new(stream, allowance))) }
        });
        let endpoint = Endpoint::from_static("http://localhost").connect_timeout(DIAL_TIMEOUT).executor(RelayExecutor);
        let channel = endpoint.connect_with_connector(connect).await.map_err(|error| {
            let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            format!("dial unix {}: {why}", socket.display())
        })?;
        let mut grpc = Grpc::new(channel);
        grpc.ready().await.map_err(|error| error.to_string())?;
        let (outgoing, packets) = mpsc::channel(PACKETS);
        let request = tonic::Request::new(ReceiverStream::new(packets));
        let codec = ProstCodec::<Packet, Packet>::default();
        let streaming = grpc.streaming(request, PathAndQuery::from_static("/ProxyService/Proxy"), codec);
        let incoming = tokio::time::timeout(DIAL_TIMEOUT, streaming).await.map_err(|_| "dial timeout".to_owned())?;
        let incoming = incoming.map_err(|status| status.to_string())?.into_inner();
        Ok(Self { outgoing, incoming: Incoming { packets: incoming, useless: 0, allowance: allowed } })
    }

    /// Requests a connection to `address` from the proxy's agent, and starts a task that carries its bytes.
    pub(crate) async fn dial(mut self, address: &str) -> Result<DuplexStream, String> {
        // Go's random numbers are not negative.
        let random = rand::random::<i64>() & i64::MAX;
        let request = DialRequest { protocol: "tcp".to_owned(), address: address.to_owned(), random };
        self.send(DIAL_REQ, Payload::DialRequest(request)).await?;
        let answered = self.incoming.next(|payload| match payload {
            Payload::DialResponse(answer) if answer.random == random => Some(Ok(answer)),
            Payload::CloseDial(closed) if closed.random == random => Some(Err("dial closed".to_owned())),
            _ => None,
        });
        let answered = tokio::time::timeout(DIAL_TIMEOUT, answered).await;
        let answered = answered.map_err(|_| "dial timeout, backstop".to_owned())?;
        let answer = answered.map_err(|status| status.to_string())?.ok_or("tunnel is closed")??;
        if !answer.error.is_empty() {
            return Err(answer.error);
        }
        let (near, far) = duplex(BUFFER);
        spawn_relay("konnectivity tunnel", self.carry(far, answer.connection));
        Ok(near)
    }

    async fn send(&self, kind: i32, payload: Payload) -> Result<(), String> {
        let packet = Packet { kind, payload: Some(payload) };
        self.outgoing.send(packet).await.map_err(|_| "tunnel is closed".to_owned())
    }

    /// Carries bytes in both directions until either side ends.
    async fn carry(self, far: DuplexStream, connection: i64) {
        let Self { outgoing, mut incoming } = self;
        let (mut from_us, mut to_us) = split(far);
        let sending = async {
            let mut piece = vec![0; PIECE];
            while let Ok(read) = from_us.read(&mut piece).await {
                if read == 0 {
                    break;
                }
                let data = Data { connection, error: String::new(), data: piece[..read].to_vec() };
                if outgoing.send(Packet { kind: DATA, payload: Some(Payload::Data(data)) }).await.is_err() {
                    break;
                }
            }
        };
        let receiving = async {
            while let Ok(Some(ProxyEvent::Data(data))) = incoming.next(|payload| event_of(payload, connection)).await {
                if to_us.write_all(&data).await.is_err() {
                    break;
                }
            }
            let _ = to_us.shutdown().await;
        };
        tokio::select! {
            () = sending => {}
            () = receiving => {}
        }
        let close = Packet { kind: CLOSE_REQ, payload: Some(Payload::CloseRequest(CloseRequest { connection })) };
        let _ = outgoing.send(close).await;
        // Dropping the stream before the response would cancel the close request.
        let confirmed = incoming.next(|payload| matches!(payload, Payload::CloseResponse(_)).then_some(()));
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, confirmed).await;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use hyper_util::rt::TokioExecutor;
    use parking_lot::Mutex;
    use tokio::net::UnixListener;
    use tonic::{Request, Response};

    use super::*;

    const CONNECTION: i64 = 42;

    /// Runs a proxy server that echoes input in upper case and records the received packets.
    async fn serve(listener: UnixListener, seen: Arc<Mutex<Vec<i32>>>) {
        while let Ok((stream, _)) = listener.accept().await {
            let seen = seen.clone();
            let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
                let seen = seen.clone();
                async move {
                    assert_eq!(request.uri().path(), "/ProxyService/Proxy");
                    let answer = tower::service_fn(move |request: Request<Streaming<Packet>>| {
                        let (sender, packets) = mpsc::channel(PACKETS);
                        tokio::spawn(answer(request.into_inner(), sender, seen.clone()));
                        async move { Ok::<_, Status>(Response::new(ReceiverStream::new(packets))) }
                    });
                    let codec = ProstCodec::<Packet, Packet>::default();
                    Ok::<_, Infallible>(tonic::server::Grpc::new(codec).streaming(answer, request).await)
                }
            });
            let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            tokio::spawn(http2.serve_connection(TokioIo::new(stream), service));
        }
    }

    async fn answer(
        mut packets: Streaming<Packet>,
        sender: mpsc::Sender<Result<Packet, Status>>,
        seen: Arc<Mutex<Vec<i32>>>,
    ) {
        let useless = || {
            let data = Data { connection: CONNECTION + 1, error: String::new(), data: Vec::new() };
            Ok(Packet { kind: DATA, payload: Some(Payload::Data(data)) })
        };
        let mut floods = false;
        while let Ok(Some(packet)) = packets.message().await {
            seen.lock().push(packet.kind);
            let (kind, payload) = match packet.payload {
                Some(Payload::DialRequest(dial)) if dial.address == "useless:1" => {
                    while sender.send(useless()).await.is_ok() {}
                    return;
                }
                Some(Payload::Data(_)) if floods => {
                    while sender.send(useless()).await.is_ok() {}
                    return;
                }
                Some(Payload::DialRequest(dial)) => {
                    floods = dial.address == "flood:1";
                    let is_known = floods || dial.address == "good:1";
                    let error = if is_known { String::new() } else { "no such host".to_owned() };
                    (1, Payload::DialResponse(DialResponse { error, connection: CONNECTION, random: dial.random }))
                }
                Some(Payload::Data(data)) if data.connection == CONNECTION => {
                    (DATA, Payload::Data(Data { data: data.data.to_ascii_uppercase(), ..data }))
                }
                Some(Payload::CloseRequest(close)) => {
                    (3, Payload::CloseResponse(CloseResponse { error: String::new(), connection: close.connection }))
                }
                _ => continue,
            };
            if sender.send(Ok(Packet { kind, payload: Some(payload) })).await.is_err() {
                return;
            }
        }
    }

    #[tokio::test]
    async fn carries_bytes_and_closes_streams_with_useless_packets() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("proxy");
        let seen = Arc::new(Mutex::new(Vec::new()));
        tokio::spawn(serve(UnixListener::bind(&socket).unwrap(), seen.clone()));
        let mut tunnel = Session::open(&socket).await.unwrap().dial("good:1").await.unwrap();
        let sent = vec![b'a'; 100_000];
        let mut got = vec![0; sent.len()];
        let (mut from, mut to) = tokio::io::split(&mut tunnel);
        let (written, read) = tokio::join!(to.write_all(&sent), from.read_exact(&mut got));
        assert!(written.is_ok() && read.is_ok() && got == vec![b'A'; 100_000]);
        drop(tunnel);
        while seen.lock().last() != Some(&CLOSE_REQ) {
            tokio::task::yield_now().await;
        }
        assert_eq!(seen.lock()[0], DIAL_REQ);
        // Packets of other connections, before and after the dial response.
        let refused = Session::open(&socket).await.unwrap().dial("useless:1").await;
        assert!(refused.err().unwrap().contains("packets without a use"));
        let mut tunnel = Session::open(&socket).await.unwrap().dial("flood:1").await.unwrap();
        tunnel.write_all(b"a").await.unwrap();
        assert_eq!(tunnel.read_to_end(&mut Vec::new()).await.unwrap(), 0);
        let refused = Session::open(&socket).await.unwrap().dial("bad:1").await;
        assert_eq!(refused.err().as_deref(), Some("no such host"));
        let nobody = Session::open(&directory.path().join("none")).await;
        assert!(nobody.err().unwrap().contains("dial unix"));
    }
}
