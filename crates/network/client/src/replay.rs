//! Requests that can be retried because the server did not process them.
//!
//! The GOAWAY frame of an HTTP/2 server names the last stream that the server processed, and a server may refuse single
//! streams. In both cases the request can be retried, regardless of its method (RFC 9113, 6.8 and 8.7).

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use binnacle_request::{Body, BoxError, Pieces};
use http::{Method, Request, request};
use http_body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;

/// The maximum number of bytes of a streamed body that are buffered for retries. Complete bodies are shared, not
/// copied.
const MAX_BUFFERED: usize = 64 << 10;

/// Reports whether an error means that the server did not process the request.
pub fn is_unprocessed(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<h2::Error>() {
            // A stream that may have been processed gets an I/O error when the connection ends.
            let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            return error.is_remote() && (error.is_go_away() || is_refused);
        }
        cause = error.source();
    }
    false
}

/// A request that can be sent several times.
pub(crate) struct ReplayRequest {
    head: request::Parts,
    body: Source,
}

enum Source {
    /// A complete body.
    Complete(Pieces),
    /// A body that is still being received.
    Streaming(Arc<Mutex<ReplayBuffer>>),
}

/// A streamed body, with the part that was already sent.
struct ReplayBuffer {
    rest: Body,
    sent: Vec<Pieces>,
    sent_bytes: usize,
    /// The size hint before anything was received.
    size: SizeHint,
    /// The number of copies. Only the last one may read from the body.
    copies: usize,
    /// False once a part was not buffered.
    is_replayable: bool,
}

/// One copy of a body in a [`ReplayBuffer`].
struct ReplayBody {
    body: Arc<Mutex<ReplayBuffer>>,
    number: usize,
    /// The number of parts that this copy has returned, and of their bytes.
    at: usize,
    bytes: u64,
}

impl ReplayRequest {
    pub(crate) fn new(request: Request<Body>) -> Self {
        let (head, body) = request.into_parts();
        let body = match body.whole() {
            Some(bytes) => Source::Complete(Pieces::from(bytes)),
            None => {
                let size = body.size_hint();
                let received =
                    ReplayBuffer { rest: body, sent: Vec::new(), sent_bytes: 0, size, copies: 0, is_replayable: true };
                Source::Streaming(Arc::new(Mutex::new(received)))
            }
        };
        Self { head, body }
    }

    pub(crate) fn method(&self) -> &Method {
        &self.head.method
    }

    /// Reports whether the request has no body.
    pub(crate) fn has_no_body(&self) -> bool {
        matches!(&self.body, Source::Complete(pieces) if pieces.is_empty())
    }

    /// Returns the next copy of the request, or `None` if a part of its body was sent and is not buffered.
    pub(crate) fn copy(&self) -> Option<Request<Body>> {
        let body = match &self.body {
            Source::Complete(pieces) => Body::pieces(pieces.clone()),
            Source::Streaming(received) => {
                let mut locked = received.lock();
                if !locked.is_replayable {
                    return None;
                }
                locked.copies += 1;
                let number = locked.copies;
                drop(locked);
                Body::new(ReplayBody { body: received.clone(), number, at: 0, bytes: 0 })
            }
        };
        let mut request = Request::new(body);
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = self.head.uri.clone();
        *request.headers_mut() = self.head.headers.clone();
        Some(request)
    }
}

impl ReplayBuffer {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, BoxError>>> {
        let polled = Pin::new(&mut self.rest).poll_frame(cx);
        if let Poll::Ready(Some(received)) = &polled {
            match received.as_ref().ok().and_then(Frame::data_ref) {
                Some(data) if self.is_replayable && self.sent_bytes + data.len() <= MAX_BUFFERED => {
                    self.sent_bytes += data.len();
                    self.sent.push(data.clone());
                }
                // Trailers and errors are not buffered either.
                _ => {
                    self.is_replayable = false;
                    self.sent = Vec::new();
                }
            }
        }
        polled
    }
}

impl HttpBody for ReplayBody {
    type Data = Pieces;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, BoxError>>> {
        let body = self.body.clone();
        let mut body = body.lock();
        if body.copies != self.number {
            return Poll::Ready(Some(Err("the request is sent again".into())));
        }
        let polled = match body.sent.get(self.at) {
            Some(sent) => Poll::Ready(Some(Ok(Frame::data(sent.clone())))),
            None => body.poll(cx),
        };
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            self.at += 1;
            self.bytes += frame.data_ref().map_or(0, Pieces::len) as u64;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        let body = self.body.lock();
        self.at >= body.sent.len() && body.rest.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.body.lock().size.exact() {
            Some(size) => SizeHint::with_exact(size.saturating_sub(self.bytes)),
            None => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http_body_util::BodyExt;

    use super::*;

    fn received(parts: &[&[u8]]) -> ReplayRequest {
        let parts: Vec<_> = parts.iter().map(|part| Ok::<_, BoxError>(Bytes::copy_from_slice(part))).collect();
        ReplayRequest::new(Request::new(Body::stream(futures::stream::iter(parts))))
    }

    async fn next(body: &mut Body) -> Result<Bytes, String> {
        let frame = body.frame().await.ok_or("the end")?.map_err(|error| error.to_string())?;
        Ok(frame.into_data().map_err(|_| "trailers")?.into_bytes())
    }

    #[tokio::test]
    async fn replays_the_bytes_sent_so_far_and_continues() {
        let request = received(&[b"ab", b"c", b"de"]);
        let mut first = request.copy().expect("a copy").into_body();
        assert_eq!(next(&mut first).await, Ok(Bytes::from("ab")));
        let mut second = request.copy().expect("a copy").into_body();
        assert_eq!(next(&mut second).await, Ok(Bytes::from("ab")));
        assert_eq!(next(&mut second).await, Ok(Bytes::from("c")));
        // The connection of the first copy may still read from the body.
        assert_eq!(next(&mut first).await, Err("the request is sent again".to_owned()));
        let third = request.copy().expect("a copy").into_body().read(100).await;
        assert_eq!(third.expect("a body"), "abcde");
    }

    #[tokio::test]
    async fn replays_complete_bodies_without_a_limit() {
        let request = ReplayRequest::new(Request::new(Body::full(vec![b'x'; MAX_BUFFERED * 2])));
        for _ in 0..3 {
            let copy = request.copy().expect("a copy").into_body().read(MAX_BUFFERED * 2).await.expect("a body");
            assert_eq!(copy.len(), MAX_BUFFERED * 2);
        }
        assert!(!request.has_no_body() && ReplayRequest::new(Request::new(Body::empty())).has_no_body());
    }

    #[tokio::test]
    async fn does_not_replay_bodies_beyond_the_buffer() {
        let large = vec![b'x'; MAX_BUFFERED];
        let request = received(&[&large, b"y", b"z"]);
        let mut first = request.copy().expect("a copy").into_body();
        assert_eq!(next(&mut first).await.map(|part| part.len()), Ok(MAX_BUFFERED));
        let mut second = request.copy().expect("a copy").into_body();
        assert_eq!(next(&mut second).await.map(|part| part.len()), Ok(MAX_BUFFERED));
        assert_eq!(next(&mut second).await, Ok(Bytes::from("y")));
        assert!(request.copy().is_none());
        assert_eq!(next(&mut second).await, Ok(Bytes::from("z")));
    }
}
