//! Spans of a request, and the context that is propagated to other servers (W3C Trace Context).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
pub const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// The maximum number of spans of one request.
const MAX_SPANS: usize = 1000;

/// The trace context that is propagated between servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    pub trace: [u8; 16],
    pub span: [u8; 8],
    /// True if spans are recorded.
    pub sampled: bool,
}

impl SpanContext {
    /// Parses `00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01`.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        Self::parse(headers.get(TRACEPARENT)?.to_str().ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = bytes::<1>(version)?;
        // Later versions may have more parts.
        if version == 0xff || (version == 0 && parts.next().is_some()) {
            return None;
        }
        let [flags] = bytes::<1>(flags)?;
        let context = Self { trace: bytes(trace)?, span: bytes(span)?, sampled: flags & 1 == 1 };
        (context.trace != [0; 16] && context.span != [0; 8]).then_some(context)
    }

    pub fn header(&self) -> HeaderValue {
        let mut text = String::from("00-");
        for byte in self.trace {
            hex(byte, &mut text);
        }
        text.push('-');
        for byte in self.span {
            hex(byte, &mut text);
        }
        text.push_str(if self.sampled { "-01" } else { "-00" });
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
    }
}

fn hex(byte: u8, to: &mut String) {
    for digit in [byte >> 4, byte & 15] {
        to.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
    }
}

/// Parses lower-case hexadecimal digits, as in the standard.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

/// A span: an operation with its start and end.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    pub trace: [u8; 16],
    pub id: [u8; 8],
    pub parent: Option<[u8; 8]>,
    pub name: Cow<'static, str>,
    pub kind: SpanKind,
    pub began: SystemTime,
    pub ended: SystemTime,
    pub attributes: Vec<(&'static str, Attribute)>,
    /// The caller's trace context, if this span belongs to another trace.
    pub link: Option<SpanContext>,
    /// The error message; empty if only the failure is known.
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    Internal,
    Server,
    Client,
}

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attribute {
    Text(String),
    Int(i64),
}

impl From<&str> for Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Attribute {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

/// Receives spans that have ended. It must not block: spans that do not fit are dropped.
pub trait SpanSink: Send + Sync {
    fn take(&self, spans: Vec<Span>);
}

/// The trace of one request.
pub struct Trace {
    context: [u8; 16],
    sampled: bool,
    sink: Arc<dyn SpanSink>,
    tree: Mutex<SpanTree>,
}

struct SpanTree {
    /// The parent of new spans.
    innermost: [u8; 8],
    spans: Vec<Span>,
}

impl Trace {
    /// Creates a trace whose spans are sent to `sink`. The span in `context` is the parent of the first one.
    pub fn new(context: SpanContext, sink: Arc<dyn SpanSink>) -> Arc<Self> {
        let tree = Mutex::new(SpanTree { innermost: context.span, spans: Vec::new() });
        Arc::new(Self { context: context.trace, sampled: context.sampled, sink, tree })
    }

    pub fn is_sampled(&self) -> bool {
        self.sampled
    }

    pub fn id(&self) -> [u8; 16] {
        self.context
    }

    /// Returns the context for outgoing requests.
    pub fn outgoing(&self) -> SpanContext {
        SpanContext { trace: self.context, span: self.tree.lock().innermost, sampled: self.sampled }
    }

    /// Starts a span that becomes the parent of all later ones, until [`Trace::end_all`]. The ID is zero if spans are
    /// not recorded.
    pub fn enter(&self, name: impl Into<Cow<'static, str>>, kind: SpanKind, began: SystemTime) -> [u8; 8] {
        let mut tree = self.tree.lock();
        if !self.sampled || tree.spans.len() >= MAX_SPANS {
            return [0; 8];
        }
        let span = self.span(name.into(), kind, began, tree.innermost);
        tree.innermost = span.id;
        let id = span.id;
        tree.spans.push(span);
        id
    }

    /// Updates a started span.
    pub fn change(&self, id: [u8; 8], change: impl FnOnce(&mut Span)) {
        if let Some(span) = self.tree.lock().spans.iter_mut().find(|span| span.id == id) {
            change(span);
        }
    }

