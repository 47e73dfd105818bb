//! The members of a cluster, and calls to them with retries.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use binnacle_store::{CallSpan, CallTrace, current_trace};
use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::{sleep, timeout};
use tonic::Code;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

use crate::api::{StatusRequest, StatusResponse, path};
use crate::calls::{CallMetrics, go_name};
use crate::connector::{channel, tls_config};
use crate::error::Failure;
use crate::options::{ConnectError, EtcdOptions};
use crate::stream_support::StreamSupport;

/// All members of a cluster, which are called in turn.
pub(crate) struct Cluster {
    members: Vec<Arc<Member>>,
    next: AtomicUsize,
    started: Instant,
}

pub(crate) struct Member {
    pub(crate) endpoint: String,
    channel: Channel,
    /// The number of connections since the start. After another one, the member may have another version.
    pub(crate) connections: Arc<AtomicU64>,
    pub(crate) calls: CallMetrics,
    /// Until when the member is avoided because it did not respond, in milliseconds since the start.
    avoided_until: AtomicU64,
    pub(crate) streams: StreamSupport,
}

/// The path and the retry rules of a call.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) path: &'static str,
    /// Whether the call may be executed twice.
    pub(crate) repeatable: bool,
    /// The timeout for one member.
    pub(crate) timeout: Duration,
}

/// How long a call is retried before the caller gets the failure. etcd's Go client retries a read a hundred times,
/// every 25 milliseconds; this leaves additional time for an election.
const RETRY_TIMEOUT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const MAX_PAUSE: Duration = Duration::from_millis(250);
/// How long a failed member is avoided while others are available.
const AVOID_FOR: Duration = Duration::from_secs(2);
/// The timeout of a read: large responses take long.
pub(crate) const READ: Duration = Duration::from_secs(15);
/// The span attribute with the code of the response.
pub(crate) const STATUS_CODE: &str = "rpc.response.status_code";
/// No limit, since a list is one response.
const MAX_RESPONSE_BYTES: usize = i32::MAX as usize;

// === impl Cluster ===

impl Cluster {
    /// Creates the members without connecting to them.
    pub(crate) fn new(options: &EtcdOptions) -> Result<Self, ConnectError> {
        if options.endpoints.is_empty() {
            return Err(ConnectError::NoEndpoint);
        }
        let secure = options.tls.any();
        let needed = secure || options.endpoints.iter().any(|endpoint| endpoint.starts_with("https://"));
        let tls = if needed { Some(tls_config(&options.tls)?) } else { None };
        let member = |endpoint: &String| {
            let connections = Arc::default();
            Ok(Arc::new(Member {
                endpoint: endpoint.clone(),
                channel: channel(endpoint, tls.as_ref(), secure, options.dialer.clone(), &connections)?,
                connections,
                calls: options.metrics.calls().clone(),
                avoided_until: AtomicU64::new(0),
                streams: StreamSupport::default(),
            }))
        };
        let members = options.endpoints.iter().map(member).collect::<Result<_, _>>()?;
        Ok(Self { members, next: AtomicUsize::new(0), started: Instant::now() })
    }

    /// Returns the next member in turn. Members that failed recently are only returned if all of them did.
    pub(crate) fn pick(&self) -> &Arc<Member> {
        self.pick_if(|_| true).unwrap_or(&self.members[0])
    }

