//! Translates a client's WebSocket with channels (`v5.channel.k8s.io`) to a remote command at a kubelet (KEP-4006).
//!
//! The first byte of each message is the channel: 0 stdin, 1 stdout, 2 stderr, 3 the outcome as a Status, 4 terminal
//! sizes. 255 followed by a channel number closes that channel. Back-pressure is propagated in both directions.

use std::collections::VecDeque;
use std::time::Duration;

use binnacle_client::Target;
use binnacle_meta::Status;
use binnacle_request::{ByteStream, Request, Response, Shutdown};
use bytes::Bytes;
use tokio::io::{ReadHalf, WriteHalf};
use tokio::sync::Mutex;

use crate::outcome::Outcome;
use crate::remote_command::{Session, Streams, close_session};
use crate::spdy::{FloodLimiter, Frame, Reader, Writer};
use crate::upgrade::take_over;
use crate::websocket::{self, Content, Incoming, Outgoing};

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const OUTCOME: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

const PROTOCOL: &str = "v5.channel.k8s.io";
/// The interval of pings: load balancers drop idle connections.
const PING_PERIOD: Duration = Duration::from_secs(5);
/// The timeout of a session without data from either side.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4 * 3600);
/// The timeout for sending the outcome to the client.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum sizes, in bytes, of the kubelet's error and of the client's data before the session at the kubelet is
/// open.
const MAX_ERROR: usize = 64 * 1024;
const MAX_EARLY: usize = 64 * 1024;
/// The maximum size of pending terminal sizes. One has about thirty characters.
const MAX_RESIZE: usize = 4 * 1024;

type KubeletWriter = Writer<WriteHalf<Box<dyn ByteStream>>>;

/// Returns true if a request needs this translation.
pub fn wants_translation(headers: &http::HeaderMap) -> bool {
    crate::is_websocket(headers) && websocket::offered(headers).contains(&PROTOCOL)
}

/// Accepts the WebSocket, then opens the session at the kubelet; later errors are sent on the error channel.
/// `report_code` is called with the code of the outcome, for metrics.
pub fn translate(
    mut request: Request,
    target: Target,
    path_and_query: String,
    streams: Streams,
    report_code: impl FnOnce(u16) + Send + 'static,
) -> Result<Response, Status> {
    let accepted =
        websocket::choose(&request.headers, &[PROTOCOL]).and_then(|protocol| websocket::accept(&request, protocol));
    let response = match accepted {
        Ok(response) => response,
        Err(refusal) => {
            report_code(refusal.status().as_u16());
            return Ok(*refusal);
        }
    };
    take_over(&mut request, move |client, shutdown| async move {
        let (outgoing, incoming) = websocket::open(client, Content::Channels).await;
        let client = Client { outgoing, incoming, early: VecDeque::new() };
        let outcome = client.serve(&target, &path_and_query, streams, &shutdown).await;
        report_code(outcome.map_or(500, |outcome| outcome.code()));
    })?;
    Ok(response)
}

struct Client {
    outgoing: Outgoing,
    incoming: Incoming,
    /// Messages that arrived before the session at the kubelet was open.
    early: VecDeque<Bytes>,
}

impl Client {
    /// Runs the session. Returns `None` if the client left or the server shut down first.
    async fn serve(
        mut self,
        target: &Target,
        path_and_query: &str,
        streams: Streams,
        shutdown: &Shutdown,
    ) -> Option<Outcome> {
        // An empty message on an output channel shows the client that it is connected.
        let first = match streams {
            Streams { stdout: true, .. } => STDOUT,
            Streams { stderr: true, .. } => STDERR,
            _ => OUTCOME,
        };
        websocket::send_on(&mut self.outgoing, first, &[]).await.ok()?;
        let opened = tokio::select! {
            opened = Session::open(target, path_and_query, streams) => Some(opened),
            () = buffer_until_closed(&mut self.incoming, &mut self.early) => None,
            () = shutdown.fired() => None,
        };
        let outcome = match opened {
            Some(Ok(session)) => self.run(session, shutdown).await,
            Some(Err(why)) => Some(Outcome::Failed(why)),
            None => None,
        };
        let closing = async {
            if let Some(outcome) = &outcome {
                let _ = websocket::send_on(&mut self.outgoing, OUTCOME, outcome.status().as_bytes()).await;
            }
            websocket::close(&mut self.outgoing).await;
        };
        let timeout = if shutdown.is_fired() { Duration::from_millis(200) } else { OUTCOME_TIMEOUT };
        let _ = tokio::time::timeout(timeout, closing).await;
        outcome
    }

