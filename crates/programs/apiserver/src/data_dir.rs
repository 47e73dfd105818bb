//! The directory for persistent files.

mod temporary;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub(crate) use temporary::remove_abandoned;

use binnacle_pki::private_files::{create_private, restrict_to_owner};

/// A directory of the server. If this start created it, it is removed again unless [`keep`](Self::keep) is called, so
/// that a failed start leaves nothing behind.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    cleanup: Cleanup,
    /// The lock of a temporary directory, which lasts until it is removed.
    _lock: Option<File>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cleanup {
    Keep,
    /// This start created it, but another process may use it by now: it is removed only if it is empty.
    RemoveIfEmpty,
    /// Only this process uses it: it is removed with all its contents.
    Remove,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot use the data directory {path}: {error}")]
pub(crate) struct DataDirError {
    path: String,
    error: io::Error,
}

/// The entries that the server itself creates in its directory, and the one of file systems.
const OWN_ENTRIES: [&str; 5] = ["store", "pki", "admin.kubeconfig", "server-ca.crt", "lost+found"];

impl DataDir {
    /// Opens or creates a persistent directory.
    pub(crate) fn open(path: &Path) -> Result<Self, DataDirError> {
        let failed = |error| DataDirError { path: path.display().to_string(), error };
        let missing: Vec<&Path> = path.ancestors().skip(1).take_while(|path| !path.exists()).collect();
        for parent in missing.into_iter().rev().filter(|path| !path.as_os_str().is_empty()) {
            match create_private(parent) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
                _ => {}
            }
        }
        let cleanup = match create_private(path) {
            Ok(()) => Cleanup::RemoveIfEmpty,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {
                ensure_private(path).map_err(failed)?;
                Cleanup::Keep
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(failed(io::Error::new(io::ErrorKind::NotADirectory, "it is not a directory")));
            }
            Err(error) => return Err(failed(error)),
        };
        // Absolute, so that the output and the kubeconfig do not depend on the working directory.
        let path = path.canonicalize().map_err(failed)?;
        Ok(Self { path, cleanup, _lock: None })
    }

    /// Creates a directory that is removed with this value, or by [`remove_abandoned`] if the process is killed.
    pub(crate) fn temporary() -> Result<Self, DataDirError> {
        match temporary::create(&std::env::temp_dir()) {
            Ok((path, lock)) => Ok(Self { path, cleanup: Cleanup::Remove, _lock: lock }),
            Err((path, error)) => Err(DataDirError { path: path.display().to_string(), error }),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a directory inside this one that only its owner can enter, even if others can enter this one.
    pub(crate) fn private(&self, name: &str) -> Result<PathBuf, DataDirError> {
        let path = self.path.join(name);
        let created = match create_private(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => restrict_to_owner(&path),
            created => created,
        };
        match created {
            Ok(()) => Ok(path),
            Err(error) => Err(DataDirError { path: path.display().to_string(), error }),
        }
    }

    /// Records that this process has the lock, so that no other one uses the directory.
    pub(crate) fn locked(&mut self) {
        if self.cleanup == Cleanup::RemoveIfEmpty {
            self.cleanup = Cleanup::Remove;
        }
    }

    /// Records that the start has succeeded, so that the directory is not removed.
    pub(crate) fn keep(&mut self) {
        self.cleanup = Cleanup::Keep;
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        let removed = match self.cleanup {
            Cleanup::Keep => Ok(()),
            Cleanup::RemoveIfEmpty => fs::remove_dir(&self.path),
            Cleanup::Remove => fs::remove_dir_all(&self.path),
        };
        if let Err(error) = removed {
            tracing::debug!("failed to remove {}: {error}", self.path.display());
        }
    }
}

/// Returns the default directory of a server: the system's for root, the user's own for other users.
pub(crate) fn default_path() -> Option<PathBuf> {
    let root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if root {
        return Some(PathBuf::from("/var/lib/binnacle"));
    }
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").filter(|path| path.is_absolute());
    Some(data.or_else(|| Some(set("HOME")?.join(".local/share")))?.join("binnacle"))
}

/// Removes other users' permissions for a directory that has only the server's own files. Any other directory, such as
/// a home or `/tmp`, is an error: it may be in use by others.
///
/// The root of a volume of Kubernetes belongs to root, and to the group `fsGroup` of the pod. Its permissions cannot be
/// changed, and need not be: the server's own files and directories in it are for their owner only.
fn ensure_private(path: &Path) -> io::Result<()> {
    let metadata = fs::metadata(path)?;
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        if !name.to_str().is_some_and(|name| OWN_ENTRIES.contains(&name.trim_end_matches(".new"))) {
            return Err(io::Error::other(format!(
                "others can read it (mode {mode:04o}) and there are other things in it, such as {}; name a directory of \
                 its own",
                name.to_string_lossy()
            )));
        }
    }
    match restrict_to_owner(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            accept_volume(metadata.uid(), mode).map_err(|why| io::Error::new(error.kind(), why))
        }
        restricted => restricted,
    }
}

