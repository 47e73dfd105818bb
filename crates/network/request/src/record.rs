//! The record of a request, for metrics, the access log, audit and traces after it has ended.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use binnacle_meta::Text;
use binnacle_work::Describe;
use http::{HeaderValue, Method};
use parking_lot::Mutex;

use crate::latencies::{Latencies, Part};
use crate::spans::Trace;
use crate::{AuditContext, AuditLevel, Decision, RequestInfo, RequestSeat, User};

/// The data about one request, shared by the filters, the handler and the response body. When the last of them drops
/// it, the request has ended and the sink is called.
pub struct Record {
    audit_id: Text,
    method: Method,
    uri: Text,
    received: SystemTime,
    started: Instant,
    response_bytes: AtomicU64,
    request_bytes: AtomicU64,
    latencies: Latencies,
    facts: Mutex<Facts>,
    /// Empty if the request is not audited.
    audit: OnceLock<Box<AuditContext>>,
    /// Empty if tracing is disabled.
    trace: OnceLock<Arc<Trace>>,
    /// Empty until the request gets a seat, and for requests that need none or no longer need it.
    seat: Mutex<Option<Arc<dyn RequestSeat>>>,
    sink: Option<Arc<dyn RecordSink>>,
    /// A value that is kept until the request has ended, and dropped after the sink is called.
    held: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The data that is added while the request is served.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub info: Option<Arc<RequestInfo>>,
    pub user: Option<Arc<User>>,
    /// The caller that impersonates the user.
    pub impersonator: Option<Arc<User>>,
    /// The flow of the request, if it was classified.
    pub flow: Option<Arc<FlowNames>>,
    pub decision: Option<Decision>,
    /// Zero until the response has started.
    pub status: u16,
    /// True once the handler has found that the resource in the path is served. Only then may names in the path become
    /// metric labels: clients must not be able to create new label values.
    pub served: bool,
    /// True if the resource in the path is built in, so that its route determines metric labels. All custom resources
    /// share one handler, and the request determines the labels.
    pub routed: bool,
    /// The verb label of metrics, which is more specific than the method (`LIST`, `WATCH`, `APPLY`, `CONNECT`).
    pub metric_verb: &'static str,
    /// The `dry_run` label of metrics: empty, `All` or `invalid`.
    pub dry_run: &'static str,
    /// Set if the requested version is deprecated: the release that removes it, or empty if unknown.
    pub deprecated: Option<Text>,
    /// Set if the server aborted the request: the component that did, as in metrics.
    pub given_up_by: Option<&'static str>,
    pub user_agent: Option<HeaderValue>,
    pub accept: Option<HeaderValue>,
    pub peer: Option<SocketAddr>,
    /// Texts for `Warning` headers that were added before the handler.
    pub warnings: Vec<Text>,
}

/// The priority level and flow schema of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowNames {
    pub schema: Text,
    pub schema_uid: Text,
    pub level: Text,
    pub level_uid: Text,
}

/// Receives the records of requests that have ended.
pub trait RecordSink: Send + Sync {
    fn finished(&self, record: &Record, facts: &Facts);
}

impl Describe for Record {
    /// Returns the method, path, user and audit ID, for logs.
    fn describe(&self) -> String {
        let facts = self.facts.lock();
        let user = facts.user.as_ref().map_or("nobody yet", |user| user.name.as_str());
        format!("{} {} by {user:?}, audit ID {}", self.method, self.uri, self.audit_id)
    }
}

impl Record {
    /// Creates the record of a request, with the client's audit ID if it sent one.
    pub fn open(method: Method, uri: Text, audit_id: Option<Text>, sink: Option<Arc<dyn RecordSink>>) -> Arc<Self> {
        let audit_id = audit_id.filter(|id| !id.is_empty()).unwrap_or_else(|| {
            let mut buffer = uuid::Uuid::encode_buffer();
            Text::new(uuid::Uuid::new_v4().hyphenated().encode_lower(&mut buffer))
        });
        Arc::new(Self {
            audit_id,
            method,
            uri,
            received: SystemTime::now(),
            started: Instant::now(),
            response_bytes: AtomicU64::new(0),
            request_bytes: AtomicU64::new(0),
            latencies: Latencies::default(),
            facts: Mutex::new(Facts::default()),
            audit: OnceLock::new(),
            trace: OnceLock::new(),
            seat: Mutex::new(None),
            sink,
            held: Mutex::new(None),
        })
    }