    async fn run(&mut self, session: Session, shutdown: &Shutdown) -> Option<Outcome> {
        let ids = StreamIds::of(&session);
        let all: Vec<u32> = session.streams().collect();
        let version = session.version.clone();
        let writer = Mutex::new(session.writer);
        let alive = tokio::sync::Notify::new();
        let outcome = {
            let incoming = &mut self.incoming;
            let early = std::mem::take(&mut self.early);
            tokio::select! {
                outcome = to_client(session.reader, &mut self.outgoing, &writer, &ids, &version, &alive) => outcome,
                () = from_client(incoming, early, &writer, &ids, &alive) => None,
                () = keep_alive(&writer) => None,
                () = idle(&alive) => None,
                () = shutdown.fired() => None,
            }
        };
        // The futures that borrowed the writer have been dropped.
        close_session(&mut writer.into_inner(), all.into_iter()).await;
        outcome
    }
}

/// The stream IDs of a session.
struct StreamIds {
    error: u32,
    stdin: Option<u32>,
    stdout: Option<u32>,
    stderr: Option<u32>,
    resize: Option<u32>,
}

impl StreamIds {
    fn of(session: &Session) -> Self {
        let Session { error, stdin, stdout, stderr, resize, .. } = *session;
        Self { error, stdin, stdout, stderr, resize }
    }
}

/// Buffers the client's messages, up to a limit, until it disconnects.
async fn buffer_until_closed(incoming: &mut Incoming, early: &mut VecDeque<Bytes>) {
    let mut held = 0;
    while held < MAX_EARLY {
        match websocket::receive(incoming).await {
            Some(message) => {
                // Empty messages need memory too.
                held += size_of::<Bytes>() + message.len();
                early.push_back(message);
            }
            None => return,
        }
    }
    std::future::pending().await
}

/// Forwards output until the command has ended and all output was sent. Returns `None` if the client has disconnected.
async fn to_client(
    mut kubelet: Reader<ReadHalf<Box<dyn ByteStream>>>,
    client: &mut Outgoing,
    writer: &Mutex<KubeletWriter>,
    ids: &StreamIds,
    version: &str,
    alive: &tokio::sync::Notify,
) -> Option<Outcome> {
    let mut error = Vec::new();
    let mut open: Vec<u32> = [Some(ids.error), ids.stdout, ids.stderr].into_iter().flatten().collect();
    let mut limiter = FloodLimiter::default();
    while !open.is_empty() {
        let frame = match kubelet.next().await {
            Ok(Some(frame)) => frame,
            Err(error) => return Some(Outcome::Failed(format!("error reading from error stream: {error}"))),
            Ok(None) => return Some(truncated_outcome(&error, version)),
        };
        alive.notify_one();
        match &frame {
            Frame::Data { stream, data, .. } if ids.channel(*stream).is_some() && !data.is_empty() => limiter.reset(),
            _ => limiter.delay().await,
        }
        match frame {
            Frame::Data { stream, fin, data } => {
                if stream == ids.error {
                    let room = MAX_ERROR - error.len();
                    error.extend_from_slice(&data[..data.len().min(room)]);
                } else if !data.is_empty()
                    && let Some(channel) = ids.channel(stream)
                {
                    websocket::send_on(client, channel, &data).await.ok()?;
                }
                if fin {
                    open.retain(|own| *own != stream);
                }
            }
            Frame::Reset { stream, .. } | Frame::Reply { stream, fin: true } => open.retain(|own| *own != stream),
            // Does not wait: a kubelet that does not read gets no reply.
            Frame::Ping(id) if id % 2 == 0 => {
                if let Ok(mut writer) = writer.try_lock() {
                    let _ = writer.write(&Frame::Ping(id)).await;
                }
            }
            Frame::GoAway => return Some(truncated_outcome(&error, version)),
            _ => {}
        }
    }
    Some(Outcome::of_error_stream(version, &error))
}

/// Returns the outcome if the connection ended before its streams did. Since version 4 a kubelet always sends an
/// outcome; without one, the outcome is unknown.
fn truncated_outcome(error: &[u8], version: &str) -> Outcome {
    if error.is_empty() && matches!(version, "v5.channel.k8s.io" | "v4.channel.k8s.io") {
        return Outcome::Failed("error reading from error stream: unexpected EOF".to_owned());
    }
    Outcome::of_error_stream(version, error)
}

impl StreamIds {
    fn channel(&self, stream: u32) -> Option<u8> {
        match Some(stream) {
            id if id == self.stdout => Some(STDOUT),
            id if id == self.stderr => Some(STDERR),
            _ => None,
        }
    }
}

