//! Waiting a limited time for a condition.

use std::time::{Duration, Instant};

/// The time limit for conditions that should be true at once: enough for a machine that builds at the same time.
pub const TIMEOUT: Duration = Duration::from_secs(30);

const PAUSE: Duration = Duration::from_millis(10);

/// Repeats `condition` until it returns a value, and returns that.
pub async fn wait_until<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = condition().await {
            return answer;
        }
        assert!(began.elapsed() < TIMEOUT, "waited {TIMEOUT:?} in vain: {what}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// As [`wait_until`], without a runtime.
pub fn wait_until_blocking<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    wait_blocking(TIMEOUT, what, condition)
}

/// As [`wait_until_blocking`], with another time limit.
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
