//! A watch in the background of a case's steps.

use std::collections::VecDeque;

use binnacle_client::PooledBody;
use binnacle_request::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::answer::{Answer, header};
use crate::case::Until;
use crate::endpoint::{Endpoint, MAX_ANSWER, Outgoing};
use crate::protobuf;

/// The maximum number of events that are read before they are taken.
const AHEAD: usize = 10_000;

/// A watch that the server has accepted. Dropping it closes the connection.
pub(crate) struct Watch {
    pub(crate) headers: HeaderMap,
    /// Received events that no step has taken yet.
    waiting: VecDeque<Value>,
    coming: mpsc::Receiver<Value>,
    pub(crate) closed: bool,
    reading: JoinHandle<()>,
}

impl Watch {
    /// Opens a watch; returns the response instead if its status is not 200.
    pub(crate) async fn open(endpoint: &Endpoint, outgoing: &Outgoing) -> Result<Result<Self, Answer>, String> {
        let (parts, body) = endpoint.open(outgoing).await?.into_parts();
        if parts.status != 200 {
            let data = Body::new(body).read(MAX_ANSWER).await.map_err(|error| error.to_string())?;
            return Ok(Err(Answer { status: parts.status.as_u16(), headers: parts.headers, data }));
        }
        let framed = is_framed(&parts.headers);
        let (events, coming) = mpsc::channel(AHEAD);
        let reading = tokio::spawn(async move {
            follow(body, framed, &events).await;
        });
        Ok(Ok(Self { headers: parts.headers, waiting: VecDeque::new(), coming, closed: false, reading }))
    }

    /// Takes events until there are `count`, until the given end, or until the deadline, when there may be fewer.
    pub(crate) async fn take(&mut self, count: usize, until: Option<Until>, deadline: Instant) -> Vec<Value> {
        let mut taken = Vec::new();
        loop {
            let enough = match until {
                Some(Until::Close) => false,
                Some(Until::Bookmark) => taken.last().is_some_and(|event: &Value| event["type"] == "BOOKMARK"),
                None => taken.len() >= count,
            };
            if enough {
                return taken;
            }
            if let Some(event) = self.waiting.pop_front() {
                taken.push(event);
                continue;
            }
            match tokio::time::timeout_at(deadline, self.coming.recv()).await {
                Ok(Some(event)) => self.waiting.push_back(event),
                Ok(None) => {
                    self.closed = true;
                    return taken;
                }
                Err(_) => return taken,
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

async fn follow(mut body: PooledBody, framed: bool, events: &mpsc::Sender<Value>) {
    let mut buffer = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        buffer.extend_from_slice(&data);
        while let Some(event) = next(&mut buffer, framed) {
            if events.send(event).await.is_err() {
                return;
            }
        }
    }
}

/// Returns true if the events of a response have their lengths before them instead of line ends behind them.
fn is_framed(headers: &HeaderMap) -> bool {
    header(headers, CONTENT_TYPE.as_str()).contains("protobuf")
}

/// Returns the complete events at the beginning of a response.
pub(crate) fn events_in(headers: &HeaderMap, data: &[u8]) -> Vec<Value> {
    let mut buffer = BytesMut::from(data);
    let framed = is_framed(headers);
    std::iter::from_fn(|| next(&mut buffer, framed)).collect()
}

/// Takes one complete event off the buffer.
fn next(buffer: &mut BytesMut, framed: bool) -> Option<Value> {
    if framed {
        let length: [u8; 4] = buffer.get(..4)?.try_into().ok()?;
        let end = 4 + usize::try_from(u32::from_be_bytes(length)).ok()?;
        if buffer.len() < end {
            return None;
        }
        return Some(protobuf::describe_event(&buffer.split_to(end)[4..]));
    }
    loop {
        let end = buffer.iter().position(|byte| *byte == b'\n')?;
        let line: Bytes = buffer.split_to(end + 1).freeze();
        if !line.trim_ascii().is_empty() {
            let undecodable = |_| json!({"undecodable": String::from_utf8_lossy(&line)});
            return Some(serde_json::from_slice(&line).unwrap_or_else(undecodable));
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use serde_json::json;

    use super::next;

    #[test]
    fn splits_streams_into_events() {
        for (framed, data, want, rest) in [
            (false, "{\"type\":\"A\"}\n\n{\"ty", vec![json!({"type": "A"})], "{\"ty"),
            (false, "\n1\n2\n", vec![json!(1), json!(2)], ""),
            (false, "no\n", vec![json!({"undecodable": "no\n"})], ""),
            (true, "\0\0\0\u{3}\n\u{1}A\0\0", vec![json!({"type": "A"})], "\0\0"),
            (true, "\0\0\0\u{3}\n\u{1}", vec![], "\0\0\0\u{3}\n\u{1}"),
        ] {
            let mut buffer = BytesMut::from(data);
            let got: Vec<_> = std::iter::from_fn(|| next(&mut buffer, framed)).collect();
            assert_eq!((got, &*buffer), (want, rest.as_bytes()), "{data:?}");
        }
    }
}
