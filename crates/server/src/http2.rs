//! HTTP/2 on one connection: streams are answered side by side, each answer in pieces that the client's windows have room
//! for, and each that is due at some time is given up when its client does not take it.

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
use tokio::time::Sleep;

use crate::answer::{CloseConnection, SendBy};
use crate::connections::{Answering, Connection};
use crate::cork::PendingFlush;
use crate::handlers::{Handlers, Outgoing};
use incoming::Incoming;

/// The limit on the headers of one request, as in Go.
const MAX_HEADER_BYTES: u32 = 1 << 20;
/// Most request bodies fit into this, so that they arrive without waiting for a window (the same as in kube-apiserver).
const STREAM_WINDOW: u32 = 256 * 1024;
/// Bounds the bytes of unread request bodies that one connection may make the server hold.
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;
/// The bytes of an answer that one stream holds until its client reads: the rest waits where it is shared.
const SEND_BUFFER: usize = 256 * 1024;
/// The longest time for the client to begin, as in Go.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval of pings to a silent client, and the longest time for its answer.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// The limit on streams that the server resets for the client's errors, before the connection ends.
const LOCAL_RESETS: usize = 1024;

/// Serves a connection until it ends. `leave` resolves when it should take no further requests.
pub(crate) async fn serve<S>(
    stream: S,
    pending_flush: PendingFlush,
    max_streams: u32,
    handlers: &Handlers,
    info: &Arc<ConnectionInfo>,
    connection: &Arc<Connection>,
    leave: impl Future<Output = ()>,
) -> Result<(), h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(max_streams)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(SEND_BUFFER)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_local_error_reset_streams(Some(LOCAL_RESETS));
    let beginning = pin!(builder.handshake::<_, Pieces>(stream));
    let Ok(begun) = tokio::time::timeout(PREFACE_TIMEOUT, beginning).await else { return Ok(()) };
    let mut streams = begun?;
    let mut alive = Alive::new(streams.ping_pong());
    let (mut leave, mut left) = (pin!(leave), false);
    let running = pin!(poll_fn(|cx| {
        if !left && leave.as_mut().poll(cx).is_ready() {
            left = true;
            connection.leaves();
            streams.graceful_shutdown();
        }
        if alive.poll_gone(cx, connection).is_ready() {
            streams.abrupt_shutdown(Reason::NO_ERROR);
        }
        while let Some(accepted) = ready!(streams.poll_accept(cx)) {
            let (request, reply) = accepted?;
            let (handlers, info, connection) = (handlers.clone(), info.clone(), connection.clone());
            tokio::spawn(answer(request, reply, handlers, info, connection));
        }
        Poll::Ready(Ok(()))
    }));
    pending_flush.watch(running).await
}

/// Finds out that a client is gone which never said so.
struct Alive {
    pings: Option<PingPong>,
    next: Pin<Box<Sleep>>,
    asked: Option<Instant>,
}

impl Alive {
    fn new(pings: Option<PingPong>) -> Self {
        Self { pings, next: Box::pin(tokio::time::sleep(PING_INTERVAL)), asked: None }
    }

    /// Resolves when the client is gone.
    fn poll_gone(&mut self, cx: &mut Context<'_>, connection: &Connection) -> Poll<()> {
        let Some(pings) = &mut self.pings else { return Poll::Pending };
        let _ = pings.poll_pong(cx);
        while self.next.as_mut().poll(cx).is_ready() {
            let silent = Duration::from_millis(connection.silent_ms());
            // Anything that came since counts as an answer.
            if self.asked.take().is_some_and(|asked| silent >= asked.elapsed()) {
                self.pings = None;
                return Poll::Ready(());
            }
            let wait = if silent < PING_INTERVAL {
                PING_INTERVAL - silent
            } else {
                self.asked = pings.send_ping(Ping::opaque()).ok().map(|()| Instant::now());
                PING_TIMEOUT
            };
            self.next.as_mut().reset(tokio::time::Instant::now() + wait);
        }
        Poll::Pending
    }
}

/// Answers the request of one stream.
async fn answer(
    request: http::Request<RecvStream>,
    reply: SendResponse<Pieces>,
    handlers: Handlers,
    info: Arc<ConnectionInfo>,
    connection: Arc<Connection>,
) {
    // State that only making the answer needs is not kept while it is sent, which for a watch is long.
    let making = Box::pin(begin_answer(request, reply, handlers, info, connection));
    let Some(Begun { mut body, mut stream, deadline, answering: _answering }) = making.await else { return };
    let sent = send(&mut body, &mut stream);
    let sent = match deadline {
        Some(deadline) => within(deadline, pin!(sent)).await,
        None => Some(sent.await),
    };
    match sent {
        Some(Ok(()) | Err(Unsent::Gone)) => {}
        Some(Err(Unsent::Broken)) | None => stream.send_reset(Reason::INTERNAL_ERROR),
    }
}

