//! HTTP/2 on one connection. Streams are served concurrently, each response in pieces for which the client's windows
//! have space; a response with a deadline is aborted if the client does not read it in time.

mod incoming;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use binnacle_request::{Body, ConnectionInfo, Pieces};
use h2::server::SendResponse;
use h2::{Ping, PingPong, Reason, RecvStream, SendStream};
use http::header::{CONNECTION, CONTENT_LENGTH, DATE, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Body as HttpBody;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::time::Sleep;

use crate::connections::{ActiveRequest, Connection, HeldHead, PendingRequest};
use crate::cork::PendingFlush;
use crate::handlers::{Handlers, OutgoingBody};
use crate::response::{CloseConnection, SendBy};
use crate::service::Service;
use incoming::Incoming;

/// The limit on the headers of one request, as in Go.
const MAX_HEADER_BYTES: u32 = 1 << 20;
/// The memory of a header besides its name and value.
const BYTES_PER_HEADER: usize = 128;
/// The window of a stream. Most request bodies fit, so they arrive without window updates (the same size as in
/// kube-apiserver).
const STREAM_WINDOW: u32 = 256 * 1024;
/// The window of a connection, which limits the unread request bodies that the server holds.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// The bytes of a response that a stream buffers until its client reads; the rest remains in shared memory.
const SEND_BUFFER: usize = 256 * 1024;
/// The time for the client to send the preface, as in Go.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval of pings to a silent client, and the time for the acknowledgement.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// A connection whose turn comes this much later than its timer shows that the server is busy, not that the client is
/// gone: the ping may have been sent late, and the acknowledgement may not have been read.
const MAX_LATE: Duration = Duration::from_secs(1);
/// The number of streams that the server resets because of client errors before it closes the connection.
const LOCAL_RESETS: usize = 1024;

/// Serves a connection until it ends. When `leave` resolves, it accepts no further requests.
pub(crate) async fn serve<T, S>(
    stream: T,
    pending_flush: PendingFlush,
    max_streams: u32,
    handlers: &Handlers<S>,
    info: &Arc<ConnectionInfo>,
    connection: &Arc<Connection>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), h2::Error>
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(max_streams)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_local_error_reset_streams(Some(LOCAL_RESETS));
    let handshake = pin!(builder.handshake::<_, Pieces>(stream));
    let Ok(connected) = tokio::time::timeout(PREFACE_TIMEOUT, handshake).await else { return Ok(()) };
    let mut streams = connected?;
    // The connection itself may move to another runtime.
    let workers = Handle::current();
    let mut keep_alive = KeepAlive::new(streams.ping_pong());
    let (mut shutdown, mut is_shutting_down) = (pin!(shutdown), false);
    let running = pin!(poll_fn(|cx| {
        if !is_shutting_down && shutdown.as_mut().poll(cx).is_ready() {
            is_shutting_down = true;
            connection.mark_shutdown();
            streams.graceful_shutdown();
        }
        loop {
            match streams.poll_accept(cx) {
                Poll::Ready(Some(accepted)) => {
                    let (request, reply) = accepted?;
                    start_stream(request, reply, handlers, info, connection, &workers);
                }
                Poll::Ready(None) => return Poll::Ready(Ok(())),
                // Everything that has arrived is read by now. On a server without free processors, the acknowledgement
                // of a ping may have waited as long as the timeout.
                Poll::Pending => {
                    ready!(keep_alive.poll_dead(cx, connection));
                    streams.abrupt_shutdown(Reason::NO_ERROR);
                }
            }
        }
    }));
    pending_flush.watch(running, || connection.has_several_requests()).await
}

