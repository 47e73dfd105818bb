//! Sends bodies as WebSocket messages, for browsers, which cannot read a response while it arrives.

use std::pin::pin;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_meta::Status;
use binnacle_request::{Body, Request, Response, Shutdown};
use bytes::Bytes;
use futures::{SinkExt, Stream, StreamExt};
use http_body_util::BodyExt;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use crate::upgrade::take_over;
use crate::websocket::{self, Content, Incoming, Outgoing};

/// The protocols that send bytes unchanged. A client may offer none.
const BINARY: [&str; 2] = ["", "binary.k8s.io"];
const BASE64: &str = "base64.binary.k8s.io";
/// The maximum size of a message, in bytes.
const MAX_PIECE: usize = 2048;
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The maximum size of a message from a client that is not expected to send any, in bytes.
const MAX_CLIENT_MESSAGE: usize = 4096;
/// The time limit for sending one pushed message.
const SEND_TIMEOUT: Duration = Duration::from_secs(15);

/// Accepts a WebSocket and sends the body on it. The client's messages are ignored.
pub fn as_messages(request: Request, body: Body) -> Result<Response, Status> {
    let accepted = websocket::choose(&request.headers, &[BINARY[0], BINARY[1], BASE64])
        .and_then(|protocol| websocket::accept(&request, protocol).map(|response| (response, protocol == BASE64)));
    match accepted {
        Ok((response, true)) => send(request, response, body, Encoding::Base64),
        Ok((response, false)) => send(request, response, body, Encoding::Binary),
        Err(refusal) => Ok(*refusal),
    }
}

/// Like [`as_messages`], for a body of events: each frame is one text or binary message. The client may offer one
/// protocol with any name.
pub fn as_events(request: Request, body: Body, text: bool) -> Result<Response, Status> {
    match websocket::accept_page(&request) {
        Ok(response) => send(request, response, body, Encoding::Events { text }),
        Err(refusal) => Ok(*refusal),
    }
}

/// Accepts a WebSocket whose client offers `protocol`, and sends texts as they become available. The client's messages
/// are ignored. The connection is closed if the client does not read. Dropping the connection drops the stream.
pub fn push(
    mut request: Request,
    protocol: &str,
    texts: impl Stream<Item = Bytes> + Send + 'static,
) -> Result<Response, Status> {
    let accepted = websocket::accept(&request, protocol);
    let chosen = accepted.and_then(|response| websocket::choose(&request.headers, &[protocol]).map(|_| response));
    let response = match chosen {
        Ok(response) => response,
        Err(refusal) => return Ok(*refusal),
    };
    take_over(&mut request, move |client, shutdown: Shutdown| async move {
        let (mut outgoing, mut incoming) = websocket::open_with(client, MAX_CLIENT_MESSAGE).await;
        let broken = tokio::select! {
            () = push_all(texts, &mut outgoing) => None,
            broken = wait_for_close(&mut incoming) => Some(broken),
            () = shutdown.fired() => None,
        };
        let closing = async {
            match broken {
                None => websocket::close(&mut outgoing).await,
                Some(broken) => websocket::answer_close(outgoing, incoming, broken).await,
            }
        };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
    })?;
    Ok(response)
}

async fn push_all(texts: impl Stream<Item = Bytes>, client: &mut Outgoing) {
    let mut texts = pin!(texts);
    while let Some(text) = texts.next().await {
        let Ok(text) = Utf8Bytes::try_from(text) else { return };
        let sent = tokio::time::timeout(SEND_TIMEOUT, client.send(Message::Text(text))).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
}

/// The encoding of messages.
#[derive(Clone, Copy)]
enum Encoding {
    Binary,
    Base64,
    Events { text: bool },
}

impl Encoding {
    fn message(self, piece: Bytes) -> Option<Message> {
        Some(match self {
            Self::Base64 => Message::Text(BASE64_STANDARD.encode(piece).into()),
            Self::Binary | Self::Events { text: false } => Message::Binary(piece),
            // The server's own events are UTF-8.
            Self::Events { text: true } => Message::Text(Utf8Bytes::try_from(piece).ok()?),
        })
    }
}

/// Sends the body after the response has been written.
fn send(mut request: Request, response: Response, body: Body, encoding: Encoding) -> Result<Response, Status> {
    take_over(&mut request, move |client, shutdown: Shutdown| async move {
        let (mut outgoing, mut incoming) = websocket::open(client, Content::Ignored).await;
        let broken = tokio::select! {
            _ = send_all(body, &mut outgoing, encoding) => None,
            broken = wait_for_close(&mut incoming) => Some(broken),
            () = shutdown.fired() => None,
        };
        let closing = async {
            match broken {
                None => websocket::close(&mut outgoing).await,
                Some(broken) => websocket::answer_close(outgoing, incoming, broken).await,
            }
        };
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
    })?;
    Ok(response)
}

async fn send_all(mut body: Body, client: &mut Outgoing, encoding: Encoding) -> Result<(), Error> {
    let whole = matches!(encoding, Encoding::Events { .. });
    if !whole && let Some(empty) = encoding.message(Bytes::new()) {
        // An empty message shows that the connection is open before there is any data.
        client.send(empty).await?;
    }
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        for mut piece in data.iter().cloned() {
            while !piece.is_empty() {
                let next = piece.split_to(if whole { piece.len() } else { MAX_PIECE.min(piece.len()) });
                let Some(message) = encoding.message(next) else { return Ok(()) };
                client.send(message).await?;
            }
        }
    }
    Ok(())
}

/// Waits until the client closes. Returns true if it violated the protocol.
async fn wait_for_close(client: &mut Incoming) -> bool {
    loop {
        tokio::task::consume_budget().await;
        match client.next().await {
            Some(Ok(Message::Close(_))) | None => return false,
            Some(Ok(_)) => {}
            Some(Err(error)) => return matches!(error, Error::Protocol(ProtocolError::UnmaskedFrameFromClient)),
        }
    }
}
