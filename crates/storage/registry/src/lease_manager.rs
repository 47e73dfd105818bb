//! Leases of objects that expire. As in kube-apiserver, objects that are created at about the same time share a lease,
//! so that a stream of events does not need one lease each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_store::{LeaseId, Store, StoreError};
use tokio::sync::Mutex;

use crate::counts::Counts;

/// A lease is reused for at most 5 % of its TTL. An object may expire slightly later than its TTL, never earlier.
const REUSE_DIVISOR: u32 = 20;
/// The maximum number of objects of a lease.
const MAX_OBJECTS: u32 = 1000;

pub struct LeaseManager {
    store: Arc<dyn Store>,
    ttl: Duration,
    reuse: Duration,
    current: Mutex<Option<CurrentLease>>,
    counts: Arc<Counts>,
}

struct CurrentLease {
    lease: LeaseId,
    until: Instant,
    objects: u32,
}

impl LeaseManager {
    /// Creates a manager of leases. Objects expire after `ttl`; a lease is used for new objects during `reuse`.
    pub fn new(store: Arc<dyn Store>, ttl: Duration, reuse: Duration, counts: Arc<Counts>) -> Self {
        Self { store, ttl, reuse: reuse.min(ttl / REUSE_DIVISOR), current: Mutex::new(None), counts }
    }

    /// Returns the lease for a new object.
    pub async fn get(&self) -> Result<LeaseId, StoreError> {
        let mut current = self.current.lock().await;
        if let Some(shared) = current.as_mut()
            && shared.until > Instant::now()
            && shared.objects < MAX_OBJECTS
        {
            shared.objects += 1;
            return Ok(shared.lease);
        }
        let reuse = self.reuse;
        let lease = self.store.grant_lease((self.ttl + reuse).as_secs().max(1)).await?;
        // As in kube-apiserver, the object that needs a new lease is counted with the objects of the old one, even if
        // there is none.
        let spent = current.take().map_or(0, |spent| spent.objects);
        self.counts.leases.add(f64::from(spent + 1));
        *current = Some(CurrentLease { lease, until: Instant::now() + reuse, objects: 1 });
        Ok(lease)
    }
}
