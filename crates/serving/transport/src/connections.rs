//! All connections of the server: limits on their number, the choice of connections to close when a limit is reached,
//! and timeouts of idle, unfinished or unread ones.

mod state;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

pub(crate) use state::{Answering, Connection, Protocol, Slot, Taken};

use crate::throttle::Throttle;

/// The interval between sweeps of the connections.
const SWEEP_EVERY: Duration = Duration::from_secs(1);
/// When a limit is reached, one in this many of the allowed connections is closed, so that the search for them is not
/// repeated for each new connection.
const BATCH: usize = 16;

/// Limits on open connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub total: usize,
    /// The limit on unauthenticated connections.
    pub unauthenticated: usize,
    /// The limit on unauthenticated connections from one address.
    pub unauthenticated_per_address: usize,
}

impl ConnectionLimits {
    /// Returns the limits for a process with this many file descriptors. Some are reserved for the store, the log and
    /// the connections that the server opens itself.
    #[must_use]
    pub fn of_descriptors(descriptors: u64) -> Self {
        let reserve = (descriptors / 4).clamp(64, 4096).min(descriptors / 2);
        let total = usize::try_from(descriptors - reserve).unwrap_or(usize::MAX).max(8);
        Self { total, unauthenticated: (total / 4 * 3).max(4), unauthenticated_per_address: (total / 2).max(4) }
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self::of_descriptors(1024)
    }
}

/// The open connections.
pub(crate) struct Connections {
    began: Instant,
    limits: ConnectionLimits,
    open: Mutex<Open>,
    /// Notified when a connection ends, and when the first one begins.
    changed: Notify,
    evictions: Throttle,
}

