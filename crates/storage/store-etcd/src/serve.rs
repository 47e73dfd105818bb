//! A read-only server of etcd's API for a store of this process: ranges, watches with progress, the remaining time of
//! leases. Its clients are [`EtcdStore`](crate::EtcdStore) and `etcdctl`.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use binnacle_store::{
    Barrier, Count, Event, KeyValue, LeaseId, PageSize, Pages, RangeRequest, Revision, Store, StoreError, Watch,
    WatchMessage,
};
use bytes::Bytes;
use futures::StreamExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::api::{
    self, LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, ResponseHeader, StatusRequest, StatusResponse, WatchRequest,
    WatchResponse, WatchUnion, path,
};
use crate::store::signed;

/// The version reported to clients: it has streams of ranges, and its watches respond reliably to progress requests.
const VERSION: &str = "3.7.0";
/// The size of the chunks of a range, as etcd intends it.
const CHUNK_SIZE: PageSize = PageSize { objects: 5_000, bytes: 3 << 19 };
/// The pause before connections are accepted again after an error.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves all connections until the future is dropped.
pub async fn serve(store: Arc<dyn Store>, listener: UnixListener) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        match listener.accept().await {
            Ok((stream, _)) => {
                let store = Arc::clone(&store);
                connections.spawn(async move {
                    let service = hyper::service::service_fn(move |request| handle(Arc::clone(&store), request));
                    let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    if let Err(error) = http2.serve_connection(TokioIo::new(stream), service).await {
                        tracing::debug!(%error, "a connection to the offered store broke");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept connection on admin socket");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn handle(store: Arc<dyn Store>, request: http::Request<Incoming>) -> Result<http::Response<Body>, Infallible> {
    Ok(match request.uri().path() {
        path::RANGE => {
            let service = tower::service_fn(move |request: Request<api::RangeRequest>| {
                let store = Arc::clone(&store);
                async move { range(&*store, request.into_inner()).await.map(Response::new) }
            });
            let codec = ProstCodec::<api::RangeResponse, api::RangeRequest>::default();
            tonic::server::Grpc::new(codec).unary(service, request).await
        }
        path::RANGE_STREAM => {
            let service = tower::service_fn(move |request: Request<api::RangeRequest>| {
                let (sender, receiver) = mpsc::channel(1);
                tokio::spawn(range_stream(Arc::clone(&store), request.into_inner(), sender));
                async move { Ok::<_, Status>(Response::new(ReceiverStream::new(receiver))) }
            });
            let codec = ProstCodec::<api::RangeStreamResponse, api::RangeRequest>::default();
            tonic::server::Grpc::new(codec).server_streaming(service, request).await
        }
        path::WATCH => {
            let service = tower::service_fn(move |request: Request<Streaming<WatchRequest>>| {
                let (sender, receiver) = mpsc::channel(4);
                tokio::spawn(watch(Arc::clone(&store), request.into_inner(), sender));
                async move { Ok::<_, Status>(Response::new(ReceiverStream::new(receiver))) }
            });
            let codec = ProstCodec::<WatchResponse, WatchRequest>::default();
            tonic::server::Grpc::new(codec).streaming(service, request).await
        }
        path::LEASE_TIME_TO_LIVE => {
            let service = tower::service_fn(move |request: Request<LeaseTimeToLiveRequest>| {
                let store = Arc::clone(&store);
                async move { time_to_live(&*store, request.into_inner().id).await.map(Response::new) }
            });
            let codec = ProstCodec::<LeaseTimeToLiveResponse, LeaseTimeToLiveRequest>::default();
            tonic::server::Grpc::new(codec).unary(service, request).await
        }
        path::STATUS => {
            let service = tower::service_fn(move |_: Request<StatusRequest>| {
                let store = Arc::clone(&store);
                async move {
                    let revision = store.current_revision().await.map_err(status_of)?;
                    Ok(Response::new(StatusResponse {
                        header: header(revision),
                        version: VERSION.to_owned(),
                        db_size: 0,
                    }))
                }
            });
            let codec = ProstCodec::<StatusResponse, StatusRequest>::default();
            tonic::server::Grpc::new(codec).unary(service, request).await
        }
        path::TXN | path::DELETE_RANGE | path::COMPACT | path::LEASE_GRANT | path::LEASE_REVOKE => {
            Status::permission_denied("etcdserver: permission denied").into_http()
        }
        _ => Status::unimplemented("this store is offered for reading").into_http(),
    })
}

async fn range(store: &dyn Store, request: api::RangeRequest) -> Result<api::RangeResponse, Status> {
    let revision = u64::try_from(request.revision).ok().filter(|revision| *revision > 0).map(Revision);
    if request.range_end.is_empty() {
        let (kv, current) = store.get(request.key, revision).await.map_err(status_of)?;
        let count = i64::from(kv.is_some());
        let kvs = kv.filter(|_| !request.count_only).map(|kv| range_entry(kv, request.keys_only));
        return Ok(api::RangeResponse { header: header(current), kvs: kvs.into_iter().collect(), more: false, count });
    }
    let keys_only = request.keys_only;
    let request = RangeRequest {
        range: bounds(request.key, request.range_end),
        revision,
        limit: usize::try_from(request.limit).unwrap_or(0),
        count: if request.count_only { Count::Only } else { Count::All },
    };
    let found = store.range(request).await.map_err(status_of)?;
    Ok(api::RangeResponse {
        header: header(found.revision),
        kvs: found.kvs.into_iter().map(|kv| range_entry(kv, keys_only)).collect(),
        more: found.more,
        count: i64::try_from(found.count).unwrap_or(i64::MAX),
    })
}

type RangeChunks = mpsc::Sender<Result<api::RangeStreamResponse, Status>>;

/// Serves a range in chunks of bounded size. A range with a limit or without values is one chunk.
async fn range_stream(store: Arc<dyn Store>, request: api::RangeRequest, responses: RangeChunks) {
    let result = match request.limit > 0 || request.count_only || request.range_end.is_empty() {
        true => match range(&*store, request).await {
            Ok(all) => responses.send(Ok(chunk(all))).await.map_err(drop),
            Err(status) => responses.send(Err(status)).await.map_err(drop),
        },
        false => send_chunks(&*store, request, &responses).await,
    };
    if result.is_err() {
        tracing::debug!("the reader of a range has disconnected");
    }
}

async fn send_chunks(store: &dyn Store, request: api::RangeRequest, responses: &RangeChunks) -> Result<(), ()> {
    let failed = async |error| responses.send(Err(status_of(error))).await.map_err(drop);
    let current = match store.current_revision().await {
        Ok(current) => current,
        Err(error) => return failed(error).await,
    };
    let revision = u64::try_from(request.revision).ok().filter(|revision| *revision > 0).map_or(current, Revision);
    let mut pages = Pages::new(store, bounds(request.key, request.range_end), revision).sized(CHUNK_SIZE);
    let mut count = 0;
    loop {
        match pages.next().await {
            Ok(Some(page)) => {
                count += page.len();
                let kvs = page.into_iter().map(|kv| range_entry(kv, request.keys_only)).collect();
                let part = api::RangeResponse { kvs, ..api::RangeResponse::default() };
                responses.send(Ok(chunk(part))).await.map_err(drop)?;
            }
            Ok(None) => break,
            Err(error) => return failed(error).await,
        }
    }
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let last = api::RangeResponse { header: header(current), count, ..api::RangeResponse::default() };
    responses.send(Ok(chunk(last))).await.map_err(drop)
}

fn chunk(part: api::RangeResponse) -> api::RangeStreamResponse {
    api::RangeStreamResponse { range_response: Some(part) }
}

/// Converts etcd's notation of a range: a zero byte as the end means all keys from the start on, an empty end means one
/// key.
fn bounds(key: Bytes, end: Bytes) -> Range<Bytes> {
    match &*end {
        [] => key.clone()..Bytes::from([&*key, b"\0"].concat()),
        [0] => key..binnacle_store::prefix_end(b""),
        _ => key..end,
    }
}

async fn time_to_live(store: &dyn Store, id: i64) -> Result<LeaseTimeToLiveResponse, Status> {
    let ttl = match store.lease_remaining(LeaseId(id)).await {
        Ok(remaining) => {
            i64::try_from(remaining.as_secs() + u64::from(remaining.subsec_nanos() > 0)).unwrap_or(i64::MAX)
        }
        Err(StoreError::LeaseNotFound) => -1,
        Err(error) => return Err(status_of(error)),
    };
    Ok(LeaseTimeToLiveResponse { id, ttl })
}

type WatchResponses = mpsc::Sender<Result<WatchResponse, Status>>;

/// Serves one watch: the first request has its range, later ones request progress.
async fn watch(store: Arc<dyn Store>, mut requests: Streaming<WatchRequest>, responses: WatchResponses) {
    let create = match requests.message().await {
        Ok(Some(WatchRequest { request: Some(WatchUnion::Create(create)) })) => create,
        _ => return,
    };
    let start = match u64::try_from(create.start_revision) {
        Ok(first) if first > 0 => Ok(Revision(first - 1)),
        _ => store.current_revision().await,
    };
    let opened = match start {
        Ok(after) => store.watch(bounds(create.key, create.range_end), after).await,
        Err(error) => Err(error),
    };
    let opened = match opened {
        Ok(watch) => watch,
        Err(StoreError::Compacted { compacted }) => {
            let compact_revision = signed(compacted.0);
            let refused = WatchResponse { created: true, canceled: true, compact_revision, ..WatchResponse::default() };
            drop(responses.send(Ok(refused)).await);
            return;
        }
        Err(error) => return drop(responses.send(Err(status_of(error))).await),
    };
    let created = WatchResponse { created: true, ..WatchResponse::default() };
    // A client that has disconnected needs no response.
    if responses.send(Ok(created)).await.is_ok() {
        let _ = send_events(opened, requests, &responses).await;
    }
}

/// Sends events, and progress after all events before it.
async fn send_events(
    watch: Watch,
    mut requests: Streaming<WatchRequest>,
    responses: &WatchResponses,
) -> Result<(), ()> {
    let Watch { mut messages, control } = watch;
    let mut sent_to = Revision(0);
    let mut pending_barrier: Option<Barrier> = None;
    loop {
        if let Some(barrier) = pending_barrier.filter(|barrier| sent_to >= barrier.last_event) {
            pending_barrier = None;
            send(responses, progress(barrier.current)).await?;
        }
        tokio::select! {
            message = messages.next() => match message {
                Some(Ok(WatchMessage::Events(events))) => {
                    sent_to = events.last().map_or(sent_to, Event::revision);
                    let events = events.into_iter().map(event).collect();
                    send(responses, WatchResponse { header: header(sent_to), events, ..WatchResponse::default() }).await?;
                }
                Some(Ok(WatchMessage::Progress(revision))) => send(responses, progress(revision)).await?,
                Some(Err(StoreError::Compacted { compacted })) => {
                    let compact_revision = signed(compacted.0);
                    return send(responses, WatchResponse { canceled: true, compact_revision, ..Default::default() }).await;
                }
                Some(Err(error)) => return responses.send(Err(status_of(error))).await.map_err(drop),
                None => return Ok(()),
            },
            request = requests.message() => match request {
                Ok(Some(WatchRequest { request: Some(WatchUnion::Progress(_)) })) => {
                    match control.barrier().await {
                        Ok(barrier) => pending_barrier = Some(barrier),
                        Err(error) => return responses.send(Err(status_of(error))).await.map_err(drop),
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return Ok(()),
            },
        }
    }
}

async fn send(responses: &WatchResponses, response: WatchResponse) -> Result<(), ()> {
    responses.send(Ok(response)).await.map_err(drop)
}

fn progress(revision: Revision) -> WatchResponse {
    WatchResponse { header: header(revision), ..WatchResponse::default() }
}

fn event(event: Event) -> api::Event {
    match event {
        Event::Put { kv, previous } => api::Event { kind: 0, kv: Some(to_api(kv)), prev_kv: previous.map(to_api) },
        Event::Delete { key, revision, previous } => {
            let kv = api::KeyValue { key: key.into(), mod_revision: signed(revision.0), ..api::KeyValue::default() };
            api::Event { kind: api::EVENT_DELETE, kv: Some(kv), prev_kv: previous.map(to_api) }
        }
    }
}

fn range_entry(kv: KeyValue, keys_only: bool) -> api::KeyValue {
    to_api(if keys_only { KeyValue { value: Bytes::new(), ..kv } } else { kv })
}

fn to_api(kv: KeyValue) -> api::KeyValue {
    api::KeyValue {
        key: kv.key.into(),
        create_revision: signed(kv.create_revision.0),
        mod_revision: signed(kv.mod_revision.0),
        value: kv.value.into(),
        lease: kv.lease.map_or(0, |lease| lease.0),
        // Other stores do not have it, and clients do not use it.
        version: 0,
    }
}

fn header(revision: Revision) -> Option<ResponseHeader> {
    Some(ResponseHeader { cluster_id: 0, revision: signed(revision.0) })
}

/// Returns the status with etcd's message.
fn status_of(error: StoreError) -> Status {
    match error {
        StoreError::Compacted { .. } => Status::out_of_range("etcdserver: mvcc: required revision has been compacted"),
        StoreError::FutureRevision { .. } => {
            Status::out_of_range("etcdserver: mvcc: required revision is a future revision")
        }
        StoreError::LeaseNotFound => Status::not_found("etcdserver: requested lease not found"),
        StoreError::TooLarge => Status::invalid_argument(error.to_string()),
        StoreError::Damaged(_) | StoreError::Io(_) => Status::data_loss(error.to_string()),
        other => Status::unavailable(other.to_string()),
    }
}
