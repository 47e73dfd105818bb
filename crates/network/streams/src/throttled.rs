//! A connection with a rate limit (`--max-connection-bytes-per-sec`).

use std::io;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// The bytes for this duration may be transferred at once, so that the rate is steady.
const STEP: Duration = Duration::from_millis(50);

/// A stream that is rate-limited in each direction.
pub(crate) struct ThrottledStream<S> {
    stream: S,
    reads: Pace,
    writes: Pace,
}

impl<S> ThrottledStream<S> {
    pub(crate) fn new(stream: S, bytes_per_second: NonZeroU64) -> Self {
        Self { stream, reads: Pace::new(bytes_per_second), writes: Pace::new(bytes_per_second) }
    }
}

/// The rate limit of one direction.
struct Pace {
    bytes_per_second: NonZeroU64,
    free: Instant,
    /// The timer until `free`.
    wait: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    fn new(bytes_per_second: NonZeroU64) -> Self {
        Self { bytes_per_second, free: Instant::now(), wait: None }
    }

    /// Waits until `free`. Returns the number of bytes that may be transferred.
    fn poll_allowance(&mut self, cx: &mut Context<'_>) -> Poll<usize> {
        if self.free > Instant::now() {
            let free = self.free;
            let wait = self.wait.get_or_insert_with(|| Box::pin(sleep_until(free)));
            ready!(wait.as_mut().poll(cx));
        }
        self.wait = None;
        let step = u64::try_from(STEP.as_millis()).unwrap_or(u64::MAX);
        let bytes = self.bytes_per_second.get().saturating_mul(step) / 1000;
        Poll::Ready(usize::try_from(bytes).unwrap_or(usize::MAX).max(1))
    }

    fn moved(&mut self, bytes: usize) {
        let nanos = (bytes as u128 * 1_000_000_000) / u128::from(self.bytes_per_second.get());
        let cost = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let from = self.free.max(Instant::now());
        self.free = from.checked_add(cost).unwrap_or(from);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ThrottledStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let allowance = ready!(this.reads.poll_allowance(cx)).min(buf.remaining());
        let mut part = ReadBuf::new(buf.initialize_unfilled_to(allowance));
        ready!(Pin::new(&mut this.stream).poll_read(cx, &mut part))?;
        let read = part.filled().len();
        buf.advance(read);
        this.reads.moved(read);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ThrottledStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let allowance = ready!(this.writes.poll_allowance(cx)).min(buf.len());
        let written = ready!(Pin::new(&mut this.stream).poll_write(cx, &buf[..allowance]))?;
        this.writes.moved(written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn throttles_each_direction_separately() {
        let (near, mut far) = duplex(1 << 20);
        let mut near = ThrottledStream::new(near, NonZeroU64::new(1000).unwrap());
        let begun = Instant::now();
        near.write_all(&[7; 2000]).await.unwrap();
        let took = begun.elapsed();
        assert!((Duration::from_millis(1900)..Duration::from_millis(2100)).contains(&took), "{took:?}");
        let mut got = [0; 2000];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!(got, [7; 2000]);
        far.write_all(&[8; 500]).await.unwrap();
        let begun = Instant::now();
        near.read_exact(&mut got[..500]).await.unwrap();
        let took = begun.elapsed();
        assert!((Duration::from_millis(400)..Duration::from_millis(600)).contains(&took), "{took:?}");
    }
}
