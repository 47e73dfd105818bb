//! The number of objects in stores and their bytes, with limits.
//!
//! The objects are counted once, and then followed by a watch, which also sees the writes of other servers and the keys
//! that expire. A write by this process counts from the moment it is allowed until its event arrives, so that writes at
//! the same time cannot exceed a limit together.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{Event, KeyValue, Pages, Revision, Store, StoreError, WatchMessage};

/// The pause before a store is counted again after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// The part of a limit, as its divisor, by which updates may exceed it: a deletion with finalizers, for example, first
/// updates its object.
const UPDATE_MARGIN: i64 = 10;

/// Limits on stored objects. `None` means unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StorageLimits {
    pub objects: Option<u64>,
    /// The bytes of keys and values, as they are stored.
    pub bytes: Option<u64>,
}

/// What is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredAmount {
    pub objects: i64,
    /// The bytes of keys and values, as they are stored.
    pub bytes: i64,
}

/// What is stored in the stores of one user, with its limits.
pub struct StorageUsage {
    limits: watch::Receiver<StorageLimits>,
    counts: Mutex<Vec<Count>>,
    /// True if all stores have been counted.
    counted: watch::Sender<bool>,
}

/// The change of the amount by one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Growth(StoredAmount);

/// The objects of one store.
#[derive(Default)]
struct Count {
    /// The objects as of a revision; `None` before they are counted.
    followed: Option<(Revision, StoredAmount)>,
    /// The writes in progress.
    reserved: StoredAmount,
    /// The writes of this process whose events have not arrived.
    own: BTreeMap<Revision, StoredAmount>,
}

/// The space of a write in progress, which is released on drop.
pub(crate) struct Reservation<'a> {
    usage: &'a StorageUsage,
    index: usize,
    growth: Growth,
}

// === impl StorageLimits ===

impl StorageLimits {
    pub fn is_limited(&self) -> bool {
        self.objects.is_some() || self.bytes.is_some()
    }
}

// === impl StoredAmount ===

impl StoredAmount {
    fn add(&mut self, other: Self) {
        self.objects += other.objects;
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    fn remove(&mut self, other: Self) {
        self.objects -= other.objects;
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }

    fn of(event: &Event) -> Self {
        match event {
            Event::Put { kv, previous: None } => Growth::creation(stored_size(kv)).0,
            Event::Put { kv, previous: Some(previous) } => Growth::update(stored_size(kv) - stored_size(previous)).0,
            Event::Delete { key, previous, .. } => {
                let key = i64::try_from(key.len()).unwrap_or(i64::MAX);
                Self { objects: -1, bytes: -previous.as_ref().map_or(key, stored_size) }
            }
        }
    }
}

// === impl Growth ===

impl Growth {
    pub(crate) fn creation(bytes: i64) -> Self {
        Self(StoredAmount { objects: 1, bytes })
    }

    pub(crate) fn update(bytes: i64) -> Self {
        Self(StoredAmount { objects: 0, bytes })
    }
}

// === impl StorageUsage ===

impl StorageUsage {
    /// Limits the objects of this number of stores. Nothing is counted while `limits` limits nothing.
    pub fn new(limits: watch::Receiver<StorageLimits>, stores: usize) -> Arc<Self> {
        let counts = Mutex::new((0..stores).map(|_| Count::default()).collect());
        Arc::new(Self { limits, counts, counted: watch::Sender::new(stores == 0) })
    }

    /// Returns what is stored, if it has been counted.
    pub fn amount(&self) -> Option<StoredAmount> {
        let counts = self.counts.lock();
        counts.iter().all(|count| count.followed.is_some()).then(|| total(&counts))
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.limits.borrow().is_limited()
    }

    /// Waits until all stores have been counted.
    pub(crate) async fn counted(&self) {
        let (mut counted, mut limits) = (self.counted.subscribe(), self.limits.clone());
        tokio::select! {
            // The sender is in `self`.
            _ = counted.wait_for(|counted| *counted) => {}
            _ = limits.wait_for(|limits| !limits.is_limited()) => {}
        }
    }

    /// Returns true if a write with this number of bytes is far from the limit.
    pub(crate) fn has_ample_space(&self, bytes: i64) -> bool {
        let Some(limit) = self.limits.borrow().bytes else { return true };
        let used = total(&self.counts.lock()).bytes.saturating_add(bytes);
        u64::try_from(used).is_ok_and(|used| used <= limit / 2)
    }

    /// Reserves the space for a write.
    pub(crate) fn reserve(&self, index: usize, growth: Growth) -> Result<Reservation<'_>, StoreError> {
        let limits = *self.limits.borrow();
        let mut counts = self.counts.lock();
        let used = total(&counts);
        let is_creation = growth.0.objects > 0;
        check("objects", limits.objects, used.objects, growth.0.objects, is_creation)?;
        check("bytes", limits.bytes, used.bytes, growth.0.bytes, is_creation)?;
        if let Some(count) = counts.get_mut(index) {
            count.reserved.add(growth.0);
        }
        Ok(Reservation { usage: self, index, growth })
    }

