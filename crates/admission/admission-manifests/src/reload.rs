//! Reloads a manifest directory when it changes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use binnacle_request::Shutdown;
use binnacle_supervise::supervise;
use tokio::sync::Mutex;
use tokio::task::{JoinSet, spawn_blocking};

use crate::files::{DirectoryListing, list_directory};
use crate::manifest_type::{Manifests, StoredTypes};
use crate::metrics::Metrics;
use crate::{LoadError, Loaded, load};

/// The interval between checks of the files' names, times and lengths.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The number of checks without a change after which the files are read anyway.
const MAX_CHECKS_BEFORE_READ: u32 = 60;

/// Activates loaded objects.
type Apply = dyn Fn(&Loaded) + Send + Sync;

/// The manifest directory of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    pub sort: Manifests,
    pub path: PathBuf,
}

impl Directory {
    /// Reads the directory.
    ///
    /// # Errors
    ///
    /// Fails for invalid manifests and for an unreadable directory.
    pub fn load(&self, types: &StoredTypes) -> Result<Loaded, LoadError> {
        let Self { sort, path } = self;
        load(*sort, path, types).map_err(|why| LoadError { sort: *sort, directory: path.display().to_string(), why })
    }
}

/// A manifest directory that is reloaded when it changes.
pub struct Followed {
    directory: Directory,
    types: StoredTypes,
    metrics: Metrics,
    apply: Arc<Apply>,
    state: Mutex<State>,
}

struct State {
    /// The hash of the files that were last loaded successfully.
    known: String,
    listing: Option<DirectoryListing>,
    checks: u32,
}

impl Followed {
    /// Loads the directory for the first time and activates its objects.
    ///
    /// # Errors
    ///
    /// Fails for invalid manifests: the server does not start with only some of them.
    pub fn begin(
        directory: Directory,
        types: StoredTypes,
        metrics: Metrics,
        apply: impl Fn(&Loaded) + Send + Sync + 'static,
    ) -> Result<Self, LoadError> {
        let loaded = directory.load(&types)?;
        apply(&loaded);
        let sort = directory.sort;
        metrics.loaded(sort, &loaded.hash);
        tracing::info!(plugin = sort.plugin(), count = loaded.objects.len(), "loaded admission manifests");
        let state = Mutex::new(State { known: loaded.hash, listing: None, checks: MAX_CHECKS_BEFORE_READ });
        Ok(Self { directory, types, metrics, apply: Arc::new(apply), state })
    }

    /// Spawns a task that reloads the directory when it changes, until shutdown.
    pub fn follow(self, tasks: &mut JoinSet<()>, shutdown: &Shutdown) {
        let (reloader, stopped) = (Arc::new(self), shutdown.clone());
        tasks.spawn(async move {
            tokio::select! {
                () = supervise("admission manifests", || reloader.clone().run()) => {}
                () = stopped.fired() => {}
            }
        });
    }

    async fn run(self: Arc<Self>) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            let mut state = self.state.lock().await;
            let reloader = self.clone();
            let listing = state.listing.clone();
            state.checks += 1;
            let is_due = state.checks >= MAX_CHECKS_BEFORE_READ;
            // Reading, validating and compiling may block for a while.
            let outcome = spawn_blocking(move || reloader.read(listing.as_ref(), is_due)).await;
            let Ok(Some((listing, loaded))) = outcome else { continue };
            (state.listing, state.checks) = (listing, 0);
            match loaded {
                Ok(loaded) if loaded.hash == state.known => {}
                Ok(loaded) => {
                    state.known.clone_from(&loaded.hash);
                    let (reloader, sort) = (self.clone(), self.directory.sort);
                    let hash = loaded.hash.clone();
                    if spawn_blocking(move || (reloader.apply)(&loaded)).await.is_ok() {
                        tracing::info!(plugin = sort.plugin(), "reloaded admission manifests");
                        self.metrics.loaded(sort, &hash);
                    }
                }
                Err(why) => {
                    let sort = self.directory.sort;
                    tracing::error!(plugin = sort.plugin(), error = why, "reloading admission manifests");
                    self.metrics.failed(sort);
                }
            }
        }
    }

    /// Loads the files if their listing has changed or a read is due.
    fn read(
        &self,
        before: Option<&DirectoryListing>,
        is_due: bool,
    ) -> Option<(Option<DirectoryListing>, Result<Loaded, String>)> {
        let Directory { sort, path } = &self.directory;
        let now = list_directory(path).ok();
        if now.as_ref() == before && !is_due {
            return None;
        }
        Some((now, load(*sort, path, &self.types)))
    }
}
