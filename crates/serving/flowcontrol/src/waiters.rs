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
/// The limit for requests of a caller that have waited only for a short time, beside the others.
const MAX_BRIEF: usize = 512;

/// The requests that wait without a seat.
#[derive(Debug, Default)]
pub struct Waiters(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    by_caller: HashMap<Text, usize>,
    /// The requests that have waited only for a short time, which are not in `by_caller`.
    brief: HashMap<Text, usize>,
}

impl Counts {
    fn of(&mut self, is_brief: bool) -> &mut HashMap<Text, usize> {
        if is_brief { &mut self.brief } else { &mut self.by_caller }
    }

    fn add(&mut self, caller: &Text, is_brief: bool) {
        *self.of(is_brief).entry(caller.clone()).or_default() += 1;
    }

    fn remove(&mut self, caller: &Text, is_brief: bool) {
        let counts = self.of(is_brief);
        if let Some(own) = counts.get_mut(caller) {
            *own -= 1;
            if *own == 0 {
                counts.remove(caller);
            }
        }
    }
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
    is_brief: bool,
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
        counts.add(&caller, false);
        Some(Waiter { waiters: self.clone(), caller, is_brief: false })
    }

    /// Adds a request that has waited for a short time, and does not count towards the limit that rejects others until
    /// [`Waiter::lasts`]. Returns `None` if it keeps its seat.
    pub fn add_brief(self: &Arc<Self>, caller: &Text) -> Option<Waiter> {
        let caller = caller_key(caller);
        let mut counts = self.0.lock();
        if counts.total >= MAX_WAITERS || counts.brief.get(&caller).is_some_and(|own| *own >= MAX_BRIEF) {
            return None;
        }
        counts.total += 1;
        counts.add(&caller, true);
        Some(Waiter { waiters: self.clone(), caller, is_brief: true })
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

impl Waiter {
    /// Counts the request towards the limit that rejects others.
    pub fn lasts(&mut self) {
        if std::mem::take(&mut self.is_brief) {
            let mut counts = self.waiters.0.lock();
            counts.remove(&self.caller, true);
            counts.add(&self.caller, false);
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut counts = self.waiters.0.lock();
        counts.total -= 1;
        counts.remove(&self.caller, self.is_brief);
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
    fn brief_waits_reject_no_request() {
        let waiters = Arc::<Waiters>::default();
        let jane = Text::from("jane");
        let mut held: Vec<_> = (0..MAX_BRIEF).map(|_| waiters.add_brief(&jane).expect("a share")).collect();
        assert!(waiters.add_brief(&jane).is_none() && !waiters.is_crowded(&jane));
        assert!(waiters.add_brief(&"john".into()).is_some());
        held.iter_mut().take(MAX_PER_USER).for_each(Waiter::lasts);
        assert!(waiters.is_crowded(&jane));
        assert!(waiters.add_brief(&jane).is_some(), "others may wait briefly again");
        held.drain(..MAX_PER_USER);
        assert!(!waiters.is_crowded(&jane));
        drop(held);
        let counts = waiters.0.lock();
        assert!(counts.total == 0 && counts.brief.is_empty() && counts.by_caller.is_empty());
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
