//! Request handling on the runtime of the connection or on that of the workers.
//!
//! Connections that start with a health check run on a small separate runtime, so that health checks are served even if
//! all workers are busy. Other requests on these connections are forwarded to the workers, which return the responses.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use binnacle_request::{Body, BoxError, ConnectionInfo, Pieces};
use binnacle_work::AbortOnDrop;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use crate::response::error_text;
use crate::service::{ResponseBody, Service};

/// The service and its runtime.
pub(crate) struct Handlers<S> {
    pub(crate) service: Arc<S>,
    /// The runtime of the workers, if it is not the one that serves connections.
    pub(crate) workers: Option<Handle>,
}

impl<S> Clone for Handlers<S> {
    fn clone(&self) -> Self {
        Self { service: self.service.clone(), workers: self.workers.clone() }
    }
}

/// The body of a response.
pub(crate) enum OutgoingBody<B> {
    /// Boxed because a response is moved several times until it is sent.
    Direct(Box<B>),
    Relayed(RelayedBody),
    /// A text from the server itself.
    Text(Body),
}

impl<S: Service> Handlers<S> {
    pub(crate) async fn serve(
        &self,
        request: http::Request<Body>,
        connection: Arc<ConnectionInfo>,
    ) -> http::Response<OutgoingBody<S::Body>> {
        match &self.workers {
            Some(workers) if !self.service.is_probe(request.uri().path()) => {
                relay(workers, self.service.clone(), request, connection).await
            }
            _ => self.service.serve(request, connection).await.map(|body| OutgoingBody::Direct(Box::new(body))),
        }
    }
}

/// A response body that is produced on the workers' runtime.
pub(crate) struct RelayedBody {
    frames: mpsc::Receiver<Result<Frame<Pieces>, BoxError>>,
    remaining: SizeHint,
    guard: Option<Box<dyn Any + Send>>,
    _task: AbortOnDrop,
}

async fn relay<S: Service>(
    workers: &Handle,
    service: Arc<S>,
    request: http::Request<Body>,
    connection: Arc<ConnectionInfo>,
) -> http::Response<OutgoingBody<S::Body>> {
    let (head_sender, head_receiver) = tokio::sync::oneshot::channel();
    let (sender, frames) = mpsc::channel(1);
    let task = async move {
        let (head, mut body) = service.serve(request, connection).await.into_parts();
        let size = body.size_hint();
        if head_sender.send((head, size)).is_err() {
            return;
        }
        while let Some(frame) = body.frame().await {
            if sender.send(frame).await.is_err() {
                return;
            }
        }
    };
    let task = AbortOnDrop(binnacle_work::spawn_on(workers, "relayed request", task));
    match head_receiver.await {
        Ok((head, remaining)) => http::Response::from_parts(
            head,
            OutgoingBody::Relayed(RelayedBody { frames, remaining, guard: None, _task: task }),
        ),
        // The service itself handles panics, so only a runtime that shuts down drops a task.
        Err(_) => error_text(http::StatusCode::SERVICE_UNAVAILABLE, "the server is stopping".to_owned())
            .map(OutgoingBody::Text),
    }
}

impl<B: ResponseBody> OutgoingBody<B> {
    /// Holds a guard until the response has been handed over, or as long as an upgraded connection is open.
    pub(crate) fn hold(&mut self, guard: impl std::any::Any + Send) {
        match self {
            Self::Direct(body) => body.hold(guard),
            Self::Relayed(body) => body.guard = Some(Box::new(guard)),
            Self::Text(_) => drop(guard),
        }
    }
}

impl HttpBody for RelayedBody {
    type Data = Pieces;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, BoxError>>> {
        let frame = ready!(self.frames.poll_recv(cx));
        if let (Some(Ok(frame)), Some(exact)) = (&frame, self.remaining.exact())
            && let Some(data) = frame.data_ref()
        {
            self.remaining = SizeHint::with_exact(exact.saturating_sub(data.len() as u64));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.remaining.exact() == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.remaining
    }
}

impl<B: ResponseBody> HttpBody for OutgoingBody<B> {
    type Data = Pieces;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, BoxError>>> {
        match self.get_mut() {
            Self::Direct(body) => Pin::new(body).poll_frame(cx),
            Self::Relayed(body) => Pin::new(body).poll_frame(cx),
            Self::Text(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Direct(body) => body.is_end_stream(),
            Self::Relayed(body) => body.is_end_stream(),
            Self::Text(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Direct(body) => body.size_hint(),
            Self::Relayed(body) => body.size_hint(),
            Self::Text(body) => body.size_hint(),
        }
    }
}
