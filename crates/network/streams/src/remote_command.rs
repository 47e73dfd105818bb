//! The client side of a remote command at a kubelet: a SPDY connection with a stream each for stdin, stdout, stderr,
//! the error and terminal sizes.

use std::time::Duration;

use binnacle_client::Target;
use binnacle_request::{Body, ByteStream};
use http::header::{CONNECTION, HeaderName, HeaderValue, LOCATION, UPGRADE, USER_AGENT};
use http::{Method, StatusCode};
use http_body_util::{BodyExt, Limited};
use tokio::io::{ReadHalf, WriteHalf, split};

use crate::headers;
use crate::outcome::VERSIONS;
use crate::spdy::{FloodLimiter, Frame, Reader, Reset, Writer};
use crate::upgrade::Upstream;

pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// The time limit for a kubelet to accept a stream.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of bytes of an error response that are read.
const MAX_REFUSAL: usize = 64 * 1024;

/// The streams of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Streams {
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
    pub tty: bool,
}

/// An open session: its two directions, and the IDs of its streams.
pub(crate) struct Session {
    pub(crate) reader: Reader<ReadHalf<Box<dyn ByteStream>>>,
    pub(crate) writer: Writer<WriteHalf<Box<dyn ByteStream>>>,
    pub(crate) version: String,
    pub(crate) error: u32,
    pub(crate) stdin: Option<u32>,
    pub(crate) stdout: Option<u32>,
    pub(crate) stderr: Option<u32>,
    pub(crate) resize: Option<u32>,
}

impl Session {
    /// Opens a session. The error is a message for the client.
    pub(crate) async fn open(target: &Target, path_and_query: &str, streams: Streams) -> Result<Self, String> {
        let (connection, version) = connect(target, path_and_query).await?;
        let (reader, writer) = split(connection);
        let mut session = Self {
            reader: Reader::new(reader),
            writer: Writer::new(writer),
            version,
            error: 0,
            stdin: None,
            stdout: None,
            stderr: None,
            resize: None,
        };
        // A kubelet starts the command once it has all streams, so nothing is sent before.
        let resizes = streams.tty && !matches!(session.version.as_str(), "v2.channel.k8s.io" | "channel.k8s.io" | "");
        let mut next = 1;
        session.error = session.create("error", &mut next).await?;
        for (wanted, kind) in [
            (streams.stdin, "stdin"),
            (streams.stdout, "stdout"),
            (streams.stderr && !streams.tty, "stderr"),
            (resizes, "resize"),
        ] {
            if wanted {
                let stream = Some(session.create(kind, &mut next).await?);
                match kind {
                    "stdin" => session.stdin = stream,
                    "stdout" => session.stdout = stream,
                    "stderr" => session.stderr = stream,
                    _ => session.resize = stream,
                }
            }
        }
        Ok(session)
    }

    async fn create(&mut self, kind: &str, next: &mut u32) -> Result<u32, String> {
        let stream = *next;
        *next += 2;
        let headers = vec![("streamtype".to_owned(), kind.to_owned())];
        let open = Frame::Open { stream, fin: false, headers };
        self.writer.write(&open).await.map_err(|error| error.to_string())?;
        let replied = async {
            let mut limiter = FloodLimiter::default();
            loop {
                limiter.delay().await;
                match self.reader.next().await {
                    Ok(Some(Frame::Reply { stream: replied, .. })) if replied == stream => return Ok(()),
                    Ok(Some(Frame::Reset { stream: reset, .. })) if reset == stream => {
                        return Err("Stream reset".to_owned());
                    }
                    Ok(Some(Frame::Ping(id))) => {
                        self.writer.write(&Frame::Ping(id)).await.map_err(|error| error.to_string())?;
                    }
                    Ok(None | Some(Frame::GoAway)) => return Err("EOF".to_owned()),
                    Ok(Some(_)) => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
        };
        match tokio::time::timeout(REPLY_TIMEOUT, replied).await {
            Ok(replied) => replied.map(|()| stream),
            Err(_) => Err("Timeout occurred".to_owned()),
        }
    }

    /// Returns the IDs of all streams, to reset them at the end.
    pub(crate) fn streams(&self) -> impl Iterator<Item = u32> + use<> {
        [Some(self.error), self.stdin, self.stdout, self.stderr, self.resize].into_iter().flatten()
    }
}

/// Ends a session: resets the streams and sends GOAWAY.
pub(crate) async fn close_session(
    writer: &mut Writer<WriteHalf<Box<dyn ByteStream>>>,
    streams: impl Iterator<Item = u32>,
) {
    for stream in streams {
        if writer.write(&Frame::Reset { stream, reason: Reset::CANCEL }).await.is_err() {
            return;
        }
    }
    let _ = writer.write(&Frame::GoAway).await;
    let _ = writer.shutdown().await;
}

/// Upgrades a connection to SPDY and negotiates the protocol version.
async fn connect(target: &Target, path_and_query: &str) -> Result<(Box<dyn ByteStream>, String), String> {
    let url = target.url(path_and_query);
    let post = |url: &str, why: &str| format!("error sending request: Post {}: {why}", binnacle_meta::go_quote(url));
    let mut request = http::Request::new(Body::empty());
    *request.method_mut() = Method::POST;
    *request.uri_mut() = path_and_query.parse().map_err(|_| post(&url, "invalid path"))?;
    let sent = request.headers_mut();
    sent.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    sent.insert(UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    sent.insert(USER_AGENT, HeaderValue::from_static("kube-apiserver"));
    for version in VERSIONS {
        sent.append(PROTOCOL_VERSION, HeaderValue::from_static(version));
    }
    let answer = binnacle_client::send(target, request).await.map_err(|error| post(&url, &error.to_string()))?;
    let text = |name: HeaderName| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS || !headers::upgrades_to_spdy(answer.headers()) {
        if answer.status().is_redirection()
            && let Some(location) = text(LOCATION)
        {
            return Err(post(&location, "redirect not allowed"));
        }
        let refusal = Limited::new(answer.into_body(), MAX_REFUSAL).collect().await;
        let refusal = refusal
            .map_err(|_| "unable to upgrade connection: unable to read error from server response".to_owned())?;
        return Err(format!("unable to upgrade connection: {}", refusal_message(&refusal.to_bytes())));
    }
    let version = text(PROTOCOL_VERSION).unwrap_or_default();
    let connection = Upstream::of(answer, target).connection().await.map_err(|error| error.to_string())?;
    Ok((connection, version))
}

/// Returns the message of an error response, which may be a Status.
fn refusal_message(body: &[u8]) -> String {
    if let Ok(status) = serde_json::from_slice::<serde_json::Value>(body) {
        for member in ["message", "error"] {
            if let Some(text) = status[member].as_str().map(str::trim).filter(|text| !text.is_empty()) {
                return text.to_owned();
            }
        }
    }
    match String::from_utf8_lossy(body).trim() {
        "" => "empty server response".to_owned(),
        text => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_message_of_a_refusal() {
        for (body, want) in [
            ("", "empty server response"),
            (" no such pod\n", "no such pod"),
            (r#"{"kind":"Status","message":" gone "}"#, "gone"),
            (r#"{"error":"gone"}"#, "gone"),
            (r#"{"message":""}"#, r#"{"message":""}"#),
        ] {
            assert_eq!(refusal_message(body.as_bytes()), want);
        }
    }
}
