//! Upgraded connections: the request is forwarded unchanged, and after a 101 response bytes are copied in both
//! directions.

use std::num::NonZeroU64;
use std::pin::pin;
use std::time::Duration;

use binnacle_client::{Answer, SendError, Target};
use binnacle_meta::Status;
use binnacle_request::{Body, ByteStream, Request, Response, Shutdown};
use binnacle_work::{WorkBudget, current, spawn_relay};
use http::StatusCode;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt, copy, split};

use crate::headers;
use crate::throttled::ThrottledStream;

/// The time limit for sending the last bytes.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

/// Forwards a request for an upgrade. `path_and_query` is the URI for the other server. Its error responses (400 and
/// above) are returned to the client; any other response than 101 is an error.
pub async fn pass_through(mut request: Request, target: &Target, path_and_query: &str) -> Result<Response, Status> {
    let mut outgoing = http::Request::new(std::mem::take(&mut request.body));
    *outgoing.method_mut() = request.method.clone();
    *outgoing.uri_mut() = path_and_query.parse().map_err(|_| Status::bad_request("invalid path"))?;
    *outgoing.headers_mut() = headers::upgrade_headers(&request);
    let answer = send(target, outgoing).await?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(refusal(answer));
    }
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    *response.headers_mut() = answer.headers().clone();
    let upstream = Upstream::of(answer, target);
    take_over(&mut request, move |client, shutdown| async move {
        // There is nothing to do if the server closes the connection after its 101.
        if let Ok(upstream) = upstream.connection().await {
            splice(client, upstream, &shutdown).await;
        }
    })?;
    Ok(response)
}

/// Sends a request for an upgrade. Redirects are never followed.
pub(crate) async fn send(target: &Target, request: http::Request<Body>) -> Result<Answer, Status> {
    let answer = binnacle_client::send(target, request).await.map_err(|error| match error {
        SendError::Dial(error) => Status::unknown(500, &format!("error dialing backend: {error}")),
        // Go reads the response to an upgrade itself, and reports an early end like this.
        SendError::Broken(text) if text == "EOF" => Status::unknown(500, "unexpected EOF"),
        SendError::Broken(text) => Status::unknown(500, &text),
    })?;
    let code = answer.status();
    if code != StatusCode::SWITCHING_PROTOCOLS && code.as_u16() < 400 {
        return Err(Status::unknown(500, &format!("invalid upgrade response: status code {}", code.as_u16())));
    }
    Ok(answer)
}

/// Returns the response of a server that rejects the upgrade.
pub(crate) fn refusal(answer: Answer) -> Response {
    let mut response = answer.map(Body::new);
    headers::strip_hop_by_hop(response.headers_mut());
    response
}

/// The connection to the other server, which is about to be upgraded.
pub(crate) struct Upstream {
    upgrade: OnUpgrade,
    /// Keeps the connection alive until it is taken over.
    answer: Answer,
    bytes_per_second: Option<NonZeroU64>,
}

impl Upstream {
    pub(crate) fn of(mut answer: Answer, target: &Target) -> Self {
        answer.body().upgraded();
        Self { upgrade: hyper::upgrade::on(&mut answer), answer, bytes_per_second: target.connection.bytes_per_second }
    }

    pub(crate) async fn connection(self) -> std::io::Result<Box<dyn ByteStream>> {
        let upgraded = self.upgrade.await.map_err(std::io::Error::other)?;
        drop(self.answer);
        let stream = TokioIo::new(upgraded);
        Ok(match self.bytes_per_second {
            Some(limit) => Box::new(ThrottledStream::new(stream, limit)),
            None => Box::new(stream),
        })
    }
}

/// Runs `work` on the client's connection once the 101 response that the caller returns has been written. The request
/// counts as in flight meanwhile. `work` must end, after sending closing frames, when the server shuts down.
pub(crate) fn take_over<W, F>(request: &mut Request, work: W) -> Result<(), Status>
where
    W: FnOnce(Box<dyn ByteStream>, Shutdown) -> F + Send + 'static,
    F: Future<Output = ()> + Send,
{
    let Some(upgrade) = request.upgrade.take() else {
        return Err(Status::unknown(500, "request connection cannot be hijacked: the protocol has no upgrades"));
    };
    let record = request.record.clone();
    let shutdown = request.shutdown.clone();
    let budget = current().map_or_else(|| WorkBudget::background("upgraded connection"), |budget| budget.streaming());
    spawn_relay("upgraded connection", async move {
        let working = async {
            let client = tokio::select! {
                client = upgrade.connection() => client,
                () = shutdown.fired() => return,
            };
            if let Ok(client) = client {
                work(client, shutdown.clone()).await;
            }
        };
        budget.run(pin!(working)).await;
        drop(record);
    });
    Ok(())
}

/// Copies bytes in both directions, with back-pressure, until either side ends or the server shuts down.
async fn splice(client: Box<dyn ByteStream>, upstream: Box<dyn ByteStream>, shutdown: &Shutdown) {
    let (mut from_client, mut to_client) = split(client);
    let (mut from_upstream, mut to_upstream) = split(upstream);
    tokio::select! {
        _ = copy(&mut from_client, &mut to_upstream) => {}
        _ = copy(&mut from_upstream, &mut to_client) => {}
        () = shutdown.fired() => {}
    }
    let closing = async {
        let _ = tokio::join!(to_client.shutdown(), to_upstream.shutdown());
    };
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, closing).await;
}