    /// Counts the keys in `range` of the store with this index, and follows their changes, while there are limits. Never
    /// returns while the sender of the limits exists.
    pub async fn follow(self: Arc<Self>, index: usize, store: Arc<dyn Store>, range: Range<Bytes>) {
        let mut limits = self.limits.clone();
        while limits.wait_for(StorageLimits::is_limited).await.is_ok() {
            let failed = tokio::select! {
                failed = self.count_and_watch(index, &*store, &range) => failed.err(),
                _ = limits.wait_for(|limits| !limits.is_limited()) => None,
            };
            self.forget(index);
            if let Some(error) = failed {
                tracing::warn!(%error, "failed to follow the usage of a storage quota, retrying");
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    async fn count_and_watch(&self, index: usize, store: &dyn Store, range: &Range<Bytes>) -> Result<(), StoreError> {
        let revision = store.current_revision().await?;
        let mut amount = StoredAmount::default();
        let mut pages = Pages::new(store, range.clone(), revision).streamed();
        while let Some(page) = pages.next().await? {
            page.iter().for_each(|kv| amount.add(Growth::creation(stored_size(kv)).0));
        }
        let mut watch = store.watch(range.clone(), revision).await?;
        self.begin(index, revision, amount);
        while let Some(message) = watch.messages.next().await {
            match message? {
                WatchMessage::Events(events) => self.apply(index, &events),
                WatchMessage::Progress(revision) => self.advance(index, revision),
            }
        }
        Err(StoreError::Closed)
    }

    fn begin(&self, index: usize, revision: Revision, amount: StoredAmount) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(index) {
            count.followed = Some((revision, amount));
            count.forget_own_to(revision);
        }
        self.counted.send_replace(counts.iter().all(|count| count.followed.is_some()));
    }

    fn forget(&self, index: usize) {
        if let Some(count) = self.counts.lock().get_mut(index) {
            count.followed = None;
        }
        self.counted.send_replace(false);
    }

    fn apply(&self, index: usize, events: &[Event]) {
        let mut counts = self.counts.lock();
        let Some(count) = counts.get_mut(index) else { return };
        for event in events {
            if let Some((reached, amount)) = &mut count.followed {
                amount.add(StoredAmount::of(event));
                *reached = event.revision();
            }
            count.forget_own_to(event.revision());
        }
    }

    fn advance(&self, index: usize, revision: Revision) {
        let mut counts = self.counts.lock();
        let Some(count) = counts.get_mut(index) else { return };
        if let Some((reached, _)) = &mut count.followed {
            *reached = revision.max(*reached);
        }
        count.forget_own_to(revision);
    }
}

// === impl Count ===

impl Count {
    fn forget_own_to(&mut self, revision: Revision) {
        self.own = self.own.split_off(&Revision(revision.0 + 1));
    }
}

fn total(counts: &[Count]) -> StoredAmount {
    let mut total = StoredAmount::default();
    for count in counts {
        total.add(count.followed.map(|(_, amount)| amount).unwrap_or_default());
        total.add(count.reserved);
        count.own.values().for_each(|amount| total.add(*amount));
    }
    total
}

fn check(
    quota: &'static str,
    limit: Option<u64>,
    used: i64,
    requested: i64,
    is_creation: bool,
) -> Result<(), StoreError> {
    let Some(limited) = limit else { return Ok(()) };
    let limit = i64::try_from(limited).unwrap_or(i64::MAX);
    let allowed = if is_creation { limit } else { limit.saturating_add(limit / UPDATE_MARGIN) };
    if requested <= 0 || used.saturating_add(requested) <= allowed {
        return Ok(());
    }
    Err(StoreError::QuotaExceeded { quota, requested, used, limited })
}

// === impl Reservation ===

impl Reservation<'_> {
    /// Replaces the reservation by the actual growth of a write at this revision.
    pub(crate) fn settle(mut self, revision: Revision, growth: Growth) {
        let mut counts = self.usage.counts.lock();
        let Some(count) = counts.get_mut(self.index) else { return };
        // With one lock for both: others must not see the write twice.
        count.reserved.remove(std::mem::take(&mut self.growth.0));
        let is_counted = count.followed.is_some_and(|(reached, _)| reached >= revision);
        if !is_counted {
            count.own.insert(revision, growth.0);
        }
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(count) = self.usage.counts.lock().get_mut(self.index) {
            count.reserved.remove(self.growth.0);
        }
    }
}

/// Returns the size of a key with its value in bytes.
pub(crate) fn stored_size(kv: &KeyValue) -> i64 {
    size_of(&kv.key, &kv.value)
}

/// Returns the size of a key with a value in bytes.
pub(crate) fn size_of(key: &[u8], value: &[u8]) -> i64 {
    i64::try_from(key.len() + value.len()).unwrap_or(i64::MAX)
}