/// An answer whose head has been sent.
struct Begun {
    body: Outgoing,
    stream: SendStream<Pieces>,
    /// The time by which all of it must have been sent.
    deadline: Option<Instant>,
    answering: Answering,
}

/// Sends the head of the answer; none when there is no more to send.
async fn begin_answer(
    request: http::Request<RecvStream>,
    mut reply: SendResponse<Pieces>,
    handlers: Handlers,
    info: Arc<ConnectionInfo>,
    connection: Arc<Connection>,
) -> Option<Begun> {
    let turn = tokio::select! {
        biased;
        turn = connection.turn() => turn,
        _ = poll_fn(|cx| reply.poll_reset(cx)) => return None,
    };
    if turn.is_err() {
        // Nobody has looked at it: the client may send it again, on another connection.
        reply.send_reset(Reason::REFUSED_STREAM);
        return None;
    }
    let answering = connection.begin();
    let length = request.headers().get(CONTENT_LENGTH).and_then(|text| text.to_str().ok()?.parse().ok());
    let request = request.map(|stream| Body::new(Incoming::new(stream, length)));
    let response = {
        // A client that gives up takes its request with it.
        let mut made = pin!(handlers.serve(request, info));
        let made = poll_fn(|cx| match made.as_mut().poll(cx) {
            Poll::Ready(response) => Poll::Ready(Some(response)),
            Poll::Pending => reply.poll_reset(cx).map(|_| None),
        });
        made.await?
    };
    if response.extensions().get::<CloseConnection>().is_some() {
        connection.leave();
    }
    let deadline = response.extensions().get::<SendBy>().map(|by| by.0);
    let (head, body) = response.into_parts();
    let mut head = http::Response::from_parts(head, ());
    tidy(head.headers_mut());
    if body.is_end_stream() {
        // The connection may be gone: then there is nobody to tell.
        let _ = reply.send_response(head, true);
        return None;
    }
    if let Some(length) = body.size_hint().exact() {
        head.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    let stream = reply.send_response(head, false).ok()?;
    Some(Begun { body, stream, deadline, answering })
}

/// Takes away what HTTP/2 has no place for, and adds the date.
fn tidy(headers: &mut HeaderMap) {
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

/// Waits until the deadline. The clock is asked for only when there is anything to wait for.
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

/// The reason why an answer was not sent as a whole.
enum Unsent {
    /// The client has gone, or does not want it any more.
    Gone,
    /// It could not be made.
    Broken,
}

/// Sends a body, as the client's windows open: the library is never given more than it can send, so that nothing waits in
/// it that nobody looks after.
async fn send<B>(body: &mut B, stream: &mut SendStream<Pieces>) -> Result<(), Unsent>
where
    B: HttpBody<Data = Pieces> + Unpin,
{
    loop {
        let next = poll_fn(|cx| match Pin::new(&mut *body).poll_frame(cx) {
            Poll::Ready(next) => Poll::Ready(Ok(next)),
            Poll::Pending => stream.poll_reset(cx).map(|_| Err(Unsent::Gone)),
        });
        let frame = match next.await? {
            None => return stream.send_data(Pieces::default(), true).map_err(|_| Unsent::Gone),
            Some(Err(_)) => return Err(Unsent::Broken),
            Some(Ok(frame)) => frame,
        };
        let mut data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                let Ok(trailers) = frame.into_trailers() else { continue };
                return stream.send_trailers(trailers).map_err(|_| Unsent::Gone);
            }
        };
        let last = body.is_end_stream();
        // Bodies that come from elsewhere may end with a frame without data.
        if last && data.is_empty() {
            return stream.send_data(data, true).map_err(|_| Unsent::Gone);
        }
        while !data.is_empty() {
            stream.reserve_capacity(data.len().min(SEND_BUFFER));
            let room = poll_fn(|cx| {
                loop {
                    match stream.capacity() {
                        0 => {
                            if !matches!(ready!(stream.poll_capacity(cx)), Some(Ok(_))) {
                                return Poll::Ready(Err(Unsent::Gone));
                            }
                        }
                        room => return Poll::Ready(Ok(room)),
                    }
                }
            });
            let room = room.await?;
            let piece = data.split_to(room.min(data.len()));
            let ends = last && data.is_empty();
            stream.send_data(piece, ends).map_err(|_| Unsent::Gone)?;
        }
        if last {
            return Ok(());
        }
    }
}
