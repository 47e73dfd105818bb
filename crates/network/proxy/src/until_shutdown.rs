//! Bodies that end when the server shuts down.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use binnacle_request::{Body, BoxError, BoxFuture, ConnectionInfo, Pieces, Shutdown};
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::metered::metered;

/// What to do when a body fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnBodyError {
    /// The client's connection fails too.
    Fail,
    /// The body ends, as for logs in kube-apiserver.
    End,
}

/// Returns a body for the client's connection that ends as soon as the server shuts down.
pub fn until_shutdown(body: Body, connection: &Arc<ConnectionInfo>, shutdown: &Shutdown, broken: OnBodyError) -> Body {
    let (body, shutdown) = (metered(body, connection), Box::pin(shutdown.fired()));
    Body::new(UntilShutdown { body, shutdown, broken, ended: false })
}

struct UntilShutdown {
    body: Body,
    shutdown: BoxFuture<'static, ()>,
    broken: OnBodyError,
    ended: bool,
}

impl HttpBody for UntilShutdown {
    type Data = Pieces;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, BoxError>>> {
        let this = &mut *self;
        if this.ended || this.shutdown.as_mut().poll(cx).is_ready() {
            this.ended = true;
            return Poll::Ready(None);
        }
        match Pin::new(&mut this.body).poll_frame(cx) {
            Poll::Ready(Some(Err(error))) if this.broken == OnBodyError::End => {
                tracing::warn!("stream closed unexpectedly: {error}");
                this.ended = true;
                Poll::Ready(None)
            }
            polled => polled,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.broken {
            OnBodyError::Fail => self.body.size_hint(),
            // The body may be shorter than its announced length.
            OnBodyError::End => SizeHint::default(),
        }
    }
}
