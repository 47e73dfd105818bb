//! Counts of requests in progress, for metrics, and to detect at shutdown that all responses are complete.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use tokio::sync::Notify;

/// The requests in flight, by kind.
pub struct InFlight {
    began: Instant,
    read_only: Count,
    mutating: Count,
    long_running: Count,
    /// Short requests in progress.
    short: Count,
    /// The number of sent bytes of responses.
    sent: AtomicU64,
    /// Counts the requests, too, as its shutdown waits for them.
    parent: OnceLock<Arc<InFlight>>,
}

/// The kind of a counted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    ReadOnly,
    Mutating,
    LongRunning,
}

#[derive(Default)]
struct Count {
    now: AtomicI64,
    /// The second to which `highest` refers, and the highest count in the last second in which a request started.
    second: AtomicU64,
    highest: AtomicI64,
    idle: Notify,
}

/// A guard for one counted request.
pub(crate) struct RequestGuard {
    inflight: Arc<InFlight>,
    kind: RequestKind,
}

impl InFlight {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            read_only: Count::default(),
            mutating: Count::default(),
            long_running: Count::default(),
            short: Count::default(),
            sent: AtomicU64::default(),
            parent: OnceLock::new(),
        })
    }

    /// Makes the shutdown of another chain wait for the short requests of this one.
    pub(crate) fn set_parent(&self, parent: &Arc<Self>) {
        // The first parent remains.
        let _ = self.parent.set(parent.clone());
    }

    pub(crate) fn begin(self: &Arc<Self>, kind: RequestKind) -> RequestGuard {
        self.count(kind).begin(self.began.elapsed().as_secs());
        RequestGuard { inflight: self.clone(), kind }
    }

    /// Counts a short request as in progress until the guard is dropped.
    pub(crate) fn begin_short(self: &Arc<Self>) -> ShortRequestGuard {
        self.short.now.fetch_add(1, Ordering::AcqRel);
        let _parent = self.parent.get().map(|parent| Box::new(parent.begin_short()));
        ShortRequestGuard { inflight: self.clone(), _parent }
    }

    /// Counts sent bytes.
    pub(crate) fn add_sent_bytes(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
        if let Some(parent) = self.parent.get() {
            parent.add_sent_bytes(bytes);
        }
    }

    /// Returns the number of bytes sent so far, which changes while clients read responses.
    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Returns the highest number of requests in flight during the last second.
    pub(crate) fn highest(&self, kind: RequestKind) -> i64 {
        self.count(kind).recent_highest(self.began.elapsed().as_secs())
    }

    pub(crate) fn now(&self, kind: RequestKind) -> i64 {
        self.count(kind).now.load(Ordering::Relaxed)
    }

    /// Resolves when no request of this kind is in progress.
    pub(crate) async fn wait_until_none(&self, kind: RequestKind) {
        self.count(kind).wait_until_idle().await;
    }

    /// Resolves when all responses to short requests are complete. They may not be sent yet, which depends on the
    /// clients.
    pub(crate) async fn wait_for_short_requests(&self) {
        self.short.wait_until_idle().await;
    }

    fn count(&self, kind: RequestKind) -> &Count {
        match kind {
            RequestKind::ReadOnly => &self.read_only,
            RequestKind::Mutating => &self.mutating,
            RequestKind::LongRunning => &self.long_running,
        }
    }
}

/// A guard for a short request in progress.
pub(crate) struct ShortRequestGuard {
    inflight: Arc<InFlight>,
    _parent: Option<Box<ShortRequestGuard>>,
}

impl Drop for ShortRequestGuard {
    fn drop(&mut self) {
        self.inflight.short.end();
    }
}

impl Count {
    async fn wait_until_idle(&self) {
        let count = self;
        loop {
            let idle = count.idle.notified();
            if count.now.load(Ordering::Acquire) == 0 {
                return;
            }
            idle.await;
        }
    }

    fn end(&self) {
        if self.now.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.idle.notify_waiters();
        }
    }

    fn begin(&self, second: u64) {
        let now = self.now.fetch_add(1, Ordering::AcqRel) + 1;
        if self.second.swap(second, Ordering::Relaxed) == second {
            self.highest.fetch_max(now, Ordering::Relaxed);
        } else {
            self.highest.store(now, Ordering::Relaxed);
        }
    }

    fn recent_highest(&self, second: u64) -> i64 {
        let now = self.now.load(Ordering::Relaxed);
        let recent = second - self.second.load(Ordering::Relaxed).min(second) <= 1;
        if recent { self.highest.load(Ordering::Relaxed).max(now) } else { now }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.inflight.count(self.kind).end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn counts_requests_until_they_end() {
        let inflight = InFlight::new();
        inflight.wait_until_none(RequestKind::ReadOnly).await;
        let first = inflight.begin(RequestKind::ReadOnly);
        let second = inflight.begin(RequestKind::ReadOnly);
        assert_eq!((inflight.now(RequestKind::ReadOnly), inflight.now(RequestKind::Mutating)), (2, 0));
        let waiting = tokio::spawn({
            let inflight = inflight.clone();
            async move { inflight.wait_until_none(RequestKind::ReadOnly).await }
        });
        drop(first);
        assert_eq!(inflight.now(RequestKind::ReadOnly), 1);
        drop(second);
        waiting.await.unwrap();
        assert_eq!(inflight.now(RequestKind::ReadOnly), 0);
    }

    #[test]
    fn returns_the_highest_count_of_the_last_second() {
        let count = Count::default();
        for _ in 0..3 {
            count.begin(7);
        }
        count.now.store(1, Ordering::Relaxed);
        assert_eq!(count.recent_highest(7), 3);
        assert_eq!(count.recent_highest(8), 3);
        assert_eq!(count.recent_highest(9), 1);
        count.begin(9);
        assert_eq!(count.recent_highest(9), 2);
    }
}
