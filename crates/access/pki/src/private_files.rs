//! Files and directories that only their owner may read.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The durability of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Files survive a power failure.
    Durable,
    /// Files need not outlive the process.
    Ephemeral,
}

/// Creates a directory with full access for the owner, whatever the umask is.
pub fn create_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Writes a file that only its owner can read, atomically.
///
/// A file that already has these contents is not written again, but its permissions are set.
pub fn write_private(path: &Path, contents: &[u8], durability: Durability) -> io::Result<()> {
    if fs::read(path).is_ok_and(|present| present == contents) {
        return restrict_to_owner(path);
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    let written = file
        // Set explicitly, independently of the umask.
        .set_permissions(Permissions::from_mode(0o600))
        .and_then(|()| file.write_all(contents))
        .and_then(|()| if durability == Durability::Durable { file.sync_all() } else { Ok(()) })
        .and_then(|()| fs::rename(&new, path));
    if let Err(error) = written {
        // An incomplete file would only take up space, e.g. on a full disk; failing to remove it does no harm.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    sync_directory_of(path, durability)
}

/// Syncs the directory of a file, so that its name survives a power failure.
pub fn sync_directory_of(path: &Path, durability: Durability) -> io::Result<()> {
    match path.parent() {
        Some(parent) if durability == Durability::Durable => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}

/// Restricts the permissions of a file to its owner, and logs a warning if they were wider.
pub fn restrict_to_owner(path: &Path) -> io::Result<()> {
    let mode = fs::metadata(path)?.mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode & 0o700))?;
    tracing::warn!("others could read {} (mode {mode:04o}): it is for its owner only now", path.display());
    Ok(())
}

/// Logs a warning if other users can read a secret file whose permissions the server does not change.
pub fn warn_if_world_readable(path: &Path) {
    if let Ok(file) = fs::metadata(path)
        && file.mode() & 0o007 != 0
    {
        tracing::warn!(
            "everybody on this machine can read the key in {} (mode {:04o})",
            path.display(),
            file.mode() & 0o7777
        );
    }
}
