//! The bases that clusters use at this moment, in memory: all forks of the same contents share one.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use binnacle_store::{Snapshot, StoreError};
use parking_lot::Mutex as SyncMutex;
use tokio::sync::Mutex;

/// The loaded bases of a host, by ID. One is dropped with its last user.
#[derive(Default)]
pub(crate) struct LoadedBases(SyncMutex<HashMap<String, Arc<Mutex<LoadedBase>>>>);

/// The snapshots of a base, by store. Locked while they are loaded.
type LoadedBase = Vec<Weak<Snapshot>>;

impl LoadedBases {
    /// Returns the snapshots of a base. `load` reads them; it is dropped if a user has them.
    pub(super) async fn get(
        &self,
        base: &str,
        load: impl Future<Output = Result<Vec<Arc<Snapshot>>, StoreError>>,
    ) -> Result<Arc<[Arc<Snapshot>]>, StoreError> {
        let place = self.place(base);
        let mut loaded = place.lock().await;
        let used: Option<Vec<_>> = loaded.iter().map(Weak::upgrade).collect();
        if let Some(used) = used.filter(|used| !used.is_empty()) {
            return Ok(used.into());
        }
        let snapshots = load.await?;
        *loaded = snapshots.iter().map(Arc::downgrade).collect();
        Ok(snapshots.into())
    }

    fn place(&self, base: &str) -> Arc<Mutex<LoadedBase>> {
        let mut places = self.0.lock();
        if let Some(place) = places.get(base) {
            return place.clone();
        }
        let is_used = |place: &Arc<Mutex<LoadedBase>>| match place.try_lock() {
            Ok(loaded) => loaded.iter().any(|snapshot| snapshot.strong_count() > 0),
            // It is being loaded.
            Err(_) => true,
        };
        places.retain(|_, place| Arc::strong_count(place) > 1 || is_used(place));
        places.entry(base.to_owned()).or_default().clone()
    }
}
