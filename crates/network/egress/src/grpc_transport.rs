//! The transport to an untrusted gRPC server: a konnectivity proxy, a plugin, a collector of traces. The library handles
//! HTTP/2 and gRPC frames in a task of its own and without a limit, so the transport is throttled while no payload
//! arrives.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crate::paced::{self, CREDIT_PER_BYTE, CREDIT_PER_PIECE, PacedStream, WRITTEN_PER_CREDIT};

/// The maximum number of bytes that may be read ahead of the payload. A larger message arrives slowly.
const MAX_CREDIT: i64 = 1 << 20;
/// The credit of a new connection. A server may close its connections to get new ones.
const FIRST_CREDIT: i64 = 256 << 10;
/// The credit after each pause: about as many pings per second as this server accepts from its own clients.
const CREDIT_PER_PAUSE: u64 = 1 << 10;

/// The number of bytes that may still be read without a pause.
#[derive(Clone)]
pub struct GrpcAllowance(Arc<AtomicI64>);

/// A throttled transport.
pub type GrpcTransport<S> = PacedStream<S, GrpcAllowance>;

impl Default for GrpcAllowance {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(FIRST_CREDIT)))
    }
}

impl GrpcAllowance {
    /// Notes that a new connection replaces the previous one.
    pub fn reconnected(&self) {
        self.0.store(FIRST_CREDIT, Ordering::Relaxed);
    }

    /// Adds credit for payload of this size.
    pub fn delivered(&self, bytes: usize) {
        self.add((bytes as u64).saturating_mul(CREDIT_PER_BYTE).saturating_add(CREDIT_PER_PIECE));
    }

    fn add(&self, bytes: u64) {
        self.change(i64::try_from(bytes).unwrap_or(MAX_CREDIT));
    }

    fn change(&self, bytes: i64) {
        let more = |left: i64| Some(left.saturating_add(bytes).min(MAX_CREDIT));
        // The closure never returns `None`, so the update succeeds.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    }
}

impl paced::Allowance for GrpcAllowance {
    /// A frame may have nine bytes, and takes a microsecond.
    const TURN: usize = 4 << 10;

    fn is_exceeded(&self) -> io::Result<bool> {
        Ok(self.0.load(Ordering::Relaxed) <= 0)
    }

    fn after_pause(&self) {
        self.add(CREDIT_PER_PAUSE);
    }

    fn note_read(&self, bytes: usize) {
        self.change(-i64::try_from(bytes).unwrap_or(MAX_CREDIT));
    }

    fn note_written(&self, bytes: usize) {
        self.add(bytes as u64 / WRITTEN_PER_CREDIT);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::Poll;
    use std::time::Duration;

    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf, duplex};
    use tokio::time::Instant;

    use super::*;

    /// Returns the number of bytes read in one second of a flood, with `data` bytes of payload per chunk.
    async fn read_in_a_second(data: usize) -> i64 {
        let (near, mut far) = duplex(64 << 10);
        let flood = tokio::spawn(async move { while far.write_all(&[0; 8 << 10]).await.is_ok() {} });
        let allowance = GrpcAllowance::default();
        let mut near = GrpcTransport::new(near, allowance.clone());
        let (began, mut read, mut piece) = (Instant::now(), 0, vec![0; 8 << 10]);
        while began.elapsed() < Duration::from_secs(1) && read < 16 * MAX_CREDIT {
            read += near.read(&mut piece).await.expect("no end") as i64;
            if data > 0 {
                allowance.delivered(data);
            }
        }
        flood.abort();
        read
    }

    #[tokio::test(start_paused = true)]
    async fn throttles_reads_without_data() {
        let slow = read_in_a_second(0).await;
        assert!((FIRST_CREDIT..FIRST_CREDIT + (64 << 10)).contains(&slow), "{slow}");
        assert!(read_in_a_second(8 << 10).await >= 16 * MAX_CREDIT);
    }

    #[tokio::test]
    async fn yields_to_other_tasks_after_a_turn() {
        let (near, mut far) = duplex(128 << 10);
        far.write_all(&vec![0; 128 << 10]).await.expect("room");
        let mut near = GrpcTransport::new(near, GrpcAllowance::default());
        let mut turns = 0;
        let mut piece = vec![0; 1 << 10];
        let mut left = 128 << 10;
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

    /// Polls once. Returns true if something was read.
    async fn poll_once(near: &mut GrpcTransport<tokio::io::DuplexStream>, buf: &mut ReadBuf<'_>) -> bool {
        std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut *near).poll_read(cx, buf).is_ready())).await
    }
}
