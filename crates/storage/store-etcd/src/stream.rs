//! A single watch of a member.

use std::ops::Range;
use std::time::Duration;

use binnacle_store::{Event, KeyValue, LeaseId, Revision};
use bytes::Bytes;
use http::uri::PathAndQuery;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Streaming};
use tonic_prost::ProstCodec;

use crate::api::{self, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse, WatchUnion, path};
use crate::calls::CallCount;
use crate::cluster::{Member, require_leader};
use crate::error::Failure;

/// All changes of one revision within the range.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) revision: u64,
    pub(crate) events: Vec<Event>,
}

/// A message of a stream.
#[derive(Debug)]
pub(crate) enum StreamMessage {
    /// Complete revisions, in order.
    Rows(Vec<Row>),
    /// The progress: every event up to this revision was received.
    Progress(u64),
}

/// The reason why a stream ended.
#[derive(Debug)]
pub(crate) enum StreamEnd {
    /// The start of the watch is before the last compaction.
    Compacted(u64),
    Lost(String),
}

/// A running watch, which ends when it is dropped.
pub(crate) struct EventStream {
    requests: mpsc::Sender<WatchRequest>,
    responses: Streaming<WatchResponse>,
    /// Events of a revision that may be incomplete.
    incomplete: Vec<Event>,
    reliable_progress: bool,
    count: CallCount,
}

/// How a member reports the progress of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The member responds to progress requests, and sends no earlier event after the response.
    OnRequest,
    /// The responses to progress requests may overtake events (etcd issues 15220 and 17507), so only events indicate
    /// progress. Therefore every key has to be watched, so that each revision has events.
    ByEvents,
}

const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

// === impl Progress ===

impl Progress {
    /// Returns how a version of etcd reports progress.
    pub(crate) fn of_version(version: &str) -> Self {
        let mut numbers = version.split(['.', '-', '+']).map_while(|part| part.parse::<u32>().ok());
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        // The versions that kube-apiserver requires as well (kubernetes issue 123192).
        let fixed = if version < (3, 5, 0) { (3, 4, 31) } else { (3, 5, 13) };
        if version >= fixed { Self::OnRequest } else { Self::ByEvents }
    }

    /// Returns the keys that must be watched to receive all changes in `range`.
    pub(crate) fn range(self, range: &Range<Bytes>) -> Range<Bytes> {
        match self {
            Self::OnRequest => range.clone(),
            // All keys, in etcd's notation.
            Self::ByEvents => Bytes::from_static(b"\0")..Bytes::from_static(b"\0"),
        }
    }
}

// === impl EventStream ===

impl EventStream {
    /// Opens a watch of the changes after a revision.
    pub(crate) async fn open(
        member: &Member,
        progress: Progress,
        range: &Range<Bytes>,
        after: u64,
    ) -> Result<Self, Failure> {
        let (requests, outgoing) = mpsc::channel(8);
        let Range { start, end } = progress.range(range);
        let create = WatchCreateRequest {
            key: first_key(start),
            range_end: end,
            start_revision: i64::try_from(after + 1).unwrap_or(i64::MAX),
            prev_kv: true,
            fragment: true,
        };
        // The channel has room for it.
        let _ = requests.try_send(WatchRequest { request: Some(WatchUnion::Create(create)) });
        let mut request = tonic::Request::new(ReceiverStream::new(outgoing));
        require_leader(&mut request);
        let mut count = member.calls.stream(path::WATCH);
        count.sent();
        let opening = async {
            let mut grpc = member.grpc().await?;
            let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
            let responses = grpc.streaming(request, PathAndQuery::from_static(path::WATCH), codec).await;
            responses.map_err(|status| {
                count.set_code(status.code());
                Failure::of(&status)
            })
        };
        let responses = match timeout(OPEN_TIMEOUT, opening).await {
            Ok(responses) => responses?.into_inner(),
            Err(_) => return Err(Failure::Unknown("context deadline exceeded".to_owned())),
        };
        let reliable_progress = progress == Progress::OnRequest;
        Ok(Self { requests, responses, incomplete: Vec::new(), reliable_progress, count })
    }

