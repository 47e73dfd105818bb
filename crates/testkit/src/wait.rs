//! Waiting for a condition, a limited time.

use std::time::{Duration, Instant};

/// The time that a test waits for what should come at once: long enough for a machine that builds at the same time.
pub const PATIENCE: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(10);

/// Asks until there is an answer, and hands it back.
pub async fn wait_until<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = condition().await {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// The same without a runtime.
pub fn wait_until_blocking<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    wait_blocking(PATIENCE, what, condition)
}

/// The same with a patience of its own.
pub(crate) fn wait_blocking<T>(patience: Duration, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = condition() {
            return answer;
        }
        assert!(began.elapsed() < patience, "waited {patience:?} in vain: {what}");
        std::thread::sleep(PAUSE);
    }
}
