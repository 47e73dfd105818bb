//! The files of a store's directory: only the operations that the log needs, so that a test can replace them by a disk
//! that loses power, or fails, at any single operation.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FallocateFlags;

use crate::lock::DirLock;

/// One directory. Names are plain file names in it.
pub trait Files: Send + Sync + 'static {
    /// Creates an empty file; fails if the name exists.
    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>>;
    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>>;
    /// Renames a file, and replaces an existing file of the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns the names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes the names in the directory durable, but not the contents of the files.
    fn sync_dir(&self) -> io::Result<()>;
    /// Returns the number of bytes that can still be written, for messages.
    fn free_bytes(&self) -> Option<u64>;
}

/// One open file. It stays usable after its name has been removed.
pub trait LogFile: Send + Sync {
    /// Reads as many bytes as there are, up to the length of the buffer.
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes at least some of the bytes, and returns their number.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;
    /// Makes the contents durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Reserves space in the file system up to a size; new bytes read as zeros.
    fn allocate(&self, len: u64) -> io::Result<()>;
    fn set_len(&self, len: u64) -> io::Result<()>;
    fn size(&self) -> io::Result<u64>;
}

/// A directory of the operating system.
pub struct RealFiles {
    dir: PathBuf,
    /// Kept open, so that a process without descriptors left can still make names durable.
    handle: File,
    /// Dropped last.
    _lock: DirLock,
}

// === impl RealFiles ===

impl RealFiles {
    /// Uses an existing, locked directory, and removes other users' permissions for it.
    pub(crate) fn new(dir: &Path, lock: DirLock) -> io::Result<Self> {
        close_to_others(dir)?;
        Ok(Self { dir: dir.to_owned(), handle: File::open(dir)?, _lock: lock })
    }
}

impl Files for RealFiles {
    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let path = self.dir.join(name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        // The umask of the process may have removed permissions that are needed to open the file again.
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(Arc::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let path = self.dir.join(name);
        close_to_others(&path)?;
        Ok(Arc::new(OpenOptions::new().read(true).write(true).open(path)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.dir.join(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        fs::read_dir(&self.dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn free_bytes(&self) -> Option<u64> {
        rustix::fs::fstatvfs(&self.handle).ok().map(|stat| stat.f_bavail * stat.f_frsize)
    }
}

impl LogFile for File {
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        let mut read = 0;
        while read < buf.len() {
            match FileExt::read_at(self, &mut buf[read..], at + read as u64) {
                Ok(0) => break,
                Ok(some) => read += some,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, at)
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(self, FallocateFlags::empty(), 0, len) {
            // A file system that cannot reserve space cannot run out of it; the file still gets its size.
            Err(rustix::io::Errno::OPNOTSUPP) => File::set_len(self, len),
            done => Ok(done?),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

/// Removes the permissions of other users from a file or directory of the store, and logs that.
pub(crate) fn close_to_others(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode & 0o700)).map_err(|error| {
        let path = path.display();
        io::Error::new(
            error.kind(),
            format!("others can access {path} (mode {mode:o}), which cannot be ended: {error}"),
        )
    })?;
    tracing::warn!(path = %path.display(), mode = format_args!("{mode:o}"), "ended the access of others to the store");
    Ok(())
}

/// Writes all of the bytes.
pub(crate) fn write_all(file: &dyn LogFile, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns true for an error that may pass by itself: no space, or no descriptors. It does not mean damage.
pub(crate) fn may_pass(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let passing = [Errno::NOSPC, Errno::DQUOT, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    let raw = error.raw_os_error().map(Errno::from_raw_os_error);
    raw.is_some_and(|raw| passing.contains(&raw)) || is_full(error)
}

/// Returns true when the file system, or a quota, has no space left.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
