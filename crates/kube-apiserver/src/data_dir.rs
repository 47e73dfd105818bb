//! Where the server keeps what must outlive it, and files that nobody else may read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A directory of ours. One that this start created is removed again unless [`keep`](Self::keep) is called, so that a
/// start that fails leaves nothing behind.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    at_end: AtEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AtEnd {
    Keep,
    /// This start made it, but another process may have begun to use it since: it goes only if it is still empty.
    RemoveIfEmpty,
    /// It is nobody else's: it goes with everything in it.
    Remove,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot use the data directory {path}: {error}")]
pub(crate) struct DataDirError {
    path: String,
    error: io::Error,
}

impl DataDir {
    /// Opens or creates a directory that stays.
    pub(crate) fn open(path: &Path) -> Result<Self, DataDirError> {
        let failed = |error| DataDirError { path: path.display().to_string(), error };
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(failed)?;
        }
        let at_end = match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => AtEnd::RemoveIfEmpty,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => AtEnd::Keep,
            Err(error) => return Err(failed(error)),
        };
        // The working directory may change its meaning, the greeting and the kubeconfig's user should not.
        let path = path.canonicalize().map_err(failed)?;
        Ok(Self { path, at_end })
    }

    /// Creates a directory that goes away with this value.
    pub(crate) fn temporary() -> Result<Self, DataDirError> {
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        let path = std::env::temp_dir().join(format!("binnacle-{}-{nanos}", std::process::id()));
        // Fails when somebody else has made it: a name in a shared directory can be guessed.
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok(Self { path, at_end: AtEnd::Remove }),
            Err(error) => Err(DataDirError { path: path.display().to_string(), error }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A directory inside of this one that only its owner can enter, whatever holds for this one.
    pub(crate) fn private(&self, name: &str) -> Result<PathBuf, DataDirError> {
        let path = self.path.join(name);
        match DirBuilder::new().recursive(true).mode(0o700).create(&path) {
            Ok(()) => Ok(path),
            Err(error) => Err(DataDirError { path: path.display().to_string(), error }),
        }
    }

    /// Says that no other process can be using it: its lock is ours.
    pub(crate) fn locked(&mut self) {
        if self.at_end == AtEnd::RemoveIfEmpty {
            self.at_end = AtEnd::Remove;
        }
    }

    /// Says that the start has succeeded.
    pub(crate) fn keep(&mut self) {
        self.at_end = AtEnd::Keep;
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        let removed = match self.at_end {
            AtEnd::Keep => Ok(()),
            AtEnd::RemoveIfEmpty => fs::remove_dir(&self.path),
            AtEnd::Remove => fs::remove_dir_all(&self.path),
        };
        if let Err(error) = removed {
            tracing::debug!("cannot remove {}: {error}", self.path.display());
        }
    }
}

/// The directory of a server that was not told one: the system's for root, the user's own for everybody else.
pub(crate) fn default_path() -> Option<PathBuf> {
    let root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if root {
        return Some(PathBuf::from("/var/lib/binnacle"));
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
    Some(data.or_else(|| Some(set("HOME")?.join(".local/share")))?.join("binnacle"))
}

/// Writes a file that only its owner can read, as a whole or not at all.
pub(crate) fn write_private(path: &Path, contents: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|present| present == contents) && fs::metadata(path)?.mode() & 0o077 == 0 {
        return Ok(());
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(contents)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_failed_start_leaves() {
        let base = DataDir::temporary().unwrap();
        let fresh = base.path().join("a/b");
        drop(DataDir::open(&fresh).unwrap());
        assert!(!fresh.exists());
        // Without its lock, what somebody else may have put there is not touched.
        for locked in [false, true] {
            let mut dir = DataDir::open(&fresh).unwrap();
            dir.private("store").unwrap();
            if locked {
                fs::remove_dir_all(&fresh).unwrap();
                dir = DataDir::open(&fresh).unwrap();
                dir.private("store").unwrap();
                dir.locked();
            }
            drop(dir);
            assert_eq!(fresh.exists(), !locked);
        }
        let mut kept = DataDir::open(&fresh).unwrap();
        kept.keep();
        drop(kept);
        assert_eq!(fs::metadata(&fresh).unwrap().mode() & 0o777, 0o700);
        drop(DataDir::open(&fresh).unwrap());
        assert!(fresh.exists());
        let file = fresh.join("file");
        fs::write(&file, "old").unwrap();
        write_private(&file, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let error = DataDir::open(&file).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot use the data directory {}: ", file.display())), "{error}");
    }
}
