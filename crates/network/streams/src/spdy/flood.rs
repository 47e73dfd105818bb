//! Throttles frames without payload: of unknown streams, without data, pings and unexpected replies.

use std::time::Duration;

/// The number of consecutive useless frames that are read without delay. A kubelet sends a few per minute.
const FREE: u32 = 1000;
/// The delay of each further useless frame.
const DELAY: Duration = Duration::from_millis(10);

/// Delays the frames of a peer that sends only useless ones.
#[derive(Default)]
pub(crate) struct FloodLimiter(u32);

impl FloodLimiter {
    /// Resets the count after a frame with data.
    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }

    /// Counts a useless frame, and delays it beyond the limit.
    pub(crate) async fn delay(&mut self) {
        self.0 = self.0.saturating_add(1);
        if self.0 > FREE {
            tokio::time::sleep(DELAY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn delays_useless_frames_beyond_the_free_ones() {
        let mut limiter = FloodLimiter::default();
        let began = Instant::now();
        for _ in 0..FREE {
            limiter.delay().await;
        }
        assert_eq!(began.elapsed(), Duration::ZERO);
        for _ in 0..100 {
            limiter.delay().await;
        }
        assert!(began.elapsed() >= 100 * DELAY);
        limiter.reset();
        let began = Instant::now();
        limiter.delay().await;
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}
