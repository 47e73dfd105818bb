//! The files of a store's directory. The trait only has the operations that the log needs, so that a test can replace
//! it with a disk that loses power, or fails, at any single operation.

use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FallocateFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::lock::DirLock;

/// One directory. Names are plain file names in it.
pub trait Files: Send + Sync + 'static {
    /// Creates an empty file. Fails if the name exists.
    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>>;
    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>>;
    /// Renames a file. Fails if the new name exists.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Renames a file, and replaces an existing file with the new name.
    fn replace(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Returns the names of all files.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes the names in the directory durable, but not the contents of the files.
    fn sync_dir(&self) -> io::Result<()>;
    /// Returns the number of bytes that can still be written, for messages.
    fn free_bytes(&self) -> Option<u64>;
    /// Fails with [`DisplacedError`] if the next process would not find these files.
    fn check_in_place(&self) -> Result<(), DisplacedError> {
        Ok(())
    }
}

/// The error of a directory that was moved, removed or replaced while it is in use.
#[derive(Debug, thiserror::Error)]
#[error("{} no longer leads to the store, whose directory was moved, removed or covered by a mount", .0.display())]
pub struct DisplacedError(PathBuf);

/// One open file. It stays usable after its name has been removed.
pub trait LogFile: Send + Sync {
    /// Reads as many bytes as are available, up to the length of the buffer.
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes at least some of the bytes, and returns their number.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;
    /// Makes the contents durable.
    fn sync_data(&self) -> io::Result<()>;
    /// Reserves space in the file system up to a size. New bytes are read as zeros.
    fn allocate(&self, len: u64) -> io::Result<()>;
    fn set_len(&self, len: u64) -> io::Result<()>;
    fn size(&self) -> io::Result<u64>;
}

/// A directory of the operating system. All files are accessed through its handle, since the path may lead to another
/// directory one day, with another store.
pub struct RealFiles {
    path: PathBuf,
    /// Also holds the handle, so that a process that has run out of descriptors can still make names durable.
    lock: DirLock,
}

// === impl RealFiles ===

impl RealFiles {
    /// Uses an existing, locked directory, and removes other users' permissions for it.
    pub(crate) fn new(dir: &Path, lock: DirLock) -> io::Result<Self> {
        let path = std::path::absolute(dir)?;
        restrict_permissions(lock.dir(), &path)?;
        Ok(Self { path, lock })
    }
}

impl Files for RealFiles {
    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::openat(self.lock.dir(), name, flags, Mode::RUSR | Mode::WUSR)?);
        // The umask of the process may have removed permissions that are needed to open the file again.
        file.set_permissions(Permissions::from_mode(0o600))?;
        Ok(Arc::new(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let file = open_at(&self.lock, name, OFlags::RDWR)?;
        restrict_permissions(&file, &self.path.join(name))?;
        Ok(Arc::new(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let dir = self.lock.dir();
        match rustix::fs::renameat_with(dir, from, dir, to, RenameFlags::NOREPLACE) {
            // Some file systems cannot check and rename in one step. The lock prevents other processes from acting in
            // between.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                match rustix::fs::statat(dir, to, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
                    Err(Errno::NOENT) => self.replace(from, to),
                    Err(error) => Err(error.into()),
                }
            }
            renamed => Ok(renamed?),
        }
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        let dir = self.lock.dir();
        Ok(rustix::fs::renameat(dir, from, dir, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.lock.dir(), name, AtFlags::empty())?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        list(&self.lock)
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.lock.dir().sync_all()
    }

    fn free_bytes(&self) -> Option<u64> {
        free_bytes(&self.lock)
    }

    fn check_in_place(&self) -> Result<(), DisplacedError> {
        let displaced = || DisplacedError(self.path.clone());
        let at_path = match std::fs::metadata(&self.path) {
            Ok(at_path) => at_path,
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Err(displaced());
            }
            // This cannot be determined now.
            Err(_) => return Ok(()),
        };
        match self.lock.dir().metadata() {
            Ok(own) if (own.dev(), own.ino()) != (at_path.dev(), at_path.ino()) => Err(displaced()),
            _ => Ok(()),
        }
    }
}

