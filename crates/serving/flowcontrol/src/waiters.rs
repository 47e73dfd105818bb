//! Requests that wait for something other than a processor and have released their seat. Their number is limited by
//! caller, which limits their connections and memory.

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_meta::Text;
use parking_lot::Mutex;

/// The limit on requests that wait without a seat; further ones keep their seats.
const MAX_WAITERS: usize = 1024;
/// The limit for one user; further requests are rejected.
const MAX_PER_USER: usize = 64;
/// As [`MAX_PER_USER`], for a component of the cluster, whose further requests keep their seats.
const MAX_PER_COMPONENT: usize = 512;

/// The requests that wait without a seat.
#[derive(Debug, Default)]
pub struct Waiters(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    by_caller: HashMap<Text, usize>,
}

/// The outcome of an attempt to wait without a seat.
#[derive(Debug)]
pub enum WaitOutcome {
    Waits(Waiter),
    /// The request waits and keeps its seat.
    KeepsSeat,
    /// Too many requests of the caller are waiting.
    Refused,
}

/// A waiting request, which is removed on drop.
#[derive(Debug)]
pub struct Waiter {
    waiters: Arc<Waiters>,
    caller: Text,
}

impl Waiters {
    /// Adds a request of a caller. All service accounts of a namespace are one caller, since a user who can create one
    /// can create many.
    pub fn enter(self: &Arc<Self>, caller: &Text, is_system: bool) -> WaitOutcome {
        if !is_system && self.is_crowded(caller) {
            return WaitOutcome::Refused;
        }
        self.add(caller, is_system).map_or(WaitOutcome::KeepsSeat, WaitOutcome::Waits)
    }

    /// Adds a request of a caller that can no longer be rejected. Returns `None` if it keeps its seat.
    pub fn add(self: &Arc<Self>, caller: &Text, is_system: bool) -> Option<Waiter> {
        let caller = caller_key(caller);
        let mut counts = self.0.lock();
        let own = counts.by_caller.get(&caller).copied().unwrap_or(0);
        if counts.total >= MAX_WAITERS || is_system && own >= MAX_PER_COMPONENT {
            return None;
        }
        counts.total += 1;
        counts.by_caller.insert(caller.clone(), own + 1);
        Some(Waiter { waiters: self.clone(), caller })
    }

    /// Returns true if the user has reached the limit.
    pub fn is_crowded(&self, caller: &Text) -> bool {
        self.0.lock().by_caller.get(&caller_key(caller)).is_some_and(|own| *own >= MAX_PER_USER)
    }
}

/// Returns the name under which the requests of a caller are counted.
fn caller_key(caller: &Text) -> Text {
    service_account_namespace(caller).map_or_else(|| caller.clone(), Text::from)
}

/// Returns the prefix of the names of a namespace's service accounts if the name is one of them.
fn service_account_namespace(name: &str) -> Option<&str> {
    let namespace = name.strip_prefix("system:serviceaccount:")?;
    let end = namespace.find(':')?;
    Some(&name[..name.len() - namespace.len() + end])
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut counts = self.waiters.0.lock();
        counts.total -= 1;
        if let Some(own) = counts.by_caller.get_mut(&self.caller) {
            *own -= 1;
            if *own == 0 {
                counts.by_caller.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(waiters: &Arc<Waiters>, caller: &str, is_system: bool) -> Result<Waiter, bool> {
        match waiters.enter(&caller.into(), is_system) {
            WaitOutcome::Waits(waiter) => Ok(waiter),
            WaitOutcome::KeepsSeat => Err(true),
            WaitOutcome::Refused => Err(false),
        }
    }

    #[test]
    fn limits_waiting_requests_per_user() {
        let waiters = Arc::<Waiters>::default();
        let mut held: Vec<_> = (0..MAX_PER_USER).map(|_| enter(&waiters, "jane", false).expect("a share")).collect();
        assert_eq!(enter(&waiters, "jane", false).err(), Some(false));
        held.extend(enter(&waiters, "john", false));
        held.pop();
        held.pop();
        held.extend(enter(&waiters, "jane", false));
        assert_eq!(held.len(), MAX_PER_USER);
        assert!(waiters.is_crowded(&"jane".into()) && !waiters.is_crowded(&"john".into()));
        // Forwarded requests are counted beyond the limit.
        held.extend(waiters.add(&"jane".into(), false));
        assert_eq!(held.len(), MAX_PER_USER + 1);
        drop(held);
        assert!(waiters.0.lock().by_caller.is_empty());
    }

    #[test]
    fn service_accounts_of_a_namespace_share_a_limit() {
        let waiters = Arc::<Waiters>::default();
        let account = |n: usize| format!("system:serviceaccount:team:robot-{n}");
        let held: Vec<_> = (0..MAX_PER_USER).map(|n| enter(&waiters, &account(n), false).expect("a share")).collect();
        assert_eq!(enter(&waiters, &account(MAX_PER_USER), false).err(), Some(false));
        assert!(enter(&waiters, "system:serviceaccount:team-2:robot", false).is_ok());
        drop(held);
    }

    #[test]
    fn requests_beyond_the_limits_keep_their_seats() {
        let waiters = Arc::<Waiters>::default();
        let mut held: Vec<_> =
            (0..MAX_PER_COMPONENT).map(|_| enter(&waiters, "root", true).expect("a share")).collect();
        assert_eq!(enter(&waiters, "root", true).err(), Some(true));
        for n in 0..MAX_WAITERS - MAX_PER_COMPONENT {
            held.push(enter(&waiters, &n.to_string(), false).expect("room"));
        }
        assert_eq!(enter(&waiters, "jane", false).err(), Some(true));
        held.pop();
        assert!(enter(&waiters, "jane", false).is_ok());
    }
}
