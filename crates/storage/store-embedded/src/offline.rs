//! A store that is not in use by a server, read without changes.
//!
//! Opening a store changes it: a new segment is started after an unfinished write, leases end, and segments are
//! rewritten. Therefore a copy is opened here. All segments except the last are never written again, so the copy shares
//! them by hard links; the last segment and the small files are copied. The original stays locked, so that no server
//! starts on it in the meantime.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::directory::{COPY, OLD_FORMAT_DIR, lock_store, remove_leftovers};
use crate::error::OpenError;
use crate::lock::{DirLock, NAME as LOCK};
use crate::log::format::Cover;
use crate::log::spares::PREFIX as SPARE;
use crate::options::{EmbeddedOptions, OnReading};
use crate::store::EmbeddedStore;

/// A store that was opened as a copy. Writes, and leases that end in it, do not change the original.
pub struct OfflineStore {
    store: Arc<EmbeddedStore>,
    // Dropped in this order: the original is still locked when the copy is removed.
    _copy: PrivateCopy,
}

/// A directory with a copy of a store's files, which is removed on drop.
struct PrivateCopy {
    path: PathBuf,
    _original: DirLock,
}

// === impl OfflineStore ===

impl OfflineStore {
    /// Opens the existing store in `dir` as a [lean](EmbeddedOptions::lean) copy. Reads the whole store, and blocks
    /// until that is done. `on_reading` receives the progress.
    pub fn open(dir: &Path, on_reading: Option<OnReading>) -> Result<Self, OpenError> {
        let (copy, lock) = PrivateCopy::of(dir)?;
        let options = EmbeddedOptions { lean: true, on_reading, ..EmbeddedOptions::new(&copy.path) };
        let opened = EmbeddedStore::open_locked(&options, lock);
        let store = opened.map_err(|open_failure| open_failure.of(dir.to_owned()))?;
        Ok(Self { store: Arc::new(store), _copy: copy })
    }

    pub fn store(&self) -> Arc<EmbeddedStore> {
        Arc::clone(&self.store)
    }
}

// === impl PrivateCopy ===

impl PrivateCopy {
    /// Creates a copy, and returns it with its lock: an unlocked one would be mistaken for the copy of a dead process.
    fn of(dir: &Path) -> Result<(Self, DirLock), OpenError> {
        let failed = |source: io::Error| OpenError::Io { dir: dir.to_owned(), source };
        let original = lock_store(dir)?;
        remove_leftovers(dir);
        let copy = Self { path: create_copy_dir(dir).map_err(failed)?, _original: original };
        let lock = DirLock::acquire(&copy.path).map_err(|error| error.with_dir(dir))?;
        copy_files(dir, &copy.path).map_err(failed)?;
        Ok((copy, lock))
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the copy");
        }
    }
}

