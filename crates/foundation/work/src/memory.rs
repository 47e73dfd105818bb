//! The memory pool that all requests share.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use binnacle_meta::Text;
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::budget::{BudgetError, Caller, WorkLimits};

/// The bytes for the requests of users, excluding the system's.
const USERS: usize = 128 << 20;
/// The bytes for all requests. They suffice for a large request of the system in addition to those of users, and for
/// two if there are no others.
const TOTAL: usize = USERS + WorkLimits::REQUEST.memory;
/// The bytes for one user: as many as for one request.
const USER_LIMIT: usize = WorkLimits::REQUEST.memory;

/// The minimum number of bytes that is worth returning to the operating system.
const MIN_RETURN: usize = 16 << 20;
/// The maximum wait for memory that is being returned, which takes some tens of milliseconds, or more on a busy
/// machine.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

pub(crate) static POOL: MemoryPool = MemoryPool::new();

/// Waits until requests have released so much memory that the allocator should return it to the operating system. The
/// allocator keeps memory per thread for a while, and large requests run on many threads. Call this again after the
/// memory was returned. From the first call on, released memory counts as used until it was returned.
pub async fn memory_released() {
    POOL.released().await;
}

/// The bytes in use: in total and by caller.
#[derive(Default)]
struct PoolUse {
    by_caller: HashMap<Text, usize>,
    /// The bytes of all callers, and those of users.
    all: Usage,
    users: Usage,
    /// True if a task returns memory to the operating system.
    returns: bool,
    /// The number of requests that wait for the return of memory.
    waiting: usize,
}

/// The memory of a group of callers.
#[derive(Default)]
struct Usage {
    used: usize,
    /// The released bytes that the allocator still keeps.
    retained: usize,
    /// The part of them that is being returned.
    being_returned: usize,
}

impl Usage {
    fn release(&mut self, bytes: usize, is_retained: bool) {
        self.used = self.used.saturating_sub(bytes);
        if is_retained {
            self.retained += bytes;
        }
    }

    fn returned(&mut self) {
        self.retained -= std::mem::take(&mut self.being_returned);
    }

    fn begin_return(&mut self) {
        self.being_returned = self.retained;
    }

    fn is_too_full(&self, bytes: usize, limit: usize) -> bool {
        self.used + bytes > limit
    }

    fn has_to_wait(&self, bytes: usize, limit: usize) -> bool {
        self.is_too_full(self.retained + bytes, limit)
    }
}

pub(crate) struct MemoryPool {
    used: Mutex<Option<PoolUse>>,
    /// Notifies those that wait for the return of memory.
    returned: Condvar,
    /// Notifies the task that returns memory.
    much_released: Notify,
}

/// The result of an attempt to take memory.
enum Reservation {
    Granted,
    Refused(BudgetError),
    /// There will be enough after the allocator has returned what it keeps.
    Later(BudgetError),
}

