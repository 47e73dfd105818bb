//! The memory that all requests may use together for values that they make.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use binnacle_meta::Text;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::budget::{Caller, Exceeded};

/// The bytes for all requests.
const TOTAL: usize = 192 << 20;
/// The part that only callers of the system may use.
const RESERVED: usize = 48 << 20;
/// The part that one caller may use, unless it is of the system.
const SHARE: usize = 96 << 20;

/// The bytes that are worth the time of giving free memory back to the system.
const WORTHWHILE: usize = 16 << 20;

pub(crate) static POOL: Pool = Pool(Mutex::new(None));

/// The bytes released since the last time that [`memory_released`] returned.
static RELEASED: AtomicUsize = AtomicUsize::new(0);
static MUCH_RELEASED: Notify = Notify::const_new();

/// Waits until requests have released so much memory that the allocator should give it back to the system: it keeps what
/// each thread freed for a while, and a request of much work runs on many threads.
pub async fn memory_released() {
    while RELEASED.load(Ordering::Relaxed) < WORTHWHILE {
        MUCH_RELEASED.notified().await;
    }
    RELEASED.store(0, Ordering::Relaxed);
}

/// The bytes in use, in total and by caller.
#[derive(Default)]
struct Used {
    total: usize,
    by_caller: HashMap<Text, usize>,
}

pub(crate) struct Pool(Mutex<Option<Used>>);

impl Pool {
    /// Takes bytes from the pool.
    ///
    /// # Errors
    /// [`Exceeded::Busy`] if too much is in use.
    pub(crate) fn reserve(&self, caller: &Caller, bytes: usize) -> Result<(), Exceeded> {
        let mut used = self.0.lock();
        let used = used.get_or_insert_default();
        let own = used.by_caller.get(&caller.name).copied().unwrap_or(0);
        let (share, limit) = if caller.is_system { (TOTAL, TOTAL) } else { (SHARE, TOTAL - RESERVED) };
        if own + bytes > share || used.total + bytes > limit {
            return Err(Exceeded::Busy(share));
        }
        used.total += bytes;
        *used.by_caller.entry(caller.name.clone()).or_default() += bytes;
        Ok(())
    }

    pub(crate) fn release(&self, caller: &Caller, bytes: usize) {
        if RELEASED.fetch_add(bytes, Ordering::Relaxed) + bytes >= WORTHWHILE {
            MUCH_RELEASED.notify_one();
        }
        let mut used = self.0.lock();
        let Some(used) = used.as_mut() else { return };
        used.total = used.total.saturating_sub(bytes);
        if let Some(own) = used.by_caller.get_mut(&caller.name) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                used.by_caller.remove(&caller.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_memory_for_others_and_for_the_system() {
        let pool = Pool(Mutex::new(None));
        let caller = |name: &str, is_system| Caller { name: name.into(), is_system };
        let (a, b, c, root) = (caller("a", false), caller("b", false), caller("c", false), caller("root", true));
        assert_eq!(pool.reserve(&a, SHARE), Ok(()));
        assert_eq!(pool.reserve(&a, 1), Err(Exceeded::Busy(SHARE)));
        assert_eq!(pool.reserve(&b, TOTAL - RESERVED - SHARE), Ok(()));
        assert_eq!(pool.reserve(&c, 1), Err(Exceeded::Busy(SHARE)));
        assert_eq!(pool.reserve(&root, RESERVED), Ok(()));
        pool.release(&a, SHARE);
        assert_eq!(pool.reserve(&c, 1), Ok(()));
        for (caller, bytes) in [(&b, TOTAL - RESERVED - SHARE), (&c, 1), (&root, RESERVED)] {
            pool.release(caller, bytes);
        }
        assert!(pool.0.lock().as_ref().is_some_and(|used| used.total == 0 && used.by_caller.is_empty()));
    }
}
