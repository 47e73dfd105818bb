//! A read whose result all callers share that wait for it.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Reads one after the other, each for all callers that arrived before it started: a caller never gets the result of a
/// read that started before its call. One of the callers reads, and the others are woken together.
pub(crate) struct SharedRead<T> {
    state: Mutex<State<T>>,
    /// The callers that wait for reads with even and odd numbers: for the running read, and for the one after it.
    waiting: [Notify; 2],
}

struct State<T> {
    /// The number of the last read that has ended, and its result.
    ended: u64,
    result: Option<T>,
    is_running: bool,
}

enum Step<'a, T> {
    Return(T),
    Read(RunningRead<'a, T>),
    Wait,
}

/// A read that was started. If it is dropped before its end, another caller starts it again.
struct RunningRead<'a, T> {
    shared: &'a SharedRead<T>,
    result: Option<T>,
}

// === impl SharedRead ===

impl<T> Default for SharedRead<T> {
    fn default() -> Self {
        let state = State { ended: 0, result: None, is_running: false };
        Self { state: Mutex::new(state), waiting: Default::default() }
    }
}

impl<T: Clone> SharedRead<T> {
    /// Returns the result of a read that starts after the call.
    pub(crate) async fn get<F: Future<Output = T>>(&self, read: impl FnOnce() -> F) -> T {
        let number = self.next();
        loop {
            let woken = self.waiting(number).notified();
            match self.step(number) {
                Step::Return(result) => return result,
                Step::Read(mut running) => {
                    let result = read().await;
                    running.result = Some(result.clone());
                    return result;
                }
                Step::Wait => woken.await,
            }
        }
    }

    fn step(&self, number: u64) -> Step<'_, T> {
        let mut state = self.state.lock();
        match &state.result {
            Some(result) if state.ended >= number => Step::Return(result.clone()),
            _ if state.is_running => Step::Wait,
            _ => {
                state.is_running = true;
                Step::Read(RunningRead { shared: self, result: None })
            }
        }
    }
}

impl<T> SharedRead<T> {
    /// Returns the number of the next read to start.
    fn next(&self) -> u64 {
        let state = self.state.lock();
        state.ended + u64::from(state.is_running) + 1
    }

    fn waiting(&self, number: u64) -> &Notify {
        &self.waiting[usize::from(number % 2 == 1)]
    }
}

// === impl RunningRead ===

impl<T> Drop for RunningRead<'_, T> {
    fn drop(&mut self) {
        let result = self.result.take();
        let has_ended = result.is_some();
        let number = {
            let mut state = self.shared.state.lock();
            let number = state.ended + 1;
            state.is_running = false;
            if has_ended {
                (state.ended, state.result) = (number, result);
            }
            number
        };
        match has_ended {
            true => self.shared.waiting(number).notify_waiters(),
            false => self.shared.waiting(number).notify_one(),
        }
        // One of those that arrived in the meantime starts the next read.
        self.shared.waiting(number + 1).notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::FutureExt;
    use futures::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    /// Reads that last until they get a permit, and return their number.
    #[derive(Default)]
    struct Reads {
        shared: SharedRead<u64>,
        count: AtomicU64,
        permits: Option<Semaphore>,
    }

    impl Reads {
        fn slow() -> Arc<Self> {
            Arc::new(Self { permits: Some(Semaphore::new(0)), ..Self::default() })
        }

        async fn get(&self) -> u64 {
            let read = || async {
                let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
                if let Some(permits) = &self.permits {
                    permits.acquire().await.unwrap().forget();
                }
                number
            };
            self.shared.get(read).await
        }

        fn permit(&self, reads: usize) {
            self.permits.as_ref().unwrap().add_permits(reads);
        }
    }

    #[tokio::test]
    async fn callers_that_arrive_during_a_read_share_the_next_one() {
        let reads = Reads::slow();
        let first = reads.get();
        tokio::pin!(first);
        assert_eq!(first.as_mut().now_or_never(), None);
        let later = join_all((0..5).map(|_| reads.get()));
        tokio::pin!(later);
        assert!(later.as_mut().now_or_never().is_none());
        reads.permit(2);
        assert_eq!(first.await, 1);
        assert_eq!(later.await, [2; 5]);
        assert_eq!(reads.count.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn a_canceled_read_is_started_again_by_another_caller() {
        let reads = Reads::slow();
        let mut first = Box::pin(reads.get());
        assert_eq!(first.as_mut().now_or_never(), None);
        let mut second = Box::pin(reads.get());
        let mut third = Box::pin(reads.get());
        assert_eq!(second.as_mut().now_or_never(), None);
        assert_eq!(third.as_mut().now_or_never(), None);
        drop(first);
        assert_eq!(second.as_mut().now_or_never(), None);
        drop(second);
        reads.permit(1);
        assert_eq!(third.await, 3);
        reads.permit(1);
        assert_eq!(reads.get().await, 4);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn no_caller_gets_an_earlier_read_and_none_waits_forever() {
        let reads = Arc::new(Reads::default());
        let callers = (0..16).map(|caller| {
            let reads = Arc::clone(&reads);
            tokio::spawn(async move {
                for turn in 0..2_000 {
                    let before = reads.count.load(Ordering::SeqCst);
                    let call = reads.get();
                    if (turn + caller) % 7 == 0 {
                        // Canceled at its first wait, or at its end.
                        let _ = call.now_or_never();
                    } else {
                        assert!(call.await > before);
                    }
                    if turn % 16 == caller {
                        tokio::task::yield_now().await;
                    }
                }
            })
        });
        for caller in join_all(callers.collect::<Vec<_>>()).await {
            caller.unwrap();
        }
    }
}
