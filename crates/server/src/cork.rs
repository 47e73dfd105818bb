//! Few large writes in place of many small ones. HTTP/2 hands down frames of at most 16 KiB, and TLS writes each record
//! out as soon as it is sealed: a system call for each. Here they gather until the layer above flushes, as it does
//! whenever it has nothing more to say.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// So much gathers before it is written without a flush. Below what the allocator maps and unmaps for each use.
const GATHERED: usize = 96 * 1024;

/// A stream whose writes gather until they are flushed. An idle one holds no buffer.
pub(crate) struct Corked<S> {
    stream: S,
    gathered: Vec<u8>,
    /// How much of it is written.
    written: usize,
}

impl<S> Corked<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, gathered: Vec::new(), written: 0 }
    }
}

impl<S: AsyncWrite + Unpin> Corked<S> {
    /// Writes all that gathered.
    fn poll_drain(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.gathered.len() {
            let count = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.gathered[self.written..]))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += count;
        }
        self.gathered = Vec::new();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    /// Makes room for at least one byte.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.gathered.len() >= GATHERED {
            ready!(self.poll_drain(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    fn gather(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(GATHERED.saturating_sub(self.gathered.len()));
        // Small answers should not cost a large buffer.
        if self.gathered.capacity() < self.gathered.len() + count && self.gathered.len() + count > GATHERED / 8 {
            self.gathered.reserve_exact(GATHERED - self.gathered.len());
        }
        self.gathered.extend_from_slice(&bytes[..count]);
        count
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Corked<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Corked<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_room(cx))?;
        Poll::Ready(Ok(this.gather(bytes)))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_room(cx))?;
        Poll::Ready(Ok(pieces.iter().map(|piece| this.gather(piece)).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(cx))?;
        Pin::new(&mut this.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn nothing_is_lost_or_reordered() {
        // (bytes of each write, writes, whether each is flushed)
        for (size, count, flushed) in [(1, 10, true), (1, 10, false), (16 * 1024, 40, false), (300 * 1024, 3, true)] {
            let (ours, mut theirs) = duplex(1000);
            let reader = tokio::spawn(async move {
                let mut all = Vec::new();
                theirs.read_to_end(&mut all).await.unwrap();
                all
            });
            let mut ours = Corked::new(ours);
            let mut want = Vec::new();
            for n in 0..count {
                let piece: Vec<u8> = (0..size).map(|i| (i + n * 7) as u8).collect();
                ours.write_all(&piece).await.unwrap();
                if flushed {
                    ours.flush().await.unwrap();
                    assert_eq!(ours.gathered.capacity(), 0);
                }
                assert!(ours.gathered.len() <= GATHERED);
                want.extend(piece);
            }
            ours.shutdown().await.unwrap();
            drop(ours);
            assert!(reader.await.unwrap() == want);
        }
    }

    #[tokio::test]
    async fn waits_when_the_peer_does_not_read() {
        let (ours, _theirs) = duplex(10);
        let mut ours = Corked::new(ours);
        let mut taken = 0;
        let all = vec![0; 2 * GATHERED];
        let stuck = futures::future::poll_fn(|cx| {
            loop {
                match Pin::new(&mut ours).poll_write(cx, &all[taken..]) {
                    Poll::Ready(count) => taken += count.unwrap(),
                    Poll::Pending => return Poll::Ready(taken),
                }
            }
        });
        assert_eq!(stuck.await, GATHERED);
    }
}
