//! Runs the connections of HTTP clients.

use hyper::rt::Executor;

/// Spawns the tasks of a client library, which relay bytes, on the [threads of relays](binnacle_work::RelayThreads).
#[derive(Clone, Copy, Debug, Default)]
pub struct RelayExecutor;

impl<F> Executor<F> for RelayExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, task: F) {
        drop(binnacle_work::spawn_relay("connection to a server", task));
    }
}
