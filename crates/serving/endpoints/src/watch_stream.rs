//! The body of a watch: frames of events, and bookmarks in between.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use binnacle_meta::Status;
use binnacle_registry::{Resource, object};
use binnacle_request::{Body, Pieces, Shutdown};
use binnacle_schema::{Message, Object, Value, cbor, json, proto};
use binnacle_store::Revision;
use binnacle_watchcache::{Change, EncodingId, WatchError, WatchItem, Watcher};
use bytes::{Buf, Bytes};
use tokio::time::{Instant, Sleep};

use crate::failure;
use crate::negotiate::{Encoding, Output, Transform};
use crate::object_view::ObjectView;
use crate::piece_buffer::PieceBuffer;
use crate::respond;
use crate::table::{self, Include};

/// The parameters of a watch, without its watcher.
pub(crate) struct WatchOptions {
    pub resource: Arc<Resource>,
    pub output: Output,
    pub include: Include,
    /// `allowWatchBookmarks`.
    pub bookmarks: bool,
    /// The time from which the intervals of bookmarks are counted.
    pub bookmarks_since: Instant,
    /// True if an annotated bookmark ends the initial events.
    pub mark_initial: bool,
    pub timeout: Duration,
    pub shutdown: Shutdown,
    /// The time and the scope of the request, for metrics.
    pub received: SystemTime,
    pub scope: &'static str,
    /// True for WebSockets: each event is a separate message, without the framing of its encoding.
    pub is_websocket: bool,
}

/// The interval of bookmarks; one more is sent shortly before the end. Watches of one connection, such as all of a node,
/// get theirs at the same times, so that they are one write.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// The maximum number of events that are taken from the watcher at once.
const BATCH: usize = 256;
/// The size of the length prefix of each message in protobuf.
const PROTOBUF_HEAD: usize = 4;
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Returns the body of the response. A watch that could not start has a single error event.
pub(crate) fn body(options: WatchOptions, watcher: Result<Watcher, WatchError>) -> Body {
    match watcher {
        Ok(watcher) => Body::stream(EventStream::new(options, watcher)),
        Err(error) => {
            let framer = Framer::new(&options);
            let frame = framer.error(&watch_error_status(&error, options.resource.collection.cached));
            Body::full(framer.finish_frame(frame))
        }
    }
}

/// Returns the status for a watch that cannot start or continue. The message depends on whether kube-apiserver uses the
/// cache.
fn watch_error_status(error: &WatchError, cached: bool) -> Status {
    match error {
        WatchError::Expired { .. } if !cached => {
            Status::expired("The resourceVersion for the provided watch is too old.")
        }
        WatchError::Expired { .. } => Status::expired(error.to_string()),
        WatchError::TooLarge { requested, current } => Status::too_large_resource_version(requested.0, current.0, 1),
        WatchError::NotReady | WatchError::Dismissed | WatchError::Closed => {
            Status::too_many_requests(error.to_string(), 1)
        }
    }
}

struct EventStream {
    watcher: Watcher,
    framer: Framer,
    bookmarks: bool,
    bookmarks_since: Instant,
    mark_initial: bool,
    received: SystemTime,
    scope: &'static str,
    /// Items that were taken from the watcher and not framed yet.
    pending: VecDeque<WatchItem>,
    end: Pin<Box<Sleep>>,
    bookmark: Pin<Box<Sleep>>,
    deadline: Instant,
    shutdown: Shutdown,
    shutdown_fired: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The task that timers and shutdown wake. It is registered again only if it changes, not with every event.
    registered_waker: Option<Waker>,
    last_sent: Revision,
    finished: bool,
}

impl EventStream {
    fn new(options: WatchOptions, watcher: Watcher) -> Self {
        let now = Instant::now();
        let deadline = now + options.timeout;
        Self {
            framer: Framer::new(&options),
            bookmarks: options.bookmarks,
            bookmarks_since: options.bookmarks_since,
            mark_initial: options.mark_initial,
            received: options.received,
            scope: options.scope,
            pending: VecDeque::new(),
            end: Box::pin(tokio::time::sleep_until(deadline)),
            bookmark: Box::pin(tokio::time::sleep_until(next_bookmark(options.bookmarks_since, now, deadline))),
            deadline,
            shutdown_fired: Box::pin(options.shutdown.fired()),
            shutdown: options.shutdown,
            registered_waker: None,
            last_sent: Revision(0),
            watcher,
            finished: false,
        }
    }

