//! A server from the outside: started, asked where it is, stopped.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::assemble::{StartFailure, assemble, check_files};
use crate::running::Assembled;
use crate::settings::{Settings, SettingsError};

/// A server, started by [`Server::start`].
#[derive(Clone, Copy, Debug)]
pub struct Server;

/// A running server. Dropping it stops the server in the background, as far as the runtime goes on.
#[derive(Debug)]
pub struct Handle {
    about: About,
    /// True once the objects that every cluster has are there.
    ready: watch::Receiver<bool>,
    /// Stops the server, sent to or dropped.
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// An error that keeps a server from starting.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct StartError(#[from] StartFailure);

/// The server has ended: it was stopped, its disk has failed, or it panicked; the log says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server has ended")]
pub struct Ended;

/// The address of a server, and how people reach it.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) address: SocketAddr,
    pub(crate) url: String,
    /// The place of the objects, in words.
    pub(crate) place: String,
    /// The administrator's, when the server has one of its own.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The command that begins every example.
    pub(crate) kubectl: String,
    /// The command that brings controllers.
    pub(crate) controllers: String,
}

// === impl Server ===

impl Server {
    /// Reads all files that the settings name, as [`Server::start`] does, and starts nothing. The error is the first that
    /// a start would end with.
    pub fn check(settings: &Settings) -> Result<(), StartError> {
        Ok(check_files(settings)?)
    }

    /// Starts a server on the present runtime, which must have threads, time and I/O. When this returns, its port is
    /// open and its own objects are being made; [`Handle::ready`] waits for those. An error leaves nothing behind.
    pub async fn start(settings: Settings) -> Result<Handle, StartError> {
        let settings = settings.checked().map_err(StartFailure::from)?;
        let (assembled, about) = assemble(settings).await?;
        Ok(Handle::of(assembled, about))
    }
}

// === impl Handle ===

impl Handle {
    fn of(assembled: Assembled, about: About) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (told, ready) = watch::channel(false);
        let stopped = async move {
            // Nobody can stop the server by a handle that is gone.
            let _ = stopped.await;
        };
        let task = tokio::spawn(assembled.run(told, stopped));
        Self { about, ready, stop: Some(stop), task }
    }

    /// Waits until the namespaces, services and roles of every cluster are there. `/readyz` succeeds from then on.
    pub async fn ready(&mut self) -> Result<(), Ended> {
        self.ready.wait_for(|ready| *ready).await.map(|_| ()).map_err(|_| Ended)
    }

    /// Waits until the server has ended, by itself or because it was stopped.
    pub async fn ended(&mut self) {
        if !self.task.is_finished()
            && let Err(error) = (&mut self.task).await
            && error.is_panic()
        {
            tracing::error!("the server ended in a panic: {error}");
        }
    }

    /// Begins to stop the server: requests in flight are answered, watches end, acknowledged writes are kept.
    /// [`Handle::ended`] waits for that.
    pub fn begin_stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // A server that has ended needs no word.
            let _ = stop.send(());
        }
    }

    /// Stops the server and waits until its port is free and its store is closed.
    pub async fn stop(mut self) {
        self.begin_stop();
        self.ended().await;
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.about.address
    }

    /// Returns the URL for clients of this machine.
    pub fn url(&self) -> &str {
        &self.about.url
    }

    /// Returns the place of the objects, for people.
    pub fn place(&self) -> &str {
        &self.about.place
    }

    /// The administrator's kubeconfig. It is written again when certificates are renewed, and removed with an ephemeral
    /// server. `None` where client certificates are those of somebody else's authority.
    pub fn kubeconfig_path(&self) -> Option<&Path> {
        self.about.kubeconfig.as_deref()
    }

    /// The text of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> io::Result<String> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "administrators bring certificates of their own");
        std::fs::read_to_string(self.about.kubeconfig.as_deref().ok_or_else(none)?)
    }

    /// The command that begins every example: kubectl with the flags to reach this server.
    pub fn kubectl(&self) -> &str {
        &self.about.kubectl
    }

    /// The command that brings controllers to this server.
    pub fn controllers(&self) -> &str {
        &self.about.controllers
    }
}

impl From<SettingsError> for StartError {
    fn from(error: SettingsError) -> Self {
        Self(error.into())
    }
}
