//! Files that are checked every second and reloaded after a change.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use binnacle_request::Shutdown;
use binnacle_supervise::supervise;
use tokio::task::{JoinSet, spawn_blocking};

const INTERVAL: Duration = Duration::from_secs(1);

/// Passes the contents of a file to `apply` after each change, until the server ends. An error of `apply` is logged,
/// and the previous contents stay in use.
pub(crate) fn watch<E: std::fmt::Display + Send>(
    tasks: &mut JoinSet<()>,
    path: PathBuf,
    shutdown: &Shutdown,
    apply: impl Fn(&[u8]) -> Result<(), E> + Send + Sync + 'static,
) {
    let (stopped, apply) = (shutdown.fired(), Arc::new(apply));
    tasks.spawn(async move {
        // Outside of the supervised task: after a panic of `apply`, the same contents are not tried again.
        let seen = tokio::sync::Mutex::new(fingerprint(&path).await);
        let watching = supervise("followed file", || async {
            let mut seen = seen.lock().await;
            loop {
                tokio::time::sleep(INTERVAL).await;
                let now = fingerprint(&path).await;
                if now.is_none() || now == *seen {
                    continue;
                }
                *seen = now;
                // Parsing a thousand certificates takes long.
                let (read, apply) = (path.clone(), apply.clone());
                let applied = spawn_blocking(move || {
                    let contents = binnacle_config::read(&read).map_err(|error| error.to_string())?;
                    apply(&contents).map_err(|error| error.to_string())
                });
                let path = path.display();
                match applied.await.unwrap_or_else(|error| Err(error.to_string())) {
                    Ok(()) => tracing::info!("reloaded {path}"),
                    Err(error) => tracing::error!("failed to reload {path}, keeping the previous contents: {error}"),
                }
            }
        });
        tokio::select! {
            () = watching => {}
            () = stopped => {}
        }
    });
}

/// Returns the inode, modification time and size; a changed file differs in at least one of them.
async fn fingerprint(path: &PathBuf) -> Option<(u64, i64, i64, u64)> {
    let state = |file: Metadata| (file.ino(), file.mtime(), file.mtime_nsec(), file.len());
    tokio::fs::metadata(path).await.ok().map(state)
}

#[cfg(test)]
mod tests {
    use binnacle_request::ShutdownTrigger;
    use parking_lot::Mutex;

    use super::*;
    use crate::data_dir::DataDir;

    #[tokio::test]
    async fn applies_changes_of_file() {
        let dir = DataDir::temporary().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, "one").unwrap();
        let (trigger, shutdown) = ShutdownTrigger::new();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let sink = seen.clone();
        watch(&mut tasks, path.clone(), &shutdown, move |contents| {
            sink.lock().push(String::from_utf8_lossy(contents).into_owned());
            Ok::<_, String>(())
        });
        // Written repeatedly: the first check may come after the first write.
        let mut length = 3;
        while seen.lock().is_empty() {
            length += 1;
            std::fs::write(&path, "x".repeat(length)).unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        trigger.fire();
        tasks.join_all().await;
    }
}
