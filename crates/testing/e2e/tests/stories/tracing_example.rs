//! The example of traces (`examples/opentelemetry`): a server with its configuration sends spans to a collector.

use std::sync::Arc;

use binnacle_testkit::{Server, TempDir};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::trace::v1::ResourceSpans;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

use crate::documents::{items, read, text, texts};

const TRACING: &str = "examples/opentelemetry/tracing.yaml";
const COLLECTOR: &str = "examples/opentelemetry/collector.yaml";

#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ResourceSpans>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().extend(request.into_inner().resource_spans);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_sends_spans_with_the_example_configuration() {
    let configured = read(TRACING);
    let endpoint = configured["endpoint"].as_str().unwrap();
    let collector = Collector::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let service = tonic::transport::Server::builder().add_service(TraceServiceServer::new(collector.clone()));
    tokio::spawn(service.serve_with_incoming(TcpListenerStream::new(listener)));
    let temp = TempDir::new();
    // The port of the example may be in use.
    let file = temp.file("tracing.yaml", &text(TRACING).replace(endpoint, &address));

    let mut server = tokio::task::block_in_place(|| Server::start(&["--ephemeral", "--tracing-config-file", &file]));
    let mut client = server.client().await;
    let parent = [("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")];
    let answer = client.send("GET", "/api/v1/namespaces/default/configmaps", &parent, "").await.unwrap();
    assert_eq!(answer.status, 200);
    tokio::task::block_in_place(|| server.terminate());

    let received = collector.0.lock();
    let named = |resource: &ResourceSpans| {
        let attributes = resource.resource.iter().flat_map(|resource| &resource.attributes);
        attributes.clone().any(|attribute| {
            attribute.key == "service.name" && format!("{:?}", attribute.value).contains("\"apiserver\"")
        })
    };
    assert!(received.iter().all(named), "{received:?}");
    let spans = received.iter().flat_map(|resource| &resource.scope_spans).flat_map(|scope| &scope.spans);
    let names: Vec<&str> = spans.map(|span| span.name.as_str()).collect();
    assert!(names.contains(&"GET /api/v1/namespaces/{:namespace}/configmaps"), "{names:?}");
}

/// The collector receives what the server sends, where it sends it, and every pipeline names declared components.
#[test]
fn collector_listens_where_the_server_sends() {
    let (server, collector) = (read(TRACING), read(COLLECTOR));
    let listens = &collector["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"];
    assert_eq!(listens, &server["endpoint"]);
    let pipelines = collector["service"]["pipelines"].as_object().unwrap();
    assert!(pipelines.contains_key("traces"), "{pipelines:?}");
    for (name, pipeline) in pipelines {
        for part in ["receivers", "processors", "exporters"] {
            for component in texts(&pipeline[part]) {
                assert!(collector[part].get(&component).is_some(), "{name}: no {component} in {part}");
            }
        }
        assert!(items(&pipeline["exporters"]).count() > 0, "{name} exports nothing");
    }
}