/// Creates an empty directory next to the store, where hard links are possible, or otherwise among the temporary files.
fn create_copy_dir(dir: &Path) -> io::Result<PathBuf> {
    let sibling = dir.canonicalize()?.with_extension(format!("{COPY}{}", std::process::id()));
    let temporary = std::env::temp_dir().join(sibling.file_name().unwrap_or_default());
    let make = |path: PathBuf| DirBuilder::new().mode(0o700).create(&path).map(|()| path);
    make(sibling).or_else(|_| make(temporary))
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name());
        } else if entry.file_name() == OLD_FORMAT_DIR {
            fs::create_dir(to.join(OLD_FORMAT_DIR))?;
        }
    }
    let cover = |name: &OsString| name.to_str().and_then(Cover::of_name);
    let last = names.iter().filter_map(cover).map(|cover| cover.last).max();
    for name in names {
        if name == LOCK || name.to_str().is_some_and(|name| name.starts_with(SPARE)) {
            continue;
        }
        let (source, target) = (from.join(&name), to.join(&name));
        let sealed = cover(&name).is_some_and(|cover| Some(cover.last) != last);
        if !(sealed && fs::hard_link(&source, &target).is_ok()) {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}

// === impl OpenError ===

impl OpenError {
    /// Returns the same error with the original's directory.
    pub(crate) fn with_dir(self, dir: &Path) -> Self {
        let dir = dir.to_owned();
        match self {
            Self::Locked { pid, .. } => Self::Locked { dir, pid },
            Self::Damaged { detail, .. } => Self::Damaged { dir, detail },
            Self::Format { found, known, .. } => Self::Format { dir, found, known },
            Self::Io { source, .. } => Self::Io { dir, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_store::{Expect, Op, Store, Txn};
    use bytes::Bytes;

    use super::*;
    use crate::log::LogOptions;

    async fn put(store: &EmbeddedStore, key: &str) {
        let op = Op::Put { value: Bytes::from(vec![7; 5000]), lease: None };
        let txn = Txn { key: Bytes::copy_from_slice(key.as_bytes()), expect: Expect::Anything, op };
        store.txn(txn).await.expect("a put");
    }

    /// Returns every file with its contents.
    fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => files.extend(contents(&path)),
                false => files.push((path.clone(), fs::read(&path).expect("a file"))),
            }
        }
        files.sort();
        files
    }

    #[tokio::test]
    async fn copy_locks_original_and_leaves_it_unchanged() {
        let base = tempfile::tempdir().expect("a directory");
        let dir = base.path().join("store");
        let log = LogOptions { min_segment: 256 << 10, max_segment: 256 << 10, background: true };
        let store = EmbeddedStore::open(EmbeddedOptions { log, ..EmbeddedOptions::new(&dir) }).expect("opens");
        // Enough writes for several segments.
        for n in 0..200 {
            put(&store, &format!("/k/{}", n % 50)).await;
        }
        let in_use_error = OfflineStore::open(&dir, None);
        assert!(matches!(in_use_error, Err(OpenError::Locked { pid: Some(pid), .. }) if pid == std::process::id()));
        store.close().await;
        drop(store);

        // A copy that a killed process left.
        let leftover = base.path().join("store.copy-0");
        fs::create_dir(&leftover).expect("a directory");
        fs::write(leftover.join("lock"), "0").expect("a file");

        let live = base.path().join("store.copy-1");
        let in_use = DirLock::acquire(&live).expect("a copy in use");
        let other = base.path().join("store.copy-of-mine");
        fs::create_dir(&other).expect("a directory");

        let before = contents(&dir);
        let copy = OfflineStore::open(&dir, None).expect("it opens");
        assert!(!leftover.exists() && live.exists() && other.exists());
        drop(in_use);
        assert!(matches!(EmbeddedStore::open(EmbeddedOptions::new(&dir)), Err(OpenError::Locked { .. })));
        let revision = copy.store().current_revision().await.expect("a revision");
        assert_eq!(revision.0, 201);
        put(&copy.store(), "/k/new").await;
        copy.store().compact(revision).await.expect("a compaction");
        copy.store().close().await;
        drop(copy);
        assert!(before == contents(&dir));
        assert_eq!(fs::read_dir(base.path()).expect("a directory").count(), 3, "the copy is gone");
        let store = EmbeddedStore::open(EmbeddedOptions::new(&dir)).expect("opens");
        assert!(!live.exists() && other.exists(), "a start removes what its dead owner has left");
        assert_eq!(store.current_revision().await.expect("a revision"), revision);
        let gone = OfflineStore::open(&base.path().join("nowhere"), None);
        assert!(matches!(gone, Err(OpenError::Io { .. })));
    }

    #[tokio::test]
    async fn reports_reading_progress_to_the_end() {
        let base = tempfile::tempdir().expect("a directory");
        let dir = base.path().join("store");
        let store = EmbeddedStore::open(EmbeddedOptions::new(&dir)).expect("opens");
        // More than one chunk of records.
        for n in 0..200 {
            put(&store, &format!("/k/{n}")).await;
        }
        store.close().await;
        drop(store);
        let reports = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let on_reading: OnReading = {
            let reports = reports.clone();
            Arc::new(move |done, all| reports.lock().push((done, all)))
        };
        let copy = OfflineStore::open(&dir, Some(on_reading.clone())).expect("it opens");
        drop(copy);
        let open_reports = std::mem::take(&mut *reports.lock());
        crate::check(&dir, Some(on_reading), &mut ()).expect("it is read");
        for reports in [open_reports, std::mem::take(&mut *reports.lock())] {
            assert!(reports.len() > 2, "{reports:?}");
            assert!(reports.is_sorted(), "{reports:?}");
            let (done, all) = reports[reports.len() - 1];
            assert!(done == all && all > 200 * 5000, "{reports:?}");
            assert!(reports.iter().all(|(_, of)| *of == all), "{reports:?}");
        }
    }

    #[tokio::test]
    async fn new_store_starts_at_first_revision() {
        let base = tempfile::tempdir().expect("a directory");
        let dir = base.path().join("store");
        for (first_revision, expected) in [(5000, 5000), (9000, 5001), (1, 5002)] {
            let store =
                EmbeddedStore::open(EmbeddedOptions { first_revision, ..EmbeddedOptions::new(&dir) }).expect("opens");
            assert_eq!(store.current_revision().await.expect("a revision").0, expected);
            assert_eq!(store.compacted_revision().await.expect("a revision").0, 5000);
            put(&store, "/k/a").await;
            store.close().await;
        }
    }
}