    /// Resolves at the end of the watch. The task is woken at the end, and for the next bookmark.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.registered_waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return if self.shutdown.is_fired() || self.end.is_elapsed() { Poll::Ready(()) } else { Poll::Pending };
        }
        if self.shutdown_fired.as_mut().poll(cx).is_ready() || self.end.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let is_waiting = !self.bookmarks || self.bookmark.as_mut().poll(cx).is_pending();
        // A timer does not register a waker when the task's budget is exhausted.
        if is_waiting && tokio::task::coop::has_budget_remaining() {
            self.registered_waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Records the time until the initial events were sent.
    fn count_initial(&self) {
        let resource = &self.framer.resource;
        let seconds = self.received.elapsed().unwrap_or_default().as_secs_f64();
        let counted = resource.watch_lists.iter().find(|(scope, _)| *scope == self.scope);
        counted.into_iter().for_each(|(_, latencies)| latencies.add(seconds));
    }

    /// Frames the taken events, up to a limit of bytes. A single frame is shared with other watchers.
    fn frame_pending(&mut self) -> Pieces {
        if self.framer.is_websocket {
            return self.next_frame().map(Pieces::from).unwrap_or_default();
        }
        let mut buffer = PieceBuffer::default();
        while !buffer.is_full() {
            let Some(frame) = self.next_frame() else { break };
            if buffer.is_empty() && self.pending.is_empty() {
                return Pieces::from(frame);
            }
            buffer.share(frame);
        }
        buffer.take()
    }

    /// Returns the next frame. An object that cannot be encoded ends the watch with an error event.
    fn next_frame(&mut self) -> Option<Bytes> {
        if self.framer.rejects_all_events() {
            self.pending.clear();
            self.finished = true;
        }
        while let Some(item) = self.pending.pop_front() {
            if matches!(item, WatchItem::InitialEventsEnd(_)) {
                if !self.mark_initial {
                    continue;
                }
                self.count_initial();
            }
            self.last_sent = self.last_sent.max(item.revision());
            let frame = self.framer.item(&item).unwrap_or_else(|status| {
                self.pending.clear();
                self.finished = true;
                self.framer.error(&status)
            });
            return Some(self.framer.finish_frame(frame));
        }
        None
    }
}

impl futures::Stream for EventStream {
    type Item = Result<Pieces, std::io::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if !this.pending.is_empty() {
                let pieces = this.frame_pending();
                if !pieces.is_empty() {
                    return Poll::Ready(Some(Ok(pieces)));
                }
                continue;
            }
            if this.finished {
                return Poll::Ready(None);
            }
            if this.poll_end(cx).is_ready() {
                this.finished = true;
                return Poll::Ready(None);
            }
            let mut batch = Vec::new();
            match this.watcher.poll_batch(cx, BATCH, &mut batch) {
                Poll::Ready(Ok(())) => {
                    this.pending = batch.into();
                    continue;
                }
                Poll::Ready(Err(WatchError::Dismissed)) => {
                    this.finished = true;
                    return Poll::Ready(None);
                }
                Poll::Ready(Err(error)) => {
                    this.finished = true;
                    let status = watch_error_status(&error, this.framer.resource.collection.cached);
                    let frame = this.framer.error(&status);
                    return Poll::Ready(Some(Ok(this.framer.finish_frame(frame).into())));
                }
                Poll::Pending => {}
            }
            if this.bookmarks && this.bookmark.is_elapsed() {
                let now = Instant::now();
                this.bookmark.as_mut().reset(next_bookmark(this.bookmarks_since, now, this.deadline));
                this.registered_waker = None;
                let progress = this.watcher.progress();
                // As in kube-apiserver, a bookmark may repeat the last sent revision, but not the start revision of the
                // watch.
                if progress >= this.last_sent && progress > this.watcher.start_revision() {
                    this.last_sent = progress;
                    if this.framer.rejects_all_events() {
                        this.finished = true;
                        return Poll::Ready(None);
                    }
                    let frame = this.framer.bookmark(progress, false);
                    return Poll::Ready(Some(Ok(this.framer.finish_frame(frame).into())));
                }
                continue;
            }
            return Poll::Pending;
        }
    }
}