    /// Updates the server span, if it is recorded.
    pub fn change_server(&self, change: impl FnOnce(&mut Span)) {
        if let Some(span) = self.tree.lock().spans.iter_mut().find(|span| span.kind == SpanKind::Server) {
            change(span);
        }
    }

    /// Returns the innermost span as the parent of others.
    pub(crate) fn as_parent(self: Arc<Self>) -> SpanParent {
        let span = self.tree.lock().innermost;
        SpanParent { trace: self, span }
    }

    /// Starts a child of the innermost span.
    pub(crate) fn begin(self: Arc<Self>, name: impl FnOnce() -> Cow<'static, str>, kind: SpanKind) -> OpenSpan {
        let span = self.sampled.then(|| {
            let parent = self.tree.lock().innermost;
            self.span(name(), kind, SystemTime::now(), parent)
        });
        OpenSpan { trace: self, span }
    }

    /// Ends the started spans and sends all spans to the sink.
    pub fn end_all(&self) {
        let now = SystemTime::now();
        let mut spans = std::mem::take(&mut self.tree.lock().spans);
        spans.iter_mut().filter(|span| span.ended == span.began).for_each(|span| span.ended = now);
        if !spans.is_empty() {
            self.sink.take(spans);
        }
    }

    fn span(&self, name: Cow<'static, str>, kind: SpanKind, began: SystemTime, parent: [u8; 8]) -> Span {
        Span {
            trace: self.context,
            id: rand::random(),
            parent: (parent != [0; 8]).then_some(parent),
            name,
            kind,
            began,
            ended: began,
            attributes: Vec::new(),
            link: None,
            error: None,
        }
    }
}

/// A span that ends when dropped.
pub struct OpenSpan {
    trace: Arc<Trace>,
    /// `None` if spans are not recorded; the context is still propagated.
    span: Option<Span>,
}

/// A fixed parent for new spans, regardless of the innermost span.
pub struct SpanParent {
    trace: Arc<Trace>,
    span: [u8; 8],
}

impl SpanParent {
    /// Starts a child span.
    pub fn begin(&self, name: impl Into<Cow<'static, str>>, kind: SpanKind) -> OpenSpan {
        let trace = self.trace.clone();
        let span = trace.sampled.then(|| trace.span(name.into(), kind, SystemTime::now(), self.span));
        OpenSpan { trace, span }
    }
}

impl OpenSpan {
    /// Returns true if the span is recorded, not only propagated.
    pub(crate) fn is_recorded(&self) -> bool {
        self.span.is_some()
    }

    /// Returns the context for a server that is called in this span.
    pub fn context(&self) -> SpanContext {
        match &self.span {
            Some(span) => SpanContext { trace: span.trace, span: span.id, sampled: true },
            None => self.trace.outgoing(),
        }
    }

    /// Returns this span as the parent of others.
    pub fn as_parent(&self) -> SpanParent {
        SpanParent { trace: self.trace.clone(), span: self.context().span }
    }

    pub fn set(&mut self, name: &'static str, value: impl Into<Attribute>) {
        if let Some(span) = &mut self.span {
            span.attributes.push((name, value.into()));
        }
    }

    pub fn fail(&mut self, why: impl Into<String>) {
        if let Some(span) = &mut self.span {
            span.error = Some(why.into());
        }
    }

    /// Records the response of a server that was called over HTTP.
    pub fn answered(&mut self, code: u16) {
        self.set("http.response.status_code", i64::from(code));
        if code >= 400 {
            self.set("error.type", code.to_string());
            self.fail("");
        }
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        let Some(mut span) = self.span.take() else { return };
        span.ended = SystemTime::now();
        let mut tree = self.trace.tree.lock();
        if tree.spans.len() < MAX_SPANS {
            tree.spans.push(span);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_traceparent() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let context = SpanContext::parse(good).unwrap();
        assert_eq!((context.header().to_str().unwrap(), context.sampled), (good, true));
        for (text, sampled) in [
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", Some(false)),
            ("01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03-more", Some(true)),
            ("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more", None),
            ("ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            ("00-00000000000000000000000000000000-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", None),
            ("00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", None),
            ("00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01", None),
            ("", None),
        ] {
            assert_eq!(SpanContext::parse(text).map(|context| context.sampled), sampled, "{text}");
        }
    }
}
