//! Connections to untrusted servers. They are read in turns with other tasks, and only as far as their bytes belong to
//! a response.
//!
//! HTTP allows bytes without payload: digits and extensions of chunk sizes, informational responses, HTTP/2 control
//! frames, empty TLS records. The HTTP library reads them one by one and without a limit, so they are counted here,
//! below TLS. The limits are those of Go's client where it has one, and higher otherwise.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use binnacle_egress::paced::{
    Allowance, CREDIT_PER_BYTE, CREDIT_PER_PAUSE, CREDIT_PER_PIECE, PacedStream, WRITTEN_PER_CREDIT,
};
use http::Request;

use crate::limits::MAX_HEAD_BYTES;

/// The maximum number of bytes before the head of a response: the head itself, and a TLS handshake.
const MAX_BEFORE_HEAD: u64 = (MAX_HEAD_BYTES + (128 << 10)) as u64;
/// The maximum number of bytes besides the data of a body. Go's client allows 16 KiB.
const MAX_OVERHEAD: u64 = 256 << 10;
/// The maximum number of informational responses before the final one.
const MAX_INFORMATIONAL: u32 = 1000;

/// A connection whose bytes are counted.
pub type MeteredStream<S> = PacedStream<S, Meter>;

/// Counts the bytes of one connection. Clones share the counts.
#[derive(Clone, Debug)]
pub struct Meter(Arc<ByteCounts>);

#[derive(Debug)]
struct ByteCounts {
    read: AtomicU64,
    /// The number of bytes that may be read in total.
    allowed: AtomicU64,
    informational: AtomicU32,
    is_in_body: AtomicBool,
    /// True for HTTP/2, where requests share the connection.
    is_shared: AtomicBool,
}

impl Default for Meter {
    fn default() -> Self {
        Self(Arc::new(ByteCounts {
            read: AtomicU64::new(0),
            allowed: AtomicU64::new(MAX_BEFORE_HEAD),
            informational: AtomicU32::new(0),
            is_in_body: AtomicBool::new(false),
            is_shared: AtomicBool::new(false),
        }))
    }
}

impl Meter {
    /// Returns a meter without limits, for a connection that is only read in turns.
    pub fn unlimited() -> Self {
        let meter = Self::default();
        meter.upgraded();
        meter
    }

    /// Marks the connection as shared by several requests.
    pub fn share(&self) {
        self.0.is_shared.store(true, Ordering::Relaxed);
    }

    /// Notes that the head of a message follows.
    pub fn expect_head(&self) {
        self.0.is_in_body.store(false, Ordering::Relaxed);
        self.0.informational.store(0, Ordering::Relaxed);
        self.allow(MAX_BEFORE_HEAD);
    }

    /// Notes that the head of a message has arrived.
    pub fn expect_body(&self) {
        self.0.is_in_body.store(true, Ordering::Relaxed);
        self.allow(MAX_OVERHEAD);
    }

    /// Notes that body data has arrived.
    pub fn delivered(&self, bytes: usize) {
        self.0.allowed.fetch_add(CREDIT_PER_PIECE + CREDIT_PER_BYTE * bytes as u64, Ordering::Relaxed);
    }

    /// Lifts the limits after an upgrade to another protocol.
    pub fn upgraded(&self) {
        self.0.allowed.store(u64::MAX / 2, Ordering::Relaxed);
    }

