//! The memory of request heads. A head may have a megabyte, as in kube-apiserver, and clients need not authenticate to
//! send one on each of many connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The size up to which the heads of a connection are not limited. Tokens and the headers of proxies have a few KiB.
const SMALL: usize = 64 << 10;
/// The limit on the bytes beyond [`SMALL`] of all connections.
const MAX_LARGE: usize = 64 << 20;

/// The memory of a connection's heads: of the incomplete one, of the requests whose heads are in use, and of large
/// heads, whose buffers may be kept as long as the connection is open.
#[derive(Default)]
pub(crate) struct HeadMemory {
    /// The bytes of the head that is being received.
    incomplete: AtomicUsize,
    used: AtomicUsize,
    /// True after a complete large head.
    has_large: AtomicBool,
    /// True after a large head, also if it was incomplete or refused.
    had_large: AtomicBool,
    /// The bytes beyond [`SMALL`] of all connections.
    total: Arc<AtomicUsize>,
}

impl HeadMemory {
    /// Creates the count of a connection with the total of all.
    pub(super) fn new(total: Arc<AtomicUsize>) -> Self {
        let [has_large, had_large] = [false, false].map(AtomicBool::new);
        Self { incomplete: AtomicUsize::new(0), used: AtomicUsize::new(0), has_large, had_large, total }
    }

    /// Adds received bytes of a head. Returns false if they are beyond the limit; the connection must be closed then.
    pub(crate) fn receive(&self, count: usize) -> bool {
        self.incomplete.fetch_add(count, Ordering::Relaxed);
        self.add(count)
    }

    /// Notes that the head is complete. The bytes of a small one no longer count.
    pub(crate) fn complete(&self) {
        match self.incomplete.swap(0, Ordering::Relaxed) {
            large if large > SMALL => self.has_large.store(true, Ordering::Relaxed),
            small => self.remove(small),
        }
    }

    /// Returns true if a large head was received. The connection should end soon, to free its buffers.
    pub(crate) fn has_large(&self) -> bool {
        self.has_large.load(Ordering::Relaxed)
    }

    /// Returns true if heads have taken more memory than small ones do, complete or not.
    pub(crate) fn had_large(&self) -> bool {
        self.had_large.load(Ordering::Relaxed)
    }

    /// Adds bytes. Returns false if they are beyond the limit; they are counted until they are removed.
    pub(super) fn add(&self, count: usize) -> bool {
        let before = self.used.fetch_add(count, Ordering::Relaxed);
        let large = beyond_small(before + count) - beyond_small(before);
        if large == 0 {
            return true;
        }
        self.had_large.store(true, Ordering::Relaxed);
        self.total.fetch_add(large, Ordering::Relaxed) + large <= MAX_LARGE
    }

    pub(super) fn remove(&self, count: usize) {
        let before = self.used.fetch_sub(count, Ordering::Relaxed);
        let large = beyond_small(before) - beyond_small(before - count);
        if large > 0 {
            self.total.fetch_sub(large, Ordering::Relaxed);
        }
    }
}

impl Drop for HeadMemory {
    fn drop(&mut self) {
        let used = *self.used.get_mut();
        self.remove(used);
    }
}

fn beyond_small(bytes: usize) -> usize {
    bytes.saturating_sub(SMALL)
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
            let accepted = (0..15).all(|_| next.receive(SMALL));
            if !accepted {
                break next;
            }
            open.push(next);
        };
        assert_eq!(open.len(), MAX_LARGE / (14 * SMALL));
        drop(refused);
        // Small heads are always accepted.
        let small = connection();
        assert!(small.receive(SMALL / 2) && small.receive(SMALL / 2));
        small.complete();
        assert!(small.receive(SMALL) && !small.has_large() && !small.had_large());
        assert!(!small.receive(MAX_LARGE));
        drop(small);
        // A large head counts until its connection ends, even though it is complete.
        open[0].complete();
        assert!(open[0].has_large() && open[0].had_large());
        let next = connection();
        assert!(!(0..15).all(|_| next.receive(SMALL)));
        drop(next);
        open.swap_remove(0);
        let next = connection();
        assert!((0..15).all(|_| next.receive(SMALL)));
        drop((open, next));
        assert_eq!(total.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn counts_the_heads_of_a_connection_together() {
        let memory = HeadMemory::default();
        // Ten heads of 16 KiB are in use.
        assert!((0..10).all(|_| memory.add(SMALL / 4)));
        assert_eq!(memory.total.load(Ordering::Relaxed), 6 * SMALL / 4);
        (0..4).for_each(|_| memory.remove(SMALL / 4));
        assert_eq!(memory.total.load(Ordering::Relaxed), 2 * SMALL / 4);
        (0..6).for_each(|_| memory.remove(SMALL / 4));
        assert_eq!(memory.total.load(Ordering::Relaxed), 0);
        assert!(memory.add(SMALL) && !memory.add(MAX_LARGE + 1));
    }
}
