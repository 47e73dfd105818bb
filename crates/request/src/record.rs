//! One record per request: what metrics, the access log, audit and (later) traces read when it is over.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use binnacle_meta::Text;
use http::{HeaderValue, Method};
use parking_lot::Mutex;

use crate::latency::{Latencies, Part};
use crate::trace::Trace;
use crate::{AuditLevel, AuditNotes, Decision, RequestInfo, User};

/// The collected facts of one request. It is shared by the chain, the handler and the body of the answer; when the last
/// of them lets go, the request is over and the sink is told.
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
    /// Absent when nothing is audited.
    audit: OnceLock<AuditNotes>,
    /// Absent where nobody asked for traces.
    trace: OnceLock<Arc<Trace>>,
    sink: Option<Arc<dyn RecordSink>>,
    /// A value that lives as long as the request: dropped after the sink was called.
    held: Mutex<Option<Box<dyn Any + Send>>>,
}

/// The facts that become known on the way.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub info: Option<Arc<RequestInfo>>,
    pub user: Option<Arc<User>>,
    pub decision: Option<Decision>,
    /// Zero until an answer has begun.
    pub status: u16,
    /// Set by the handler once it knows that what the path names is really served. Only then do the names in the path
    /// become labels of metrics: clients must not be able to invent new ones.
    pub served: bool,
    /// The verb label of metrics, which tells more apart than the method (`LIST`, `WATCH`, `APPLY`, `CONNECT`).
    pub metric_verb: &'static str,
    /// The `dry_run` label of metrics: empty, `All` or `invalid`.
    pub dry_run: &'static str,
    /// Set when the version asked for is deprecated: the release that has it no more, or nothing when that is not known.
    pub deprecated: Option<Text>,
    /// Set when the server gave up on the request: the part that did, as metrics name it.
    pub given_up_by: Option<&'static str>,
    pub user_agent: Option<HeaderValue>,
    pub peer: Option<SocketAddr>,
    /// Texts for `Warning` headers that are known before a handler is reached.
    pub warnings: Vec<Text>,
}

/// Receives the record of a request that is over.
pub trait RecordSink: Send + Sync {
    fn finished(&self, record: &Record, facts: &Facts);
}

impl Record {
    /// Opens the record of a request. The client's audit ID, if it sent one, is kept as it is.
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
            sink,
            held: Mutex::new(None),
        })
    }

    /// Keeps something until the request is over: its place among those in flight.
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

    /// Path and query as they were sent.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The wall clock at the beginning.
    pub fn received(&self) -> SystemTime {
        self.received
    }

    /// The beginning, for durations.
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

    /// A part of the way took so long.
    pub fn took(&self, part: Part, time: Duration) {
        self.latencies.add(part, time);
    }

    /// Returns the time that a part of the way took so far.
    pub fn latency(&self, part: Part) -> Duration {
        self.latencies.of(part)
    }

    /// The parts of the way that took any time.
    pub fn latencies(&self) -> impl Iterator<Item = (Part, Duration)> {
        self.latencies.all()
    }

    /// Begins to keep what audit events tell.
    pub fn begin_audit(&self) -> &AuditNotes {
        self.audit.get_or_init(AuditNotes::default)
    }

    /// The notes for audit events, unless this request is not audited.
    pub fn audit(&self) -> Option<&AuditNotes> {
        self.audit.get().filter(|notes| notes.level() != Some(AuditLevel::None))
    }

    /// Adds an annotation to the request's audit events.
    pub fn annotate(&self, key: &str, value: &str) {
        if let Some(notes) = self.audit() {
            notes.annotate(key, value);
        }
    }

    /// Gives the request a trace; it keeps the one it has.
    pub fn trace_with(&self, trace: Arc<Trace>) {
        let _ = self.trace.set(trace);
    }

    /// The trace that the request is part of, if there is one.
    pub fn trace(&self) -> Option<&Arc<Trace>> {
        self.trace.get()
    }

    /// Records facts that have become known.
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

    struct Seen(Mutex<Vec<(String, u16, u64)>>);

    impl RecordSink for Seen {
        fn finished(&self, record: &Record, facts: &Facts) {
            self.0.lock().push((record.audit_id().to_string(), facts.status, record.response_bytes()));
        }
    }

    #[test]
    fn the_sink_is_told_once_by_the_last_holder() {
        let seen = Arc::new(Seen(Mutex::default()));
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
    fn an_empty_audit_id_is_none() {
        let record = Record::open(Method::GET, "/".into(), Some("".into()), None);
        assert_eq!(record.audit_id().len(), 36);
    }
}