    /// Requests a [`StreamMessage::Progress`]. The member does not send it while the member itself is behind.
    pub(crate) fn request_progress(&self) {
        let request = WatchRequest { request: Some(WatchUnion::Progress(WatchProgressRequest {})) };
        // Another request does not help while earlier ones are unsent.
        if self.requests.try_send(request).is_ok() {
            self.count.sent();
        }
    }

    /// Waits for the next message. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<StreamMessage, StreamEnd> {
        loop {
            let response = match self.responses.message().await {
                Ok(Some(response)) => response,
                Ok(None) => {
                    self.count.set_code(Code::Ok);
                    return Err(StreamEnd::Lost("the member ended the watch".to_owned()));
                }
                Err(status) => {
                    self.count.set_code(status.code());
                    return Err(StreamEnd::Lost(Failure::of(&status).into_store_error().to_string()));
                }
            };
            self.count.received();
            if response.compact_revision != 0 {
                return Err(StreamEnd::Compacted(unsigned(response.compact_revision)));
            }
            if response.canceled {
                return Err(StreamEnd::Lost(response.cancel_reason));
            }
            if response.created {
                continue;
            }
            if response.events.is_empty() && !response.fragment && self.incomplete.is_empty() {
                match response.header {
                    Some(header) if self.reliable_progress => {
                        return Ok(StreamMessage::Progress(unsigned(header.revision)));
                    }
                    _ => continue,
                }
            }
            let rows = self.whole_revisions(response);
            if !rows.is_empty() {
                return Ok(StreamMessage::Rows(rows));
            }
        }
    }

    /// Groups events by revision, and holds the last one back while it is incomplete.
    fn whole_revisions(&mut self, response: WatchResponse) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        let incomplete = std::mem::take(&mut self.incomplete);
        for event in incomplete.into_iter().chain(response.events.into_iter().filter_map(event)) {
            let revision = revision_of(&event);
            match rows.last_mut() {
                Some(row) if row.revision == revision => row.events.push(event),
                _ => rows.push(Row { revision, events: vec![event] }),
            }
        }
        if response.fragment
            && let Some(last) = rows.pop()
        {
            self.incomplete = last.events;
        }
        rows
    }
}

/// Replaces the empty key, which etcd does not allow, with the smallest one.
pub(crate) fn first_key(key: Bytes) -> Bytes {
    if key.is_empty() { Bytes::from_static(b"\0") } else { key }
}

pub(crate) fn key_value(kv: api::KeyValue) -> KeyValue {
    KeyValue {
        key: kv.key.into(),
        value: kv.value.into(),
        create_revision: Revision(unsigned(kv.create_revision)),
        mod_revision: Revision(unsigned(kv.mod_revision)),
        lease: (kv.lease != 0).then_some(LeaseId(kv.lease)),
    }
}

fn event(event: api::Event) -> Option<Event> {
    let kv = event.kv?;
    let previous = event.prev_kv.map(key_value);
    Some(if event.kind == api::EVENT_DELETE {
        Event::Delete { key: kv.key.into(), revision: Revision(unsigned(kv.mod_revision)), previous }
    } else {
        Event::Put { kv: key_value(kv), previous }
    })
}

pub(crate) fn revision_of(event: &Event) -> u64 {
    match event {
        Event::Put { kv, .. } => kv.mod_revision.0,
        Event::Delete { revision, .. } => revision.0,
    }
}

pub(crate) fn unsigned(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trusts_progress_of_fixed_etcd_versions() {
        for (version, want) in [
            ("3.4.23", Progress::ByEvents),
            ("3.4.31", Progress::OnRequest),
            ("3.5.0", Progress::ByEvents),
            ("3.5.12", Progress::ByEvents),
            ("3.5.13", Progress::OnRequest),
            ("3.5.13-rc.0", Progress::OnRequest),
            ("3.6.0", Progress::OnRequest),
            ("4", Progress::OnRequest),
            ("3.3.27", Progress::ByEvents),
            ("", Progress::ByEvents),
            ("unknown", Progress::ByEvents),
        ] {
            assert_eq!(Progress::of_version(version), want, "{version}");
        }
    }
}