impl MemoryPool {
    const fn new() -> Self {
        Self { used: Mutex::new(None), returned: Condvar::new(), much_released: Notify::const_new() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<PoolUse>> {
        self.used.lock()
    }

    /// Takes bytes from the pool. Blocks the thread while the allocator returns the memory that the caller needs.
    ///
    /// # Errors
    /// [`BudgetError::Busy`] if too much is in use.
    pub(crate) fn reserve(&self, caller: &Caller, bytes: usize) -> Result<(), BudgetError> {
        let mut locked = self.lock();
        match locked.get_or_insert_default().take(caller, bytes) {
            Reservation::Granted => return Ok(()),
            Reservation::Refused(busy) => return Err(busy),
            Reservation::Later(_) => drop(locked),
        }
        crate::scope::away(|| self.reserve_later(caller, bytes))
    }

    fn reserve_later(&self, caller: &Caller, bytes: usize) -> Result<(), BudgetError> {
        let until = Instant::now() + LONGEST_WAIT;
        let mut locked = self.lock();
        loop {
            let used = locked.get_or_insert_default();
            let busy = match used.take(caller, bytes) {
                Reservation::Granted => return Ok(()),
                Reservation::Refused(busy) => return Err(busy),
                Reservation::Later(busy) => busy,
            };
            used.waiting += 1;
            self.much_released.notify_one();
            let is_late = self.returned.wait_until(&mut locked, until).timed_out();
            locked.get_or_insert_default().waiting -= 1;
            if is_late {
                return Err(busy);
            }
        }
    }

    pub(crate) fn release(&self, caller: &Caller, bytes: usize) {
        let mut locked = self.lock();
        let Some(used) = locked.as_mut() else { return };
        used.all.release(bytes, used.returns);
        if !caller.is_system {
            used.users.release(bytes, used.returns);
        }
        if let Some(own) = used.by_caller.get_mut(&caller.name) {
            *own = own.saturating_sub(bytes);
            if *own == 0 {
                used.by_caller.remove(&caller.name);
            }
        }
        if used.is_worth_returning() {
            self.much_released.notify_one();
        }
    }

    async fn released(&self) {
        {
            let mut locked = self.lock();
            let used = locked.get_or_insert_default();
            used.returns = true;
            used.all.returned();
            used.users.returned();
            self.returned.notify_all();
        }
        loop {
            {
                let mut locked = self.lock();
                let used = locked.get_or_insert_default();
                if used.is_worth_returning() {
                    used.all.begin_return();
                    used.users.begin_return();
                    return;
                }
            }
            self.much_released.notified().await;
        }
    }
}

impl PoolUse {
    fn is_worth_returning(&self) -> bool {
        self.all.retained >= MIN_RETURN || (self.all.retained > 0 && self.waiting > 0)
    }

    fn take(&mut self, caller: &Caller, bytes: usize) -> Reservation {
        let own = self.by_caller.get(&caller.name).copied().unwrap_or(0);
        let share = if caller.is_system { TOTAL } else { USER_LIMIT };
        let is_user = !caller.is_system;
        let users = &self.users;
        if own + bytes > share || self.all.is_too_full(bytes, TOTAL) || is_user && users.is_too_full(bytes, USERS) {
            return Reservation::Refused(BudgetError::Busy(share));
        }
        if self.all.has_to_wait(bytes, TOTAL) || is_user && users.has_to_wait(bytes, USERS) {
            return Reservation::Later(BudgetError::Busy(share));
        }
        self.all.used += bytes;
        if is_user {
            self.users.used += bytes;
        }
        *self.by_caller.entry(caller.name.clone()).or_default() += bytes;
        Reservation::Granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str, is_system: bool) -> Caller {
        Caller { name: name.into(), is_system }
    }

    #[test]
    fn reserves_memory_for_other_users_and_the_system() {
        let pool = MemoryPool::new();
        let (a, b, c, root) = (caller("a", false), caller("b", false), caller("c", false), caller("root", true));
        assert_eq!(pool.reserve(&a, USER_LIMIT), Ok(()));
        assert_eq!(pool.reserve(&a, 1), Err(BudgetError::Busy(USER_LIMIT)));
        assert_eq!(pool.reserve(&b, USERS - USER_LIMIT), Ok(()));
        assert_eq!(pool.reserve(&c, 1), Err(BudgetError::Busy(USER_LIMIT)));
        assert_eq!(pool.reserve(&root, TOTAL - USERS), Ok(()));
        pool.release(&a, USER_LIMIT);
        assert_eq!(pool.reserve(&c, USER_LIMIT), Ok(()), "what the system uses is not the users'");
        assert_eq!(pool.reserve(&root, 1), Err(BudgetError::Busy(TOTAL)));
        for (caller, bytes) in [(&b, USERS - USER_LIMIT), (&c, USER_LIMIT), (&root, TOTAL - USERS)] {
            pool.release(caller, bytes);
        }
        let all_is_free = |used: &PoolUse| used.all.used == 0 && used.users.used == 0 && used.by_caller.is_empty();
        assert!(pool.lock().as_ref().is_some_and(all_is_free));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn waits_for_released_memory_to_be_returned() {
        let pool: &'static MemoryPool = Box::leak(Box::new(MemoryPool::new()));
        let (a, b) = (caller("a", false), caller("b", false));
        let (begin, mut begins) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                pool.released().await;
                let _ = begin.send(());
            }
        });
        // From now on a task returns memory.
        while !pool.lock().as_ref().is_some_and(|used| used.returns) {
            tokio::task::yield_now().await;
        }
        pool.reserve(&a, USER_LIMIT).expect("nothing is used");
        pool.release(&a, USER_LIMIT);
        assert_eq!(begins.recv().await, Some(()));
        for _ in 0..100 {
            // More than is available in addition to the released memory.
            pool.reserve(&b, USER_LIMIT).expect("what was released is given back");
            pool.release(&b, USER_LIMIT);
        }
        while begins.try_recv().is_ok() {}
    }

    #[test]
    fn refuses_memory_that_is_not_returned_in_time() {
        let pool = MemoryPool::new();
        let (a, b) = (caller("a", false), caller("b", false));
        pool.lock().get_or_insert_default().returns = true;
        pool.reserve(&a, USER_LIMIT).expect("nothing is used");
        pool.release(&a, USER_LIMIT);
        assert_eq!(pool.reserve(&b, USER_LIMIT), Err(BudgetError::Busy(USER_LIMIT)));
        assert_eq!(pool.reserve(&b, 1), Ok(()), "there is some beside what was released");
    }
}
