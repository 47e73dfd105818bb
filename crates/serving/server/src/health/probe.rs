//! A check with a quick response: if it takes longer than a probe should wait, its last result is returned if it is
//! recent.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::HealthCheck;

/// The maximum wait for a check with an existing last result.
const MAX_WAIT: Duration = Duration::from_millis(25);
/// The age after which a result is outdated. Each check has its own, shorter timeout.
const MAX_AGE: Duration = Duration::from_secs(3);

type Outcome = Result<(), String>;

/// A check with its last result.
pub(super) struct Probe {
    check: Arc<dyn HealthCheck>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<(Instant, Outcome)>,
    /// The check in progress.
    running: Option<watch::Receiver<Option<Outcome>>>,
}

impl Probe {
    pub(super) fn new(check: Arc<dyn HealthCheck>) -> Arc<Self> {
        Arc::new(Self { check, state: Mutex::default() })
    }

    pub(super) fn name(&self) -> &str {
        self.check.name()
    }

    pub(super) fn group(&self) -> Option<&str> {
        self.check.group()
    }

    /// Returns the result of the check, or its last one if the check takes long and the last result is recent.
    pub(super) async fn run(self: &Arc<Self>) -> Outcome {
        let running_check = self.state.lock().running.clone();
        let mut running = match running_check {
            Some(running) => running,
            None => {
                let check = self.check.clone();
                let mut checking = async move { check.check().await }.boxed();
                // Most checks finish immediately.
                if let Some(outcome) = (&mut checking).now_or_never() {
                    self.state.lock().last = Some((Instant::now(), outcome.clone()));
                    return outcome;
                }
                let (sender, running) = watch::channel(None);
                self.state.lock().running = Some(running.clone());
                let probe = self.clone();
                tokio::spawn(async move {
                    let outcome = checking.await;
                    let mut state = probe.state.lock();
                    (state.last, state.running) = (Some((Instant::now(), outcome.clone())), None);
                    sender.send_replace(Some(outcome));
                });
                running
            }
        };
        let finished = async {
            match running.wait_for(Option::is_some).await {
                Ok(outcome) => outcome.clone().unwrap_or(Ok(())),
                // The check panicked, or the runtime was shut down.
                Err(_) => {
                    self.state.lock().running = None;
                    Err("the check ended early".to_owned())
                }
            }
        };
        let last = self.state.lock().last.clone().filter(|(at, _)| at.elapsed() < MAX_AGE);
        match last {
            None => finished.await,
            Some((_, last)) => tokio::time::timeout(MAX_WAIT, finished).await.unwrap_or(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use binnacle_request::BoxFuture;
    use tokio::sync::Notify;

    use super::*;

    /// A check that finishes immediately the first time, and later when it is notified.
    #[derive(Default)]
    struct SlowCheck {
        runs: AtomicU32,
        finish: Notify,
    }

    impl HealthCheck for SlowCheck {
        fn name(&self) -> &str {
            "slow"
        }

        fn check(&self) -> BoxFuture<'_, Outcome> {
            Box::pin(async {
                if self.runs.fetch_add(1, Ordering::Relaxed) == 0 {
                    return Ok(());
                }
                self.finish.notified().await;
                Err("no".to_owned())
            })
        }
    }

    #[tokio::test]
    async fn returns_recent_result_while_the_check_runs() {
        let slow = Arc::new(SlowCheck::default());
        let probe = Probe::new(slow.clone());
        let began = Instant::now();
        for _ in 0..3 {
            assert_eq!(probe.run().await, Ok(()));
        }
        assert!(began.elapsed() < Duration::from_secs(5));
        // Only one attempt runs at a time.
        assert_eq!(slow.runs.load(Ordering::Relaxed), 2);
        slow.finish.notify_one();
        while probe.state.lock().running.is_some() {
            tokio::task::yield_now().await;
        }
        assert_eq!(probe.run().await, Err("no".to_owned()));
    }

    #[tokio::test]
    async fn waits_if_the_last_result_is_old() {
        let slow = Arc::new(SlowCheck::default());
        let probe = Probe::new(slow.clone());
        assert_eq!(probe.run().await, Ok(()));
        probe.state.lock().last = Some((Instant::now().checked_sub(MAX_AGE).unwrap(), Ok(())));
        slow.finish.notify_one();
        assert_eq!(probe.run().await, Err("no".to_owned()));
    }

    #[tokio::test]
    async fn waits_without_a_last_result() {
        let slow = Arc::new(SlowCheck { runs: AtomicU32::new(1), finish: Notify::new() });
        let probe = Probe::new(slow.clone());
        slow.finish.notify_one();
        assert_eq!(probe.run().await, Err("no".to_owned()));
    }
}