    /// Keeps a value until the end of the request, such as its place among the requests in flight.
    pub fn hold(&self, guard: impl Any + Send) {
        let mut held = self.held.lock();
        let before = held.take();
        *held = Some(Box::new((before, guard)));
    }

    pub fn audit_id(&self) -> &Text {
        &self.audit_id
    }

    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the path and query, as sent.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Returns the wall-clock time at which the request was received.
    pub fn received(&self) -> SystemTime {
        self.received
    }

    /// Returns the instant at which the request was received, for durations.
    pub fn started(&self) -> Instant {
        self.started
    }

    pub fn response_bytes(&self) -> u64 {
        self.response_bytes.load(Ordering::Relaxed)
    }

    pub fn add_response_bytes(&self, count: u64) {
        self.response_bytes.fetch_add(count, Ordering::Relaxed);
    }

    pub fn request_bytes(&self) -> u64 {
        self.request_bytes.load(Ordering::Relaxed)
    }

    pub fn add_request_bytes(&self, count: u64) {
        self.request_bytes.fetch_add(count, Ordering::Relaxed);
    }

    /// Adds to the latency of a part.
    pub fn took(&self, part: Part, time: Duration) {
        self.latencies.add(part, time);
    }

    /// Returns the latency of a part so far.
    pub fn latency(&self, part: Part) -> Duration {
        self.latencies.of(part)
    }

    /// Returns the parts with a latency above zero.
    pub fn latencies(&self) -> impl Iterator<Item = (Part, Duration)> {
        self.latencies.all()
    }

    /// Creates the audit context, unless it exists.
    pub fn begin_audit(&self) -> &AuditContext {
        self.audit.get_or_init(Box::default)
    }

    /// Returns the audit context, unless the request is not audited.
    pub fn audit(&self) -> Option<&AuditContext> {
        self.audit.get().map(|notes| &**notes).filter(|notes| notes.level() != Some(AuditLevel::None))
    }

    /// Adds an annotation to the request's audit events.
    pub fn annotate(&self, key: &str, value: &str) {
        if let Some(notes) = self.audit() {
            notes.annotate(key, value);
        }
    }

    /// Sets the trace of the request, unless it has one.
    pub fn trace_with(&self, trace: Arc<Trace>) {
        let _ = self.trace.set(trace);
    }

    /// Returns the trace of the request, if it has one.
    pub fn trace(&self) -> Option<&Arc<Trace>> {
        self.trace.get()
    }

    /// Sets the seat of the request.
    pub fn seat_with(&self, seat: Arc<dyn RequestSeat>) {
        *self.seat.lock() = Some(seat);
    }

    /// Drops the seat of a request that needs none any more, which may last long.
    pub fn forget_seat(&self) {
        *self.seat.lock() = None;
    }

    /// Returns the seat of the request, if it needs one.
    pub(crate) fn seat(&self) -> Option<Arc<dyn RequestSeat>> {
        self.seat.lock().clone()
    }

    /// Updates the facts of the record.
    pub fn note(&self, with: impl FnOnce(&mut Facts)) {
        with(&mut self.facts.lock());
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            let facts = std::mem::take(self.facts.get_mut());
            sink.finished(self, &facts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct RecordingSink(Mutex<Vec<(String, u16, u64)>>);

    impl RecordSink for RecordingSink {
        fn finished(&self, record: &Record, facts: &Facts) {
            self.0.lock().push((record.audit_id().to_string(), facts.status, record.response_bytes()));
        }
    }

    #[test]
    fn calls_the_sink_once_when_the_last_reference_is_dropped() {
        let seen = Arc::new(RecordingSink(Mutex::default()));
        let record = Record::open(Method::GET, "/".into(), Some("mine".into()), Some(seen.clone()));
        let other = record.clone();
        record.note(|facts| facts.status = 200);
        drop(record);
        assert!(seen.0.lock().is_empty());
        other.add_response_bytes(7);
        drop(other);
        assert_eq!(*seen.0.lock(), [("mine".to_owned(), 200, 7)]);
    }

    #[test]
    fn replaces_an_empty_audit_id() {
        let record = Record::open(Method::GET, "/".into(), Some("".into()), None);
        assert_eq!(record.audit_id().len(), 36);
    }
}
