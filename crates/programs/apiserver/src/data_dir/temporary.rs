//! Temporary directories of ephemeral servers. Each is locked while its process runs, so that a later start can remove
//! the directories of processes that were killed. A process ID would not do: the system assigns it again.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::create_private;

/// The beginning of the names. Directories of this name without a lock are abandoned.
const PREFIX: &str = "binnacle-ephemeral-";

/// The limit on attempts to create a directory that other starts remove before it is locked.
const ATTEMPTS: u32 = 16;

/// Creates a directory in `parent`, and returns it with its lock, which ends with the file or with the process. There
/// is no lock on file systems without locks, where later starts remove nothing. An error has the path that failed.
pub(super) fn create(parent: &Path) -> Result<(PathBuf, Option<File>), (PathBuf, io::Error)> {
    let mut attempts = 1;
    loop {
        let path = parent.join(new_name());
        // Fails if it exists: another user can guess names in a shared directory.
        let locked = create_private(&path).map(|()| lock(&path));
        match locked {
            Ok(Ok(Some(lock))) => return Ok((path, Some(lock))),
            Ok(Err(error)) => {
                tracing::debug!("cannot lock {}: {error}", path.display());
                return Ok((path, None));
            }
            // Another start took it for abandoned before it was locked.
            Ok(Ok(None)) if attempts < ATTEMPTS => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < ATTEMPTS => {}
            Ok(Ok(None)) => return Err((path, io::ErrorKind::ResourceBusy.into())),
            Err(error) => return Err((path, error)),
        }
        attempts += 1;
    }
}

/// Removes the directories in `parent` that killed processes of this user have left behind.
pub(crate) fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())) {
        let path = entry.path();
        if !is_own_directory(&path) {
            continue;
        }
        // The lock is held during the removal, so that a start that has just created the directory uses another one.
        let Ok(Some(lock)) = lock(&path) else { continue };
        match fs::remove_dir_all(&path) {
            Ok(()) => tracing::info!("removed {}, left over from a killed server", path.display()),
            Err(error) => tracing::debug!("failed to remove {}: {error}", path.display()),
        }
        drop(lock);
    }
}

fn new_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    format!("{PREFIX}{}-{number}-{nanos}", std::process::id())
}

/// Locks a directory. Returns `None` if it is locked or was removed.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let directory = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        directory => directory?,
    };
    match directory.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    // The path may name something else by now.
    let locked = directory.metadata()?;
    let is_same = |found: fs::Metadata| (found.dev(), found.ino()) == (locked.dev(), locked.ino());
    Ok(fs::symlink_metadata(path).is_ok_and(is_same).then_some(directory))
}

fn is_own_directory(path: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == user)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::thread;

    use super::*;
    use crate::data_dir::DataDir;

    #[test]
    fn removes_only_directories_without_a_process() {
        let base = DataDir::temporary().unwrap();
        let parent = base.path();
        let (running, running_lock) = create(parent).unwrap();
        let (killed, killed_lock) = create(parent).unwrap();
        fs::write(killed.join("admin.kubeconfig"), "").unwrap();
        drop(killed_lock);
        let others = ["binnacle-1-0-1", "binnacle-ephemeral", "other"].map(|name| parent.join(name));
        others.iter().for_each(|path| fs::create_dir(path).unwrap());
        let link = parent.join(format!("{PREFIX}link"));
        symlink(&others[2], &link).unwrap();
        let file = parent.join(format!("{PREFIX}file"));
        fs::write(&file, "").unwrap();
        remove_abandoned(parent);
        assert!(!killed.exists());
        assert!(running.exists() && link.exists() && file.exists() && others.iter().all(|path| path.exists()));
        drop(running_lock);
        remove_abandoned(parent);
        assert!(!running.exists());
        remove_abandoned(&parent.join("missing"));
    }

    #[test]
    fn starts_at_the_same_time_keep_their_directories() {
        let base = DataDir::temporary().unwrap();
        let parent = base.path();
        let start = || {
            for _ in 0..50 {
                let (path, _lock) = create(parent).unwrap();
                fs::write(path.join("file"), "").unwrap();
                remove_abandoned(parent);
                assert!(path.join("file").exists());
            }
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(start))));
        remove_abandoned(parent);
        assert_eq!(fs::read_dir(parent).unwrap().count(), 0);
    }
}
