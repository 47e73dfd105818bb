//! Work that grows with a body is done away from the threads that serve other requests.
//!
//! A handler states once the number of bytes that it is about to work on. From then on each of its steps runs on a
//! thread that the runtime has replaced among its workers, and the number of concurrent steps leaves a processor for
//! other requests. Requests for small objects have no overhead.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::BoxFuture;

/// The size from which an object is decoded, validated, patched and encoded away from the workers.
const LARGE: usize = 128 << 10;

/// The size from which a piece of a sent body is processed away from the workers.
const LARGE_PIECE: usize = 32 << 10;

/// Leaves one processor for small requests.
static STEPS: LazyLock<Semaphore> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new(processors.saturating_sub(1).max(1))
});

tokio::task_local! {
    static IS_LARGE: Cell<bool>;
}

/// Runs a handler, which may call [`large`].
pub async fn offloading<T>(handler: BoxFuture<'_, T>) -> T {
    IS_LARGE.scope(Cell::new(false), run(handler)).await
}

async fn run<T>(mut handler: BoxFuture<'_, T>) -> T {
    let small = poll_fn(|cx| match handler.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending if IS_LARGE.with(Cell::get) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    if let Some(answer) = small.await {
        return answer;
    }
    loop {
        let turn = STEPS.acquire().await;
        let step = poll_fn(|cx| Poll::Ready(away(|| handler.as_mut().poll(cx)))).await;
        drop(turn);
        match step {
            Poll::Ready(answer) => return answer,
            // The handler has registered the waker of this task.
            Poll::Pending => once_woken().await,
        }
    }
}

/// Marks the request as one for an object of this size. Returns when the work may begin.
pub async fn large(bytes: usize) {
    if bytes < LARGE || IS_LARGE.try_with(|is_large| is_large.replace(true)).unwrap_or(true) {
        return;
    }
    let mut paused = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut paused, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Work on the pieces of a body while it is sent; for large ones, it is done away from the workers.
#[derive(Default)]
pub struct Turn(Option<BoxFuture<'static, Option<SemaphorePermit<'static>>>>);

impl Turn {
    /// Does the work on a piece of this size: at once if it is small, otherwise as soon as a step is permitted. To be
    /// polled with the same work until it is ready.
    pub fn poll<T>(&mut self, cx: &mut Context<'_>, bytes: usize, work: impl FnOnce() -> T) -> Poll<T> {
        if bytes < LARGE_PIECE {
            return Poll::Ready(work());
        }
        let turn = self.0.get_or_insert_with(|| Box::pin(async { STEPS.acquire().await.ok() }));
        let turn = std::task::ready!(turn.as_mut().poll(cx));
        self.0 = None;
        let done = away(work);
        drop(turn);
        Poll::Ready(done)
    }
}

/// Runs a step while another thread serves this worker's tasks. A single-threaded runtime has no other thread.
fn away<T>(step: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(step),
        _ => step(),
    }
}

async fn once_woken() {
    let mut polled = false;
    poll_fn(|_| if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    async fn handler(bytes: usize, waits: usize, held: Arc<AtomicUsize>) -> usize {
        large(bytes).await;
        for _ in 0..waits {
            held.fetch_add(1, Ordering::SeqCst);
            // Blocks the thread, as decoding does.
            std::thread::sleep(Duration::from_millis(5));
            held.fetch_sub(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        bytes
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn large_requests_do_not_hold_up_small_ones() {
        let held = Arc::new(AtomicUsize::new(0));
        let large: Vec<_> = (0..20)
            .map(|_| {
                let work = Box::pin(handler(1 << 20, 20, Arc::clone(&held)));
                tokio::spawn(async move { offloading(work).await })
            })
            .collect();
        // The only worker runs this task while others block.
        let mut met = 0;
        while large.iter().any(|task| !task.is_finished()) {
            let answer = offloading(Box::pin(handler(1, 0, Arc::clone(&held)))).await;
            assert_eq!(answer, 1);
            met += usize::from(held.load(Ordering::SeqCst) > 0);
            let most = std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1);
            assert!(held.load(Ordering::SeqCst) <= most);
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        for task in large {
            assert_eq!(task.await.expect("a large request ends"), 1 << 20);
        }
        assert!(met > 0, "no small request was served while a large one was");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn large_pieces_wait_for_their_turn() {
        let most = std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1);
        let turns = STEPS.acquire_many(most as u32).await.expect("never closed");
        let (mut turn, mut done) = (Turn::default(), 0);
        let small = poll_fn(|cx| turn.poll(cx, LARGE_PIECE - 1, || done += 1)).await;
        assert_eq!((small, done), ((), 1));
        let mut turn = Turn::default();
        let first = poll_fn(|cx| Poll::Ready(turn.poll(cx, LARGE_PIECE, || ()).is_pending())).await;
        assert!(first, "all turns are taken");
        drop(turns);
        poll_fn(|cx| turn.poll(cx, LARGE_PIECE, || done += 1)).await;
        assert_eq!(done, 2);
    }

    #[tokio::test]
    async fn runtimes_of_one_thread_and_work_outside_of_handlers_go_on() {
        let held = Arc::new(AtomicUsize::new(0));
        assert_eq!(offloading(Box::pin(handler(1 << 20, 2, Arc::clone(&held)))).await, 1 << 20);
        assert_eq!(handler(1 << 20, 2, held).await, 1 << 20);
    }
}
