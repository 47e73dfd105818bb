//! Retries with exponential backoff.

use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use crate::client::WebhookError;

/// The number of attempts and the pauses between them. Each pause is longer than the previous one, with random jitter,
/// so that many callers do not retry at the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    pub initial: Duration,
    pub factor: f64,
    pub jitter: f64,
    /// The maximum number of attempts, at least one.
    pub steps: u32,
}

impl Backoff {
    /// Returns the backoff of kube-apiserver's webhook calls: five attempts.
    pub fn starting_at(initial: Duration) -> Self {
        Self { initial, factor: 1.5, jitter: 0.2, steps: 5 }
    }

    /// Returns a backoff with a single attempt.
    pub fn never() -> Self {
        Self { initial: Duration::ZERO, factor: 1.0, jitter: 0.0, steps: 1 }
    }

    /// Runs `attempt` until it succeeds, fails permanently, or all attempts are used up; returns the last outcome.
    pub async fn run<T, F>(&self, attempt: impl FnMut() -> F) -> Result<T, WebhookError>
    where
        F: Future<Output = Result<T, WebhookError>>,
    {
        self.run_while(WebhookError::is_transient, attempt).await
    }

    /// Like [`Backoff::run`], but retries the errors for which `passes` returns true.
    pub async fn run_while<T, F>(
        &self,
        passes: impl Fn(&WebhookError) -> bool,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, WebhookError>
    where
        F: Future<Output = Result<T, WebhookError>>,
    {
        let mut pause = self.initial.as_secs_f64();
        let mut left = self.steps;
        loop {
            left = left.saturating_sub(1);
            match attempt().await {
                Err(error) if passes(&error) && left > 0 => {
                    let jittered = pause * (1.0 + self.jitter * fraction());
                    tokio::time::sleep(Duration::try_from_secs_f64(jittered).unwrap_or_default()).await;
                    pause *= self.factor;
                }
                outcome => return outcome,
            }
        }
    }
}

/// Returns a random fraction between zero and one. It need not be unpredictable.
fn fraction() -> f64 {
    let bits = std::collections::hash_map::RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn retries_transient_errors_up_to_five_attempts() {
        let transient = || WebhookError::Status { code: 500, message: "x".into(), retry_after: None, forbidden: None };
        let lasting = || WebhookError::Status { code: 404, message: "x".into(), retry_after: None, forbidden: None };
        // Failures before success, whether they are transient, expected attempts, expected success.
        for (failures, retried, attempts, success) in
            [(0, true, 1, true), (2, true, 3, true), (9, true, 5, false), (1, false, 1, false)]
        {
            let made = Cell::new(0);
            let outcome = Backoff::starting_at(Duration::from_millis(500))
                .run(|| {
                    made.set(made.get() + 1);
                    let fails = made.get() <= failures;
                    async move {
                        match (fails, retried) {
                            (false, _) => Ok(()),
                            (true, true) => Err(transient()),
                            (true, false) => Err(lasting()),
                        }
                    }
                })
                .await;
            assert_eq!((made.get(), outcome.is_ok()), (attempts, success));
        }
        for _ in 0..100 {
            assert!((0.0..1.0).contains(&fraction()));
        }
    }
}
