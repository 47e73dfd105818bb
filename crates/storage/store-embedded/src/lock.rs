//! The lock by which only one process uses a data directory.
//!
//! The directory itself is locked, since a file in it can be removed. The file `lock` contains the PID of the owner for
//! error messages. It is locked as well, since earlier versions of this program lock nothing else.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use crate::error::OpenError;

/// The lock of a directory in use. The operating system releases it when the process ends, for any reason.
pub(crate) struct DirLock {
    dir: File,
    _file: Option<File>,
}

pub(crate) const NAME: &str = "lock";

// === impl DirLock ===

impl DirLock {
    /// Locks the directory, which must exist, without changing anything in it.
    pub(crate) fn acquire_existing(dir: &Path) -> Result<Self, OpenError> {
        let io_error = |source: io::Error| OpenError::Io { dir: dir.to_owned(), source };
        let handle = File::open(dir).map_err(io_error)?;
        lock_directory(dir, &handle)?;
        let file = match open_at(&handle, OFlags::RDONLY) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(io_error(error)),
        };
        if let Some(file) = &file {
            lock_file(dir, &handle, file)?;
        }
        Ok(Self { dir: handle, _file: file })
    }

    /// Creates the directory if it does not exist, and locks it.
    pub(crate) fn acquire(dir: &Path) -> Result<Self, OpenError> {
        let io_error = |source: io::Error| OpenError::Io { dir: dir.to_owned(), source };
        create_durably(dir).map_err(io_error)?;
        let handle = File::open(dir).map_err(io_error)?;
        lock_directory(dir, &handle)?;
        let mut file = open_at(&handle, OFlags::RDWR | OFlags::CREATE).map_err(io_error)?;
        lock_file(dir, &handle, &file)?;
        // The PID is only for error messages: a full disk must not prevent the store from serving reads.
        let written = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
        if let Err(error) = written {
            tracing::warn!(dir = %dir.display(), %error, "failed to write PID to lock file");
        }
        Ok(Self { dir: handle, _file: Some(file) })
    }

    /// Returns the handle of the directory, which stays valid if the directory is moved.
    pub(crate) fn dir(&self) -> &File {
        &self.dir
    }
}

fn lock_directory(dir: &Path, handle: &File) -> Result<(), OpenError> {
    use rustix::io::Errno;
    match handle.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: dir.to_owned(), pid: holder_pid(handle) }),
        Err(TryLockError::Error(source)) => {
            let unsupported = [Errno::BADF, Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL];
            let raw = source.raw_os_error().map(Errno::from_raw_os_error);
            if raw.is_none_or(|raw| !unsupported.contains(&raw)) {
                return Err(OpenError::Io { dir: dir.to_owned(), source });
            }
            // Network file systems only lock files that are open for writing.
            let dir = dir.display();
            tracing::warn!(%dir, error = %source, "the file system cannot lock directories: do not remove the file \"lock\"");
            Ok(())
        }
    }
}

fn lock_file(dir: &Path, handle: &File, file: &File) -> Result<(), OpenError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: dir.to_owned(), pid: holder_pid(handle) }),
        Err(TryLockError::Error(source)) => Err(OpenError::Io { dir: dir.to_owned(), source }),
    }
}

/// Returns the PID that the holder of the lock has written.
fn holder_pid(dir: &File) -> Option<u32> {
    let mut text = String::new();
    open_at(dir, OFlags::RDONLY).ok()?.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn open_at(dir: &File, flags: OFlags) -> io::Result<File> {
    Ok(rustix::fs::openat(dir, NAME, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?.into())
}

/// Creates a directory and its missing parents durably, so that a power failure does not remove their contents.
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
