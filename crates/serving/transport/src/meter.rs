//! Measurement of the bytes of a connection: whether the client reads its responses, and the HTTP/2 control frames that
//! it sends.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connections::{Connection, Slot};
use crate::frame_meter::{Flood, FrameMeter};

/// A stream that holds the slot of its connection and reports its traffic to it.
pub(crate) struct ConnectionMeter<S> {
    stream: S,
    slot: Slot,
    frames: Option<FrameMeter>,
    /// Copies of the connection's state, so that only changes are reported.
    has_unflushed: bool,
    is_stalled: bool,
}

impl<S> ConnectionMeter<S> {
    pub(crate) fn new(stream: S, slot: Slot, frames: Option<FrameMeter>) -> Self {
        Self { stream, slot, frames, has_unflushed: false, is_stalled: false }
    }

    fn connection(&self) -> &Arc<Connection> {
        self.slot.connection()
    }

    fn record_write(&mut self, polled: &Poll<io::Result<usize>>) {
        match polled {
            Poll::Ready(Ok(count)) => {
                if !self.has_unflushed {
                    self.has_unflushed = true;
                    self.connection().mark_unflushed();
                }
                if std::mem::take(&mut self.is_stalled) {
                    self.connection().clear_stalled();
                }
                if let Some(frames) = &mut self.frames {
                    frames.add_written(*count);
                }
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.record_stall(),
        }
    }

    fn record_stall(&mut self) {
        if !self.is_stalled {
            (self.is_stalled, self.has_unflushed) = (true, true);
            self.connection().mark_stalled();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ConnectionMeter<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.frames.as_mut().is_some_and(FrameMeter::ends_turn) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        let new = &buffer.filled()[before..];
        if !new.is_empty() {
            let connection = this.slot.connection();
            if !connection.mark_received(new.len()) {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::OutOfMemory, Flood::Heads)));
            }
            if let Some(frames) = &mut this.frames
                && let Err(flood) = frames.read(new, connection.is_authenticated(), connection.head_memory())
            {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, flood)));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ConnectionMeter<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.record_write(&polled);
        polled
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(cx, pieces);
        this.record_write(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_flush(cx);
        match &polled {
            Poll::Ready(_) if this.has_unflushed => {
                (this.has_unflushed, this.is_stalled) = (false, false);
                this.connection().mark_flushed();
            }
            Poll::Ready(_) => {}
            Poll::Pending => this.record_stall(),
        }
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
