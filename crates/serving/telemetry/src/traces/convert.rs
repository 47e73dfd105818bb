//! Conversion of spans to OTLP.

use std::time::SystemTime;

use binnacle_request::trace::{Attribute, Span, SpanKind};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as otlp;

/// The instrumentation scope of Go's spans.
const SCOPE: &str = "k8s.io/component-base/tracing";

/// Returns one export request with all spans.
pub(crate) fn request(resource: &[(&'static str, String)], spans: Vec<Span>) -> ExportTraceServiceRequest {
    let attributes = resource.iter().map(|(name, value)| pair(name, Attribute::Text(value.clone()))).collect();
    let scope = InstrumentationScope { name: SCOPE.to_owned(), ..InstrumentationScope::default() };
    let scope_spans = otlp::ScopeSpans {
        scope: Some(scope),
        spans: spans.into_iter().map(span).collect(),
        ..otlp::ScopeSpans::default()
    };
    let resource = Resource { attributes, ..Resource::default() };
    let resource_spans = otlp::ResourceSpans {
        resource: Some(resource),
        scope_spans: vec![scope_spans],
        ..otlp::ResourceSpans::default()
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
}

fn span(span: Span) -> otlp::Span {
    let kind = match span.kind {
        SpanKind::Internal => otlp::span::SpanKind::Internal,
        SpanKind::Server => otlp::span::SpanKind::Server,
        SpanKind::Client => otlp::span::SpanKind::Client,
    };
    let status = span.error.map(|message| otlp::Status { message, code: otlp::status::StatusCode::Error.into() });
    let link = |context: binnacle_request::trace::SpanContext| otlp::span::Link {
        trace_id: context.trace.to_vec(),
        span_id: context.span.to_vec(),
        ..otlp::span::Link::default()
    };
    otlp::Span {
        trace_id: span.trace.to_vec(),
        span_id: span.id.to_vec(),
        parent_span_id: span.parent.map(|id| id.to_vec()).unwrap_or_default(),
        name: span.name.into_owned(),
        kind: kind.into(),
        start_time_unix_nano: nanos(span.began),
        end_time_unix_nano: nanos(span.ended),
        attributes: span.attributes.into_iter().map(|(name, value)| pair(name, value)).collect(),
        links: span.link.into_iter().map(link).collect(),
        status: Some(status.unwrap_or_default()),
        ..otlp::Span::default()
    }
}

fn pair(name: &str, value: Attribute) -> KeyValue {
    let value = match value {
        Attribute::Text(text) => Value::StringValue(text),
        Attribute::Int(number) => Value::IntValue(number),
    };
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
