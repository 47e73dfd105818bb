//! Reads of a whole range with one call, which etcd has since 3.7: the member sends the keys in chunks, all of one
//! revision. It reads each chunk when the client has room for it.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use binnacle_store::{CallSpan, current_trace};
use http::uri::PathAndQuery;
use tokio::time::timeout;
use tonic::{Code, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::api::{KeyValue, RangeRequest, RangeStreamResponse, path};
use crate::calls::{CallCount, go_name};
use crate::cluster::{Cluster, Member, READ, STATUS_CODE, require_leader};
use crate::error::Failure;

/// The limit on a chunk. etcd intends chunks of its limit on requests, 1.5 MiB by default, but finds their number of keys
/// from the chunk before, whose objects may be much smaller.
const MAX_CHUNK_BYTES: usize = 64 << 20;

/// A running stream, which ends when it is dropped.
pub(crate) struct RangeStream {
    member: Arc<Member>,
    responses: Streaming<RangeStreamResponse>,
    /// The first response, which was needed to know whether the member has streams.
    first: Option<RangeStreamResponse>,
    is_complete: bool,
    count: CallCount,
    span: Option<Box<dyn CallSpan>>,
}

// === impl Cluster ===

impl Cluster {
    /// Opens a stream at the next member that has streams. Returns `None` if no member has.
    pub(crate) async fn open_range_stream(&self, request: RangeRequest) -> Result<Option<RangeStream>, Failure> {
        let mut tried = HashSet::new();
        let mut failed = None;
        while let Some(member) =
            self.pick_if(|member| member.may_have_streams() && !tried.contains(member.endpoint.as_str()))
        {
            tried.insert(member.endpoint.as_str());
            match RangeStream::open(Arc::clone(member), request.clone()).await {
                Ok(Some(stream)) => return Ok(Some(stream)),
                Ok(None) => tracing::debug!(endpoint = member.endpoint, "this etcd has no streams of ranges"),
                Err(failure) if failure.is_of_member() => {
                    self.avoid(member);
                    failed = Some(failure);
                }
                Err(failure) => return Err(failure),
            }
        }
        failed.map_or(Ok(None), Err)
    }
}

// === impl Member ===

impl Member {
    fn connection_count(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    fn may_have_streams(&self) -> bool {
        !self.streams.is_missing(self.connection_count())
    }
}

// === impl RangeStream ===

impl RangeStream {
    /// Opens a stream and waits for its first response. Returns `None` if the member has no streams.
    async fn open(member: Arc<Member>, request: RangeRequest) -> Result<Option<Self>, Failure> {
        let before = member.connection_count();
        let opening = timeout(READ, Self::begin(Arc::clone(&member), request));
        match opening.await.unwrap_or_else(|_| Err(timed_out()))? {
            Ok(stream) => Ok(Some(stream)),
            Err(status) if status.code() == Code::Unimplemented => {
                let after = member.connection_count();
                // If the connection was replaced meanwhile, it is unknown which one had the response.
                if before == after || before == 0 {
                    member.streams.set_missing(after);
                }
                Ok(None)
            }
            Err(status) => Err(Failure::of(&status)),
        }
    }

    async fn begin(member: Arc<Member>, request: RangeRequest) -> Result<Result<Self, Status>, Failure> {
        let mut request = tonic::Request::new(request);
        require_leader(&mut request);
        let mut span = current_trace().map(|trace| member.begin_span(&*trace, path::RANGE_STREAM));
        if let Some(trace) = span.as_ref().and_then(|span| span.header().parse().ok()) {
            request.metadata_mut().insert("traceparent", trace);
        }
        let mut grpc = member.bounded_grpc(MAX_CHUNK_BYTES).await?;
        let mut count = member.calls.server_stream(path::RANGE_STREAM);
        let codec = ProstCodec::<RangeRequest, RangeStreamResponse>::default();
        let opened = grpc.server_streaming(request, PathAndQuery::from_static(path::RANGE_STREAM), codec).await;
        let first = match opened {
            Ok(responses) => {
                let mut responses = responses.into_inner();
                responses.message().await.map(|first| (first, responses))
            }
            Err(status) => Err(status),
        };
        Ok(match first {
            Ok((first, responses)) => {
                first.iter().for_each(|_| count.received());
                Ok(Self { member, responses, first, is_complete: false, count, span })
            }
            Err(status) => {
                finish(&mut count, &mut span, &status);
                Err(status)
            }
        })
    }

    pub(crate) fn member(&self) -> &Member {
        &self.member
    }

    /// Returns the keys of the next chunk, `None` after all keys of the range.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<KeyValue>>, Failure> {
        let response = match self.first.take() {
            Some(first) => Some(first),
            None => match timeout(READ, self.responses.message()).await.map_err(|_| timed_out())? {
                Ok(response) => {
                    response.iter().for_each(|_| self.count.received());
                    response
                }
                Err(status) => {
                    finish(&mut self.count, &mut self.span, &status);
                    return Err(Failure::of(&status));
                }
            },
        };
        match response {
            Some(response) => {
                let part = response.range_response.unwrap_or_default();
                // Only the last chunk has a header. Without a limit, nothing is left out.
                self.is_complete = part.header.is_some() && !part.more;
                Ok(Some(part.kvs))
            }
            None if self.is_complete => {
                finish(&mut self.count, &mut self.span, &Status::ok(""));
                Ok(None)
            }
            None => Err(Failure::Unknown("the member ended a range before its end".to_owned())),
        }
    }
}

fn timed_out() -> Failure {
    Failure::Unknown("context deadline exceeded".to_owned())
}

fn finish(count: &mut CallCount, span: &mut Option<Box<dyn CallSpan>>, status: &Status) {
    count.set_code(status.code());
    if let Some(mut span) = span.take() {
        span.set(STATUS_CODE, go_name(status.code()));
        if status.code() != Code::Ok {
            span.fail(status.message());
        }
    }
}
