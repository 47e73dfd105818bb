//! The server side of WebSockets (RFC 6455), for requests of the handler chain.

mod splitter;

use binnacle_client::{Meter, MeteredStream};
use binnacle_request::{Body, ByteStream, Request, Response};
use bytes::Bytes;
use futures::SinkExt;
use futures::stream::{SplitSink, SplitStream, StreamExt};
use http::header::{CONNECTION, HeaderName, HeaderValue, ORIGIN, UPGRADE};
use http::{HeaderMap, Method, StatusCode};
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::headers;
pub(crate) use splitter::Content;

pub(crate) const PROTOCOL: HeaderName = HeaderName::from_static("sec-websocket-protocol");
pub(crate) const KEY: HeaderName = HeaderName::from_static("sec-websocket-key");
pub(crate) const VERSION: HeaderName = HeaderName::from_static("sec-websocket-version");
const ACCEPT: HeaderName = HeaderName::from_static("sec-websocket-accept");

/// The maximum size of a frame, as in Go's server: clients send whole files in one frame.
const MAX_FRAME: usize = 32 << 20;
const BUFFER: usize = 32 * 1024;

/// The two halves of an open WebSocket.
pub(crate) type Outgoing = SplitSink<WebSocketStream<Box<dyn ByteStream>>, Message>;
pub(crate) type Incoming = SplitStream<WebSocketStream<Box<dyn ByteStream>>>;

/// Returns the subprotocols that a client offers, in order of preference.
pub(crate) fn offered(headers: &HeaderMap) -> Vec<&str> {
    let values = headers.get_all(&PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// Returns the 101 response that opens a WebSocket with `protocol`, which may be empty. The error is the response to an
/// invalid request.
pub(crate) fn accept(request: &Request, protocol: &str) -> Result<Response, Box<Response>> {
    let header = |name: &HeaderName| request.headers.get(name).map(HeaderValue::as_bytes).unwrap_or_default();
    if request.method != Method::GET {
        return Err(refuse(StatusCode::METHOD_NOT_ALLOWED, "bad method"));
    }
    if !headers::is_websocket(&request.headers) {
        return Err(refuse(StatusCode::BAD_REQUEST, "not websocket protocol"));
    }
    if header(&KEY).is_empty() {
        return Err(refuse(StatusCode::BAD_REQUEST, "mismatch challenge/response"));
    }
    if header(&VERSION) != b"13" {
        let mut response = refuse(StatusCode::BAD_REQUEST, "missing or bad WebSocket Version");
        response.headers_mut().insert(VERSION, HeaderValue::from_static("13"));
        return Err(response);
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let answer = response.headers_mut();
    answer.insert(UPGRADE, HeaderValue::from_static("websocket"));
    answer.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    // Both are either our own text or came from a header value.
    answer.extend(HeaderValue::from_str(&derive_accept_key(header(&KEY))).ok().map(|value| (ACCEPT, value)));
    if !protocol.is_empty() {
        answer.extend(HeaderValue::from_str(protocol).ok().map(|value| (PROTOCOL, value)));
    }
    Ok(response)
}

/// Like [`accept`], for WebSockets of web pages: Go's server requires their origin and does not choose among several
/// protocols.
pub(crate) fn accept_page(request: &Request) -> Result<Response, Box<Response>> {
    let first = |name: &HeaderName| request.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let protocol = first(&PROTOCOL).trim();
    let response = accept(request, protocol)?;
    if !is_origin(first(&ORIGIN)) {
        return Err(refuse(StatusCode::FORBIDDEN, ""));
    }
    if protocol.contains(',') {
        return Err(refuse(StatusCode::BAD_REQUEST, ""));
    }
    Ok(response)
}

/// Returns true for a URL with a scheme, or a path.
fn is_origin(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    (text.starts_with('/') || text == "*" || is_scheme(scheme)) && !text.contains(|c: char| c.is_ascii_control())
}

/// Returns the first offered protocol in `supported`, where the empty name means no protocol. The error is the
/// response.
pub(crate) fn choose<'a>(headers: &HeaderMap, supported: &[&'a str]) -> Result<&'a str, Box<Response>> {
    let offered = offered(headers);
    let offered = if offered.is_empty() { &[""][..] } else { &offered };
    let chosen = offered.iter().find_map(|name| supported.iter().find(|known| *known == name));
    chosen.copied().ok_or_else(|| refuse(StatusCode::FORBIDDEN, ""))
}

