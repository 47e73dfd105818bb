//! Loading of changed files, one at a time.

use tokio::sync::Semaphore;
use tokio::task::{JoinError, spawn_blocking};

/// A file of some megabytes takes many times as much memory while it is parsed, and all files may change at once.
static LOADS: Semaphore = Semaphore::const_new(1);

/// Reads or parses a file on a blocking thread. Only one file is loaded at a time.
///
/// # Errors
/// A panic of `work`.
pub async fn load<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    // Fails only for a closed semaphore. The permit belongs to the thread, which goes on if the caller does not wait.
    let permit = LOADS.acquire().await;
    spawn_blocking(move || {
        let loaded = work();
        drop(permit);
        loaded
    })
    .await
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn loads_one_file_at_a_time() {
        let (running, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let loads: Vec<_> = (0..8)
            .map(|_| {
                let (running, done) = (running.clone(), done.clone());
                tokio::spawn(load(move || {
                    assert_eq!(running.fetch_add(1, Ordering::SeqCst), 0);
                    std::thread::sleep(std::time::Duration::from_millis(5));
                    running.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                }))
            })
            .collect();
        // A caller that no longer waits does not let the next file in while its own is being loaded.
        loads[0].abort();
        for load in loads.into_iter().skip(1) {
            load.await.expect("not aborted").expect("no panic");
        }
        assert!(done.load(Ordering::SeqCst) >= 7);
        assert!(load(|| panic!("on purpose")).await.is_err());
        load(|| ()).await.expect("the panic released the permit");
    }
}
