//! SPDY inside a WebSocket (`SPDY/3.1+portforward.k8s.io`, KEP-4006): the client's messages contain the bytes of a SPDY
//! connection, which are forwarded to the kubelet unchanged.

use std::time::Duration;

use binnacle_client::Target;
use binnacle_meta::Status;
use binnacle_request::{Body, ByteStream, Request, Response, Shutdown};
use bytes::{Bytes, BytesMut};
use futures::{SinkExt, StreamExt};
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, Method, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio_tungstenite::tungstenite::Message;

use crate::remote_command::PROTOCOL_VERSION;
use crate::upgrade::{self, Upstream, take_over};
use crate::websocket::{self, Content, Incoming, Outgoing};
use crate::{headers, is_websocket};

const PREFIX: &str = "SPDY/3.1+";
const SUFFIX: &str = ".k8s.io";
/// The number of bytes that are read at once.
const PIECE: usize = 32 * 1024;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns true if the request opens a tunnel.
pub fn wants_tunnel(headers: &HeaderMap) -> bool {
    is_websocket(headers) && !tunnelled(headers).is_empty()
}

/// Upgrades the connection to the kubelet to SPDY, then the client's connection to a WebSocket. Calls `report_code`
/// with the status code for the client, for metrics.
pub async fn tunnel(
    mut request: Request,
    target: &Target,
    path_and_query: &str,
    report_code: impl FnOnce(u16),
) -> Result<Response, Status> {
    let answer = upgrade::send(target, spdy_request(&request, path_and_query)?).await?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        report_code(answer.status().as_u16());
        return Ok(upgrade::refusal(answer));
    }
    if !headers::upgrades_to_spdy(answer.headers()) {
        report_code(500);
        return Err(Status::unknown(500, "unable to upgrade: missing upgrade headers in response"));
    }
    let version = answer.headers().get(PROTOCOL_VERSION).and_then(|version| version.to_str().ok());
    let chosen = version.map(|version| format!("{PREFIX}{}", version.trim())).unwrap_or_default();
    let protocol = if websocket::offered(&request.headers).contains(&chosen.as_str()) { chosen.as_str() } else { "" };
    let response = match websocket::accept(&request, protocol) {
        Ok(response) => response,
        Err(refusal) => {
            report_code(refusal.status().as_u16());
            return Ok(*refusal);
        }
    };
    let upstream = Upstream::of(answer, target);
    take_over(&mut request, move |client, shutdown| async move {
        if let Ok(upstream) = upstream.connection().await {
            let (outgoing, incoming) = websocket::open(client, Content::Bytes).await;
            splice(outgoing, incoming, upstream, &shutdown).await;
        }
    })?;
    report_code(101);
    Ok(response)
}

/// Returns the tunneled protocols that a client offers.
fn tunnelled(headers: &HeaderMap) -> Vec<&str> {
    let offered = websocket::offered(headers).into_iter();
    offered.filter(|name| name.ends_with(SUFFIX)).filter_map(|name| name.strip_prefix(PREFIX)).collect()
}

fn spdy_request(request: &Request, path_and_query: &str) -> Result<http::Request<Body>, Status> {
    let mut outgoing = http::Request::new(Body::empty());
    *outgoing.method_mut() = Method::POST;
    *outgoing.uri_mut() = path_and_query.parse().map_err(|_| Status::bad_request("invalid path"))?;
    let mut sent = headers::upgrade_headers(request);
    let websocket: [HeaderName; 6] =
        [websocket::PROTOCOL, websocket::KEY, websocket::VERSION, PROTOCOL_VERSION, CONTENT_LENGTH, TRANSFER_ENCODING];
    for name in &websocket {
        sent.remove(name);
    }
    sent.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    for protocol in tunnelled(&request.headers) {
        sent.extend(HeaderValue::from_str(protocol).ok().map(|value| (PROTOCOL_VERSION, value)));
    }
    *outgoing.headers_mut() = sent;
    Ok(outgoing)
}

async fn splice(mut outgoing: Outgoing, incoming: Incoming, upstream: Box<dyn ByteStream>, shutdown: &Shutdown) {
    let (from_upstream, mut to_upstream) = split(upstream);
    tokio::select! {
        () = unwrap(incoming, &mut to_upstream) => {}
        () = wrap(from_upstream, &mut outgoing) => {}
        () = shutdown.fired() => {}
    }
    let closing = async {
        let _ = tokio::join!(websocket::close(&mut outgoing), to_upstream.shutdown());
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
}

async fn unwrap(mut client: Incoming, upstream: &mut (impl AsyncWrite + Unpin)) {
    while let Some(Ok(message)) = client.next().await {
        tokio::task::consume_budget().await;
        let written = match message {
            Message::Binary(data) => upstream.write_all(&data).await,
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            Message::Text(_) | Message::Close(_) => return,
        };
        if written.is_err() || upstream.flush().await.is_err() {
            return;
        }
    }
}

async fn wrap(mut upstream: impl AsyncRead + Unpin, client: &mut Outgoing) {
    let mut buffer = BytesMut::with_capacity(PIECE);
    loop {
        buffer.reserve(PIECE);
        match upstream.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let data: Bytes = buffer.split().freeze();
        if client.send(Message::Binary(data)).await.is_err() {
            return;
        }
    }
}
