//! Export of spans to a collector, in batches from a bounded queue. If the collector is slow or unreachable, spans are
//! dropped; requests never wait.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use binnacle_egress::grpc_transport::{GrpcAllowance, GrpcTransport};
use binnacle_egress::{Dialer, Tunnel};
use binnacle_request::Shutdown;
use binnacle_request::trace::{Span, SpanSink};
use http::Uri;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use crate::traces::convert::request;

/// The maximum numbers of queued spans and of spans in a batch: the values of Go's batch processor.
const QUEUE_CAPACITY: usize = 2048;
const MAX_BATCH: usize = 512;
/// The maximum time that the first span of a batch waits for others.
const MAX_BATCH_DELAY: Duration = Duration::from_secs(5);
/// The timeout of an export request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The interval at which dropped spans are logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// Queues spans for export.
pub struct Exporter {
    queue: mpsc::Sender<Span>,
    lost: AtomicU64,
    /// The credit of the collector, which is not trusted.
    allowance: GrpcAllowance,
}

/// The error for an invalid collector address.
#[derive(Debug, thiserror::Error)]
#[error("cannot send traces to {endpoint}: {why}")]
pub struct ExporterError {
    endpoint: String,
    why: String,
}

impl Exporter {
    /// Returns an exporter, and the task that sends its spans until shutdown. `resource` identifies this server. A
    /// dialer connects to the collector through a proxy, unless the address is a unix socket.
    pub fn new(
        endpoint: &str,
        dialer: Option<Arc<Dialer>>,
        resource: Vec<(&'static str, String)>,
        shutdown: Shutdown,
    ) -> Result<(Arc<Self>, impl Future<Output = ()> + Send + use<>), ExporterError> {
        let allowance = GrpcAllowance::default();
        let channel = channel(endpoint, dialer, allowance.clone());
        let channel = channel.map_err(|why| ExporterError { endpoint: endpoint.to_owned(), why })?;
        let (queue, spans) = mpsc::channel(QUEUE_CAPACITY);
        let exporter = Arc::new(Self { queue, lost: AtomicU64::new(0), allowance });
        let task = send(TraceServiceClient::new(channel), resource, spans, exporter.clone(), shutdown);
        Ok((exporter, task))
    }
}

impl SpanSink for Exporter {
    fn take(&self, spans: Vec<Span>) {
        for span in spans {
            if self.queue.try_send(span).is_err() {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn channel(endpoint: &str, dialer: Option<Arc<Dialer>>, allowance: GrpcAllowance) -> Result<Channel, String> {
    let socket = match endpoint.split_once(':') {
        Some(("unix", path)) => Some(SocketAddr::from_pathname(path.strip_prefix("//").unwrap_or(path))),
        Some(("unix-abstract", name)) => Some(SocketAddr::from_abstract_name(name.trim_start_matches('/'))),
        _ => None,
    };
    if let Some(socket) = socket {
        let socket = socket.map_err(|error| error.to_string())?;
        let connect = service_fn(move |_: Uri| {
            let (socket, allowance) = (socket.clone(), allowance.clone());
            async move {
                let stream = std::os::unix::net::UnixStream::connect_addr(&socket)?;
                stream.set_nonblocking(true)?;
                Ok::<_, std::io::Error>(paced(tokio::net::UnixStream::from_std(stream)?, allowance))
            }
        });
        let endpoint = Endpoint::from_static("http://localhost").timeout(TIMEOUT);
        return Ok(endpoint.connect_with_connector_lazy(connect));
    }
    // Both `dns:///host:port` and `dns://resolver/host:port` are accepted.
    let address = match endpoint.strip_prefix("dns://") {
        Some(rest) => rest.rsplit('/').next().unwrap_or(rest),
        None => endpoint,
    };
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| error.to_string())?;
    let endpoint = endpoint.connect_timeout(TIMEOUT).timeout(TIMEOUT);
    let address = endpoint.uri().authority().map_or_else(|| address.to_owned(), ToString::to_string);
    let address = if endpoint.uri().port().is_some() { address } else { format!("{address}:80") };
    let connect = service_fn(move |_: Uri| {
        let (dialer, address, allowance) = (dialer.clone(), address.clone(), allowance.clone());
        async move {
            let stream: Box<dyn Tunnel> = match dialer {
                Some(dialer) => dialer.dial(&address).await.map_err(std::io::Error::other)?,
                None => {
                    let tcp = TcpStream::connect(&address).await?;
                    tcp.set_nodelay(true)?;
                    Box::new(tcp)
                }
            };
            Ok::<_, std::io::Error>(paced(stream, allowance))
        }
    });
    Ok(endpoint.connect_with_connector_lazy(connect))
}

/// Returns the transport of a new connection.
fn paced<S>(stream: S, allowance: GrpcAllowance) -> TokioIo<GrpcTransport<S>> {
    allowance.reconnected();
    TokioIo::new(GrpcTransport::new(stream, allowance))
}

async fn send(
    mut client: TraceServiceClient<Channel>,
    resource: Vec<(&'static str, String)>,
    mut spans: mpsc::Receiver<Span>,
    exporter: Arc<Exporter>,
    shutdown: Shutdown,
) {
    let mut last_logged: Option<Instant> = None;
    loop {
        let mut batch = Vec::new();
        let is_shutting_down = tokio::select! {
            () = collect(&mut spans, &mut batch) => false,
            () = shutdown.fired() => true,
        };
        if is_shutting_down {
            while let Ok(span) = spans.try_recv() {
                batch.push(span);
            }
        }
        while !batch.is_empty() {
            let rest = batch.split_off(batch.len().min(MAX_BATCH));
            let count = batch.len() as u64;
            let sent = client.export(request(&resource, std::mem::replace(&mut batch, rest))).await;
            exporter.allowance.delivered(0);
            if let Err(status) = sent {
                exporter.lost.fetch_add(count, Ordering::Relaxed);
                if is_shutting_down || last_logged.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
                    last_logged = Some(Instant::now());
                    let lost = exporter.lost.swap(0, Ordering::Relaxed);
                    tracing::warn!(err = %status, lost, "failed to export trace spans");
                }
                if is_shutting_down {
                    return;
                }
            }
        }
        if is_shutting_down {
            return;
        }
    }
}

/// Waits for a batch. If the future is dropped, `batch` holds the spans received so far.
async fn collect(spans: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) {
    match spans.recv().await {
        Some(span) => batch.push(span),
        // All senders were dropped.
        None => std::future::pending().await,
    }
    let until = Instant::now() + MAX_BATCH_DELAY;
    while batch.len() < MAX_BATCH {
        match tokio::time::timeout_at(until, spans.recv_many(batch, MAX_BATCH - batch.len())).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}
