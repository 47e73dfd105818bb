//! A body as the messages of a WebSocket: what browsers do who cannot read a response as it comes.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_meta::Status;
use binnacle_request::{Body, Request, Response, Shutdown};
use futures::SinkExt;
use http_body_util::BodyExt;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::upgrade::take_over;
use crate::websocket::{self, Incoming, Outgoing};

/// The protocols by which bytes are sent as they are; a client may name none.
const BINARY: [&str; 2] = ["", "binary.k8s.io"];
const BASE64: &str = "base64.binary.k8s.io";
/// What one message has at most.
const PIECE: usize = 2048;
const FAREWELL: Duration = Duration::from_secs(1);

/// Answers a request for a WebSocket by one on which the body is sent. What the client says is not listened to.
pub fn as_messages(mut request: Request, body: Body) -> Result<Response, Status> {
    let accepted = websocket::choose(&request.headers, &[BINARY[0], BINARY[1], BASE64])
        .and_then(|protocol| websocket::accept(&request, protocol).map(|response| (response, protocol == BASE64)));
    let (response, encoded) = match accepted {
        Ok(accepted) => accepted,
        Err(refusal) => return Ok(*refusal),
    };
    take_over(&mut request, move |client, shutdown: Shutdown| async move {
        let (mut outgoing, incoming) = websocket::open(client).await;
        tokio::select! {
            _ = send(body, &mut outgoing, encoded) => {}
            () = gone(incoming) => {}
            () = shutdown.fired() => {}
        }
        let _ = tokio::time::timeout(FAREWELL, websocket::close(&mut outgoing)).await;
    })?;
    Ok(response)
}

async fn send(mut body: Body, client: &mut Outgoing, encoded: bool) -> Result<(), Error> {
    let message = |piece: &[u8]| match encoded {
        true => Message::Text(BASE64_STANDARD.encode(piece).into()),
        false => Message::Binary(piece.to_vec().into()),
    };
    // That it is connected, before there is anything to say.
    client.send(message(&[])).await?;
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        for piece in data.iter().flat_map(|piece| piece.chunks(PIECE)) {
            client.send(message(piece)).await?;
        }
    }
    Ok(())
}

async fn gone(mut client: Incoming) {
    while websocket::receive(&mut client).await.is_some() {}
}