/// Serves a request in a task of its own, if the connection has memory for its headers.
fn start_stream<S: Service>(
    request: http::Request<RecvStream>,
    mut reply: SendResponse<Pieces>,
    handlers: &Handlers<S>,
    info: &Arc<ConnectionInfo>,
    connection: &Arc<Connection>,
    workers: &Handle,
) {
    match connection.hold_head(head_bytes(request.headers())) {
        Some(head) => {
            let (handlers, info, connection) = (handlers.clone(), info.clone(), connection.clone());
            let received = ReceivedRequest { request, head, pending: connection.add_pending_request() };
            binnacle_work::spawn_on(
                workers,
                "HTTP/2 request",
                serve_stream(received, reply, handlers, info, connection),
            );
        }
        // The request is unprocessed, so the client may retry it later.
        None => reply.send_reset(Reason::REFUSED_STREAM),
    }
}

/// Detects clients that disconnected without closing the connection.
struct KeepAlive {
    pings: Option<PingPong>,
    next: Pin<Box<Sleep>>,
    ping: PendingPing,
}

/// The ping that waits for its acknowledgement: the time of the last bytes before it, in milliseconds.
#[derive(Default)]
struct PendingPing(Option<u64>);

#[derive(Debug, PartialEq, Eq)]
enum KeepAliveStep {
    Wait(Duration),
    Ping,
    Close,
}

impl PendingPing {
    /// Returns the next step for a connection that received its last bytes at `received`. `late` is the time since the
    /// step was due.
    ///
    /// Any later bytes count as the acknowledgement. A client nearby acknowledges within a millisecond, so times in
    /// whole milliseconds are compared with each other and not with a more precise clock.
    fn next_step(&mut self, received: u64, now: u64, late: Duration) -> KeepAliveStep {
        if self.0 == Some(received) {
            return if late > MAX_LATE { KeepAliveStep::Wait(PING_TIMEOUT) } else { KeepAliveStep::Close };
        }
        self.0 = None;
        let silent = Duration::from_millis(now.saturating_sub(received));
        if silent < PING_INTERVAL {
            return KeepAliveStep::Wait(PING_INTERVAL - silent);
        }
        self.0 = Some(received);
        KeepAliveStep::Ping
    }
}

impl KeepAlive {
    fn new(pings: Option<PingPong>) -> Self {
        Self { pings, next: Box::pin(tokio::time::sleep(PING_INTERVAL)), ping: PendingPing::default() }
    }

    /// Resolves when the client does not acknowledge a ping.
    fn poll_dead(&mut self, cx: &mut Context<'_>, connection: &Connection) -> Poll<()> {
        let Some(pings) = &mut self.pings else { return Poll::Pending };
        let _ = pings.poll_pong(cx);
        while self.next.as_mut().poll(cx).is_ready() {
            let late = self.next.deadline().elapsed();
            let wait = match self.ping.next_step(connection.received_ms(), connection.now(), late) {
                KeepAliveStep::Wait(wait) => wait,
                KeepAliveStep::Ping => {
                    if pings.send_ping(Ping::opaque()).is_err() {
                        self.ping = PendingPing::default();
                    }
                    PING_TIMEOUT
                }
                KeepAliveStep::Close => {
                    self.pings = None;
                    return Poll::Ready(());
                }
            };
            self.next.as_mut().reset(tokio::time::Instant::now() + wait);
        }
        Poll::Pending
    }
}

/// A request that has not started.
struct ReceivedRequest {
    request: http::Request<RecvStream>,
    head: HeldHead,
    pending: PendingRequest,
}

/// Returns about how much memory the headers of a request take. Compressed, a short one may take a single byte.
fn head_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + BYTES_PER_HEADER).sum()
}

/// Serves the request of one stream.
fn serve_stream<S: Service>(
    received: ReceivedRequest,
    reply: SendResponse<Pieces>,
    handlers: Handlers<S>,
    info: Arc<ConnectionInfo>,
    connection: Arc<Connection>,
) -> impl Future<Output = ()> {
    // State that is only needed to build the response is dropped before sending, which may take long for a watch. It is
    // boxed here, because the arguments of an async function keep their place in its future until it ends.
    send_started(Box::pin(begin_response(received, reply, handlers, info, connection)))
}