#[derive(Default)]
struct Open {
    next: u64,
    all: HashMap<u64, Arc<Connection>>,
    /// An upper bound of the unauthenticated connections per address; counted again when a limit seems to be reached.
    unknown: HashMap<IpAddr, usize>,
    unknown_in_all: usize,
}

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        let evictions = Throttle::every(Duration::from_secs(10));
        Arc::new(Self { began: Instant::now(), limits, open: Mutex::default(), changed: Notify::new(), evictions })
    }

    /// Adds a connection, closing others if necessary. `None` if all others have priority.
    pub(crate) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Slot> {
        let now = self.now();
        let mut open = self.open.lock();
        let of_peer = open.unknown.get(&peer).copied().unwrap_or(0);
        if of_peer >= self.limits.unauthenticated_per_address {
            let room = self.make_room(&mut open, self.limits.unauthenticated_per_address, |connection| {
                !connection.is_known() && connection.peer == peer
            });
            if !room {
                return None;
            }
        }
        if open.unknown_in_all >= self.limits.unauthenticated {
            // Connections of the address with the most of them are closed first.
            let room = self.make_room(&mut open, self.limits.unauthenticated, |connection| !connection.is_known());
            if !room {
                return None;
            }
        }
        if open.all.len() >= self.limits.total && !self.make_room(&mut open, self.limits.total, |_| true) {
            return None;
        }
        let id = open.next;
        open.next += 1;
        let connection = Arc::new(Connection::new(id, peer, self.began, now));
        if open.all.is_empty() {
            self.changed.notify_waiters();
        }
        open.all.insert(id, connection.clone());
        *open.unknown.entry(peer).or_default() += 1;
        open.unknown_in_all += 1;
        Some(Slot::new(self.clone(), connection))
    }

    /// Counts unauthenticated connections again, and closes some of those `counted` until there is room under a limit:
    /// unauthenticated ones first, then those of the address with the most, then those idle for longest. Authenticated
    /// connections with a request in progress are never closed.
    fn make_room(&self, open: &mut Open, limit: usize, counted: impl Fn(&Connection) -> bool) -> bool {
        let mut by_address: HashMap<IpAddr, usize> = HashMap::new();
        let mut unknown: HashMap<IpAddr, usize> = HashMap::new();
        let mut among = Vec::new();
        for connection in open.all.values() {
            if !connection.is_known() {
                *unknown.entry(connection.peer).or_default() += 1;
            }
            if counted(connection) {
                *by_address.entry(connection.peer).or_default() += 1;
                among.push(connection.clone());
            }
        }
        open.unknown_in_all = unknown.values().sum();
        open.unknown = unknown;
        let count = among.len();
        if count < limit {
            return true;
        }
        among.retain(|connection| !(connection.is_known() && connection.is_busy()));
        let most = |connection: &Connection| std::cmp::Reverse(by_address.get(&connection.peer).copied().unwrap_or(0));
        among.sort_by_cached_key(|connection| {
            (connection.is_known(), most(connection), connection.is_busy(), connection.last_active(), connection.id)
        });
        let wanted = count - limit + (limit / BATCH).max(1);
        let closed = among.iter().take(wanted).map(|connection| self.evict(open, connection)).count();
        if let Some(more) = self.evictions.pass() {
            tracing::warn!(
                open = open.all.len(),
                closed,
                more,
                limit,
                "too many connections: those that rest longest and have not authenticated anybody are closed"
            );
        }
        closed > count - limit
    }

    fn evict(&self, open: &mut Open, connection: &Connection) {
        connection.close();
        self.forget(open, connection);
    }

    fn forget(&self, open: &mut Open, connection: &Connection) {
        if open.all.remove(&connection.id).is_none() {
            return;
        }
        if !connection.is_known()
            && let Some(count) = open.unknown.get_mut(&connection.peer)
        {
            *count -= 1;
            if *count == 0 {
                open.unknown.remove(&connection.peer);
            }
            open.unknown_in_all = open.unknown_in_all.saturating_sub(1);
        }
    }

    /// Removes a connection that has ended.
    fn ended(&self, connection: &Connection) {
        let mut open = self.open.lock();
        self.forget(&mut open, connection);
        drop(open);
        self.changed.notify_waiters();
    }

    /// Returns the time in milliseconds, starting at one: zero means never.
    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64 + 1
    }

    /// Closes connections whose timeouts expire, for as long as the server runs.
    pub(crate) async fn sweep(self: Arc<Self>) {
        loop {
            let changed = self.changed.notified();
            if self.open.lock().all.is_empty() {
                changed.await;
                continue;
            }
            tokio::time::sleep(SWEEP_EVERY).await;
            let now = self.now();
            // Closing a connection wakes tasks, so it happens outside of the lock.
            let due: Vec<_> = {
                let open = self.open.lock();
                let due = |connection: &Arc<Connection>| Some((connection.clone(), connection.due(now)?));
                open.all.values().filter_map(due).collect()
            };
            for (connection, due) in due {
                connection.end(due);
            }
        }
    }

    /// Counts the open connections, except for upgraded ones, which end by themselves.
    pub(crate) fn left(&self) -> usize {
        self.open.lock().all.values().filter(|connection| !connection.is_upgraded()).count()
    }

    /// Resolves when a connection has ended.
    pub(crate) fn changed(&self) -> impl Future<Output = ()> {
        self.changed.notified()
    }

    /// Closes all remaining connections at once.
    pub(crate) fn close_all(&self) {
        let all: Vec<_> = self.open.lock().all.values().cloned().collect();
        all.iter().for_each(|connection| connection.close());
    }

    /// Closes some idle connections after the process ran out of descriptors.
    pub(crate) fn relieve(&self) {
        let mut open = self.open.lock();
        let limit = open.all.len();
        self.make_room(&mut open, limit, |_| true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn limits(total: usize, unauthenticated: usize, unauthenticated_per_address: usize) -> ConnectionLimits {
        ConnectionLimits { total, unauthenticated, unauthenticated_per_address }
    }

    fn closed(slots: &[Slot]) -> Vec<usize> {
        (0..slots.len()).filter(|at| slots[*at].connection().is_closed()).collect()
    }

    #[test]
    fn limits_leave_a_reserve() {
        for (descriptors, want) in [
            (128, limits(64, 48, 32)),
            (1024, limits(768, 576, 384)),
            (20, limits(10, 6, 5)),
            (1 << 20, limits((1 << 20) - 4096, ((1 << 20) - 4096) / 4 * 3, ((1 << 20) - 4096) / 2)),
        ] {
            assert_eq!(ConnectionLimits::of_descriptors(descriptors), want);
        }
    }

    #[test]
    fn one_address_takes_nothing_from_others() {
        let connections = Connections::new(limits(100, 60, 10));
        let other = connections.admit(THERE).unwrap();
        let slots: Vec<Slot> = (0..50).map(|_| connections.admit(HERE).unwrap()).collect();
        assert_eq!(connections.left(), 11);
        // Those idle for longest were closed.
        assert_eq!(closed(&slots), (0..40).collect::<Vec<_>>());
        assert!(!other.connection().is_closed());
        drop(slots);
        assert_eq!(connections.left(), 1);
    }

    #[test]
    fn the_address_with_the_most_gives_way() {
        let connections = Connections::new(limits(100, 16, 100));
        let few: Vec<Slot> = (0..4).map(|_| connections.admit(THERE).unwrap()).collect();
        let many: Vec<Slot> = (0..40).map(|_| connections.admit(HERE).unwrap()).collect();
        assert!(closed(&few).is_empty() && connections.left() == 16, "{}", connections.left());
        assert_eq!(closed(&many).len(), 28);
    }

    #[test]
    fn who_has_an_identity_stays() {
        let connections = Connections::new(limits(10, 10, 10));
        let known: Vec<Slot> = (0..9).map(|_| connections.admit(HERE).unwrap()).collect();
        for slot in &known {
            slot.connection().identified();
        }
        let busy: Vec<_> = known.iter().map(|slot| slot.connection().begin()).collect();
        for _ in 0..20 {
            // Each replaces the previous one.
            std::mem::forget(connections.admit(HERE).unwrap());
        }
        assert!(closed(&known).is_empty());
        assert_eq!(connections.left(), 10);
        // A new connection is refused if all others are busy; an idle one is replaced.
        let connections = Connections::new(limits(9, 9, 9));
        let all: Vec<Slot> = (0..9).map(|_| connections.admit(HERE).unwrap()).collect();
        let mut open: Vec<_> = all.iter().map(|slot| slot.connection().begin()).collect();
        all.iter().for_each(|slot| slot.connection().identified());
        assert!(connections.admit(HERE).is_none());
        open.remove(3);
        assert!(connections.admit(HERE).is_some());
        assert_eq!(closed(&all), [3]);
        drop(busy);
    }
}
