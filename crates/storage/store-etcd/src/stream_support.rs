//! The knowledge that a member has no streams of ranges: etcd before 3.7 and etcd's own proxy have none.

use std::sync::atomic::{AtomicU64, Ordering};

/// The last response of a member without streams.
#[derive(Default)]
pub(crate) struct StreamSupport {
    /// The number of connections to the member when it last responded that it has none, or 0. Another version of it can
    /// only respond over another connection.
    missing_at: AtomicU64,
}

impl StreamSupport {
    /// Returns true if the member responded over this connection, given as the number of connections so far, that it has
    /// no streams.
    pub(crate) fn is_missing(&self, connections: u64) -> bool {
        connections > 0 && self.missing_at.load(Ordering::Relaxed) == connections
    }

    pub(crate) fn set_missing(&self, connections: u64) {
        self.missing_at.store(connections, Ordering::Relaxed);
    }
}
