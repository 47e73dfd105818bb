//! Few large writes instead of many small ones. HTTP/2 writes frames of at most 16 KiB, and TLS writes each record as
//! soon as it is sealed, with one system call per record. Here the socket appears blocked to TLS until the layer above
//! flushes, which it does when it has no more data, or until enough bytes are buffered. The sealed records remain in
//! TLS and are sent by one vectored write, without another copy.
//!
//! HTTP/2 also flushes after every frame above some size, when it has already prepared the next one, and again when it
//! has no more. So its flushes only take effect if no write precedes them ([`FlushMode::WhenIdle`]).

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use crate::coalesce::PollCoalescer;

/// The number of buffered bytes that are written without a flush.
const WRITE_THRESHOLD: usize = 64 * 1024;
/// The limit on bytes in TLS records that the socket has not accepted.
const MAX_BUFFERED: usize = 96 * 1024;

/// The stream below TLS, which accepts no bytes while the gate is closed. It is initially open, for the handshake.
pub(crate) struct Gate<S> {
    /// `None` while the stream moves from one runtime to another.
    stream: Option<S>,
    is_closed: bool,
}

/// The stream above TLS, which opens and closes the gate.
pub(crate) struct CorkedStream<S> {
    /// Boxed because it is large and moved several times.
    tls: Box<TlsStream<Gate<S>>>,
    /// Bytes that were read ahead and are returned first.
    read_ahead: Bytes,
    /// Bytes written since the gate was last open.
    buffered_bytes: usize,
    flush_mode: FlushMode,
    /// True if bytes were written since the last flush.
    written: bool,
    pending_flush: PendingFlush,
}

/// Selects the flushes that take effect.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlushMode {
    All,
    WhenIdle,
}

/// A shared record of a deferred flush.
#[derive(Clone, Default)]
pub(crate) struct PendingFlush(Arc<FlushState>);

#[derive(Default)]
struct FlushState {
    deferred: AtomicBool,
    /// The writer became idle after the flush was deferred.
    due: AtomicBool,
}

impl PendingFlush {
    /// Polls a writer of the stream. If it becomes idle with a deferred flush, it is polled again immediately and
    /// flushes when it reads, so no bytes remain buffered. While `shared` returns true, the writer is polled after
    /// other tasks, which may produce more data.
    pub(crate) async fn watch<F: Future>(&self, mut writer: Pin<&mut F>, shared: impl Fn() -> bool) -> F::Output {
        let mut coalescer = PollCoalescer::new();
        poll_fn(|cx| {
            coalescer.poll(cx, shared(), |cx| {
                let mut polled = writer.as_mut().poll(cx);
                if polled.is_pending() && self.is_due() {
                    polled = writer.as_mut().poll(cx);
                    // Other tasks may have produced more in the meantime; a poll does not serve them indefinitely.
                    if polled.is_pending() && self.is_due() {
                        cx.waker().wake_by_ref();
                    }
                }
                polled
            })
        })
        .await
    }

    /// Returns true if a flush was deferred, which the next read performs.
    fn is_due(&self) -> bool {
        let deferred = self.0.deferred.swap(false, Ordering::Relaxed);
        if deferred {
            self.0.due.store(true, Ordering::Relaxed);
        }
        deferred
    }
}

