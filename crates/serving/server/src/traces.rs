//! The trace of a request: sampling, and the server's own spans with Go's names.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use binnacle_request::trace::{Span, SpanContext, SpanKind, SpanSink, Trace};
use binnacle_request::{ConnectionInfo, Facts, Record, RequestInfo, User};
use http::header::{ACCEPT, HOST, USER_AGENT};
use http::request::Parts;
use http::{HeaderName, Version};

/// The groups whose members may request sampling.
const TRUSTED: [&str; 2] = [User::MASTERS, "system:monitoring"];
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The number of characters of a user agent that are recorded.
const MAX_AGENT_CHARS: usize = 256;

/// Decides which requests are traced.
pub struct Tracer {
    sink: Arc<dyn SpanSink>,
    /// A trace is sampled if the last 63 bits of its id are below the threshold.
    threshold: u64,
}

impl Tracer {
    /// Samples `per_million` of the requests whose callers have made no sampling decision.
    pub fn new(sink: Arc<dyn SpanSink>, per_million: u32) -> Self {
        let threshold = (u128::from(per_million.min(1_000_000)) << 63) / 1_000_000;
        Self { sink, threshold: u64::try_from(threshold).unwrap_or(u64::MAX) }
    }

    fn is_sampled(&self, trace: [u8; 16]) -> bool {
        let [.., a, b, c, d, e, f, g, h] = trace;
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1 < self.threshold
    }

    fn root(&self) -> SpanContext {
        let trace = rand::random();
        SpanContext { trace, span: [0; 8], sampled: self.is_sampled(trace) }
    }
}

/// Starts the trace of a request after authentication, because only some callers may request sampling.
pub(crate) fn begin(
    tracer: Option<&Tracer>,
    record: &Record,
    parts: &Parts,
    info: &RequestInfo,
    user: &User,
    connection: &ConnectionInfo,
) {
    let Some(tracer) = tracer else { return };
    let remote = SpanContext::of(&parts.headers);
    let trusted = user.groups.iter().any(|group| TRUSTED.contains(&group.as_str()));
    let authentication = Trace::new(tracer.root(), tracer.sink.clone());
    authentication.enter("authentication", SpanKind::Internal, record.received());
    let (trace, link) = match (trusted, remote) {
        (true, None) => (authentication, None),
        (true, Some(remote)) => {
            authentication.end_all();
            (Trace::new(remote, tracer.sink.clone()), None)
        }
        (false, link) => {
            authentication.end_all();
            (Trace::new(tracer.root(), tracer.sink.clone()), link)
        }
    };
    if trace.is_sampled() {
        let server = trace.enter(name(info, parts), SpanKind::Server, SystemTime::now());
        trace.change(server, |span| {
            span.link = link;
            describe(span, record, parts, connection.peer);
        });
    }
    record.trace_with(trace);
}

/// Records that a request entered a filter.
pub(crate) fn enter_filter(record: &Record, filter: &'static str, began: SystemTime) {
    if let Some(trace) = record.trace() {
        trace.enter(filter, SpanKind::Internal, began);
    }
}

/// Returns Go's name of the handler of a verb.
pub(crate) fn handler_name(verb: &str) -> Option<&'static str> {
    Some(match verb {
        "get" => "Get",
        "list" => "List",
        "watch" => "WatchServer.HandleHTTP",
        "create" => "Create",
        "update" => "Update",
        "patch" => "Patch",
        "delete" | "deletecollection" => "Delete",
        _ => return None,
    })
}

/// Starts the span of a resource handler.
pub(crate) fn enter_handler(record: &Record, info: &RequestInfo, parts: &Parts) {
    let Some(trace) = record.trace().filter(|trace| trace.is_sampled() && info.is_resource_request) else { return };
    let Some(name) = handler_name(&info.verb) else { return };
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut client = None;
    record.note(|facts| client = facts.peer);
    let agent: String = header(USER_AGENT).chars().take(MAX_AGENT_CHARS).collect();
    let span = trace.enter(name, SpanKind::Internal, SystemTime::now());
    trace.change(span, |span| {
        for (name, value) in [
            ("accept", header(ACCEPT).to_owned()),
            ("audit-id", record.audit_id().to_string()),
            ("client", client.map(|peer| peer.ip().to_string()).unwrap_or_default()),
            ("api-group", info.api_group.to_string()),
            ("api-version", info.api_version.to_string()),
            ("name", info.name.to_string()),
            ("subresource", info.subresource.to_string()),
            ("namespace", info.namespace.to_string()),
            ("protocol", protocol(parts.version).0.to_owned()),
            ("resource", info.resource.to_string()),
            ("scope", info.scope().to_owned()),
            ("url", info.path.to_string()),
            ("user-agent", agent),
            ("verb", record.method().to_string()),
        ] {
            span.attributes.push((name, value.into()));
        }
    });
}

/// Ends the trace of a request with its result.
pub(crate) fn finish(record: &Record, facts: &Facts) {
    let Some(trace) = record.trace().filter(|trace| trace.is_sampled()) else { return };
    trace.change_server(|span| {
        let sizes = [
            ("http.request.body.size", record.request_bytes()),
            ("http.response.body.size", record.response_bytes()),
            ("http.response.status_code", u64::from(facts.status)),
        ];
        for (name, number) in sizes {
            if number > 0 {
                span.attributes.push((name, i64::try_from(number).unwrap_or(i64::MAX).into()));
            }
        }
        if facts.status >= 500 {
            span.error = Some(String::new());
        }
    });
    trace.end_all();
}

