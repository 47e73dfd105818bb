//! The public interface of a server: start, addresses, stop.

use std::net::SocketAddr;
use std::path::Path;
use std::{fmt, io};

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::assemble::{assemble, check_files};
use crate::assembled_server::AssembledServer;
use crate::server_info::{Progress, ServerInfo};
use crate::settings::{Settings, SettingsError};
use crate::start_failure::StartFailure;

/// A server, started by [`Server::start`].
#[derive(Clone, Copy, Debug)]
pub struct Server;

/// A running server. Dropping it stops the server in the background, as long as the runtime exists.
pub struct Handle {
    pub(crate) info: ServerInfo,
    /// True when the objects of every cluster exist.
    pub(crate) ready: watch::Receiver<bool>,
    /// The signal that stops the server, when it is sent or dropped.
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// An error that keeps a server from starting.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct StartError(#[from] StartFailure);

/// The error of a server that has ended: it was stopped, its disk failed, or it panicked; the log has the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server has ended")]
pub struct ServerEnded;

// === impl Server ===

impl Server {
    /// Reads all files in the settings, as [`Server::start`] does, and starts nothing. Returns the first error that a
    /// start would return.
    pub fn check(settings: &Settings) -> Result<(), StartError> {
        Ok(check_files(settings)?)
    }

    /// Starts a server on the current runtime, which must have threads, time and I/O. Then its port is open and its own
    /// objects are being created; [`Handle::ready`] waits for these. A failed start leaves nothing behind.
    pub async fn start(settings: Settings) -> Result<Handle, StartError> {
        let settings = settings.checked().map_err(StartFailure::from)?;
        binnacle_crypto::check().map_err(StartFailure::Crypto)?;
        let (assembled, info) = assemble(settings).await?;
        // A failed start logs only its error.
        let fips = binnacle_crypto::fips_module().unwrap_or_else(|| "none".to_owned());
        tracing::info!(fips, "cryptography by {}", binnacle_crypto::PROVIDER);
        Ok(Handle::of(assembled, info))
    }
}

// === impl Handle ===

impl Handle {
    fn of(assembled: AssembledServer, info: ServerInfo) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (ready_sender, ready) = watch::channel(false);
        let stopped = async move {
            // An error means that the handle was dropped.
            let _ = stopped.await;
        };
        let task = tokio::spawn(assembled.run(ready_sender, stopped));
        Self { info, ready, stop: Some(stop), task }
    }

    /// Waits until the namespaces, services and roles of every cluster exist. `/readyz` succeeds from then on.
    pub async fn ready(&mut self) -> Result<(), ServerEnded> {
        self.ready.wait_for(|ready| *ready).await.map(|_| ()).map_err(|_| ServerEnded)
    }

    /// Waits until the server has ended, after a stop or a failure.
    pub async fn ended(&mut self) {
        if !self.task.is_finished()
            && let Err(error) = (&mut self.task).await
            && error.is_panic()
        {
            tracing::error!("the server panicked: {error}");
        }
    }

    /// Begins to stop the server: it completes requests in flight, ends watches, and keeps acknowledged writes.
    /// [`Handle::ended`] waits for the end.
    pub fn begin_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The server may have ended already.
            let _ = stop.send(());
        }
    }

    /// Stops the server and waits until its port is free and its store is closed.
    pub async fn stop(mut self) {
        self.begin_stop();
        self.ended().await;
    }

    /// Returns a view of its progress.
    pub fn progress(&self) -> Progress {
        self.info.progress.clone()
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.info.address
    }

    /// Returns the URL for clients of this machine.
    pub fn url(&self) -> &str {
        &self.info.url
    }

    /// Returns a description of where objects are stored.
    pub fn place(&self) -> &str {
        &self.info.place
    }

    /// Returns the path of the administrator's kubeconfig, which is updated when certificates are renewed, and removed
    /// with an ephemeral server. `None` if client certificates are of another authority.
    pub fn kubeconfig_path(&self) -> Option<&Path> {
        self.info.kubeconfig.as_deref()
    }

    /// Reads the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> io::Result<String> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "administrators bring certificates of their own");
        std::fs::read_to_string(self.info.kubeconfig.as_deref().ok_or_else(none)?)
    }

    /// Returns the kubectl command with the flags to reach this server.
    pub fn kubectl(&self) -> &str {
        &self.info.kubectl
    }

    /// Returns the command that starts controllers for this server.
    pub fn controllers(&self) -> &str {
        &self.info.controllers
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("url", &self.info.url).field("place", &self.info.place).finish_non_exhaustive()
    }
}

impl From<SettingsError> for StartError {
    fn from(error: SettingsError) -> Self {
        Self(error.into())
    }
}
