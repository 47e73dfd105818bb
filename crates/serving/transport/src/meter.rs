//! Measurement of a connection's bytes: whether the client reads its answers, and the HTTP/2 housekeeping that it
//! causes.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connections::{Connection, Slot};
use crate::frames::FrameMeter;

/// A stream that holds the slot of its connection, and reports its traffic to it.
pub(crate) struct Meter<S> {
    stream: S,
    slot: Slot,
    frames: Option<FrameMeter>,
    /// Copies of the connection's state, so that only changes are reported.
    behind: bool,
    stalled: bool,
}

impl<S> Meter<S> {
    pub(crate) fn new(stream: S, slot: Slot, frames: Option<FrameMeter>) -> Self {
        Self { stream, slot, frames, behind: false, stalled: false }
    }

    fn connection(&self) -> &Arc<Connection> {
        self.slot.connection()
    }

    fn wrote(&mut self, polled: &Poll<io::Result<usize>>) {
        match polled {
            Poll::Ready(Ok(count)) => {
                if !self.behind {
                    self.behind = true;
                    self.connection().owes();
                }
                if std::mem::take(&mut self.stalled) {
                    self.connection().moves();
                }
                if let Some(frames) = &mut self.frames {
                    frames.wrote(*count);
                }
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.stalls(),
        }
    }

    fn stalls(&mut self) {
        if !self.stalled {
            (self.stalled, self.behind) = (true, true);
            self.connection().stalls();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Meter<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        let new = &buffer.filled()[before..];
        if !new.is_empty() {
            this.slot.connection().heard();
            if let Some(frames) = &mut this.frames
                && let Err(flood) = frames.read(new, this.slot.connection().is_known())
            {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, flood)));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Meter<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write(cx, bytes);
        this.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_write_vectored(cx, pieces);
        this.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.stream).poll_flush(cx);
        match &polled {
            Poll::Ready(_) if this.behind => {
                (this.behind, this.stalled) = (false, false);
                this.connection().sent();
            }
            Poll::Ready(_) => {}
            Poll::Pending => this.stalls(),
        }
        polled
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
