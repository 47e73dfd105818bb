//! Connections to servers that close without TLS close_notify, as many do. HTTP delimits messages where their length
//! matters.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A connection that reports truncation as the end of the stream.
pub(crate) struct Lenient<S>(pub(crate) S);

impl<S: AsyncRead + Unpin> AsyncRead for Lenient<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.0).poll_read(cx, buffer) {
            Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
            read => read,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Lenient<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    struct TruncatedBody(&'static [u8]);

    impl AsyncRead for TruncatedBody {
        fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            match std::mem::take(&mut self.0) {
                b"" => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                bytes => {
                    buffer.put_slice(bytes);
                    Poll::Ready(Ok(()))
                }
            }
        }
    }

    #[tokio::test]
    async fn reads_truncation_as_the_end() {
        let mut read = Vec::new();
        Lenient(TruncatedBody(b"abc")).read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"abc");
    }
}
