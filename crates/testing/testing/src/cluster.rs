//! Logical clusters: isolated Kubernetes APIs in the process of one server.

mod client;
mod error;
mod host;

use std::path::{Path, PathBuf};
use std::thread;

use futures_channel::oneshot;

pub use self::error::ClusterError;
pub(crate) use self::host::{Host, LazyHost};

/// A Kubernetes API of its own in the process of a server, created by [`ApiServer::cluster`](crate::ApiServer::cluster). Dropping the value deletes
/// it. It ends with its server in any case.
pub struct Cluster {
    name: String,
    uid: String,
    url: String,
    kubeconfig: String,
    kubeconfig_path: PathBuf,
    host: Host,
    is_deleted: bool,
}

impl Cluster {
    /// Returns the name, which is a part of the URL.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address, as in `https://127.0.0.1:41234/clusters/NAME`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a kubeconfig of an administrator of this cluster alone, with certificates and key embedded.
    #[must_use]
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// Returns the path of a file with [`Self::kubeconfig`], which is removed with the cluster.
    #[must_use]
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig_path
    }

    /// Returns the certificate of the authority that signed the server's certificate, as PEM.
    #[must_use]
    pub fn ca(&self) -> &str {
        &self.host.ca
    }

    /// Returns the path of a file with [`Self::ca`].
    #[must_use]
    pub fn ca_path(&self) -> &Path {
        &self.host.ca_path
    }

    /// Returns the server's bearer token: its user is an administrator of all clusters of the server.
    #[must_use]
    pub fn token(&self) -> &str {
        self.host.token()
    }

    /// Creates a cluster with the objects that this one has now, and returns it when it is ready. With `None`, it gets a
    /// new name. Both are independent afterwards, and what neither changes is stored once.
    pub async fn fork(&self, name: impl Into<Option<&str>>) -> Result<Cluster, ClusterError> {
        let (host, source, name) = (self.host.clone(), self.name.clone(), name.into().map(str::to_owned));
        in_thread(move || host.create(name.as_deref(), Some(&source))).await
    }

    /// Creates a cluster as [`Self::fork`] does, and blocks this thread until it is ready.
    pub fn blocking_fork<'a>(&self, name: impl Into<Option<&'a str>>) -> Result<Cluster, ClusterError> {
        self.host.create(name.into(), Some(&self.name))
    }

    /// Deletes the cluster with all its objects, and returns when its name is free.
    pub async fn delete(mut self) -> Result<(), ClusterError> {
        in_thread(move || self.remove()).await
    }

    fn remove(&mut self) -> Result<(), ClusterError> {
        match std::mem::replace(&mut self.is_deleted, true) {
            true => Ok(()),
            false => self.host.delete(self),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The server may have ended, and the cluster with it.
        let _ = self.remove();
    }
}

/// Calls a function in a thread. If the future is dropped, so is the result.
pub(crate) async fn in_thread<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (to, result) = oneshot::channel();
    let caller = thread::spawn(move || drop(to.send(call())));
    match result.await {
        Ok(result) => result,
        Err(oneshot::Canceled) => match caller.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("the thread sends the result"),
        },
    }
}
