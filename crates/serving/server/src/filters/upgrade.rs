//! Upgrades: takes the connection out of a request that asks for one, and keeps state for as long as it is open.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use binnacle_request::{ByteStream, Upgrade};
use http::Extensions;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::audit::Ending;

/// Returns the upgrade that a request asks for, if any, and the state that is kept until its connection closes.
pub(crate) fn of(extensions: &mut Extensions) -> (Option<Upgrade>, Kept) {
    let kept = Kept::default();
    let upgrade = extensions.remove::<OnUpgrade>().map(|connection| {
        let kept = kept.clone();
        Upgrade::new(async move {
            let upgraded = connection.await.map_err(io::Error::other)?;
            Ok(Box::new(Session { stream: TokioIo::new(upgraded), _kept: kept }) as Box<dyn ByteStream>)
        })
    });
    (upgrade, kept)
}

/// State that is kept as long as an upgraded connection is open. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Kept(Arc<Mutex<Option<Ending>>>);

impl Kept {
    pub(crate) fn keep(&self, ending: Option<Ending>) {
        *self.0.lock() = ending;
    }
}

/// An upgraded connection.
struct Session {
    stream: TokioIo<Upgraded>,
    _kept: Kept,
}

impl AsyncRead for Session {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Session {
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
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