async fn send_started<B>(starting: Pin<Box<impl Future<Output = Option<StartedResponse<B>>>>>)
where
    OutgoingBody<B>: HttpBody<Data = Pieces> + Unpin,
{
    let Some(StartedResponse { mut body, mut stream, deadline, active_request: _active_request }) = starting.await
    else {
        return;
    };
    let sent = send(&mut body, &mut stream);
    let sent = match deadline {
        Some(deadline) => within(deadline, pin!(sent)).await,
        None => Some(sent.await),
    };
    match sent {
        Some(Ok(()) | Err(SendFailure::Gone)) => {}
        Some(Err(SendFailure::Broken)) | None => stream.send_reset(Reason::INTERNAL_ERROR),
    }
}

/// A response whose head has been sent.
struct StartedResponse<B> {
    body: OutgoingBody<B>,
    stream: SendStream<Pieces>,
    /// The deadline for sending the entire response.
    deadline: Option<Instant>,
    active_request: ActiveRequest,
}

/// Sends the head of the response; returns `None` if there is no body.
async fn begin_response<S: Service>(
    received: ReceivedRequest,
    mut reply: SendResponse<Pieces>,
    handlers: Handlers<S>,
    info: Arc<ConnectionInfo>,
    connection: Arc<Connection>,
) -> Option<StartedResponse<S::Body>> {
    // The head is in use until there is a response.
    let ReceivedRequest { request, head: _head, pending } = received;
    let permit = tokio::select! {
        biased;
        permit = connection.acquire_request_permit() => permit,
        _ = poll_fn(|cx| reply.poll_reset(cx)) => return None,
    };
    if permit.is_err() {
        // The request is unprocessed, so the client may retry it on another connection.
        reply.send_reset(Reason::REFUSED_STREAM);
        return None;
    }
    let active_request = connection.begin_request();
    drop(pending);
    let length = request.headers().get(CONTENT_LENGTH).and_then(|text| text.to_str().ok()?.parse().ok());
    let request = request.map(|stream| Body::new(Incoming::new(stream, length)));
    let response = {
        // A client that resets the stream cancels the request.
        let mut response = pin!(handlers.serve(request, info));
        let response = poll_fn(|cx| match response.as_mut().poll(cx) {
            Poll::Ready(response) => Poll::Ready(Some(response)),
            Poll::Pending => reply.poll_reset(cx).map(|_| None),
        });
        response.await?
    };
    if response.extensions().get::<CloseConnection>().is_some() || connection.has_large_head() {
        connection.begin_shutdown();
    }
    let deadline = response.extensions().get::<SendBy>().map(|by| by.0);
    let (head, body) = response.into_parts();
    let mut head = http::Response::from_parts(head, ());
    adapt_headers(head.headers_mut());
    if body.is_end_stream() {
        // The connection may be closed, so the result is ignored.
        let _ = reply.send_response(head, true);
        return None;
    }
    if let Some(length) = body.size_hint().exact() {
        head.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    let stream = reply.send_response(head, false).ok()?;
    Some(StartedResponse { body, stream, deadline, active_request })
}

/// Removes headers that HTTP/2 forbids, and adds the date.
fn adapt_headers(headers: &mut HeaderMap) {
    const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
    const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
    for name in [KEEP_ALIVE, PROXY_CONNECTION, TRANSFER_ENCODING, UPGRADE, TE] {
        headers.remove(name);
    }
    if let Some(named) = headers.remove(CONNECTION)
        && let Ok(named) = named.to_str()
    {
        for name in named.split(',') {
            headers.remove(name.trim());
        }
    }
    headers.entry(DATE).or_insert_with(crate::date::now);
}

/// Waits until the deadline. The clock is only read if the work is not ready immediately.
async fn within<F: Future>(deadline: Instant, mut work: Pin<&mut F>) -> Option<F::Output> {
    let mut late: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => {
            let late = late.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline.into())));
            late.as_mut().poll(cx).map(|()| None)
        }
    })
    .await
}

