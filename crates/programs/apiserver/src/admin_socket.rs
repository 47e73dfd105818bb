//! The socket `admin.sock` beside the data, on which the program `binnacle` can read this server's embedded store. Only
//! users with access to the store's directory, who could read the files as well, can reach it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
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
    /// The newest socket that this server created. If the directory is moved, the path may lead to another server's
    /// socket.
    created: Arc<Mutex<FileId>>,
    task: JoinHandle<()>,
}

/// The device and the number of a file.
type FileId = (u64, u64);

impl AdminSocket {
    /// Serves the store in this directory, which this process must have locked. If the path is too long for a socket,
    /// the server runs without one.
    pub(crate) fn open(directory: &Path, store: Arc<dyn Store>) -> Option<Self> {
        let path = directory.join(ADMIN_SOCKET);
        // A server that was killed leaves its socket.
        let removed = match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        match removed.and_then(|()| bind(&path)) {
            Ok((listener, created)) => {
                let created = Arc::new(Mutex::new(created));
                let task = tokio::spawn(serve_supervised(store, listener, path.clone(), created.clone()));
                Some(Self { path, created, task })
            }
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "failed to open the admin socket: 'binnacle' cannot read the store while the server runs");
                None
            }
        }
    }
}

/// Serves requests on a socket; after a panic, on a new one.
async fn serve_supervised(store: Arc<dyn Store>, listener: UnixListener, path: PathBuf, created: Arc<Mutex<FileId>>) {
    let first = Mutex::new(Some(listener));
    let rebind = || {
        remove(&path, *created.lock())?;
        let (listener, id) = bind(&path)?;
        *created.lock() = id;
        Ok::<_, io::Error>(listener)
    };
    let bound = || first.lock().take().map_or_else(rebind, Ok);
    supervise("admin socket", || async {
        match bound() {
            Ok(listener) => serve(store.clone(), listener).await,
            Err(error) => tracing::warn!(%error, path = %path.display(), "failed to reopen the admin socket: 'binnacle' cannot read the store any more"),
        }
    })
    .await;
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        self.task.abort();
        if let Err(error) = remove(&self.path, *self.created.lock()) {
            tracing::debug!(%error, path = %self.path.display(), "failed to remove the admin socket");
        }
    }
}

/// Removes the socket that this server created; fails if the path leads to another file.
fn remove(path: &Path, created: FileId) -> io::Result<()> {
    match id(path) {
        Ok(there) if there == created => fs::remove_file(path),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AlreadyExists, "another server's socket is there")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn id(path: &Path) -> io::Result<FileId> {
    let there = fs::symlink_metadata(path)?;
    Ok((there.dev(), there.ino()))
}

fn bind(path: &Path) -> io::Result<(UnixListener, FileId)> {
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok((listener, id(path)?))
}
