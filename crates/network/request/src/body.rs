//! Bodies of requests and responses: empty, complete, or a stream. Reading is limited.

use std::pin::Pin;
use std::task::{Context, Poll};

use binnacle_meta::Status;
use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;

use crate::{Pieces, WaitError};

pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Request bodies have the same type, so that handlers can be called without a connection.
pub type IncomingBody = Body;

/// The maximum size of a request body, as in kube-apiserver.
pub const MAX_REQUEST_BODY: usize = 3 * 1024 * 1024;

/// A body. The common cases do not allocate.
#[derive(Default)]
pub struct Body(Inner);

#[derive(Default)]
enum Inner {
    #[default]
    Empty,
    Full(Pieces),
    Boxed(Pin<Box<dyn HttpBody<Data = Pieces, Error = BoxError> + Send>>),
}

/// Errors of reading a body.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("limit is {0}")]
    TooLarge(usize),
    #[error("{0}")]
    Broken(BoxError),
    #[error("{0}")]
    Unwaited(#[from] WaitError),
}

impl From<&BodyError> for Status {
    fn from(error: &BodyError) -> Self {
        match error {
            BodyError::TooLarge(_) => Status::request_entity_too_large(error),
            BodyError::Broken(_) => Status::internal(error),
            BodyError::Unwaited(error) => Status::from(*error),
        }
    }
}

impl Body {
    pub fn empty() -> Self {
        Self(Inner::Empty)
    }

    pub fn full(bytes: impl Into<Bytes>) -> Self {
        Self::pieces(Pieces::from(bytes.into()))
    }

    /// Creates a complete body in several pieces.
    pub fn pieces(pieces: Pieces) -> Self {
        Self(if pieces.is_empty() { Inner::Empty } else { Inner::Full(pieces) })
    }

    /// Creates a body from a stream of pieces.
    pub fn stream<S, P, E>(stream: S) -> Self
    where
        S: Stream<Item = Result<P, E>> + Send + 'static,
        P: Buf + Into<Pieces> + 'static,
        E: Into<BoxError> + 'static,
    {
        // Wrappers may poll again after the end.
        Self::new(StreamBody(Box::pin(stream.fuse())))
    }

    /// Creates an empty body of unknown length, for responses to HEAD that must not announce a length of zero.
    pub fn of_unknown_length() -> Self {
        Self::stream(futures::stream::empty::<Result<Bytes, BoxError>>())
    }

    /// Wraps any other body, such as one of a connection.
    pub fn new<B>(body: B) -> Self
    where
        B: HttpBody<Data: Into<Pieces>, Error: Into<BoxError>> + Send + 'static,
    {
        if body.is_end_stream() {
            return Self::empty();
        }
        Self(Inner::Boxed(Box::pin(body.map_frame(|frame| frame.map_data(Into::into)).map_err(Into::into))))
    }

    /// Returns true if the body is complete.
    pub fn is_complete(&self) -> bool {
        !matches!(self.0, Inner::Boxed(_))
    }

    /// Returns the body if it is complete.
    pub fn whole(&self) -> Option<Bytes> {
        match &self.0 {
            Inner::Empty => Some(Bytes::new()),
            Inner::Full(pieces) => Some(pieces.clone().into_bytes()),
            Inner::Boxed(_) => None,
        }
    }

    /// Reads the whole body, at most `limit` bytes.
    pub async fn read(self, limit: usize) -> Result<Bytes, BodyError> {
        let mut body = match self.0 {
            Inner::Empty => return Ok(Bytes::new()),
            Inner::Full(pieces) if pieces.len() <= limit => return Ok(pieces.into_bytes()),
            Inner::Full(_) => return Err(BodyError::TooLarge(limit)),
            Inner::Boxed(body) => body,
        };
        // The announced length is unverified: it may reject the body, but no memory is reserved for it.
        if body.size_hint().lower() > limit as u64 {
            return Err(BodyError::TooLarge(limit));
        }
        let mut first: Option<Bytes> = None;
        let mut rest = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(BodyError::Broken)?.into_data() else { continue };
            if data.is_empty() {
                continue;
            }
            let so_far = first.as_ref().map_or(0, Bytes::len) + rest.len();
            if so_far + data.len() > limit {
                return Err(BodyError::TooLarge(limit));
            }
            match first.take() {
                // Most bodies have one piece, which is not copied.
                None if rest.is_empty() => first = Some(data.into_bytes()),
                held => {
                    if let Some(held) = held {
                        rest.extend_from_slice(&held);
                    }
                    data.iter().for_each(|piece| rest.extend_from_slice(piece));
                }
            }
        }
        Ok(first.unwrap_or_else(|| rest.freeze()))
    }
}

impl HttpBody for Body {
    type Data = Pieces;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Pieces>, BoxError>>> {
        match &mut self.0 {
            Inner::Empty => Poll::Ready(None),
            Inner::Full(pieces) => {
                let pieces = std::mem::take(pieces);
                self.0 = Inner::Empty;
                Poll::Ready(Some(Ok(Frame::data(pieces))))
            }
            Inner::Boxed(body) => body.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Empty => true,
            Inner::Full(_) => false,
            Inner::Boxed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Empty => SizeHint::with_exact(0),
            Inner::Full(pieces) => SizeHint::with_exact(pieces.len() as u64),
            Inner::Boxed(body) => body.size_hint(),
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self::full(bytes)
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::full(text)
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::full(bytes)
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Self::full(text)
    }
}

struct StreamBody<S>(Pin<Box<S>>);

impl<S, P, E> HttpBody for StreamBody<S>
where
    S: Stream<Item = Result<P, E>>,
    P: Buf,
{
    type Data = P;
    type Error = E;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<P>, E>>> {
        self.0.as_mut().poll_next(cx).map(|item| item.map(|piece| piece.map(Frame::data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(sizes: &[usize]) -> Body {
        let pieces: Vec<_> = sizes.iter().map(|size| Ok::<_, BoxError>(Bytes::from(vec![b'x'; *size]))).collect();
        Body::stream(futures::stream::iter(pieces))
    }

    #[tokio::test]
    async fn reads_bodies_up_to_the_limit() {
        for (body, limit, want) in [
            (Body::empty(), 0, Some(0)),
            (Body::full("abc"), 3, Some(3)),
            (Body::full("abcd"), 3, None),
            (pieces(&[1, 0, 1, 1]), 3, Some(3)),
            (pieces(&[3]), 3, Some(3)),
            (pieces(&[2, 2]), 3, None),
            (pieces(&[4]), 3, None),
            (pieces(&[]), 3, Some(0)),
        ] {
            match (body.read(limit).await, want) {
                (Ok(bytes), Some(length)) => assert_eq!(bytes.len(), length),
                (Err(error), None) => assert_eq!(error.to_string(), "limit is 3"),
                (result, want) => panic!("{result:?}, wanted {want:?}"),
            }
        }
    }

    #[tokio::test]
    async fn maps_too_large_bodies_to_413() {
        let error = pieces(&[2, 2]).read(3).await.unwrap_err();
        let status = Status::from(&error);
        assert_eq!((status.code(), status.message()), (413, "Request entity too large: limit is 3"));
    }
}
