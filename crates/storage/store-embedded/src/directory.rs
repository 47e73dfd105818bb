//! The directory of a store, and the copies of it beside it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::OpenError;
use crate::lock::DirLock;
use crate::log::acknowledged::NAME as HEAD;
use crate::log::format::Cover;

/// The directory of the database that was used before the current format.
pub(crate) const OLD_FORMAT_DIR: &str = "log";

/// The extension of copies, before the PID.
pub(crate) const COPY: &str = "copy-";

/// Returns true if a directory has a store, even in a format that is no longer supported.
pub fn is_store(dir: &Path) -> bool {
    let names = fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().any(|name| {
        let segment = name.to_str().is_some_and(|name| Cover::of_name(name).is_some());
        segment || name == HEAD || name == OLD_FORMAT_DIR
    })
}

/// Locks the existing store in a directory, without changing anything in it.
pub(crate) fn lock_store(dir: &Path) -> Result<DirLock, OpenError> {
    if !is_store(dir) {
        let source = io::Error::new(io::ErrorKind::NotFound, "there is no store in it");
        return Err(OpenError::Io { dir: dir.to_owned(), source });
    }
    DirLock::acquire_existing(dir)
}

/// Removes copies that killed processes left next to a store or among the temporary files, and whose locks are free.
pub(crate) fn remove_leftovers(dir: &Path) {
    let Ok(dir) = dir.canonicalize() else { return };
    let (Some(parent), Some(name), Ok(store)) = (dir.parent(), dir.file_stem(), dir.metadata()) else { return };
    let is_our_copy = |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let pid = extension.and_then(|extension| extension.strip_prefix(COPY));
        let copy = path.file_stem() == Some(name) && pid.is_some_and(|pid| pid.parse::<u32>().is_ok());
        // Other users may use the directory of temporary files, too.
        copy && path.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == store.uid())
    };
    for directory in [parent, &std::env::temp_dir()] {
        let Ok(entries) = fs::read_dir(directory) else { continue };
        for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_our_copy(path)) {
            let Ok(_lock) = DirLock::acquire_existing(&path) else { continue };
            match fs::remove_dir_all(&path) {
                Ok(()) => tracing::info!(path = %path.display(), "removed copy left over from a killed process"),
                Err(error) => {
                    tracing::warn!(%error, path = %path.display(), "failed to remove copy left over from a killed process")
                }
            }
        }
    }
}
