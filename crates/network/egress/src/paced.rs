//! Connections to untrusted peers. They are read in turns with other tasks, and only as far as the received payload
//! allows. Libraries handle frames, heads and chunk sizes one by one and without a limit, so the bytes are counted
//! below them.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The maximum number of bytes that are read at once into a large buffer.
pub const SLICE: usize = 16 << 10;
/// The number of bytes after which other tasks get a turn. A read counts as at least [`MIN_READ`] bytes.
pub const TURN: usize = 32 << 10;
const MIN_READ: usize = 512;

/// The credit for each chunk of payload and for each of its bytes. A TLS record per byte adds 22 bytes, and a chunk of
/// one byte may arrive in three records.
pub const CREDIT_PER_PIECE: u64 = 512;
pub const CREDIT_PER_BYTE: u64 = 64;
/// The number of written bytes that give credit for one byte, where the peer acknowledges data. Pings of this server
/// are written bytes too, and must not pay for the peer's pings.
pub const WRITTEN_PER_CREDIT: u64 = 4;

/// The pause and the credit after each pause, for a connection beyond its limits that may become useful again.
const PAUSE: Duration = Duration::from_millis(50);
pub const CREDIT_PER_PAUSE: u64 = 8 << 10;

/// The credit of a connection: the number of bytes that may be read. Clones share it.
pub trait Allowance {
    /// The number of bytes after which other tasks get a turn.
    const TURN: usize = TURN;

    /// Returns true if nothing may be read before the next pause.
    ///
    /// # Errors
    /// Fails if the connection must be closed instead of paused.
    fn is_exceeded(&self) -> io::Result<bool>;

    /// Adds bytes after a pause, such as [`CREDIT_PER_PAUSE`].
    fn after_pause(&self);

    fn note_read(&self, bytes: usize);

    fn note_written(&self, bytes: usize);
}

/// A connection that is read in turns and within its allowance.
pub struct PacedStream<S, A> {
    stream: S,
    allowance: A,
    /// The number of bytes read in the current turn.
    read_in_turn: usize,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S, A: Allowance> PacedStream<S, A> {
    pub fn new(stream: S, allowance: A) -> Self {
        Self { stream, allowance, read_in_turn: 0, pause: None }
    }

    /// Becomes ready when more may be read.
    fn poll_allowed(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.allowance.is_exceeded()? {
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(PAUSE)));
            ready!(pause.as_mut().poll(cx));
            self.pause = None;
            self.allowance.after_pause();
        }
        Poll::Ready(Ok(()))
    }

    fn note_written(&self, polled: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(written)) = polled {
            self.allowance.note_written(*written);
        }
    }
}

impl<S: AsyncRead + Unpin, A: Allowance + Unpin> AsyncRead for PacedStream<S, A> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.read_in_turn >= A::TURN {
            this.read_in_turn = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(this.poll_allowed(cx))?;
        let before = buf.filled().len();
        // Part of a buffer must be zeroed first, which only pays off for large buffers.
        let slice = SLICE.min(A::TURN);
        let polled = if buf.remaining() <= 2 * slice {
            Pin::new(&mut this.stream).poll_read(cx, buf)
        } else {
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(slice));
            let polled = Pin::new(&mut this.stream).poll_read(cx, &mut part);
            let read = part.filled().len();
            buf.advance(read);
            polled
        };
        if polled.is_pending() {
            this.read_in_turn = 0;
            return Poll::Pending;
        }
        let read = buf.filled().len() - before;
        this.read_in_turn += read.max(MIN_READ);
        this.allowance.note_read(read);
        polled
    }
}

impl<S: AsyncWrite + Unpin, A: Allowance + Unpin> AsyncWrite for PacedStream<S, A> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note_written(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.note_written(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