    /// Returns the next member in turn of those that meet a condition.
    pub(crate) fn pick_if(&self, is_suitable: impl Fn(&Member) -> bool) -> Option<&Arc<Member>> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let in_turn = || {
            let all = (0..self.members.len()).map(|n| &self.members[first.wrapping_add(n) % self.members.len()]);
            all.filter(|member| is_suitable(member))
        };
        let now = self.now();
        let avoided = |member: &&Arc<Member>| member.avoided_until.load(Ordering::Relaxed);
        in_turn().find(|member| avoided(member) <= now).or_else(|| in_turn().min_by_key(avoided))
    }

    /// Makes `pick` skip a member for a while.
    pub(crate) fn avoid(&self, member: &Member) {
        let until = self.now() + u64::try_from(AVOID_FOR.as_millis()).unwrap_or(u64::MAX);
        member.avoided_until.store(until, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Calls one member after another until one responds or the time limit is reached.
    pub(crate) async fn call<Q, A>(&self, call: Call, request: Q) -> Result<A, Failure>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let started = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut attempts = 0;
        loop {
            let member = self.pick();
            let failure = match member.call(call, request.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let again = match &failure {
                Failure::Answered(_) | Failure::Compacted => return Err(failure),
                Failure::NotDone(_) => true,
                Failure::Unknown(_) => call.repeatable,
            };
            self.avoid(member);
            tracing::debug!(endpoint = member.endpoint, path = call.path, ?failure, again, "etcd did not answer");
            if !again || started.elapsed() >= RETRY_TIMEOUT {
                return Err(failure);
            }
            attempts += 1;
            // Another member is tried at once. After all of them have failed, only waiting helps.
            if attempts % self.members.len() == 0 {
                sleep(pause).await;
                pause = (pause * 2).min(MAX_PAUSE);
            }
        }
    }
}

// === impl Member ===

impl Member {
    /// Calls this member once.
    pub(crate) async fn call<Q, A>(&self, call: Call, request: Q) -> Result<A, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        match timeout(call.timeout, self.send(call.path, request)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::Unknown("context deadline exceeded".to_owned())),
        }
    }

    async fn send<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut request = tonic::Request::new(request);
        require_leader(&mut request);
        let mut span = current_trace().map(|trace| self.begin_span(&*trace, path));
        if let Some(trace) = span.as_ref().and_then(|span| span.header().parse().ok()) {
            request.metadata_mut().insert("traceparent", trace);
        }
        let mut grpc = self.grpc().await?;
        let count = self.calls.unary(path);
        let answer = grpc.unary(request, PathAndQuery::from_static(path), ProstCodec::<Q, A>::default()).await;
        if answer.is_ok() {
            count.received();
        }
        if let Some(span) = &mut span {
            match &answer {
                Ok(_) => span.set(STATUS_CODE, go_name(Code::Ok)),
                Err(status) => {
                    span.set(STATUS_CODE, go_name(status.code()));
                    span.fail(status.message());
                }
            }
        }
        count.finish(answer.as_ref().map_or_else(tonic::Status::code, |_| Code::Ok));
        answer.map(tonic::Response::into_inner).map_err(|status| Failure::of(&status))
    }

    /// Starts the span of a call, with the name and attributes of Go's instrumentation.
    pub(crate) fn begin_span(&self, trace: &dyn CallTrace, path: &'static str) -> Box<dyn CallSpan> {
        let method = path.trim_start_matches('/');
        let mut span = trace.begin(method);
        span.set("rpc.method", method);
        span.set("rpc.system.name", "grpc");
        let address = self.endpoint.split_once("://").map_or(self.endpoint.as_str(), |(_, address)| address);
        match address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?))) {
            Some((host, port)) => {
                span.set("server.address", host.trim_start_matches('[').trim_end_matches(']'));
                span.set_number("server.port", port.into());
            }
            None => span.set("server.address", address),
        }
        span
    }

    /// Returns a client whose connection is ready for a request.
    pub(crate) async fn grpc(&self) -> Result<Grpc<Channel>, Failure> {
        self.bounded_grpc(MAX_RESPONSE_BYTES).await
    }

    /// Returns a client whose connection is ready for a request with responses of at most this size.
    pub(crate) async fn bounded_grpc(&self, max_response_bytes: usize) -> Result<Grpc<Channel>, Failure> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(max_response_bytes);
        match grpc.ready().await {
            Ok(()) => Ok(grpc),
            Err(error) => Err(Failure::NotDone(format!("rpc error: code = Unavailable desc = {error}"))),
        }
    }

    pub(crate) async fn status(&self, timeout: Duration) -> Result<StatusResponse, Failure> {
        self.call(Call { path: path::STATUS, repeatable: true, timeout }, StatusRequest {}).await
    }
}

/// Makes a member without a leader reject the request instead of waiting for a leader.
pub(crate) fn require_leader<T>(request: &mut tonic::Request<T>) {
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
}
