//! A queue of keys: a key that is added again while it waits is processed once, and never by two workers at a time.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use binnacle_metrics::{QueuedItem, WorkItem, WorkQueue};
use binnacle_request::Shutdown;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::leadership::LeadershipHandle;
use crate::outcome::Outcome;

/// The minimum and maximum pause before a failed key is processed again, as in client-go's default rate limiter.
const RETRY_FIRST: Duration = Duration::from_millis(5);
const RETRY_LAST: Duration = Duration::from_secs(1000);

/// The keys of a controller.
pub(crate) struct Queue<K> {
    state: Mutex<State<K>>,
    added: Notify,
    metrics: WorkQueue,
}

struct State<K> {
    ready: VecDeque<(K, QueuedItem)>,
    /// The keys in `ready`.
    waiting: HashSet<K>,
    processing: HashSet<K>,
    /// Keys that were added while they were processed.
    again: HashSet<K>,
    /// Keys that become ready at a time; the number distinguishes equal times.
    delayed: BTreeMap<(Instant, u64), K>,
    /// The positions of keys in `delayed`.
    delayed_at: HashMap<K, (Instant, u64)>,
    number: u64,
    failures: HashMap<K, u32>,
}

impl<K: Clone + Eq + Hash> State<K> {
    /// Returns the pause before a key is processed again, at most `last`.
    fn next_pause(&mut self, key: &K, last: Duration) -> Duration {
        let failures = self.failures.entry(key.clone()).or_default();
        let pause = RETRY_FIRST.saturating_mul(1 << (*failures).min(20)).min(last);
        *failures += 1;
        pause
    }
}

impl<K: Clone + Debug + Eq + Hash> Queue<K> {
    pub(crate) fn new(metrics: WorkQueue) -> Self {
        let state = State {
            ready: VecDeque::new(),
            waiting: HashSet::new(),
            processing: HashSet::new(),
            again: HashSet::new(),
            delayed: BTreeMap::new(),
            delayed_at: HashMap::new(),
            number: 0,
            failures: HashMap::new(),
        };
        Self { state: Mutex::new(state), added: Notify::new(), metrics }
    }

    pub(crate) fn add(&self, key: K) {
        let mut state = self.state.lock();
        if state.processing.contains(&key) {
            state.again.insert(key);
            return;
        }
        if state.waiting.insert(key.clone()) {
            let item = self.metrics.add();
            state.ready.push_back((key, item));
            drop(state);
            self.added.notify_one();
        }
    }

    /// Adds a key after a time, unless it is added earlier anyway.
    pub(crate) fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let mut state = self.state.lock();
        state.number += 1;
        let at = (Instant::now() + delay, state.number);
        match state.delayed_at.get(&key).copied() {
            Some(before) if before <= at => return,
            Some(before) => drop(state.delayed.remove(&before)),
            None => {}
        }
        state.delayed_at.insert(key.clone(), at);
        state.delayed.insert(at, key);
        drop(state);
        self.added.notify_one();
    }

    /// Waits for a key, and starts to process it.
    async fn next(&self) -> (K, WorkItem) {
        loop {
            let due = {
                let mut state = self.state.lock();
                let now = Instant::now();
                while let Some(first) = state.delayed.first_entry()
                    && first.key().0 <= now
                {
                    let key = first.remove();
                    state.delayed_at.remove(&key);
                    if state.processing.contains(&key) {
                        state.again.insert(key);
                    } else if state.waiting.insert(key.clone()) {
                        state.ready.push_back((key, self.metrics.add()));
                    }
                }
                if let Some((key, item)) = state.ready.pop_front() {
                    state.waiting.remove(&key);
                    state.processing.insert(key.clone());
                    return (key, item.begin());
                }
                state.delayed.first_key_value().map(|((at, _), _)| *at)
            };
            match due {
                None => self.added.notified().await,
                Some(at) => tokio::select! {
                    () = self.added.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                },
            }
        }
    }

    /// Ends the processing of a key.
    fn finish(&self, key: K, outcome: Outcome) {
        let mut state = self.state.lock();
        state.processing.remove(&key);
        let again = state.again.remove(&key);
        let delay = match outcome {
            Outcome::Done => {
                state.failures.remove(&key);
                None
            }
            Outcome::After(delay) => {
                state.failures.remove(&key);
                Some(delay)
            }
            Outcome::Again(last) => Some(state.next_pause(&key, last)),
            Outcome::Failed(_) => {
                self.metrics.retry(1);
                Some(state.next_pause(&key, RETRY_LAST))
            }
        };
        drop(state);
        if again {
            self.add(key.clone());
        }
        if let Some(delay) = delay {
            self.add_after(key, delay);
        }
    }

    /// Processes keys, at most `workers` at a time, until the shutdown signal. Only the leader processes them; a key
    /// whose processing was interrupted because another process leads is processed again.
    pub(crate) async fn work<F: Future<Output = Outcome>>(
        &self,
        name: &str,
        workers: usize,
        leadership: &LeadershipHandle,
        shutdown: &Shutdown,
        process: impl Fn(K) -> F,
    ) {
        let mut running = FuturesUnordered::new();
        let run = |key: K, item: WorkItem| {
            let process = &process;
            async move {
                let outcome = leadership.while_leading(|| process(key.clone())).await;
                drop(item);
                (key, outcome)
            }
        };
        loop {
            tokio::select! {
                () = shutdown.fired() => return,
                Some((key, outcome)) = running.next(), if !running.is_empty() => {
                    if let Outcome::Failed(status) = &outcome {
                        tracing::warn!(controller = name, ?key, error = status.message(), "sync failed, retrying");
                    }
                    self.finish(key, outcome);
                }
                (key, item) = self.next(), if running.len() < workers => running.push(run(key, item)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue<&'static str> {
        Queue::new(WorkQueue::default())
    }

    #[tokio::test]
    async fn key_is_processed_once_for_all_additions_before_and_once_for_those_meanwhile() {
        let queue = queue();
        queue.add("a");
        queue.add("a");
        queue.add("b");
        let (first, _item) = queue.next().await;
        assert_eq!(first, "a");
        queue.add("a");
        queue.add("a");
        assert_eq!(queue.next().await.0, "b");
        assert!(futures::poll!(Box::pin(queue.next())).is_pending(), "a is being processed");
        queue.finish("a", Outcome::Done);
        assert_eq!(queue.next().await.0, "a");
        queue.finish("a", Outcome::Done);
        assert!(futures::poll!(Box::pin(queue.next())).is_pending());
    }

    #[tokio::test(start_paused = true)]
    async fn failed_keys_return_after_ever_longer_times() {
        let queue = queue();
        let began = Instant::now();
        queue.add("a");
        for elapsed in [0, 5, 15, 35, 75] {
            assert_eq!(queue.next().await.0, "a");
            assert_eq!(began.elapsed().as_millis(), elapsed);
            queue.finish("a", Outcome::Again(RETRY_LAST));
        }
        queue.add("a");
        queue.next().await;
        queue.finish("a", Outcome::After(Duration::from_secs(1)));
        // The failure before adds it earlier, so that it is not added again after a second.
        assert_eq!(queue.next().await.0, "a");
        queue.finish("a", Outcome::Done);
        assert!(futures::poll!(Box::pin(queue.next())).is_pending());
        assert!(queue.state.lock().delayed.is_empty());
    }
}