impl<S> Gate<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream: Some(stream), is_closed: false }
    }

    pub(crate) fn take(&mut self) -> Option<S> {
        self.stream.take()
    }

    pub(crate) fn put(&mut self, stream: S) {
        self.stream = Some(stream);
    }

    fn pinned(&mut self) -> io::Result<Pin<&mut S>>
    where
        S: Unpin,
    {
        self.stream.as_mut().map(Pin::new).ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gate<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.get_mut().pinned()?.poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gate<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        // Opening the gate wakes no task, because the task that opens it writes immediately.
        if this.is_closed { Poll::Pending } else { this.pinned()?.poll_write(cx, bytes) }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.is_closed { Poll::Pending } else { this.pinned()?.poll_write_vectored(cx, pieces) }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().pinned()?.poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().pinned()?.poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> CorkedStream<S> {
    pub(crate) fn new(mut tls: Box<TlsStream<Gate<S>>>, flush_mode: FlushMode, read_ahead: Bytes) -> Self {
        tls.get_mut().1.set_buffer_limit(Some(MAX_BUFFERED));
        Self { tls, read_ahead, buffered_bytes: 0, flush_mode, written: false, pending_flush: PendingFlush::default() }
    }

    pub(crate) fn pending_flush(&self) -> PendingFlush {
        self.pending_flush.clone()
    }

    /// Opens or closes the gate and returns the stream.
    fn gate(&mut self, is_closed: bool) -> Pin<&mut TlsStream<Gate<S>>> {
        self.tls.get_mut().0.is_closed = is_closed;
        Pin::new(&mut *self.tls)
    }

    fn poll_corked_write(
        &mut self,
        mut write: impl FnMut(Pin<&mut TlsStream<Gate<S>>>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.written = true;
        if self.buffered_bytes < WRITE_THRESHOLD
            && let Poll::Ready(accepted) = write(self.gate(true))
        {
            self.buffered_bytes += *accepted.as_ref().unwrap_or(&0);
            return Poll::Ready(accepted);
        }
        // Enough bytes are buffered, or as many as TLS can hold.
        self.buffered_bytes = 0;
        write(self.gate(false))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for CorkedStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.read_ahead.is_empty() {
            let count = this.read_ahead.len().min(buffer.remaining());
            buffer.put_slice(&this.read_ahead.split_to(count));
            return Poll::Ready(Ok(()));
        }
        if this.pending_flush.0.due.swap(false, Ordering::Relaxed)
            && let Poll::Ready(Err(error)) = this.gate(false).poll_flush(cx)
        {
            return Poll::Ready(Err(error));
        }
        // Reading writes only alerts, which cannot wait.
        this.gate(false).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for CorkedStream<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll_corked_write(|tls| tls.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll_corked_write(|tls| tls.poll_write_vectored(cx, pieces))
    }

    fn is_write_vectored(&self) -> bool {
        self.tls.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if std::mem::take(&mut this.written) && this.flush_mode == FlushMode::WhenIdle {
            this.pending_flush.0.deferred.store(true, Ordering::Relaxed);
            return Poll::Ready(Ok(()));
        }
        this.pending_flush.0.deferred.store(false, Ordering::Relaxed);
        ready!(this.gate(false).poll_flush(cx))?;
        this.buffered_bytes = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().gate(false).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::{ClientConfig, RootCertStore, ServerConfig};
    use rustls_pki_types::{PrivateKeyDer, ServerName};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio_rustls::{TlsAcceptor, TlsConnector, client};

    use super::*;

    /// Returns both ends of a connection after the handshake, with the given buffer size.
    async fn connected_pair(
        room: usize,
        flush_mode: FlushMode,
    ) -> (CorkedStream<DuplexStream>, client::TlsStream<DuplexStream>) {
        let own = rcgen::generate_simple_self_signed(["server".to_owned()]).unwrap();
        let certificate = own.cert.der().clone();
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let provider = Arc::new(binnacle_crypto::tls::provider());
        let client = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
        let client = client.unwrap().with_root_certificates(roots).with_no_client_auth();
        let server = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let server = server.with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        let (ours, theirs) = duplex(room);
        let name = ServerName::try_from("server").unwrap();
        let (ours, theirs) = tokio::join!(
            TlsAcceptor::from(Arc::new(server)).accept(Gate::new(ours)),
            TlsConnector::from(Arc::new(client)).connect(name, theirs)
        );
        (CorkedStream::new(Box::new(ours.unwrap()), flush_mode, Bytes::new()), theirs.unwrap())
    }

    #[tokio::test]
    async fn writes_arrive_complete_and_in_order() {
        // (bytes per write, number of writes, whether each write is flushed)
        for (size, count, flushed) in [
            (1, 10, true),
            (1, 10, false),
            // More records than a system call accepts.
            (1, 3000, false),
            (16 * 1024, 40, false),
            (300 * 1024, 3, true),
        ] {
            let (mut ours, mut theirs) = connected_pair(1000, FlushMode::All).await;
            let reader = tokio::spawn(async move {
                let mut all = Vec::new();
                theirs.read_to_end(&mut all).await.unwrap();
                all
            });
            let mut want = Vec::new();
            for n in 0..count {
                let piece: Vec<u8> = (0..size).map(|i| (i + n * 7) as u8).collect();
                ours.write_all(&piece).await.unwrap();
                if flushed {
                    ours.flush().await.unwrap();
                    assert!(!ours.tls.get_ref().1.wants_write());
                }
                want.extend(piece);
            }
            ours.shutdown().await.unwrap();
            drop(ours);
            assert!(reader.await.unwrap() == want);
        }
    }

    #[tokio::test]
    async fn only_small_writes_wait_for_a_flush() {
        let (mut ours, mut theirs) = connected_pair(1 << 20, FlushMode::All).await;
        ours.write_all(&[1; 1000]).await.unwrap();
        assert!(ours.tls.get_ref().1.wants_write());
        ours.flush().await.unwrap();
        ours.write_all(&[2; 2 * WRITE_THRESHOLD]).await.unwrap();
        let mut read = vec![0; 1000 + WRITE_THRESHOLD];
        theirs.read_exact(&mut read).await.unwrap();
        assert!(read[..1000].iter().all(|byte| *byte == 1) && read[1000..].iter().all(|byte| *byte == 2));
    }

    #[tokio::test]
    async fn defers_flushes_between_writes() {
        let (mut ours, mut theirs) = connected_pair(1 << 20, FlushMode::WhenIdle).await;
        let pending_flush = ours.pending_flush();
        for flush_mode in 1..4 {
            ours.write_all(&[1; 1000]).await.unwrap();
            ours.flush().await.unwrap();
            assert!(ours.tls.get_ref().1.wants_write(), "{flush_mode}");
        }
        assert!(pending_flush.0.deferred.load(Ordering::Relaxed));
        ours.flush().await.unwrap();
        assert!(!ours.tls.get_ref().1.wants_write() && !pending_flush.0.deferred.load(Ordering::Relaxed));
        theirs.read_exact(&mut [0; 3000]).await.unwrap();
    }

    #[tokio::test]
    async fn polls_idle_writers_with_a_deferred_flush_again() {
        // A writer that flushes at every poll, and one that flushes once and then reads.
        for flush_mode in [true, false] {
            let (mut ours, mut theirs) = connected_pair(1 << 20, FlushMode::WhenIdle).await;
            let pending_flush = ours.pending_flush();
            let mut polls = 0;
            let mut writer = Box::pin(poll_fn(|cx| {
                polls += 1;
                if polls == 1 {
                    assert!(Pin::new(&mut ours).poll_write(cx, b"something").is_ready());
                }
                if polls == 1 || flush_mode {
                    assert!(Pin::new(&mut ours).poll_flush(cx).is_ready());
                } else {
                    assert!(Pin::new(&mut ours).poll_read(cx, &mut ReadBuf::new(&mut [0; 9])).is_pending());
                }
                Poll::<()>::Pending
            }));
            let mut read = [0; 9];
            tokio::select! {
                () = pending_flush.watch(writer.as_mut(), || true) => unreachable!(),
                read = theirs.read_exact(&mut read) => read.map(|_| ()).unwrap(),
            }
            drop(writer);
            assert_eq!(&read, b"something");
            assert!(polls > 1);
        }
    }

    #[tokio::test]
    async fn blocks_when_the_peer_does_not_read() {
        let (mut ours, _theirs) = connected_pair(2000, FlushMode::All).await;
        let mut accepted = 0;
        let all = vec![0; 4 * MAX_BUFFERED];
        let stuck = poll_fn(|cx| {
            loop {
                match Pin::new(&mut ours).poll_write(cx, &all[accepted..]) {
                    Poll::Ready(count) => accepted += count.unwrap(),
                    Poll::Pending => return Poll::Ready(accepted),
                }
            }
        });
        let accepted = stuck.await;
        assert!((MAX_BUFFERED - 20_000..MAX_BUFFERED + 20_000).contains(&accepted), "{accepted}");
    }
}
