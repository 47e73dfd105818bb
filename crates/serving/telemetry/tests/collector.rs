//! Export of spans to a collector.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use binnacle_request::ShutdownTrigger;
use binnacle_request::trace::{SpanContext, SpanKind, Trace};
use binnacle_telemetry::traces::Exporter;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tokio::test]
async fn sends_queued_spans_on_shutdown() {
    let collector = Collector::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let service = TraceServiceServer::new(collector.clone());
    tokio::spawn(Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener)));
    let (trigger, shutdown) = ShutdownTrigger::new();
    let resource = vec![("service.name", "apiserver".to_owned())];
    let (exporter, task) = Exporter::new(&endpoint, None, resource, shutdown).unwrap();
    let task = tokio::spawn(task);
    for _ in 0..600 {
        let trace = Trace::new(SpanContext { trace: [7; 16], span: [0; 8], sampled: true }, exporter.clone());
        trace.enter("server", SpanKind::Server, SystemTime::now());
        trace.end_all();
    }
    trigger.fire();
    tokio::time::timeout(Duration::from_secs(20), task).await.unwrap().unwrap();
    let requests = collector.0.lock();
    let spans: usize = requests.iter().map(|request| request.resource_spans[0].scope_spans[0].spans.len()).sum();
    assert_eq!(spans, 600);
    let resource = requests[0].resource_spans[0].resource.as_ref().unwrap();
    assert_eq!(resource.attributes[0].key, "service.name");
    let span = &requests[0].resource_spans[0].scope_spans[0].spans[0];
    assert_eq!((span.name.as_str(), span.trace_id.as_slice(), span.parent_span_id.len()), ("server", &[7; 16][..], 0));
}
