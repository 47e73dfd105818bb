//! Traces of requests, sent to a collector.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_testkit::{Etcd, Server, TempDir};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let spans = request.into_inner().resource_spans.into_iter().flat_map(|resource| resource.scope_spans);
        self.0.lock().extend(spans.flat_map(|scope| scope.spans));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Starts the collector and writes the file that names it.
    async fn start(temp: &TempDir, per_million: u32) -> (Self, String) {
        let collector = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = TraceServiceServer::new(collector.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        let config = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: {address}\n\
             samplingRatePerMillion: {per_million}\n"
        );
        (collector, temp.file("tracing.yaml", &config))
    }
}

fn attribute(span: &Span, name: &str) -> String {
    let found = span.attributes.iter().find(|pair| pair.key == name).and_then(|pair| pair.value.clone());
    format!("{:?}", found.and_then(|value| value.value))
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

#[tokio::test(flavor = "multi_thread")]
async fn traces_request_with_sampled_parent() {
    let temp = TempDir::new();
    let (collector, config) = Collector::start(&temp, 0).await;
    let mut server = Server::start(&["--ephemeral", "--tracing-config-file", &config]);
    let mut client = server.client().await;
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let headers = [("content-type", "application/json"), ("traceparent", parent.as_str())];
    let path = "/api/v1/namespaces/default/configmaps";
    let body = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    let answer = client.send("POST", path, &headers, body).await.unwrap();
    assert_eq!(answer.status, 201);
    let audit_id = answer.header("audit-id").to_owned();
    assert_eq!(client.get("/api/v1/nodes").await.unwrap().status, 200);
    server.terminate();

    let spans = collector.0.lock();
    let by_id: HashMap<_, _> = spans.iter().map(|span| (span.span_id.clone(), span)).collect();
    let of = |name: &str| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name} in {spans:?}"));
    let created = of("Create etcd3");
    let mut line = vec![created.name.as_str()];
    let mut span = created;
    while let Some(parent) = by_id.get(&span.parent_span_id) {
        span = parent;
        line.push(&span.name);
    }
    let server_span = "POST /api/v1/namespaces/{:namespace}/configmaps";
    let want = [
        "Create etcd3",
        "Create",
        "authorization",
        "priorityandfairness",
        "constrainedimpersonation",
        "audit",
        server_span,
    ];
    assert_eq!(line, want);
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.to_owned(), "b7ad6b7169203331".to_owned()));
    assert!(attribute(span, "http.response.status_code").contains("201"), "{span:?}");
    assert!(attribute(span, "audit-id").contains(&audit_id), "{span:?}");
    assert!(attribute(of("Create"), "resource").contains("configmaps"));
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE), "nobody asked for others: {spans:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_requests_at_configured_rate() {
    let temp = TempDir::new();
    let (collector, config) = Collector::start(&temp, 1_000_000).await;
    let mut server = Server::start(&["--ephemeral", "--tracing-config-file", &config]);
    let mut client = server.client().await;
    assert_eq!(client.get("/version").await.unwrap().status, 200);
    assert_eq!(client.get("/api/v1/nodes/none").await.unwrap().status, 404);
    server.terminate();
    let spans = collector.0.lock();
    let names: Vec<_> = spans.iter().filter(|span| span.kind == 2).map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["GET", "GET /api/v1/nodes/{:name}"]);
    assert!(spans.iter().any(|span| span.name == "authentication" && span.parent_span_id.is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn traces_calls_to_etcd() {
    let etcd = Etcd::single();
    let temp = TempDir::new();
    let (collector, config) = Collector::start(&temp, 0).await;
    let mut server = Server::durable_with(&[&etcd.servers(), "--tracing-config-file", &config]);
    let mut client = server.client().await;
    let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
    let headers = [("content-type", "application/json"), ("traceparent", parent.as_str())];
    let path = "/api/v1/namespaces/default/configmaps";
    let body = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;
    assert_eq!(client.send("POST", path, &headers, body).await.unwrap().status, 201);
    server.terminate();

    let spans = collector.0.lock();
    let by_id: HashMap<_, _> = spans.iter().map(|span| (span.span_id.clone(), span)).collect();
    let calls: Vec<_> = spans.iter().filter(|span| span.name == "etcdserverpb.KV/Txn").collect();
    let call = calls.iter().find(|call| by_id[&call.parent_span_id].name == "Create etcd3");
    let call = call.unwrap_or_else(|| panic!("{spans:?}"));
    assert_eq!(call.kind, 3, "it is a client's");
    let port = etcd.endpoints()[0].rsplit(':').next().unwrap().to_owned();
    for (name, want) in [
        ("rpc.method", "etcdserverpb.KV/Txn"),
        ("rpc.system.name", "grpc"),
        ("rpc.response.status_code", "OK"),
        ("server.address", "127.0.0.1"),
        ("server.port", port.trim_end_matches('/')),
    ] {
        assert!(attribute(call, name).contains(want), "{name} in {call:?}");
    }
}
