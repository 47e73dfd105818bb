//! Reloads a manifest directory when it changes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use binnacle_request::Shutdown;
use binnacle_supervise::supervise;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::files::{DirectoryListing, list_directory};
use crate::manifest_type::{ManifestType, StoredTypes};
use crate::metrics::Metrics;
use crate::{LoadError, ManifestSet, load};

/// The interval between checks of the files' names, times and lengths.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The number of checks without a change after which the files are read anyway.
const MAX_CHECKS_BEFORE_READ: u32 = 60;

/// Activates loaded objects.
type Apply = dyn Fn(&ManifestSet) + Send + Sync;

/// The manifest directory of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    pub manifest_type: ManifestType,
    pub path: PathBuf,
}

impl Directory {
    /// Reads the directory.
    ///
    /// # Errors
    ///
    /// Fails for invalid manifests and for an unreadable directory.
    pub fn load(&self, types: &StoredTypes) -> Result<ManifestSet, LoadError> {
        let Self { manifest_type, path } = self;
        load(*manifest_type, path, types).map_err(|why| LoadError {
            manifest_type: *manifest_type,
            directory: path.display().to_string(),
            why,
        })
    }
}

/// A manifest directory that is reloaded when it changes.
pub struct ManifestReloader {
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

impl ManifestReloader {
    /// Loads the directory for the first time and activates its objects.
    ///
    /// # Errors
    ///
    /// Fails for invalid manifests: the server does not start with only some of them.
    pub fn begin(
        directory: Directory,
        types: StoredTypes,
        metrics: Metrics,
        apply: impl Fn(&ManifestSet) + Send + Sync + 'static,
    ) -> Result<Self, LoadError> {
        let loaded = directory.load(&types)?;
        apply(&loaded);
        let manifest_type = directory.manifest_type;
        metrics.loaded(manifest_type, &loaded.hash);
        tracing::info!(plugin = manifest_type.plugin(), count = loaded.objects.len(), "loaded admission manifests");
        let state = Mutex::new(State { known: loaded.hash, listing: None, checks: MAX_CHECKS_BEFORE_READ });
        Ok(Self { directory, types, metrics, apply: Arc::new(apply), state })
    }

    /// Spawns a task that reloads the directory when it changes, until shutdown.
    pub fn start_reloading(self, tasks: &mut JoinSet<()>, shutdown: &Shutdown) {
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
            let outcome = binnacle_config::load(move || reloader.read(listing.as_ref(), is_due)).await;
            let Ok(Some((listing, loaded))) = outcome else { continue };
            (state.listing, state.checks) = (listing, 0);
            match loaded {
                Ok(loaded) if loaded.hash == state.known => {}
                Ok(loaded) => {
                    state.known.clone_from(&loaded.hash);
                    let (reloader, manifest_type) = (self.clone(), self.directory.manifest_type);
                    let hash = loaded.hash.clone();
                    if binnacle_config::load(move || (reloader.apply)(&loaded)).await.is_ok() {
                        tracing::info!(plugin = manifest_type.plugin(), "reloaded admission manifests");
                        self.metrics.loaded(manifest_type, &hash);
                    }
                }
                Err(why) => {
                    let manifest_type = self.directory.manifest_type;
                    tracing::error!(plugin = manifest_type.plugin(), error = why, "reloading admission manifests");
                    self.metrics.failed(manifest_type);
                }
            }
        }
    }

    /// Loads the files if their listing has changed or a read is due.
    fn read(
        &self,
        before: Option<&DirectoryListing>,
        is_due: bool,
    ) -> Option<(Option<DirectoryListing>, Result<ManifestSet, String>)> {
        let Directory { manifest_type, path } = &self.directory;
        let now = list_directory(path).ok();
        if now.as_ref() == before && !is_due {
            return None;
        }
        Some((now, load(*manifest_type, path, &self.types)))
    }
}
