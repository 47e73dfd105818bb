//! Closing without a reset. If a socket is closed while its peer still sends (window updates, acknowledgements), the
//! kernel resets the connection, and a peer that detects the reset while writing discards unread data, such as the end
//! of its watches or the reason for rejecting a request whose body it is sending. So the write half is closed first,
//! and the peer is read until it closes its half.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// The time for a peer to close its half. Go waits half a second, or a second with HTTP/2.
const LINGER_TIMEOUT: Duration = Duration::from_millis(500);

/// A stream whose `shutdown` also waits for the peer to close, up to a timeout.
pub(crate) struct LingeringStream<S> {
    stream: S,
    /// Set once our half is closed.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> LingeringStream<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, until: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LingeringStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for LingeringStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let until = match &mut this.until {
            Some(until) => until,
            none => {
                ready!(Pin::new(&mut this.stream).poll_shutdown(cx))?;
                none.insert(Box::pin(tokio::time::sleep(LINGER_TIMEOUT)))
            }
        };
        let mut scratch = [0; 1024];
        loop {
            if until.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buffer = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut this.stream).poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => {}
                // The peer has closed its half or failed, so the wait is over.
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn waits_for_the_peer_up_to_a_timeout() {
        for peer_closes in [true, false] {
            let (ours, mut theirs) = duplex(64);
            let mut ours = LingeringStream::new(ours);
            let peer = tokio::spawn(async move {
                theirs.write_all(&[1; 200]).await.unwrap();
                let mut rest = Vec::new();
                theirs.read_to_end(&mut rest).await.unwrap();
                assert_eq!(rest, b"last");
                // Our half is closed now, and the peer can still write to its half.
                theirs.write_all(&[2; 200]).await.unwrap();
                if !peer_closes {
                    std::future::pending::<()>().await;
                }
            });
            ours.write_all(b"last").await.unwrap();
            ours.shutdown().await.unwrap();
            assert_eq!(peer.is_finished(), peer_closes);
            peer.abort();
        }
    }
}