/// Returns a name such as `GET /api/v1/namespaces/{:namespace}/pods/{:name}`, or the method alone.
fn name(info: &RequestInfo, parts: &Parts) -> String {
    let method = parts.method.as_str();
    if !info.is_resource_request {
        return method.to_owned();
    }
    let mut name = format!("{method} /{}", if info.api_group.is_empty() { "api" } else { "apis" });
    let mut add = |part: &str| {
        name.push('/');
        name.push_str(part);
    };
    if !info.api_group.is_empty() {
        add(&info.api_group);
    }
    add(&info.api_version);
    if !info.namespace.is_empty() {
        add("namespaces/{:namespace}");
    }
    add(&info.resource);
    if !info.name.is_empty() {
        add("{:name}");
    }
    if !info.subresource.is_empty() {
        add(&info.subresource);
    }
    name
}

fn describe(span: &mut Span, record: &Record, parts: &Parts, peer: Option<SocketAddr>) {
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let authority = parts.uri.authority().map_or_else(|| header(HOST), |authority| authority.as_str());
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse::<i64>().ok()),
        _ => (authority, None),
    };
    let mut set = |name, value| span.attributes.push((name, value));
    set("server.address", host.into());
    set("http.request.method", record.method().as_str().into());
    set("url.scheme", "https".into());
    if let Some(port) = port.filter(|port| *port != 443) {
        set("server.port", port.into());
    }
    if let Some(peer) = peer {
        set("network.peer.address", peer.ip().to_string().into());
        set("network.peer.port", i64::from(peer.port()).into());
    }
    let agent = header(USER_AGENT);
    if !agent.is_empty() {
        set("user_agent.original", agent.into());
    }
    let forwarded = header(FORWARDED_FOR).split(',').next().unwrap_or_default().trim();
    match peer {
        _ if !forwarded.is_empty() => set("client.address", forwarded.into()),
        Some(peer) => set("client.address", peer.ip().to_string().into()),
        None => {}
    }
    set("url.path", parts.uri.path().into());
    set("network.protocol.version", protocol(parts.version).1.into());
    set("http.target", record.uri().into());
    set("audit-id", record.audit_id().as_str().into());
}

fn protocol(version: Version) -> (&'static str, &'static str) {
    match version {
        Version::HTTP_2 => ("HTTP/2.0", "2"),
        Version::HTTP_10 => ("HTTP/1.0", "1.0"),
        _ => ("HTTP/1.1", "1.1"),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_request::Query;
    use binnacle_request::trace::TRACEPARENT;
    use http::{Method, Request};
    use parking_lot::Mutex;

    use super::*;

    #[derive(Default)]
    struct CollectedSpans(Mutex<Vec<Span>>);

    impl SpanSink for CollectedSpans {
        fn take(&self, spans: Vec<Span>) {
            self.0.lock().extend(spans);
        }
    }

    const REMOTE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn spans_of(per_million: u32, group: &str, remote: bool) -> Vec<Span> {
        let collected = Arc::new(CollectedSpans::default());
        let tracer = Tracer::new(collected.clone(), per_million);
        let path = "/api/v1/namespaces/default/pods/a/log";
        let mut request = Request::builder().uri(path);
        if remote {
            request = request.header(TRACEPARENT, REMOTE);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let info = RequestInfo::parse(&Method::GET, path, &Query::default(), path).unwrap();
        let user = User { groups: vec![group.into()], ..User::default() };
        let record = Record::open(Method::GET, path.into(), None, None);
        begin(Some(&tracer), &record, &parts, &info, &user, &ConnectionInfo::default());
        enter_filter(&record, "audit", SystemTime::now());
        enter_handler(&record, &info, &parts);
        finish(&record, &Facts { status: 200, ..Facts::default() });
        collected.0.lock().clone()
    }

    #[test]
    fn samples_by_rate_and_trusted_callers() {
        let names = |spans: &[Span]| spans.iter().map(|span| span.name.to_string()).collect::<Vec<_>>();
        let server = "GET /api/v1/namespaces/{:namespace}/pods/{:name}/log";
        for (per_million, group, remote, want) in [
            (0, "dev", false, &[][..]),
            (0, "dev", true, &[]),
            (0, User::MASTERS, true, &[server, "audit", "Get"]),
            (0, User::MASTERS, false, &[]),
            (1_000_000, User::MASTERS, false, &["authentication", server, "audit", "Get"]),
            (1_000_000, "dev", true, &["authentication", server, "audit", "Get"]),
        ] {
            assert_eq!(names(&spans_of(per_million, group, remote)), want, "{per_million} {group} {remote}");
        }
    }

    #[test]
    fn links_spans_to_remote_parents() {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let spans = spans_of(0, User::MASTERS, true);
        assert_eq!(hex(&spans[0].trace), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(hex(&spans[0].parent.unwrap()), "b7ad6b7169203331");
        assert_eq!((spans[1].parent, spans[2].parent), (Some(spans[0].id), Some(spans[1].id)));
        let spans = spans_of(1_000_000, "dev", true);
        assert_ne!(spans[0].trace, spans[1].trace);
        assert_eq!(
            (spans[1].parent, hex(&spans[1].link.unwrap().trace).as_str()),
            (None, "0af7651916cd43dd8448eb211c80319c")
        );
        let attribute = |name| spans[1].attributes.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
        assert_eq!(attribute("http.response.status_code"), Some(200.into()));
        assert_eq!(attribute("http.target"), Some("/api/v1/namespaces/default/pods/a/log".into()));
    }

    #[test]
    fn samples_the_configured_fraction() {
        let tracer = Tracer::new(Arc::new(CollectedSpans::default()), 10_000);
        let sampled = (0..100_000).filter(|_| tracer.root().sampled).count();
        assert!((800..1200).contains(&sampled), "{sampled}");
    }
}