/// Returns the time of the next bookmark: `since` and a multiple of the interval.
fn next_bookmark(since: Instant, now: Instant, deadline: Instant) -> Instant {
    let intervals = now.saturating_duration_since(since).as_nanos() / BOOKMARK_EVERY.as_nanos() + 1;
    let regular = since + BOOKMARK_EVERY.saturating_mul(u32::try_from(intervals).unwrap_or(u32::MAX));
    match deadline.checked_sub(BOOKMARK_BEFORE_END) {
        Some(last) if last > now && last < regular => last,
        // No further bookmark follows the last one.
        _ if regular > deadline => deadline + BOOKMARK_EVERY,
        _ => regular,
    }
}

/// Encodes events.
struct Framer {
    resource: Arc<Resource>,
    output: Output,
    include: Include,
    /// True once the columns were sent; a watch of tables sends them only with its first row.
    columns_sent: bool,
    /// The encoding in which frames are shared with other watchers.
    form: Option<EncodingId>,
    is_websocket: bool,
}

impl Framer {
    fn new(options: &WatchOptions) -> Self {
        let output = options.output;
        let form = match (output.transform, output.encoding, output.pretty) {
            (Transform::None, Encoding::Json, false) => Some(options.resource.json_frame_encoding()),
            (Transform::None, Encoding::Protobuf, _) => Some(options.resource.protobuf_frame_encoding()),
            _ => None,
        };
        Self {
            resource: options.resource.clone(),
            output,
            include: options.include,
            columns_sent: false,
            form,
            is_websocket: options.is_websocket,
        }
    }

    /// Returns true if the requested output is one for lists, which no event can have. Go ends such a watch with 200 at
    /// the first event.
    fn rejects_all_events(&self) -> bool {
        matches!(self.output.transform, Transform::PartialMetadataList(_))
    }

    /// Prepares a frame for sending. kube-apiserver counts frames only for HTTP.
    fn finish_frame(&self, mut frame: Bytes) -> Bytes {
        if !self.is_websocket {
            self.resource.sent.add(frame.len() as f64);
        } else if self.output.encoding == Encoding::Protobuf {
            // WebSocket messages have their own length.
            frame.advance(PROTOBUF_HEAD);
        }
        frame
    }

    fn item(&mut self, item: &WatchItem) -> Result<Bytes, Status> {
        let (Some(change), Some(entry)) = (item.change(), item.entry()) else {
            return Ok(self.bookmark(item.revision(), true));
        };
        let event_type = match change {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        };
        let resource = self.resource.clone();
        let revision = item.revision();
        if let Some(form) = self.form {
            let budget = &resource.collection.budget;
            return item.frame(budget, form, || match self.output.encoding {
                Encoding::Protobuf => {
                    let message = resource.protobuf_at(entry, revision)?;
                    Ok(protobuf_frame(&resource, event_type, &message))
                }
                _ => Ok(json_frame(event_type, &resource.json_at(entry, revision)?)),
            });
        }
        let mut object = resource.collection.decode_entry(entry)?;
        if revision != entry.revision() {
            object::set_metadata(&mut object, "resourceVersion", Some(revision.0.to_string().into()));
        }
        let transformed = self.transform(object);
        Ok(self.encode(event_type, &transformed))
    }

    /// Returns a bookmark: an object with only a version, and the annotation if it ends the initial events.
    fn bookmark(&mut self, revision: Revision, ends_initial: bool) -> Bytes {
        let d = &self.resource.description;
        let mut metadata = Object::new();
        metadata.insert("resourceVersion", revision.0.to_string());
        if ends_initial {
            metadata.insert("annotations", Object::from_iter([(INITIAL_EVENTS_END, "true")]));
        }
        let mut object = Object::new();
        object.insert("kind", d.kind.clone());
        object.insert("apiVersion", self.resource.api_version());
        object.insert("metadata", metadata);
        let mut object = Value::Object(object);
        let transformed = match self.output.transform {
            Transform::None => {
                self.resource.canonicalize(&mut object);
                object
            }
            _ => self.transform(object),
        };
        self.encode("BOOKMARK", &transformed)
    }

