//! The socket `admin.sock` beside the data, on which the operator's program can read this server's embedded store. Only
//! users with access to the store's directory, who could read the files as well, can reach it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use binnacle_store::Store;
use binnacle_store_etcd::{ADMIN_SOCKET, serve};
use binnacle_supervise::supervise;
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

/// A socket that serves requests. Its file is removed on drop.
pub(crate) struct AdminSocket {
    path: PathBuf,
    task: JoinHandle<()>,
}

impl AdminSocket {
    /// Serves the store in this directory, which this process must have locked. If the path is too long for a socket,
    /// the server runs without one.
    pub(crate) fn open(directory: &Path, store: Arc<dyn Store>) -> Option<Self> {
        let path = directory.join(ADMIN_SOCKET);
        match bind(&path) {
            Ok(listener) => Some(Self { task: tokio::spawn(offer(store, listener, path.clone())), path }),
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "the store is not offered to the operator's program");
                None
            }
        }
    }
}

/// Serves requests on a socket; after a panic, on a new one.
async fn offer(store: Arc<dyn Store>, listener: UnixListener, path: PathBuf) {
    let first = Mutex::new(Some(listener));
    let bound = || first.lock().take().map_or_else(|| bind(&path), Ok);
    supervise("admin socket", || async {
        match bound() {
            Ok(listener) => serve(store.clone(), listener).await,
            Err(error) => tracing::warn!(%error, path = %path.display(), "the store is offered no more"),
        }
    })
    .await;
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        self.task.abort();
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, path = %self.path.display(), "cannot remove the socket");
        }
    }
}

fn bind(path: &Path) -> io::Result<UnixListener> {
    // A server that was killed leaves its socket.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}