/// Forwards input until the client disconnects or violates the protocol.
async fn from_client(
    incoming: &mut Incoming,
    mut early: VecDeque<Bytes>,
    writer: &Mutex<KubeletWriter>,
    ids: &StreamIds,
    alive: &tokio::sync::Notify,
) {
    let mut stdin = ids.stdin;
    let mut sizes = Vec::new();
    loop {
        let message = match early.pop_front() {
            Some(message) => message,
            None => match websocket::receive(incoming).await {
                Some(message) => message,
                None => return,
            },
        };
        alive.notify_one();
        let frame = match message.first() {
            None => None,
            Some(&CLOSE) => match message.as_ref() {
                [_, STDIN] => stdin.take().map(|stream| Frame::Data { stream, fin: true, data: Bytes::new() }),
                [_, STDOUT..=RESIZE] => None,
                _ => return,
            },
            Some(&STDIN) => stdin.map(|stream| Frame::Data { stream, fin: false, data: message.slice(1..) }),
            Some(&RESIZE) => ids.resize.and_then(|stream| {
                let data = take_sizes(&mut sizes, &message[1..])?;
                Some(Frame::Data { stream, fin: false, data })
            }),
            Some(_) => None,
        };
        let Some(frame) = frame else { continue };
        if writer.lock().await.write(&frame).await.is_err() {
            // The reading side determines how the session ended.
            return std::future::pending().await;
        }
    }
}

/// Returns the terminal sizes that this chunk completes, as the kubelet expects them.
fn take_sizes(pending: &mut Vec<u8>, piece: &[u8]) -> Option<Bytes> {
    #[derive(serde::Deserialize)]
    struct Size {
        #[serde(rename = "Width", alias = "width", default)]
        width: u16,
        #[serde(rename = "Height", alias = "height", default)]
        height: u16,
    }
    if pending.len() + piece.len() > MAX_RESIZE {
        pending.clear();
        return None;
    }
    pending.extend_from_slice(piece);
    let mut sizes = serde_json::Deserializer::from_slice(pending).into_iter::<Size>();
    let mut out = String::new();
    let mut broken = false;
    loop {
        match sizes.next() {
            Some(Ok(Size { width, height })) => {
                out.push_str(&format!("{{\"Width\":{width},\"Height\":{height}}}\n"));
            }
            Some(Err(error)) => {
                broken = !error.is_eof();
                break;
            }
            None => break,
        }
    }
    let read = if broken { pending.len() } else { sizes.byte_offset() };
    pending.drain(..read);
    (!out.is_empty()).then(|| out.into())
}

async fn keep_alive(writer: &Mutex<KubeletWriter>) {
    // Pings have odd IDs, because this side opened the connection.
    for id in (1..).step_by(2) {
        tokio::time::sleep(PING_PERIOD).await;
        if writer.lock().await.write(&Frame::Ping(id)).await.is_err() {
            break;
        }
    }
    std::future::pending().await
}

async fn idle(alive: &tokio::sync::Notify) {
    while tokio::time::timeout(IDLE_TIMEOUT, alive.notified()).await.is_ok() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_terminal_sizes_across_messages() {
        let mut pending = Vec::new();
        for (piece, want) in [
            ("{\"Width\":80,\"Height\":24}", Some("{\"Width\":80,\"Height\":24}\n")),
            ("\n{\"Width\":1", None),
            (
                ",\"Height\":2}{\"width\":3,\"height\":4}",
                Some("{\"Width\":1,\"Height\":2}\n{\"Width\":3,\"Height\":4}\n"),
            ),
            ("nonsense", None),
            ("{}", Some("{\"Width\":0,\"Height\":0}\n")),
            (&" ".repeat(MAX_RESIZE + 1), None),
        ] {
            let got = take_sizes(&mut pending, piece.as_bytes());
            assert_eq!(got.as_deref(), want.map(str::as_bytes), "{piece}");
        }
    }

    #[tokio::test]
    async fn limits_messages_before_the_session_opens() {
        use tokio::io::AsyncWriteExt;

        for payload in [0, 100] {
            let (near, mut far) = tokio::io::duplex(4 << 20);
            let frame = [&[0x82, 0x80 | payload, 0, 0, 0, 0][..], &vec![0; payload.into()]].concat();
            far.write_all(&frame.repeat(10_000)).await.expect("room");
            let (_outgoing, mut incoming) = websocket::open(Box::new(near), Content::Channels).await;
            let mut early = VecDeque::new();
            {
                let mut gone = std::pin::pin!(buffer_until_closed(&mut incoming, &mut early));
                for _ in 0..1000 {
                    assert!(futures::poll!(gone.as_mut()).is_pending());
                    tokio::task::yield_now().await;
                }
            }
            let held: usize = early.iter().map(|message: &Bytes| size_of::<Bytes>() + message.len()).sum();
            assert!((MAX_EARLY..2 * MAX_EARLY).contains(&held), "{held}");
        }
    }

    #[test]
    fn reports_a_connection_that_ends_without_an_outcome() {
        let failed = Outcome::Failed("error reading from error stream: unexpected EOF".to_owned());
        for (error, version, want) in [
            ("", "v4.channel.k8s.io", failed),
            ("", "v3.channel.k8s.io", Outcome::Success),
            ("{\"status\":\"Success\"}", "v4.channel.k8s.io", Outcome::Success),
        ] {
            assert_eq!(truncated_outcome(error.as_bytes(), version), want);
        }
    }
}
