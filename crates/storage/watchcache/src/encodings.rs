//! The encodings of objects and events: created once, shared by all readers, within one memory budget of the process.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

/// The ID of an encoding of an object or event. The owner of the cache assigns the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EncodingId(pub u16);

/// A memory budget for the encodings of the process, which also selects the encodings to evict.
///
/// Sets of encodings are in a ring that a clock hand passes; an encoding that was used since the last pass is spared
/// once. If nothing can be evicted at once, a new encoding is returned but not cached.
#[derive(Debug)]
pub struct EncodingBudget {
    limit: usize,
    used: AtomicUsize,
    /// Contains every set with at least one encoding once.
    ring: Mutex<VecDeque<Weak<EncodingSet>>>,
    /// The number of ring entries whose set was dropped.
    dead: AtomicUsize,
}

/// The memory of a cached encoding besides its contents, in bytes.
const OVERHEAD: usize = 64;
/// The maximum number of steps of the hand for one new encoding, so that no reader waits for a long sweep.
const HAND_STEPS: usize = 32;

impl EncodingBudget {
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0), ring: Mutex::default(), dead: AtomicUsize::new(0) })
    }

    /// Returns the number of cached bytes.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    fn make_room(&self, size: usize) -> bool {
        if size > self.limit {
            return false;
        }
        if self.reserve(size) {
            return true;
        }
        self.evict(size);
        self.reserve(size)
    }

    fn reserve(&self, size: usize) -> bool {
        let fits = |used: usize| used.checked_add(size).filter(|total| *total <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    fn release(&self, size: usize) {
        self.used.fetch_sub(size, Ordering::Relaxed);
    }

    fn evict(&self, needed: usize) {
        // Sets are dropped after the ring is unlocked, because a drop may lock the ring.
        let mut visited = Vec::new();
        let mut freed = 0;
        let mut ring = self.ring.lock();
        for _ in 0..HAND_STEPS.min(ring.len()) {
            let Some(weak) = ring.pop_front() else { break };
            let Some(set) = weak.upgrade() else {
                self.uncount_dead(1);
                continue;
            };
            // A locked set is being read, or belongs to the caller.
            match set.used.swap(false, Ordering::Relaxed) {
                false => match set.encodings.try_lock() {
                    Some(mut encodings) => {
                        let size = encodings.iter().map(|(_, bytes)| bytes.len() + OVERHEAD).sum();
                        encodings.clear();
                        self.release(size);
                        freed += size;
                    }
                    None => ring.push_back(weak),
                },
                true => ring.push_back(weak),
            }
            visited.push(set);
            if freed >= needed {
                break;
            }
        }
        drop(ring);
    }

    fn add_to_ring(&self, set: &Arc<EncodingSet>) {
        let mut ring = self.ring.lock();
        ring.push_back(Arc::downgrade(set));
        if self.dead.load(Ordering::Relaxed) > ring.len() / 2 + 256 {
            ring.retain(|weak| weak.strong_count() > 0);
            self.dead.store(0, Ordering::Relaxed);
        }
    }

    fn uncount_dead(&self, count: usize) {
        let minus = |dead: usize| Some(dead.saturating_sub(count));
        let _ = self.dead.fetch_update(Ordering::Relaxed, Ordering::Relaxed, minus);
    }
}

/// The ID of an encoding and, for an event, the type of change (added, modified, deleted).
pub(crate) type SlotKey = (EncodingId, u8);

/// The slot for the encodings of an entry or event, which is empty until the first one is created.
#[derive(Debug, Default)]
pub(crate) struct EncodingSlot(OnceLock<Arc<EncodingSet>>);

#[derive(Debug)]
struct EncodingSet {
    encodings: Mutex<Vec<(SlotKey, Bytes)>>,
    /// True if the set was used since the hand last passed it.
    used: AtomicBool,
    budget: Arc<EncodingBudget>,
}

impl EncodingSet {
    fn new(budget: &Arc<EncodingBudget>) -> Arc<Self> {
        Arc::new(Self { encodings: Mutex::default(), used: AtomicBool::new(false), budget: Arc::clone(budget) })
    }
}

impl EncodingSlot {
    /// Creates a slot with a budget of its own, whatever that of its readers is.
    pub(crate) fn within(budget: &Arc<EncodingBudget>) -> Self {
        Self(OnceLock::from(EncodingSet::new(budget)))
    }

    /// Returns the encoding `id`, and creates it with `encode` if it does not exist. Concurrent readers wait for it, so
    /// that it is created once; `encode` must not request an encoding of the same object.
    pub(crate) fn get_or_encode<E>(
        &self,
        budget: &Arc<EncodingBudget>,
        id: SlotKey,
        encode: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        let set = self.0.get_or_init(|| EncodingSet::new(budget));
        let mut encodings = set.encodings.lock();
        if let Some((_, bytes)) = encodings.iter().find(|(own, _)| *own == id) {
            set.used.store(true, Ordering::Relaxed);
            return Ok(bytes.clone());
        }
        let bytes = encode()?;
        if set.budget.make_room(bytes.len() + OVERHEAD) {
            encodings.push((id, bytes.clone()));
            if encodings.len() == 1 {
                set.budget.add_to_ring(set);
            }
        }
        Ok(bytes)
    }

    pub(crate) fn get(&self, id: SlotKey) -> Option<Bytes> {
        let set = self.0.get()?;
        let encodings = set.encodings.lock();
        let (_, bytes) = encodings.iter().find(|(own, _)| *own == id)?;
        set.used.store(true, Ordering::Relaxed);
        Some(bytes.clone())
    }
}

impl Drop for EncodingSet {
    fn drop(&mut self) {
        let encodings = self.encodings.get_mut();
        if !encodings.is_empty() {
            self.budget.release(encodings.iter().map(|(_, bytes)| bytes.len() + OVERHEAD).sum());
            self.budget.dead.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(slot: &EncodingSlot, budget: &Arc<EncodingBudget>, id: u16, size: usize) -> bool {
        let mut was_encoded = false;
        let result: Result<Bytes, ()> = slot.get_or_encode(budget, (EncodingId(id), 0), || {
            was_encoded = true;
            Ok(Bytes::from(vec![0; size]))
        });
        assert_eq!(result.map(|bytes| bytes.len()), Ok(size));
        was_encoded
    }

    #[test]
    fn encodes_once_and_frees_with_object() {
        let budget = EncodingBudget::new(10_000);
        let slot = EncodingSlot::default();
        assert!(encode(&slot, &budget, 0, 1000));
        assert!(!encode(&slot, &budget, 0, 1000));
        assert!(encode(&slot, &budget, 1, 500));
        assert_eq!(budget.used(), 1500 + 2 * OVERHEAD);
        let failed: Result<Bytes, &str> = slot.get_or_encode(&budget, (EncodingId(2), 0), || Err("no"));
        assert_eq!(failed, Err("no"));
        assert_eq!(slot.get((EncodingId(1), 0)).map(|bytes| bytes.len()), Some(500));
        drop(slot);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn eviction_spares_used_encodings() {
        let budget = EncodingBudget::new(10 * (1000 + OVERHEAD));
        let slots: Vec<EncodingSlot> = (0..30).map(|_| EncodingSlot::default()).collect();
        for slot in &slots {
            assert!(encode(slot, &budget, 0, 1000));
            // The first encoding is used all the time.
            encode(&slots[0], &budget, 0, 1000);
            assert!(budget.used() <= budget.limit());
        }
        assert!(!encode(&slots[0], &budget, 0, 1000), "the form in use was evicted");
        assert!(slots[29].get((EncodingId(0), 0)).is_some(), "the newest form was not kept");
        assert!(slots[5].get((EncodingId(0), 0)).is_none(), "an old form was kept");
        assert!(encode(&slots[1], &budget, 9, budget.limit() + 1), "more than the budget");
        drop(slots);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn ring_drops_dead_sets() {
        let budget = EncodingBudget::new(usize::MAX);
        for _ in 0..10_000 {
            encode(&EncodingSlot::default(), &budget, 0, 10);
        }
        assert!(budget.ring.lock().len() < 1000);
    }

    #[test]
    fn budget_holds_with_concurrent_readers() {
        let budget = EncodingBudget::new(50 * 1064);
        let slots: Vec<EncodingSlot> = (0..100).map(|_| EncodingSlot::default()).collect();
        std::thread::scope(|scope| {
            for seed in 0..4usize {
                let (slots, budget) = (&slots, &budget);
                scope.spawn(move || {
                    for step in 0..5000usize {
                        encode(&slots[(step * 7 + seed * 31) % 100], budget, (step % 3) as u16, 1000);
                    }
                });
            }
        });
        assert!(budget.used() <= budget.limit());
        drop(slots);
        assert_eq!(budget.used(), 0);
    }
}
