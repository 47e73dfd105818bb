//! Threads for relayed bytes: sessions, logs and other answers that pass between a client and another server.
//!
//! Each poll of such a task is short, but a caller may have hundreds of them that never end. On the workers they would
//! stand in the same queues as the requests of others, and a large request needs many polls. On threads of their own,
//! the operating system shares the processors between them and the workers.

use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::abort_on_drop::AbortOnDrop;
use crate::polls::spawn_on;

/// The threads of the process, which all its servers share. They start with the first relay and end with the last
/// server.
#[derive(Default)]
pub struct RelayThreads(OnceLock<Option<Runtime>>);

static SHARED: Mutex<Weak<RelayThreads>> = Mutex::new(Weak::new());

impl RelayThreads {
    /// Returns the shared threads. Relays use them as long as the value exists.
    pub fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock();
        shared.upgrade().unwrap_or_else(|| {
            let threads = Arc::default();
            *shared = Arc::downgrade(&threads);
            threads
        })
    }

    fn handle(&self) -> Option<Handle> {
        let runtime = self.0.get_or_init(|| {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            let started = Builder::new_multi_thread().worker_threads(threads).thread_name("relay").enable_all().build();
            started.inspect_err(|error| tracing::error!("relays share the threads of requests: {error}")).ok()
        });
        runtime.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for RelayThreads {
    fn drop(&mut self) {
        // This may be a thread of another runtime, which must not block.
        if let Some(runtime) = self.0.take().flatten() {
            runtime.shutdown_background();
        }
    }
}

/// Returns the runtime of relays. Without a server in the process, as in tests of a part, it is the current one.
pub fn relay_runtime() -> Handle {
    let threads = SHARED.lock().upgrade();
    threads.and_then(|threads| threads.handle()).unwrap_or_else(Handle::current)
}

/// Spawns a task that relays bytes, without its own budget. See [`spawn`](crate::spawn).
pub fn spawn_relay<F>(name: &'static str, task: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    spawn_on(&relay_runtime(), name, task)
}

/// Runs a part of the current task that relays bytes, such as a handshake with another server. Dropping this ends it.
///
/// # Panics
/// If the part panics.
pub async fn in_relay<F>(name: &'static str, part: F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut task = AbortOnDrop(spawn_relay(name, part));
    match (&mut task.0).await {
        Ok(output) => output,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            // The task ends with this future, or with the threads, when the server has stopped.
            Err(_) => std::future::pending().await,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn thread() -> String {
        std::thread::current().name().unwrap_or_default().to_owned()
    }

    /// One test, because the threads are those of the process.
    #[tokio::test]
    async fn relays_run_on_threads_of_their_own_as_long_as_there_is_a_server() {
        let own = thread().await;
        assert_eq!(in_relay("test", thread()).await, own, "without a server");
        let (first, second) = (RelayThreads::shared(), RelayThreads::shared());
        assert!(Arc::ptr_eq(&first, &second));
        assert!(first.0.get().is_none(), "no relay has begun");
        assert_eq!(in_relay("test", thread()).await, "relay");
        drop(first);
        assert_eq!(in_relay("test", thread()).await, "relay");
        drop(second);
        assert_eq!(in_relay("test", thread()).await, own, "after the last server");
        let _restarted = RelayThreads::shared();
        assert_eq!(in_relay("test", thread()).await, "relay");
    }

    #[tokio::test]
    async fn a_dropped_part_ends_and_a_panic_is_passed_on() {
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let endless = in_relay("test", async move {
            let _sender = sender;
            std::future::pending::<()>().await;
        });
        tokio::select! {
            biased;
            () = endless => panic!("it has no end"),
            () = tokio::task::yield_now() => {}
        }
        assert!(receiver.await.is_err());
        let failing = tokio::spawn(in_relay("test", async { panic!("broken") }));
        assert!(failing.await.is_err_and(|error| error.is_panic()));
    }
}
