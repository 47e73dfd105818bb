//! Tasks that end with their owners.

use tokio::task::JoinHandle;

/// A task that is aborted on drop.
#[derive(Debug)]
pub struct AbortOnDrop<T = ()>(pub JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
