//! Migration of all data from one store to another, with the source in use or not.
//!
//! No server uses the target before the end, so it may be incomplete until then. A marker in it names the source and
//! the revision of the source up to which the target is complete. Every pass compares the keys of both stores, deletes
//! those that the source lacks, and writes what changed after that revision, in order. The next pass completes an
//! interrupted one. Between passes, the source is watched.

mod copy;
mod marker;
#[cfg(test)]
mod tests;
mod verify;
mod watch_source;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use binnacle_cli::progress::Progress;
use binnacle_registry::ROOT;
use binnacle_store::{Count, RangeRequest, Revision, Store, StoreError, prefix_range, unfinished_migration_key};
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use bytes::Bytes;
use tokio::time::{Instant, sleep};

use self::marker::Marker;
use self::watch_source::{Switch, WatchEnd};
use crate::Error;
use crate::location::{
    EtcdAccess, NewStore, ReadableStore, StoreLocation, admin_socket, etcd, open_offline, socket, store_dir,
};
use crate::retry::{RetryingStore, retry};
use crate::target::Target;

/// The parameters of a migration.
pub(crate) struct MigrationOptions {
    pub(crate) from: StoreLocation,
    pub(crate) from_access: EtcdAccess,
    pub(crate) to: StoreLocation,
    pub(crate) to_access: EtcdAccess,
    /// True if the source is in use: it is watched until the switch.
    pub(crate) online: bool,
}

/// A migration in progress.
struct Migration<'a> {
    target: Target,
    marker: Marker,
    source_root: String,
    target_root: String,
    progress: &'a mut Progress,
}

/// The longest time for a stopping server to release the lock of its store.
const LOCK_TIMEOUT: Duration = Duration::from_secs(120);

/// Migrates the data. Returns a report for the operator.
pub(crate) async fn run(options: &MigrationOptions) -> Result<String, Error> {
    let mut progress = Progress::new();
    let mut source = Source::open(options).await?;
    let first_revision = source.opened.store.current_revision().await?;
    let (target, root) = open_target(options, first_revision, &source.identity).await?;
    let marker = prepare(&**target.store(), &root, &source.identity, &mut progress).await?;
    let source_root = source.opened.root.clone();
    let mut migration = Migration { target, marker, source_root, target_root: root, progress: &mut progress };
    let followed = options.online && matches!(options.from, StoreLocation::Etcd(_));
    let switch = if followed { Switch::by_operator()? } else { Switch::now() };
    let report = loop {
        match migration.fill(&*source.opened.store, &switch, source.live.as_deref()).await? {
            WatchEnd::CaughtUp(revision) => break migration.finish(&*source.opened.store, revision).await?,
            // The server has stopped, so its last writes are in its directory.
            WatchEnd::SourceGone(reason) => {
                let StoreLocation::Embedded(dir) = &options.from else {
                    return Err(Error::context("watching the source", reason));
                };
                migration
                    .progress
                    .say("The source's server has stopped. Reading the remaining changes from its directory.");
                drop(source);
                source = Source::offline(dir, Instant::now() + LOCK_TIMEOUT).await?;
            }
        }
    };
    drop(migration);
    progress.say(match &options.to {
        StoreLocation::Embedded(_) => "The migration has finished. Start the server with the target as its --data-dir.",
        StoreLocation::Etcd(_) => "The migration has finished. Start the servers with --etcd-servers.",
    });
    Ok(report)
}

/// The source of a migration.
struct Source {
    opened: ReadableStore,
    /// The identity of the store, independent of the way it is accessed.
    identity: String,
    /// The socket of the server that owns the store.
    live: Option<PathBuf>,
}

// === impl Source ===

impl Source {
    async fn open(options: &MigrationOptions) -> Result<Self, Error> {
        match &options.from {
            StoreLocation::Etcd(endpoints) => {
                let access = &options.from_access;
                let store = Arc::new(etcd(endpoints, access)?);
                let id = retry(|| store.cluster_id())
                    .await
                    .map_err(|error| Error::context(&format!("reading the source, {}", options.from), error))?;
                let identity = format!("etcd cluster {id:x} {}", access.root);
                Ok(Self { opened: ReadableStore::of(RetryingStore::over(store), &access.root), identity, live: None })
            }
            StoreLocation::Embedded(dir) if options.online => {
                let dir = store_dir(dir);
                let identity = identity(&dir)?;
                let opened = admin_socket(&dir).await.map_err(|error| {
                    Error::new(format!("{error}; without --online, the store of a stopped server is migrated"))
                })?;
                Ok(Self { opened, identity, live: Some(socket(&dir)) })
            }
            StoreLocation::Embedded(dir) => Self::offline(dir, Instant::now()).await,
        }
    }

