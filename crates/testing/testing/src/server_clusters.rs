//! The logical clusters of a server.

use crate::ApiServer;
use crate::cluster::{Cluster, ClusterError, Host, in_thread};

impl ApiServer {
    /// Creates a logical cluster, and returns it when it is ready. With `None`, it gets a new name.
    ///
    /// The server must have the flag `--logical-clusters`. Any runtime can poll the future, since a thread waits for the
    /// server.
    pub async fn cluster(&self, name: impl Into<Option<&str>>) -> Result<Cluster, ClusterError> {
        let (host, name) = (self.host()?, name.into().map(str::to_owned));
        in_thread(move || host.create(name.as_deref(), None)).await
    }

    /// Creates a logical cluster as [`Self::cluster`] does, and blocks this thread until it is ready.
    pub fn blocking_cluster<'a>(&self, name: impl Into<Option<&'a str>>) -> Result<Cluster, ClusterError> {
        self.host()?.create(name.into(), None)
    }

    fn host(&self) -> Result<Host, ClusterError> {
        self.clusters.get(self.url(), self.token(), self.ca(), self.ca_path(), self.directory.join("clusters"))
    }
}
