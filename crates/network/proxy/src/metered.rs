//! Bodies that mark the client's connection as one that relays.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use binnacle_request::{Body, BoxError, ConnectionInfo, Pieces, RelayMeter};
use http_body::{Body as HttpBody, Frame, SizeHint};

/// Returns the body, which counts the bytes that the client's connection relays.
pub(crate) fn metered(body: Body, connection: &Arc<ConnectionInfo>) -> Body {
    if body.is_complete() {
        return body;
    }
    Body::new(MeteredBody { body, meter: RelayMeter::new(connection.clone()) })
}

struct MeteredBody {
    body: Body,
    meter: RelayMeter,
}

impl HttpBody for MeteredBody {
    type Data = Pieces;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.meter.add(frame.data_ref().map_or(0, Pieces::len));
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
