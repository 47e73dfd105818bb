//! A member with streams of ranges, in front of an etcd of any version: it forwards all calls except `RangeStream`, which
//! it implements with ranges, as etcd 3.7 does. Its streams can fail in all the ways that etcd's can.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use prost::Message;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

const RANGE_STREAM: &str = "/etcdserverpb.KV/RangeStream";
/// The number of keys in the first chunk, and the size that etcd intends for the others.
const FIRST_CHUNK: i64 = 10;
const CHUNK_BYTES: usize = 3 << 19;

#[derive(Clone, PartialEq, Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    limit: i64,
    #[prost(int64, tag = "4")]
    revision: i64,
    #[prost(int32, tag = "5")]
    sort_order: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(int64, tag = "3")]
    revision: i64,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(int64, tag = "2")]
    create_revision: i64,
    #[prost(int64, tag = "3")]
    mod_revision: i64,
    #[prost(int64, tag = "4")]
    version: i64,
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
    #[prost(int64, tag = "6")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    more: bool,
    #[prost(int64, tag = "4")]
    count: i64,
}

#[derive(Clone, PartialEq, Message)]
struct RangeStreamResponse {
    #[prost(message, optional, tag = "1")]
    range_response: Option<RangeResponse>,
}

#[derive(Clone, PartialEq, Message)]
struct CompactionRequest {
    #[prost(int64, tag = "1")]
    revision: i64,
}

#[derive(Clone, PartialEq, Message)]
struct CompactionResponse {}

/// A fault of a stream after some chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It fails with this code.
    Break(usize, tonic::Code),
    /// It ends as if it were complete, without its last chunk.
    End(usize),
    /// etcd compacts its newest revision.
    Compact(usize),
    /// All keys are in one chunk.
    OneChunk,
}

/// A member that forwards to etcd, until dropped.
pub(crate) struct StreamingMember {
    pub(crate) endpoint: String,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    etcd: Channel,
    lacks_streams: Mutex<bool>,
    faults: Mutex<VecDeque<Fault>>,
    calls: AtomicUsize,
    sent_bytes: AtomicUsize,
    connections: Mutex<Vec<AbortHandle>>,
}

// === impl StreamingMember ===

impl StreamingMember {
    pub(crate) async fn start(etcd: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(State {
            etcd: Endpoint::from_shared(etcd.to_owned()).expect("an endpoint").connect_lazy(),
            lacks_streams: Mutex::default(),
            faults: Mutex::default(),
            calls: AtomicUsize::default(),
            sent_bytes: AtomicUsize::default(),
            connections: Mutex::default(),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&state)));
        Self { endpoint, state, task }
    }

    /// Makes the next streams fail in turn. Later ones succeed.
    pub(crate) fn fail(&self, faults: impl IntoIterator<Item = Fault>) {
        self.state.faults.lock().extend(faults);
    }

    /// Replaces the member with one of another version: all connections break.
    pub(crate) fn replace(&self, has_streams: bool) {
        *self.state.lacks_streams.lock() = !has_streams;
        self.state.connections.lock().drain(..).for_each(|connection| connection.abort());
    }

    /// Returns the number of streams that clients opened, or tried to.
    pub(crate) fn calls(&self) -> usize {
        self.state.calls.load(Ordering::Relaxed)
    }

    /// Returns the bytes of all keys and values that the member has sent, or is about to send.
    pub(crate) fn sent_bytes(&self) -> usize {
        self.state.sent_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for StreamingMember {
    fn drop(&mut self) {
        self.task.abort();
        self.replace(false);
    }
}

async fn accept(listener: TcpListener, state: Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        let of_connection = Arc::clone(&state);
        let connection = tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request| handle(Arc::clone(&of_connection), request));
            let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = http2.serve_connection(TokioIo::new(stream), service).await;
        });
        state.connections.lock().push(connection.abort_handle());
    }
}

