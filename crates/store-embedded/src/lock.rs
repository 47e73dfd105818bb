//! The lock that lets one process use a data directory.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::error::OpenError;

/// The lock of a directory in use; the operating system releases it when the process ends, however it ends.
pub(crate) struct DirLock {
    _file: File,
}

// === impl DirLock ===

impl DirLock {
    /// Locks the directory, which must exist, without writing the pid to it.
    pub(crate) fn acquire_silently(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join("lock");
        let io_error = |source: io::Error| OpenError::Io { dir: dir.to_owned(), source };
        let file = File::open(&path).map_err(io_error)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: dir.to_owned(), pid: holder(&path) }),
            Err(TryLockError::Error(source)) => Err(io_error(source)),
        }
    }

    pub(crate) fn acquire(dir: &Path) -> Result<Self, OpenError> {
        let io_error = |source: io::Error| OpenError::Io { dir: dir.to_owned(), source };
        create_durably(dir).map_err(io_error)?;
        let path = dir.join("lock");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(io_error)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Locked { dir: dir.to_owned(), pid: holder(&path) });
            }
            Err(TryLockError::Error(source)) => return Err(io_error(source)),
        }
        // The pid is for error messages only: a full disk must not keep the store from serving reads.
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(error) = written {
            tracing::warn!(dir = %dir.display(), %error, "cannot note the pid in the lock file");
        }
        Ok(Self { _file: file })
    }
}

/// Returns the pid that the holder of the lock has written.
fn holder(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok())
}

/// Creates a directory and its missing parents durably, so that a power cut does not remove their contents.
fn create_durably(dir: &Path) -> io::Result<()> {
    let missing: Vec<_> = dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists()).collect();
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    for created in missing {
        match created.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent)?,
            _ => sync_dir(Path::new("."))?,
        }
    }
    Ok(())
}

/// Makes the names in a directory durable.
fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
