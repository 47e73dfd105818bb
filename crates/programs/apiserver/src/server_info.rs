//! The facts about a server that it reports once it has started.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use binnacle_registry::Catalog;
use binnacle_server::Canary;

/// Reports whether a server makes progress, also while that is being stopped.
#[derive(Clone)]
pub struct Progress(pub(crate) Arc<Canary>);

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Progress").field(&self.is_made()).finish()
    }
}

impl Progress {
    /// Returns false while `/livez` fails because the threads that serve requests are stuck: a restart is needed.
    pub fn is_made(&self) -> bool {
        self.0.is_alive()
    }
}

/// The addresses, files and commands of a server.
pub(crate) struct ServerInfo {
    pub(crate) address: SocketAddr,
    pub(crate) url: String,
    /// A description of where objects are stored.
    pub(crate) place: String,
    /// The administrator's kubeconfig, if client certificates are of the server's own authority.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The kubectl command with the flags to reach this server.
    pub(crate) kubectl: String,
    /// The command that starts controllers.
    pub(crate) controllers: String,
    pub(crate) progress: Progress,
    /// The resources of a server that hosts logical clusters.
    pub(crate) host_catalog: Option<Catalog>,
}
