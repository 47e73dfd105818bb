//! Fewer polls of connections with many concurrent requests. Each stream with data to send wakes the task of its
//! connection, which would otherwise run before the other streams: one poll per frame. Here the first wake schedules
//! the task, which then yields to all ready tasks and is polled once for all their frames.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::task::AtomicWaker;

/// The waker of the work in a task: of the wakes before the next poll, only the first one reaches the task.
#[derive(Default)]
struct SharedWaker {
    task: AtomicWaker,
    woken: AtomicBool,
}

impl Wake for SharedWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            self.task.wake();
        }
    }
}

/// The work of a task, which is polled after other tasks.
pub(crate) struct PollCoalescer {
    shared_waker: Arc<SharedWaker>,
    waker: Waker,
    /// True from the poll that yields to other tasks until the next poll.
    has_yielded: bool,
}

impl PollCoalescer {
    pub(crate) fn new() -> Self {
        let shared_waker = Arc::new(SharedWaker::default());
        let waker = Waker::from(shared_waker.clone());
        Self { shared_waker, waker, has_yielded: false }
    }

    /// Polls the work, or yields to other tasks if `shared` reports that they may produce data for it.
    pub(crate) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        shared: bool,
        work: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        self.shared_waker.task.register(cx.waker());
        if shared && !self.has_yielded && self.shared_waker.woken.load(Ordering::Acquire) {
            self.has_yielded = true;
            yield_to_others(cx);
            return Poll::Pending;
        }
        self.has_yielded = false;
        // Cleared before the poll: later data wakes the task again.
        self.shared_waker.woken.swap(false, Ordering::AcqRel);
        work(&mut Context::from_waker(&self.waker))
    }
}

/// Schedules another poll of the task after all other ready tasks, without waking another thread.
fn yield_to_others(cx: &mut Context<'_>) {
    // The first poll of this future only schedules the task, whose own state records the yield.
    let _ = pin!(tokio::task::yield_now()).poll(cx);
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use parking_lot::Mutex;
    use tokio::sync::Semaphore;

    use super::*;

    /// Runs writers that each wake one reader several times; returns the number of the reader's polls.
    async fn polls(writers: usize, shared: bool) -> usize {
        let state_and_polls = Arc::new((Mutex::new((0, None::<Waker>)), AtomicUsize::new(0), Semaphore::new(0)));
        let reader = tokio::spawn({
            let state_and_polls = state_and_polls.clone();
            async move {
                let mut coalescer = PollCoalescer::new();
                poll_fn(|cx| {
                    coalescer.poll(cx, shared, |cx| {
                        state_and_polls.1.fetch_add(1, Ordering::Relaxed);
                        let mut state = state_and_polls.0.lock();
                        state.1 = Some(cx.waker().clone());
                        if state.0 == writers { Poll::Ready(()) } else { Poll::Pending }
                    })
                })
                .await;
            }
        });
        tokio::task::yield_now().await;
        for _ in 0..writers {
            let state_and_polls = state_and_polls.clone();
            tokio::spawn(async move {
                state_and_polls.2.acquire().await.unwrap().forget();
                let mut state = state_and_polls.0.lock();
                state.0 += 1;
                if let Some(waker) = &state.1 {
                    waker.wake_by_ref();
                }
            });
        }
        tokio::task::yield_now().await;
        state_and_polls.2.add_permits(writers);
        reader.await.unwrap();
        state_and_polls.1.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn polls_once_for_all_ready_writers() {
        for writers in [1, 2, 50] {
            assert_eq!(polls(writers, true).await, 2, "{writers}");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn loses_no_wakes() {
        for shared in [true, false] {
            for _ in 0..200 {
                assert!(polls(20, shared).await <= 21);
            }
        }
    }
}