/// The files of a directory that is only read, for tools. It also works on a file system that is read-only or full. The
/// files are opened read-only, so that the operating system rejects any change.
pub(crate) struct ReadOnlyFiles {
    lock: DirLock,
}

// === impl ReadOnlyFiles ===

impl ReadOnlyFiles {
    /// Uses an existing, locked directory.
    pub(crate) fn new(lock: DirLock) -> Self {
        Self { lock }
    }
}

impl Files for ReadOnlyFiles {
    fn create(&self, _: &str) -> io::Result<Arc<dyn LogFile>> {
        Err(Errno::ROFS.into())
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        Ok(Arc::new(open_at(&self.lock, name, OFlags::RDONLY)?))
    }

    fn rename(&self, _: &str, _: &str) -> io::Result<()> {
        Err(Errno::ROFS.into())
    }

    fn replace(&self, _: &str, _: &str) -> io::Result<()> {
        Err(Errno::ROFS.into())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        Err(Errno::ROFS.into())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        list(&self.lock)
    }

    fn sync_dir(&self) -> io::Result<()> {
        Err(Errno::ROFS.into())
    }

    fn free_bytes(&self) -> Option<u64> {
        free_bytes(&self.lock)
    }
}

fn open_at(lock: &DirLock, name: &str, access: OFlags) -> io::Result<File> {
    Ok(File::from(rustix::fs::openat(lock.dir(), name, access | OFlags::CLOEXEC, Mode::empty())?))
}

fn list(lock: &DirLock) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(lock.dir())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != "." && name != ".." {
            names.push(name);
        }
    }
    Ok(names)
}

fn free_bytes(lock: &DirLock) -> Option<u64> {
    rustix::fs::fstatvfs(lock.dir()).ok().map(|stat| stat.f_bavail * stat.f_frsize)
}

/// The error of a read, with the position of the first byte that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("at byte {at}: {source}")]
pub(crate) struct ReadError {
    pub(crate) at: u64,
    source: io::Error,
}

// === impl ReadError ===

impl ReadError {
    /// Returns the reason of a read error, without the position.
    pub(crate) fn reason(error: &io::Error) -> &io::Error {
        let read_error = error.get_ref().and_then(|inner| inner.downcast_ref::<Self>());
        read_error.map_or(error, |read_error| &read_error.source)
    }

    /// Adds the name of the file to a read error.
    pub(crate) fn of(name: &str) -> impl Fn(io::Error) -> io::Error + '_ {
        move |error| io::Error::new(error.kind(), format!("{name} cannot be read: {error}"))
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
                Err(source) => {
                    let read_error = ReadError { at: at + read as u64, source };
                    return Err(io::Error::new(read_error.source.kind(), read_error));
                }
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
        // A reservation that fails may take all free space before, and other programs would fail in the meantime. A
        // file system without a size does not report its free space.
        let system = rustix::fs::fstatvfs(self)?;
        let missing = len.saturating_sub(self.metadata()?.blocks() * 512);
        if system.f_blocks > 0 && missing > system.f_bavail * system.f_frsize {
            return Err(Errno::NOSPC.into());
        }
        match rustix::fs::fallocate(self, FallocateFlags::empty(), 0, len) {
            // A file system that cannot reserve space cannot run out of it. The file still gets its size.
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
fn restrict_permissions(file: &File, path: &Path) -> io::Result<()> {
    let mode = file.metadata()?.permissions().mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(mode & 0o700)).map_err(|error| {
        let path = path.display();
        io::Error::new(
            error.kind(),
            format!("others can access {path} (mode {mode:o}), which cannot be ended: {error}"),
        )
    })?;
    tracing::warn!(path = %path.display(), mode = format_args!("{mode:o}"), "removed the permissions of others on the store");
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

/// Returns true for a transient error: no space, no descriptors, or a directory that was moved. It does not indicate
/// damage.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    let transient = [Errno::NOSPC, Errno::DQUOT, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    let raw = error.raw_os_error().map(Errno::from_raw_os_error);
    raw.is_some_and(|raw| transient.contains(&raw)) || is_out_of_space(error) || is_displaced(error)
}

fn is_displaced(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<DisplacedError>())
}

/// Returns true if the file system, or a quota, has no space left.
pub(crate) fn is_out_of_space(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
