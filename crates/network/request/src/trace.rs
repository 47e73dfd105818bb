//! The trace of a request: its spans, and the context that is propagated to other servers (W3C Trace Context).
//!
//! Requests have traces only if tracing is configured. Code finds the trace of the current task like its record.

use std::borrow::Cow;

use http::HeaderMap;

use crate::latency::current_trace;
pub use crate::spans::{
    Attribute, OpenSpan, Span, SpanContext, SpanKind, SpanParent, SpanSink, TRACEPARENT, TRACESTATE, Trace,
};

impl SpanParent {
    /// Returns the innermost span of the task's request, if it has a trace.
    pub fn current() -> Option<Self> {
        Some(current_trace()?.as_parent())
    }
}

/// Starts a span in the task's request, if it has a trace.
pub fn begin(name: impl FnOnce() -> Cow<'static, str>, kind: SpanKind) -> Option<OpenSpan> {
    Some(current_trace()?.begin(name, kind))
}

/// Starts the span of an outgoing HTTP request, as Go's instrumented transports do, and adds its context to the
/// headers.
pub fn begin_request(method: &http::Method, url: impl FnOnce() -> String, headers: &mut HeaderMap) -> Option<OpenSpan> {
    let mut span = begin(|| Cow::Owned(format!("HTTP {method}")), SpanKind::Client)?;
    span.set("http.request.method", method.as_str());
    if span.is_recorded() {
        span.set("url.full", url());
    }
    headers.insert(TRACEPARENT, span.context().header());
    Some(span)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use http::Method;
    use parking_lot::Mutex;

    use super::*;
    use crate::Record;
    use crate::latency::working_for;

    #[derive(Default)]
    struct RecordingSink(Mutex<Vec<Span>>);

    impl SpanSink for RecordingSink {
        fn take(&self, spans: Vec<Span>) {
            self.0.lock().extend(spans);
        }
    }

    #[tokio::test]
    async fn nests_spans_below_the_innermost_one() {
        let sink = Arc::new(RecordingSink::default());
        let remote = SpanContext { trace: [1; 16], span: [2; 8], sampled: true };
        let trace = Trace::new(remote, sink.clone());
        let record = Record::open(Method::GET, "/".into(), None, None);
        record.trace_with(trace.clone());
        let server = trace.enter("server", SpanKind::Server, SystemTime::now());
        let handler = trace.enter("List", SpanKind::Internal, SystemTime::now());
        let mut headers = HeaderMap::new();
        working_for(&record, async {
            let outer = begin(|| "Create etcd3".into(), SpanKind::Internal).unwrap();
            drop(outer.as_parent().begin("etcdserverpb.KV/Txn", SpanKind::Client));
            drop(SpanParent::current().unwrap().begin("etcdserverpb.KV/Range", SpanKind::Client));
            drop(outer);
            let mut span = begin_request(&Method::POST, || "https://a/b".to_owned(), &mut headers).unwrap();
            span.answered(500);
        })
        .await;
        trace.end_all();
        let spans = sink.0.lock().clone();
        let parents: Vec<_> = spans.iter().map(|span| (span.name.as_ref(), span.parent)).collect();
        let want = [
            ("server", Some([2; 8])),
            ("List", Some(server)),
            ("etcdserverpb.KV/Txn", Some(spans[4].id)),
            ("etcdserverpb.KV/Range", Some(handler)),
            ("Create etcd3", Some(handler)),
            ("HTTP POST", Some(handler)),
        ];
        assert_eq!(parents, want);
        let sent = SpanContext::of(&headers).unwrap();
        assert_eq!((sent.trace, sent.span, sent.sampled), ([1; 16], spans[5].id, true));
        assert_eq!(spans[5].error.as_deref(), Some(""));
    }

    #[tokio::test]
    async fn propagates_unsampled_contexts_without_recording_spans() {
        let sink = Arc::new(RecordingSink::default());
        let trace = Trace::new(SpanContext { trace: [1; 16], span: [2; 8], sampled: false }, sink.clone());
        let record = Record::open(Method::GET, "/".into(), None, None);
        record.trace_with(trace.clone());
        assert_eq!(trace.enter("server", SpanKind::Server, SystemTime::now()), [0; 8]);
        let mut headers = HeaderMap::new();
        working_for(&record, async { drop(begin_request(&Method::GET, String::new, &mut headers)) }).await;
        trace.end_all();
        assert!(sink.0.lock().is_empty());
        assert!(headers[TRACEPARENT].to_str().unwrap().ends_with("-0202020202020202-00"));
    }
}
