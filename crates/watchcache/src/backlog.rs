//! Memory of events that slow watchers hold after the windows dropped them: one bound for the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the bytes of events that have left their window and are still waiting for a watcher. Above the limit the
/// watchers that hold such events are ended.
#[derive(Debug)]
pub struct Backlog {
    limit: usize,
    used: AtomicUsize,
}

/// Enough for many watchers that pause while a burst passes.
const DEFAULT_LIMIT: usize = 128 << 20;

impl Backlog {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0) })
    }

    /// With the limit of a server.
    pub fn with_default_limit() -> Arc<Self> {
        Self::new(DEFAULT_LIMIT)
    }

    /// The bytes held at the moment.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn is_exceeded(&self) -> bool {
        self.used() > self.limit
    }

    /// True when it is time to end watchers of caches in which nothing happens any more.
    pub(crate) fn is_crowded(&self) -> bool {
        self.used() > self.limit / 2
    }
}

/// The share of one event, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    backlog: Arc<Backlog>,
    size: usize,
}

impl Charge {
    pub(crate) fn new(backlog: &Arc<Backlog>, size: usize) -> Self {
        backlog.used.fetch_add(size, Ordering::Relaxed);
        Self { backlog: Arc::clone(backlog), size }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.backlog.used.fetch_sub(self.size, Ordering::Relaxed);
    }
}
