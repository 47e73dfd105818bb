//! The body of a request, sent in pieces.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// The size of a piece. The HTTP library copies pieces into its buffer until that has some hundred kilobytes, so a
/// review of megabytes for a slow webhook would be in memory twice if it were one piece.
const PIECE: usize = 64 << 10;

/// A body whose length is known. Clones share the bytes.
#[derive(Clone, Debug)]
pub(crate) struct BodyPieces(pub(crate) Bytes);

impl Body for BodyPieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        let size = PIECE.min(self.0.len());
        Poll::Ready(Some(Ok(Frame::data(self.0.split_to(size)))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn splits_long_bodies_without_copies() {
        assert!(BodyPieces(Bytes::new()).is_end_stream());
        let whole = Bytes::from(vec![7; 3 * PIECE + 1]);
        let mut body = BodyPieces(whole.clone());
        let mut at = 0;
        while let Some(frame) = body.frame().await {
            assert_eq!(body.size_hint().exact(), Some((whole.len() - at) as u64 - PIECE.min(whole.len() - at) as u64));
            let piece = frame.unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE && std::ptr::eq(piece.as_ptr(), &raw const whole[at]));
            at += piece.len();
        }
        assert_eq!(at, whole.len());
        assert!(body.is_end_stream());
    }
}