    /// Opens the store of a server that has stopped or is stopping.
    async fn offline(dir: &Path, until: Instant) -> Result<Self, Error> {
        let dir = store_dir(dir);
        let identity = identity(&dir)?;
        loop {
            let path = dir.clone();
            let opened = tokio::task::spawn_blocking(move || open_offline(&path)).await;
            match opened.map_err(|error| Error::context("opening the store", error))? {
                Ok(offline) => return Ok(Self { opened: ReadableStore::offline(offline), identity, live: None }),
                Err(OpenError::Locked { .. }) if Instant::now() < until => sleep(Duration::from_millis(50)).await,
                Err(error @ OpenError::Locked { .. }) => {
                    return Err(Error::new(format!("{error}; stop it, or use --online")));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn identity(dir: &Path) -> Result<String, Error> {
    let path = dir.canonicalize().map_err(|error| Error::context(&dir.display().to_string(), error))?;
    Ok(format!("embedded store {}", path.display()))
}

/// Opens the target. Returns it with the prefix of its keys.
async fn open_target(
    options: &MigrationOptions,
    first_revision: Revision,
    source: &str,
) -> Result<(Target, String), Error> {
    match &options.to {
        StoreLocation::Etcd(endpoints) => {
            let root = options.to_access.root.clone();
            Ok((Target::etcd(Arc::new(etcd(endpoints, &options.to_access)?), &root).await?, root))
        }
        StoreLocation::Embedded(dir) => {
            // The marker of an unfinished migration is written before servers can find the store.
            if let Some(new) = NewStore::prepare(dir)? {
                let options = EmbeddedOptions {
                    first_revision: first_revision.0,
                    lean: true,
                    ..EmbeddedOptions::new(&new.unfinished)
                };
                let store = open_embedded(options).await?;
                let mut target = Target::embedded(store.clone(), ROOT).await?;
                let marker = Marker { source: source.to_owned(), reached: 0 };
                target.note(unfinished_migration_key(ROOT), marker.text()).await?;
                drop(target);
                store.close().await;
                new.finish()?;
            }
            let store = open_embedded(EmbeddedOptions { lean: true, ..EmbeddedOptions::new(store_dir(dir)) }).await?;
            Ok((Target::embedded(store, ROOT).await?, ROOT.to_owned()))
        }
    }
}

async fn open_embedded(options: EmbeddedOptions) -> Result<Arc<EmbeddedStore>, Error> {
    let options = EmbeddedOptions { on_reading: Some(Progress::new().report("reading the target")), ..options };
    let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(options)).await;
    Ok(Arc::new(opened.map_err(|error| Error::context("opening the target", error))??))
}

/// Requires a target that is empty or was filled by an earlier attempt from the same source, and marks it as
/// unfinished.
async fn prepare(store: &dyn Store, root: &str, source: &str, progress: &mut Progress) -> Result<Marker, Error> {
    let failed = |error: StoreError| Error::context("asking the target", error);
    if let Some(marker) = Marker::read(store, root).await.map_err(failed)? {
        if marker.source != source {
            return Err(Error::new(format!(
                "the target has an unfinished migration from another source, the {}: empty it first",
                marker.source
            )));
        }
        if marker.reached > 0 {
            progress.say(&format!("Resuming the migration from revision {} of the source.", marker.reached));
        }
        return Ok(marker);
    }
    let range = prefix_range(root.as_bytes());
    let request = RangeRequest { range, revision: None, limit: 1, count: Count::Only };
    let count = store.range(request).await.map_err(failed)?.count;
    if count > 0 {
        return Err(Error::new(format!("the target is not empty: it has {count} keys with the prefix {root}")));
    }
    Ok(Marker { source: source.to_owned(), reached: 0 })
}

impl Migration<'_> {
    /// Fills the target until it has everything in the source.
    async fn fill(&mut self, source: &dyn Store, switch: &Switch, live: Option<&Path>) -> Result<WatchEnd, Error> {
        self.note().await?;
        loop {
            let Some(revision) = none_if_stopped(self.pass(source).await, live.is_some())? else {
                return Ok(WatchEnd::SourceGone("its server does not answer".to_owned()));
            };
            match self.watch_source(source, revision, switch, live).await? {
                Some(ended) => return Ok(ended),
                None => self.progress.say("The history of the source was compacted. Comparing the keys again."),
            }
        }
    }

    /// Verifies that both stores have the same contents, and removes the marker.
    async fn finish(&mut self, source: &dyn Store, revision: Revision) -> Result<String, Error> {
        let report = self.verify(source).await?;
        let now = self.last_change(source, revision).await?;
        if let Some(key) = now {
            return Err(Error::new(format!(
                "the source is still being written to ({key}): stop its servers, and run the same command again to resume"
            )));
        }
        // Revisions of the source that clients have seen must be in the target's past.
        let last_seen = source.current_revision().await.map_or(revision, |current| current.max(revision));
        self.target.advance(last_seen.0 + 1, self.progress).await?;
        let begins = self.target.forget_history().await?;
        Marker::remove(&**self.target.store(), &self.target_root).await?;
        Ok(format!(
            "{report}The source is at revision {}, the history of the target begins at {begins}: clients that continue from an older \
             resourceVersion get 410 (Gone) and list again.\n",
            last_seen.0
        ))
    }

    async fn note(&mut self) -> Result<(), Error> {
        let value = self.marker.text();
        self.target.note(unfinished_migration_key(&self.target_root), value).await
    }

    /// Returns the target's key for a key of the source.
    fn key(&self, key: &Bytes) -> Bytes {
        rekey(key, &self.source_root, &self.target_root)
    }
}

/// Returns a key with another root.
fn rekey(key: &Bytes, from: &str, to: &str) -> Bytes {
    match key.strip_prefix(from.as_bytes()) {
        Some(rest) if from != to => Bytes::from([to.as_bytes(), rest].concat()),
        _ => key.clone(),
    }
}

/// Returns `None` for errors that mean that the server has stopped.
fn none_if_stopped<T>(result: Result<T, Failure>, live: bool) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Failure::Source(StoreError::Unavailable(_) | StoreError::Closed | StoreError::Timeout)) if live => Ok(None),
        Err(Failure::Source(error)) => Err(Error::context("reading the source", error)),
        Err(Failure::Other(error)) => Err(error),
    }
}

/// The store that failed.
enum Failure {
    Source(StoreError),
    Other(Error),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Source(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}