async fn handle(
    state: Arc<State>,
    request: http::Request<hyper::body::Incoming>,
) -> Result<http::Response<Body>, Infallible> {
    if request.uri().path() == RANGE_STREAM {
        state.calls.fetch_add(1, Ordering::Relaxed);
        if *state.lacks_streams.lock() {
            return Ok(Status::unimplemented("unknown method RangeStream for service etcdserverpb.KV").into_http());
        }
        let service = tower::service_fn(move |request: Request<RangeRequest>| {
            let (sender, receiver) = mpsc::channel(1);
            tokio::spawn(stream(Arc::clone(&state), request.into_inner(), sender));
            async move { Ok::<_, Status>(Response::new(ReceiverStream::new(receiver))) }
        });
        let codec = ProstCodec::<RangeStreamResponse, RangeRequest>::default();
        return Ok(tonic::server::Grpc::new(codec).server_streaming(service, request).await);
    }
    let mut etcd = state.etcd.clone();
    let ready = std::future::poll_fn(|context| etcd.poll_ready(context)).await;
    let response = match ready {
        Ok(()) => etcd.call(request.map(Body::new)).await,
        Err(error) => Err(error),
    };
    Ok(response.unwrap_or_else(|error| Status::unavailable(error.to_string()).into_http()))
}

type Responses = mpsc::Sender<Result<RangeStreamResponse, Status>>;

async fn stream(state: Arc<State>, request: RangeRequest, responses: Responses) {
    let fault = state.faults.lock().pop_front();
    if let Err(status) = send_chunks(&state, request, fault, &responses).await {
        let _ = responses.send(Err(status)).await;
    }
}

/// Sends chunks as etcd does: the first has few keys, and the number of keys doubles or halves until chunks have the
/// intended size. Only the last chunk has the header, the revision of which is the newest when the stream began.
async fn send_chunks(
    state: &State,
    mut request: RangeRequest,
    fault: Option<Fault>,
    responses: &Responses,
) -> Result<(), Status> {
    if request.sort_order != 0 {
        return Err(Status::unimplemented("RangeStream does not support custom sort orders"));
    }
    assert_eq!(request.limit, 0, "the engine reads whole ranges");
    request.limit = if fault == Some(Fault::OneChunk) { 0 } else { FIRST_CHUNK };
    let (mut first_revision, mut count, mut chunks) = (None, 0, 0);
    loop {
        match fault {
            Some(Fault::Break(after, code)) if chunks == after => return Err(Status::new(code, "broken")),
            Some(Fault::End(after)) if chunks == after => return Ok(()),
            Some(Fault::Compact(after)) if chunks == after => {
                let probe = RangeRequest { key: b"/".to_vec(), ..RangeRequest::default() };
                let newest = call::<_, RangeResponse>(state, "/etcdserverpb.KV/Range", probe).await?;
                let revision = newest.header.unwrap_or_default().revision;
                let request = CompactionRequest { revision };
                let _: CompactionResponse = call(state, "/etcdserverpb.KV/Compact", request).await?;
            }
            _ => {}
        }
        let page: RangeResponse = call(state, "/etcdserverpb.KV/Range", request.clone()).await?;
        let size = page.encoded_len();
        let revision = *first_revision.get_or_insert(page.header.unwrap_or_default().revision);
        if request.revision == 0 {
            request.revision = revision;
        }
        count += i64::try_from(page.kvs.len()).unwrap_or(i64::MAX);
        if let Some(last) = page.kvs.last() {
            request.key = [last.key.as_slice(), b"\0"].concat();
        }
        let mut part = RangeResponse { kvs: page.kvs, ..RangeResponse::default() };
        if !page.more {
            part.header = Some(Header { revision });
            part.count = count;
        }
        chunks += 1;
        state.sent_bytes.fetch_add(size, Ordering::Relaxed);
        let sent = responses.send(Ok(RangeStreamResponse { range_response: Some(part) })).await;
        if !page.more || sent.is_err() {
            return Ok(());
        }
        if size < CHUNK_BYTES / 2 {
            request.limit *= 2;
        } else if size > CHUNK_BYTES * 2 {
            request.limit = (request.limit / 2).max(1);
        }
    }
}

async fn call<Q, A>(state: &State, path: &'static str, request: Q) -> Result<A, Status>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let mut etcd = Grpc::new(state.etcd.clone()).max_decoding_message_size(i32::MAX as usize);
    etcd.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let path = http::uri::PathAndQuery::from_static(path);
    let answer = etcd.unary(Request::new(request), path, ProstCodec::<Q, A>::default()).await?;
    Ok(answer.into_inner())
}