/// Checks the owner and the mode of a directory that belongs to another user. Users who can write to it can replace the
/// server's files: the owner, who must be root, and the group.
fn accept_volume(owner: u32, mode: u32) -> Result<(), String> {
    if owner != 0 {
        return Err(format!(
            "it belongs to the user {owner}, who could replace its files; name a directory of its own"
        ));
    }
    if mode & 0o002 != 0 {
        return Err(format!("all users can write to it (mode {mode:04o}); name a directory of its own"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use binnacle_pki::private_files::{Durability, write_private};

    use super::*;

    #[test]
    fn failed_start_removes_only_its_own_directory() {
        let base = DataDir::temporary().unwrap();
        let fresh = base.path().join("a/b");
        drop(DataDir::open(&fresh).unwrap());
        assert!(!fresh.exists());
        // Without its lock, the directory may have files of another process, which are not removed.
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
        write_private(&file, b"new", Durability::Durable).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        let error = DataDir::open(&file).unwrap_err().to_string();
        assert_eq!(error, format!("cannot use the data directory {}: it is not a directory", file.display()));
    }

    #[test]
    fn accepts_directories_of_root_that_a_group_shares() {
        for (owner, mode, error) in [
            (0, 0o2775, ""),
            (0, 0o2770, ""),
            (0, 0o0775, ""),
            (0, 0o0755, ""),
            (0, 0o2777, "all users can write to it (mode 2777); name a directory of its own"),
            (0, 0o1777, "all users can write to it (mode 1777); name a directory of its own"),
            (7, 0o2770, "it belongs to the user 7, who could replace its files; name a directory of its own"),
        ] {
            assert_eq!(accept_volume(owner, mode).err().unwrap_or_default(), error, "{owner} {mode:o}");
        }
    }

    #[test]
    fn restricts_or_rejects_open_directories() {
        let base = DataDir::temporary().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        let open_up = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        let path = base.path().join("data");
        let mut data = DataDir::open(&path).unwrap();
        data.keep();
        let pki = data.private("pki").unwrap();
        for (directory, secret) in [(0o755, 0o644), (0o777, 0o666), (0o750, 0o640), (0o700, 0o600)] {
            let key = pki.join("a.key");
            fs::write(&key, "secret").unwrap();
            open_up(&path, directory);
            open_up(&pki, directory);
            open_up(&key, secret);
            let data = DataDir::open(&path).unwrap();
            data.private("pki").unwrap();
            write_private(&key, b"secret", Durability::Ephemeral).unwrap();
            assert_eq!((mode(&path), mode(&pki), mode(&key)), (0o700, 0o700, 0o600), "{directory:o}");
        }
        // A directory with other files is not changed, and is accepted only if others have no access.
        fs::write(path.join("letter"), "").unwrap();
        DataDir::open(&path).unwrap();
        open_up(&path, 0o755);
        let error = DataDir::open(&path).unwrap_err().to_string();
        assert!(error.contains("others can read it (mode 0755)") && error.contains("such as letter"), "{error}");
        assert_eq!(mode(&path), 0o755);
    }
}
