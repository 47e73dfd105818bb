//! The body of a request on an HTTP/2 stream.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::runtime::Handle;

/// The limits in time and bytes for reading the rest of an unused body.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
const DRAIN_BYTES: usize = 8 * 1024 * 1024;

/// A body. On drop, the rest of it is read and discarded for some time: if a stream is reset while its client still
/// sends, many clients, such as curl, discard the unread response.
pub(super) struct Incoming {
    /// `None` once it has been handed over or has failed.
    stream: Option<RecvStream>,
    length: Option<u64>,
    runtime: Handle,
}

impl Incoming {
    /// Must be called on a runtime.
    pub(super) fn new(stream: RecvStream, length: Option<u64>) -> Self {
        Self { stream: Some(stream), length, runtime: Handle::current() }
    }
}

impl HttpBody for Incoming {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
        match ready!(stream.poll_data(cx)) {
            Some(Ok(data)) => {
                let count = data.len();
                // This fails only if more bytes are released than were received.
                let _ = stream.flow_control().release_capacity(count);
                if let Some(length) = &mut self.length {
                    *length = length.saturating_sub(count as u64);
                }
                Poll::Ready(Some(Ok(Frame::data(data))))
            }
            Some(Err(error)) => {
                self.stream = None;
                Poll::Ready(Some(Err(error)))
            }
            // Trailers are ignored.
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.stream.as_ref().is_none_or(RecvStream::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(stream) = self.stream.take().filter(|stream| !stream.is_end_stream()) {
            drop(self.runtime.spawn(tokio::time::timeout(DRAIN_TIMEOUT, drain(stream))));
        }
    }
}

async fn drain(mut stream: RecvStream) {
    let mut remaining = DRAIN_BYTES;
    while let Some(Ok(data)) = stream.data().await {
        let _ = stream.flow_control().release_capacity(data.len());
        remaining = remaining.saturating_sub(data.len());
        if remaining == 0 {
            return;
        }
    }
}