    /// Returns an error event.
    fn error(&self, status: &Status) -> Bytes {
        let value = failure::as_value(status);
        match self.output.encoding {
            Encoding::Protobuf => {
                let message = Some(binnacle_apimachinery::status());
                let body = respond::encode(&value, message, Encoding::Protobuf, false);
                let mut out = Vec::with_capacity(body.len() + 32);
                proto::watch_frame("ERROR", &body, &mut out);
                Bytes::from(out)
            }
            Encoding::Cbor => cbor_frame("ERROR", &value, Some(binnacle_apimachinery::status())),
            _ => json_frame("ERROR", status.to_json().as_bytes()),
        }
    }

    fn transform(&mut self, mut object: Value) -> Value {
        match self.output.transform {
            Transform::None => {
                self.resource.from_stored(&mut object);
                self.resource.canonicalize(&mut object);
                object
            }
            Transform::Table(version) => {
                let columns = table::columns(&self.resource);
                let now = SystemTime::now();
                let mut metadata = Object::new();
                metadata.insert("resourceVersion", object::resource_version(&object));
                let row = ObjectView::of(&self.resource).row(&object, self.include, version, now);
                let were_sent = std::mem::replace(&mut self.columns_sent, true);
                table::table(version, metadata, (!were_sent).then_some(columns), vec![row])
            }
            Transform::PartialMetadata(version) | Transform::PartialMetadataList(version) => {
                ObjectView::of(&self.resource).metadata(&object, version)
            }
        }
    }

    fn encode(&self, event_type: &str, object: &Value) -> Bytes {
        match self.output.encoding {
            Encoding::Protobuf => {
                let message = self.output.transform.message().or(Some(&self.resource.message));
                let body = respond::encode(object, message, Encoding::Protobuf, false);
                let mut out = Vec::with_capacity(body.len() + 32);
                proto::watch_frame(event_type, &body, &mut out);
                Bytes::from(out)
            }
            Encoding::Cbor => {
                let message = self.output.transform.message().or(self.resource.schema());
                cbor_frame(event_type, object, message)
            }
            _ => {
                let mut body = Vec::with_capacity(512);
                json::write(object, &mut body);
                json_frame(event_type, &body)
            }
        }
    }
}

fn json_frame(event_type: &str, object: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(object.len() + 32);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(event_type.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    Bytes::from(out)
}

fn cbor_frame(event_type: &str, object: &Value, message: Option<&Message>) -> Bytes {
    let mut out = Vec::with_capacity(512);
    cbor::write_event(event_type, object, message, &mut out);
    Bytes::from(out)
}

fn protobuf_frame(resource: &Resource, event_type: &str, message: &[u8]) -> Bytes {
    let body = proto::wrap(resource.api_version(), &resource.description.kind, |raw| raw.extend_from_slice(message));
    let mut out = Vec::with_capacity(body.len() + 32);
    proto::watch_frame(event_type, &body, &mut out);
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_of_a_connection_get_bookmarks_together() {
        let since = Instant::now();
        let at = |seconds: f64| since + Duration::from_secs_f64(seconds);
        let next = |now: f64, end: f64| (next_bookmark(since, at(now), at(end)) - since).as_secs_f64();
        assert_eq!([0.0, 0.7, 59.9].map(|now| next(now, 600.0)), [60.0; 3]);
        assert_eq!([60.0, 119.0].map(|now| next(now, 600.0)), [120.0; 2]);
        // One more comes before the end, and none after it.
        assert_eq!(next(60.0, 100.0), 98.0);
        assert_eq!(next(98.0, 100.0), 160.0);
        // The first watch of a connection may have begun an instant later.
        assert_eq!(next_bookmark(at(5.0), since, at(600.0)), at(65.0));
    }
}