fn refuse(code: StatusCode, text: &'static str) -> Box<Response> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    Box::new(response)
}

/// Wraps the client's connection as a WebSocket. Long messages of the client are split.
pub(crate) async fn open(client: Box<dyn ByteStream>, content: Content) -> (Outgoing, Incoming) {
    let client = MeteredStream::new(client, Meter::unlimited());
    open_with(Box::new(splitter::MessageSplitter::new(client, content, MAX_FRAME)), splitter::PIECE).await
}

/// Like [`open`], with a limit on the size of the client's messages in bytes.
pub(crate) async fn open_with(client: Box<dyn ByteStream>, most: usize) -> (Outgoing, Incoming) {
    let config = WebSocketConfig::default()
        .max_message_size(Some(most))
        .max_frame_size(Some(most))
        .read_buffer_size(BUFFER)
        .write_buffer_size(0);
    WebSocketStream::from_raw_socket(client, Role::Server, Some(config)).await.split()
}

/// Sends data on a channel; the first byte of each message is the channel number.
pub(crate) async fn send_on(outgoing: &mut Outgoing, channel: u8, data: &[u8]) -> Result<(), Error> {
    let mut message = Vec::with_capacity(data.len() + 1);
    message.push(channel);
    message.extend_from_slice(data);
    outgoing.send(Message::Binary(message.into())).await
}

/// Sends a close frame.
pub(crate) async fn close(outgoing: &mut Outgoing) {
    let frame = CloseFrame { code: CloseCode::Normal, reason: Default::default() };
    let _ = outgoing.send(Message::Close(Some(frame))).await;
    let _ = outgoing.close().await;
}

/// Sends the closing frames to a client that has closed or violated the protocol. Like Go's server, answers any close
/// code with a normal closure.
pub(crate) async fn answer_close(outgoing: Outgoing, incoming: Incoming, broken: bool) {
    const CLOSE: u8 = 0x88;
    let frame = |code: CloseCode| [&[CLOSE, 2], &u16::from(code).to_be_bytes()[..]].concat();
    let mut frames = if broken { frame(CloseCode::Protocol) } else { Vec::new() };
    frames.extend(frame(CloseCode::Normal));
    // The library would echo the client's code.
    if let Ok(mut whole) = outgoing.reunite(incoming) {
        let connection = whole.get_mut();
        let _ = connection.write_all(&frames).await;
        let _ = connection.shutdown().await;
    }
}

/// Returns the payload of the next binary or text message, or `None` at the end.
pub(crate) async fn receive(incoming: &mut Incoming) -> Option<Bytes> {
    loop {
        // One read may contain thousands of pings.
        tokio::task::consume_budget().await;
        match incoming.next().await? {
            Ok(Message::Binary(data)) => return Some(data),
            Ok(Message::Text(text)) => return Some(text.into()),
            Ok(Message::Close(_)) | Err(_) => return None,
            // The library answers pings.
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_valid_origins() {
        for (text, want) in [
            ("https://console.example.com", true),
            ("http://localhost:8001", true),
            ("file:///tmp/page.html", true),
            ("/page", true),
            ("*", true),
            // A page with an opaque origin.
            ("null", false),
            ("", false),
            ("localhost", false),
            ("1://x", false),
            ("://x", false),
        ] {
            assert_eq!(is_origin(text), want, "{text}");
        }
    }
}
