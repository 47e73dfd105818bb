//! A store that is not in use by a server, read without changes.
//!
//! Opening a store changes it: it begins a new segment after an unfinished write, leases end, and segments are
//! rewritten. So a copy is opened here. All segments but the last are never written again, so the copy shares them by
//! hard links; the last segment and the small files are copied. The original stays locked, so that no server starts on
//! it meanwhile.

use std::ffi::OsString;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::OpenError;
use crate::lock::DirLock;
use crate::log::acknowledged::NAME as HEAD;
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

/// A directory with a copy of a store's files; it is removed on drop.
pub(crate) struct PrivateCopy {
    path: PathBuf,
    _original: DirLock,
}

// === impl OfflineStore ===

impl OfflineStore {
    /// Opens the existing store in `dir` as a [lean](EmbeddedOptions::lean) copy. Reads the whole store, and blocks until that
    /// is done; `on_reading` is told how far that is.
    pub fn open(dir: &Path, on_reading: Option<OnReading>) -> Result<Self, OpenError> {
        let copy = PrivateCopy::of(dir)?;
        let opened =
            EmbeddedStore::open(EmbeddedOptions { lean: true, on_reading, ..EmbeddedOptions::new(&copy.path) });
        let store = opened.map_err(|error| error.about(dir))?;
        Ok(Self { store: Arc::new(store), _copy: copy })
    }

    pub fn store(&self) -> Arc<EmbeddedStore> {
        Arc::clone(&self.store)
    }
}

// === impl PrivateCopy ===

impl PrivateCopy {
    pub(crate) fn of(dir: &Path) -> Result<Self, OpenError> {
        let failed = |source: io::Error| OpenError::Io { dir: dir.to_owned(), source };
        if !is_store(dir) {
            return Err(failed(io::Error::new(io::ErrorKind::NotFound, "there is no store in it")));
        }
        let original = DirLock::acquire_silently(dir)?;
        remove_leftovers(dir);
        let path = place(dir).map_err(failed)?;
        let copy = Self { path, _original: original };
        copy_files(dir, &copy.path).map_err(failed)?;
        Ok(copy)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PrivateCopy {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the copy");
        }
    }
}

/// Creates an empty directory beside the store, where hard links are possible, or else among the temporary files.
fn place(dir: &Path) -> io::Result<PathBuf> {
    let beside = dir.canonicalize()?.with_extension(format!("{COPY}{}", std::process::id()));
    let elsewhere = std::env::temp_dir().join(beside.file_name().unwrap_or_default());
    let make = |path: PathBuf| DirBuilder::new().mode(0o700).create(&path).map(|()| path);
    make(beside).or_else(|_| make(elsewhere))
}

const COPY: &str = "copy-";

/// Removes copies that killed processes left, whose locks are free.
fn remove_leftovers(dir: &Path) {
    let Ok(dir) = dir.canonicalize() else { return };
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_stem()) else { return };
    let ours = |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        path.file_stem() == Some(name) && extension.is_some_and(|extension| extension.starts_with(COPY))
    };
    let Ok(entries) = fs::read_dir(parent) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| ours(path)) {
        if DirLock::acquire_silently(&path).is_ok() {
            // A copy that cannot be removed is harmless.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name());
        } else if entry.file_name() == OLD_FORM {
            fs::create_dir(to.join(OLD_FORM))?;
        }
    }
    let cover = |name: &OsString| name.to_str().and_then(Cover::of_name);
    let last = names.iter().filter_map(cover).map(|cover| cover.last).max();
    for name in names {
        if name.to_str().is_some_and(|name| name.starts_with(SPARE)) {
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

/// Returns true if a directory has a store, even in a format that is not supported any more.
pub fn is_store(dir: &Path) -> bool {
    let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().any(|name| {
        let segment = name.to_str().is_some_and(|name| Cover::of_name(name).is_some());
        segment || name == HEAD || name == OLD_FORM
    })
}

/// The directory of the database that was used before the present format.
pub(crate) const OLD_FORM: &str = "log";

// === impl OpenError ===

impl OpenError {
    /// Returns the same error with the original's directory.
    pub(crate) fn about(self, dir: &Path) -> Self {
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
    async fn the_original_is_locked_and_stays_as_it_is() {
        let base = tempfile::tempdir().expect("a directory");
        let dir = base.path().join("store");
        let log = LogOptions { min_segment: 256 << 10, max_segment: 256 << 10, background: true };
        let store = EmbeddedStore::open(EmbeddedOptions { log, ..EmbeddedOptions::new(&dir) }).expect("opens");
        // Enough writes for several segments.
        for n in 0..200 {
            put(&store, &format!("/k/{}", n % 50)).await;
        }
        let running = OfflineStore::open(&dir, None);
        assert!(matches!(running, Err(OpenError::Locked { pid: Some(pid), .. }) if pid == std::process::id()));
        store.close().await;
        drop(store);

        // A copy that a killed process left.
        let left = base.path().join("store.copy-0");
        fs::create_dir(&left).expect("a directory");
        fs::write(left.join("lock"), "0").expect("a file");

        let before = contents(&dir);
        let copy = OfflineStore::open(&dir, None).expect("it opens");
        assert!(!left.exists());
        assert!(matches!(EmbeddedStore::open(EmbeddedOptions::new(&dir)), Err(OpenError::Locked { .. })));
        let revision = copy.store().current_revision().await.expect("a revision");
        assert_eq!(revision.0, 201);
        put(&copy.store(), "/k/new").await;
        copy.store().compact(revision).await.expect("a compaction");
        copy.store().close().await;
        drop(copy);
        assert!(before == contents(&dir));
        assert_eq!(fs::read_dir(base.path()).expect("a directory").count(), 1, "the copy is gone");
        let store = EmbeddedStore::open(EmbeddedOptions::new(&dir)).expect("opens");
        assert_eq!(store.current_revision().await.expect("a revision"), revision);
        let gone = OfflineStore::open(&base.path().join("nowhere"), None);
        assert!(matches!(gone, Err(OpenError::Io { .. })));
    }

    #[tokio::test]
    async fn the_reading_is_reported_to_its_end() {
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
        let of_an_opening = std::mem::take(&mut *reports.lock());
        crate::check(&dir, Some(on_reading)).expect("it is read");
        for reports in [of_an_opening, std::mem::take(&mut *reports.lock())] {
            assert!(reports.len() > 2, "{reports:?}");
            assert!(reports.is_sorted(), "{reports:?}");
            let (done, all) = reports[reports.len() - 1];
            assert!(done == all && all > 200 * 5000, "{reports:?}");
            assert!(reports.iter().all(|(_, of)| *of == all), "{reports:?}");
        }
    }

    #[tokio::test]
    async fn a_new_store_begins_where_it_is_told() {
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
