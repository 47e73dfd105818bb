//! Sends a single request on its own connection.
//!
//! These connections are not pooled: the requests are streams or rare, and the connection closes with its request.

use std::pin::Pin;
use std::task::{Context, Poll};

use binnacle_request::{Body, BoxError, trace};
use binnacle_work::{AbortOnDrop, spawn_relay};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;

use crate::error::SendError;
use crate::go_client;
use crate::metered::Meter;
use crate::target::{OpenConnection, Target};

/// A response whose connection ends with its body.
pub type Answer = Response<AnswerBody>;

/// The body of an [`Answer`].
pub struct AnswerBody {
    body: Incoming,
    meter: Meter,
    /// Drives the connection.
    _driver: AbortOnDrop,
}

/// Sends a request whose URI is the path and query. Its headers must be complete except for Host.
pub async fn send(target: &Target, request: Request<Body>) -> Result<Answer, SendError> {
    let connected = target.dial().await?;
    exchange(connected, target, request).await
}

pub(crate) async fn exchange(
    OpenConnection { stream, meter, .. }: OpenConnection,
    target: &Target,
    mut request: Request<Body>,
) -> Result<Answer, SendError> {
    if !request.headers().contains_key(http::header::HOST) {
        let host = http::HeaderValue::from_str(&target.authority())
            .map_err(|_| SendError::Broken(format!("invalid host {:?}", target.host)))?;
        request.headers_mut().insert(http::header::HOST, host);
    }
    let builder = go_client::connections();
    let (mut sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(|error| transport_error(&error))?;
    let driver = AbortOnDrop(spawn_relay("connection to a server", async move {
        // The error is returned to the caller that waits for the response or reads its body.
        let _ = connection.with_upgrades().await;
    }));
    let (method, uri) = (request.method().clone(), request.uri().clone());
    meter.watch(&mut request);
    let mut span = trace::begin_request(&method, || target.url(&uri.to_string()), request.headers_mut());
    let response = sender.send_request(request).await.map_err(|error| transport_error(&error))?;
    meter.expect_body();
    let response = go_client::accepted(response)?;
    if let Some(span) = &mut span {
        span.answered(response.status().as_u16());
    }
    Ok(response.map(|body| AnswerBody { body, meter, _driver: driver }))
}

pub(crate) fn transport_error(error: &hyper::Error) -> SendError {
    let text = match () {
        () if error.is_incomplete_message() || error.is_closed() || error.is_canceled() => "EOF".to_owned(),
        () if error.is_parse() => format!("net/http: HTTP/1.x transport connection broken: {error}"),
        () => match std::error::Error::source(error) {
            Some(source) => match source.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
                // The server closed the connection without TLS close_notify.
                Some(std::io::ErrorKind::UnexpectedEof) => "EOF".to_owned(),
                Some(std::io::ErrorKind::ConnectionReset) => "read: connection reset by peer".to_owned(),
                _ => source.to_string(),
            },
            None => error.to_string(),
        },
    };
    SendError::Broken(text)
}

impl AnswerBody {
    /// Lifts the limits of the connection after an upgrade to another protocol.
    pub fn upgraded(&self) {
        self.meter.upgraded();
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.meter.delivered(frame.data_ref().map_or(0, Bytes::len));
        }
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
