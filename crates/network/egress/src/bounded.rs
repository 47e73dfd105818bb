//! The transport to a gRPC server that must not be trusted. gRPC's frames are handled by a task of the library without a
//! limit, so the transport is read in turns with other tasks, and slowly while it brings nothing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The bytes after which other tasks have their turn. Reads count as [`READ`] bytes at least.
const TURN: usize = 32 << 10;
const READ: usize = 512;
/// The most bytes that are read ahead of what they bring.
const MOST: i64 = 1 << 20;
/// The further bytes that each piece and each byte of data allow, and the written bytes that allow one more: the server
/// acknowledges them.
const FOR_PIECE: i64 = 512;
const FOR_BYTE: i64 = 64;
const WRITTEN: usize = 4;
/// The pace of a transport that has no bytes left.
const PAUSE: Duration = Duration::from_millis(50);
const PER_PAUSE: i64 = 8 << 10;

/// The bytes that may still be read at once.
#[derive(Clone)]
pub(crate) struct Allowance(Arc<AtomicI64>);

impl Allowance {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicI64::new(MOST)))
    }

    /// Data of this size has arrived.
    pub(crate) fn delivered(&self, bytes: usize) {
        self.add(i64::try_from(bytes).unwrap_or(MOST).saturating_mul(FOR_BYTE).saturating_add(FOR_PIECE));
    }

    fn add(&self, bytes: i64) {
        let more = |left: i64| Some(left.saturating_add(bytes).min(MOST));
        // The update never fails.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }
}

/// A transport with an allowance.
pub(crate) struct Bounded<S> {
    stream: S,
    allowance: Allowance,
    /// The bytes that were read since other tasks had their turn.
    in_turn: usize,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S> Bounded<S> {
    pub(crate) fn new(stream: S, allowance: Allowance) -> Self {
        Self { stream, allowance, in_turn: 0, pause: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Bounded<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.in_turn >= TURN {
            this.in_turn = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        while this.allowance.0.load(Ordering::Relaxed) <= 0 {
            let pause = this.pause.get_or_insert_with(|| Box::pin(sleep(PAUSE)));
            ready!(pause.as_mut().poll(cx));
            this.pause = None;
            this.allowance.add(PER_PAUSE);
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        let read = buf.filled().len() - before;
        this.in_turn = if polled.is_pending() { 0 } else { this.in_turn + read.max(READ) };
        this.allowance.add(-i64::try_from(read).unwrap_or(MOST));
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Bounded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(written)) = polled {
            self.allowance.add(i64::try_from(written / WRITTEN).unwrap_or(MOST));
        }
        polled
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
    use tokio::time::Instant;

    use super::*;

    /// Returns the bytes that are read in one second of a flood, with so many bytes of data in each piece.
    async fn read_in_a_second(data: usize) -> i64 {
        let (near, mut far) = duplex(64 << 10);
        let flood = tokio::spawn(async move { while far.write_all(&[0; 8 << 10]).await.is_ok() {} });
        let allowance = Allowance::new();
        let mut near = Bounded::new(near, allowance.clone());
        let (began, mut read, mut piece) = (Instant::now(), 0, vec![0; 8 << 10]);
        while began.elapsed() < Duration::from_secs(1) && read < 16 * MOST {
            read += near.read(&mut piece).await.expect("no end") as i64;
            if data > 0 {
                allowance.delivered(data);
            }
        }
        flood.abort();
        read
    }

    #[tokio::test(start_paused = true)]
    async fn what_brings_nothing_is_read_slowly() {
        let slow = read_in_a_second(0).await;
        assert!((MOST..2 * MOST).contains(&slow), "{slow}");
        assert!(read_in_a_second(8 << 10).await >= 16 * MOST);
    }

    #[tokio::test]
    async fn others_have_their_turn() {
        let (near, mut far) = duplex(1 << 20);
        far.write_all(&vec![0; 1 << 20]).await.expect("room");
        let mut near = Bounded::new(near, Allowance::new());
        let mut turns = 0;
        let mut piece = vec![0; 1 << 10];
        let mut left = 1 << 20;
        while left > 0 {
            let mut buf = ReadBuf::new(&mut piece);
            match poll_once(&mut near, &mut buf).await {
                true => left -= buf.filled().len(),
                false => {
                    turns += 1;
                    tokio::task::yield_now().await;
                }
            }
        }
        assert!((31..=32).contains(&turns), "{turns}");
    }

    /// Polls once; returns true if something was read.
    async fn poll_once(near: &mut Bounded<tokio::io::DuplexStream>, buf: &mut ReadBuf<'_>) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut *near).poll_read(cx, buf).is_ready())).await
    }
}
