//! The memory of incomplete request heads. A head may have a megabyte, as in kube-apiserver, and clients need not
//! authenticate to send one on each of many connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The size up to which heads are not limited. Tokens and the headers of proxies have a few KiB.
const SMALL: usize = 64 << 10;
/// The limit on the bytes beyond [`SMALL`] of all incomplete heads.
const MAX_LARGE: usize = 64 << 20;

/// The bytes of a connection's incomplete head, and a share of the total of all connections.
#[derive(Default)]
pub(super) struct HeadMemory {
    received: AtomicUsize,
    total: Arc<AtomicUsize>,
}

impl HeadMemory {
    /// Creates the count of a connection with the total of all.
    pub(super) fn new(total: Arc<AtomicUsize>) -> Self {
        Self { received: AtomicUsize::new(0), total }
    }

    /// Adds received bytes. Returns false if they are beyond the limit; the connection must be closed then.
    pub(super) fn add(&self, count: usize) -> bool {
        let before = self.received.fetch_add(count, Ordering::Relaxed);
        let large = (before + count).saturating_sub(SMALL) - before.saturating_sub(SMALL);
        large == 0 || self.total.fetch_add(large, Ordering::Relaxed) + large <= MAX_LARGE
    }

    /// Forgets the bytes: the head is complete.
    pub(super) fn clear(&self) {
        let received = self.received.swap(0, Ordering::Relaxed);
        if received > SMALL {
            self.total.fetch_sub(received - SMALL, Ordering::Relaxed);
        }
    }
}

impl Drop for HeadMemory {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_large_heads_together() {
        let total = Arc::new(AtomicUsize::new(0));
        let connection = || HeadMemory::new(total.clone());
        let mut open: Vec<HeadMemory> = Vec::new();
        let refused = loop {
            let next = connection();
            let accepted = (0..15).all(|_| next.add(SMALL));
            if !accepted {
                break next;
            }
            open.push(next);
        };
        assert_eq!(open.len(), MAX_LARGE / (14 * SMALL));
        drop(refused);
        // Small heads are always accepted.
        let small = connection();
        assert!(small.add(SMALL / 2) && small.add(SMALL / 2) && !small.add(MAX_LARGE));
        drop(small);
        // A complete head makes room for another one.
        open[0].clear();
        let next = connection();
        assert!((0..15).all(|_| next.add(SMALL)));
        drop((open, next));
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }
}
