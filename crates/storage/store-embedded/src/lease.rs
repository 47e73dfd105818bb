//! Leases, their deadlines, and the keys that are deleted when a lease ends.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use bytes::Bytes;

#[derive(Default)]
pub(crate) struct Leases {
    by_id: HashMap<i64, Lease>,
    by_deadline: BTreeSet<(Instant, i64)>,
}

struct Lease {
    deadline: Instant,
    keys: HashSet<Bytes>,
}

/// The maximum TTL of a lease, as in etcd.
pub(crate) const MAX_TTL_SECONDS: u64 = 9_000_000_000;

// === impl Leases ===

impl Leases {
    pub(crate) fn grant(&mut self, id: i64, ttl_seconds: u64, now: Instant) {
        let ttl = Duration::from_secs(ttl_seconds.clamp(1, MAX_TTL_SECONDS));
        let deadline = now + ttl;
        self.by_id.insert(id, Lease { deadline, keys: HashSet::new() });
        self.by_deadline.insert((deadline, id));
    }

    /// Removes a lease. The caller deletes its keys.
    pub(crate) fn remove(&mut self, id: i64) {
        if let Some(lease) = self.by_id.remove(&id) {
            self.by_deadline.remove(&(lease.deadline, id));
        }
    }

    pub(crate) fn attach(&mut self, id: i64, key: Bytes) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            lease.keys.insert(key);
        }
    }

    pub(crate) fn detach(&mut self, id: i64, key: &Bytes) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            lease.keys.remove(key);
        }
    }

    pub(crate) fn contains(&self, id: i64) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(crate) fn remaining(&self, id: i64, now: Instant) -> Option<Duration> {
        self.by_id.get(&id).map(|lease| lease.deadline.saturating_duration_since(now))
    }

    /// Returns the keys of a lease, in order, or `None` if the lease does not exist.
    pub(crate) fn keys(&self, id: i64) -> Option<Vec<Bytes>> {
        let mut keys: Vec<_> = self.by_id.get(&id)?.keys.iter().cloned().collect();
        keys.sort_unstable();
        Some(keys)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }

    pub(crate) fn first_expired(&self, now: Instant) -> Option<i64> {
        self.by_deadline.first().filter(|(deadline, _)| *deadline <= now).map(|(_, id)| *id)
    }

    /// Returns a positive number that is not the ID of any lease.
    pub(crate) fn fresh_id(&self) -> i64 {
        loop {
            // Each `RandomState` has new keys, so the hash of any value is a random number.
            let id = (RandomState::new().hash_one(0_u8) >> 1) as i64;
            if id != 0 && !self.contains(id) {
                return id;
            }
        }
    }
}
