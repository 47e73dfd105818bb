//! Upgrades: takes the connection from a request for an upgrade, and holds state while it is open.

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

use super::audit::ResponseAuditor;

/// Returns the requested upgrade, if any, and the state that is held until its connection closes.
pub(crate) fn take(extensions: &mut Extensions) -> (Option<Upgrade>, UpgradeState) {
    let state = UpgradeState::default();
    let upgrade = extensions.remove::<OnUpgrade>().map(|connection| {
        let state = state.clone();
        Upgrade::new(async move {
            let upgraded = connection.await.map_err(io::Error::other)?;
            Ok(Box::new(UpgradedStream { stream: TokioIo::new(upgraded), _state: state }) as Box<dyn ByteStream>)
        })
    });
    (upgrade, state)
}

/// State that is held while an upgraded connection is open. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct UpgradeState(Arc<Mutex<Option<ResponseAuditor>>>);

impl UpgradeState {
    pub(crate) fn set(&self, auditor: Option<ResponseAuditor>) {
        *self.0.lock() = auditor;
    }
}

/// An upgraded connection.
struct UpgradedStream {
    stream: TokioIo<Upgraded>,
    _state: UpgradeState,
}

impl AsyncRead for UpgradedStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for UpgradedStream {
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