    /// Counts the informational responses to a request.
    pub(crate) fn watch<B>(&self, request: &mut Request<B>) {
        let counts = self.0.clone();
        hyper::ext::on_informational(request, move |_| {
            counts.informational.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Returns the number of bytes that were read.
    pub fn read(&self) -> u64 {
        self.0.read.load(Ordering::Relaxed)
    }

    /// Allows this many bytes beyond those already read. On a shared connection, the limit is never lowered.
    fn allow(&self, bytes: u64) {
        let allowed = self.read().saturating_add(bytes);
        if self.is_shared() {
            self.0.allowed.fetch_max(allowed, Ordering::Relaxed);
        } else {
            self.0.allowed.store(allowed, Ordering::Relaxed);
        }
    }

    fn is_exhausted(&self) -> bool {
        self.read() >= self.0.allowed.load(Ordering::Relaxed)
            || self.0.informational.load(Ordering::Relaxed) > MAX_INFORMATIONAL
    }

    fn is_shared(&self) -> bool {
        self.0.is_shared.load(Ordering::Relaxed)
    }

    /// Returns the error of a connection beyond its limits, with the message of Go's client.
    fn error(&self) -> io::Error {
        let text = match self.0.is_in_body.load(Ordering::Relaxed) {
            true => "chunked encoding contains too much non-data".to_owned(),
            false => format!("net/http: server response headers exceeded {MAX_HEAD_BYTES} bytes; aborted"),
        };
        io::Error::new(io::ErrorKind::InvalidData, text)
    }
}

impl Allowance for Meter {
    /// Returns an error for a connection of its own. A shared connection is only paused, because it may become useful
    /// again.
    fn is_exceeded(&self) -> io::Result<bool> {
        match self.is_exhausted() {
            true if !self.is_shared() => Err(self.error()),
            beyond => Ok(beyond),
        }
    }

    fn after_pause(&self) {
        self.allow(CREDIT_PER_PAUSE);
    }

    fn note_read(&self, bytes: usize) {
        self.0.read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn note_written(&self, bytes: usize) {
        if self.is_shared() {
            self.0.allowed.fetch_add(bytes as u64 / WRITTEN_PER_CREDIT, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use binnacle_egress::paced::{SLICE, TURN};
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

    use super::*;

    /// A server that never stops sending.
    struct Endless;

    impl AsyncRead for Endless {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let room = buf.remaining();
            buf.initialize_unfilled().fill(b'0');
            buf.advance(room);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Endless {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Reads until the connection ends. Returns the maximum number of bytes read in one poll, and the error.
    async fn read_on(stream: &mut MeteredStream<Endless>) -> (usize, String) {
        let mut buffer = vec![0; 1 << 20];
        let mut most = 0;
        let error = poll_fn(|cx| {
            let mut in_poll = 0;
            loop {
                let mut part = ReadBuf::new(&mut buffer);
                match Pin::new(&mut *stream).poll_read(cx, &mut part) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => return Poll::Ready(error),
                    Poll::Ready(Ok(())) => in_poll += part.filled().len(),
                }
                most = most.max(in_poll);
            }
        });
        let error = error.await.to_string();
        (most, error)
    }

    #[tokio::test]
    async fn closes_connections_that_send_too_much_overhead() {
        let meter = Meter::default();
        let mut stream = MeteredStream::new(Endless, meter.clone());
        let head = "net/http: server response headers exceeded 1048576 bytes; aborted";
        assert_eq!(read_on(&mut stream).await, (TURN, head.to_owned()));
        assert_eq!(meter.read(), MAX_BEFORE_HEAD);
        meter.expect_body();
        let body = "chunked encoding contains too much non-data";
        assert_eq!(read_on(&mut stream).await, (TURN, body.to_owned()));
        assert_eq!(meter.read(), MAX_BEFORE_HEAD + MAX_OVERHEAD);
        // Data extends the allowance.
        meter.delivered(1000);
        read_on(&mut stream).await;
        let more = meter.read() - MAX_BEFORE_HEAD - MAX_OVERHEAD;
        assert!(
            (CREDIT_PER_PIECE + 1000 * CREDIT_PER_BYTE..=CREDIT_PER_PIECE + 1000 * CREDIT_PER_BYTE + SLICE as u64)
                .contains(&more),
            "{more}"
        );
        meter.expect_head();
        assert_eq!(read_on(&mut stream).await.1, head);
        meter.upgraded();
        stream.read_exact(&mut vec![0; 8 << 20]).await.expect("no limit");
    }

    #[tokio::test(start_paused = true)]
    async fn throttles_shared_connections_beyond_the_limit() {
        let meter = Meter::default();
        meter.share();
        let mut stream = MeteredStream::new(Endless, meter.clone());
        let mut buffer = vec![0; 4096];
        let second = tokio::time::sleep(Duration::from_secs(1));
        tokio::pin!(second);
        loop {
            tokio::select! {
                biased;
                () = &mut second => break,
                read = stream.read(&mut buffer) => assert_eq!(read.expect("no error"), 4096),
            }
        }
        let most = MAX_BEFORE_HEAD + 20 * (CREDIT_PER_PAUSE + 4096);
        assert!((MAX_BEFORE_HEAD..most).contains(&meter.read()), "{}", meter.read());
    }

    #[test]
    fn limits_informational_responses() {
        let meter = Meter::default();
        meter.0.informational.store(MAX_INFORMATIONAL, Ordering::Relaxed);
        assert!(!meter.is_exhausted());
        meter.0.informational.store(MAX_INFORMATIONAL + 1, Ordering::Relaxed);
        assert!(meter.is_exhausted());
        meter.expect_head();
        assert!(!meter.is_exhausted());
    }
}