/// The reason why a response was not sent completely.
enum SendFailure {
    /// The client disconnected or reset the stream.
    Gone,
    /// The body failed.
    Broken,
}

/// Sends a body as the client's windows open. The library never receives more than it can send, so all waiting bytes
/// are subject to a timeout.
async fn send<B>(body: &mut B, stream: &mut SendStream<Pieces>) -> Result<(), SendFailure>
where
    B: HttpBody<Data = Pieces> + Unpin,
{
    loop {
        let next = poll_fn(|cx| match Pin::new(&mut *body).poll_frame(cx) {
            Poll::Ready(next) => Poll::Ready(Ok(next)),
            Poll::Pending => stream.poll_reset(cx).map(|_| Err(SendFailure::Gone)),
        });
        let frame = match next.await? {
            None => return stream.send_data(Pieces::default(), true).map_err(|_| SendFailure::Gone),
            Some(Err(_)) => return Err(SendFailure::Broken),
            Some(Ok(frame)) => frame,
        };
        let mut data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                let Ok(trailers) = frame.into_trailers() else { continue };
                return stream.send_trailers(trailers).map_err(|_| SendFailure::Gone);
            }
        };
        let last = body.is_end_stream();
        // Bodies of proxied responses may end with an empty frame.
        if last && data.is_empty() {
            return stream.send_data(data, true).map_err(|_| SendFailure::Gone);
        }
        while !data.is_empty() {
            stream.reserve_capacity(data.len().min(SEND_BUFFER));
            let room = poll_fn(|cx| {
                loop {
                    match stream.capacity() {
                        0 => {
                            if !matches!(ready!(stream.poll_capacity(cx)), Some(Ok(_))) {
                                return Poll::Ready(Err(SendFailure::Gone));
                            }
                        }
                        room => return Poll::Ready(Ok(room)),
                    }
                }
            });
            let room = room.await?;
            let piece = data.split_to(room.min(data.len()));
            let ends = last && data.is_empty();
            stream.send_data(piece, ends).map_err(|_| SendFailure::Gone)?;
        }
        if last {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_client_that_sends_nothing_after_a_ping_is_closed() {
        let in_time = Duration::ZERO;
        let mut ping = PendingPing::default();
        assert_eq!(ping.next_step(1_000, 11_000, in_time), KeepAliveStep::Wait(Duration::from_secs(20)));
        assert_eq!(ping.next_step(1_000, 31_000, in_time), KeepAliveStep::Ping);
        // The acknowledgement came in the millisecond of the ping, exactly one timeout ago.
        assert_eq!(ping.next_step(31_000, 46_000, in_time), KeepAliveStep::Wait(Duration::from_secs(15)));
        assert_eq!(ping.next_step(31_000, 61_000, in_time), KeepAliveStep::Ping);
        assert_eq!(ping.next_step(31_000, 76_000, in_time), KeepAliveStep::Close);
    }

    #[test]
    fn a_busy_server_waits_again_for_an_acknowledgement() {
        let mut ping = PendingPing::default();
        assert_eq!(ping.next_step(1_000, 36_000, Duration::from_secs(5)), KeepAliveStep::Ping);
        for now in [56_000, 76_000] {
            let step = ping.next_step(1_000, now, Duration::from_secs(5));
            assert_eq!(step, KeepAliveStep::Wait(PING_TIMEOUT));
        }
        let mut answered = PendingPing(ping.0);
        assert_eq!(answered.next_step(80_000, 91_000, Duration::ZERO), KeepAliveStep::Wait(Duration::from_secs(19)));
        assert_eq!(ping.next_step(1_000, 91_000, MAX_LATE), KeepAliveStep::Close);
    }
}
