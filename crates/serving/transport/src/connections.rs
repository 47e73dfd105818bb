//! All connections of the server: limits on their number, eviction when a limit is reached, and timeouts of idle,
//! incomplete and unread connections.

mod head_memory;
mod state;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

pub(crate) use head_memory::HeadMemory;
pub(crate) use state::{ActiveRequest, Connection, HeldHead, PendingRequest, Protocol, Slot};

use crate::throttle::Throttle;

/// The interval between sweeps of the connections.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// When a limit is reached, one in this many of the allowed connections is closed, so that the search is not repeated
/// for each new connection.
const EVICTION_DIVISOR: usize = 16;

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
    /// outbound connections.
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
    start: Instant,
    limits: ConnectionLimits,
    open: Mutex<OpenConnections>,
    /// Notified when a connection ends, and when the first one starts.
    changed: Notify,
    evictions: Throttle,
    /// The bytes of the large heads of all connections.
    large_heads: Arc<AtomicUsize>,
}

#[derive(Default)]
struct OpenConnections {
    next: u64,
    all: HashMap<u64, Arc<Connection>>,
    /// An upper bound of the unauthenticated connections per address; recounted when a limit seems to be reached.
    unauthenticated_by_address: HashMap<IpAddr, usize>,
    unauthenticated: usize,
}

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        let evictions = Throttle::every(Duration::from_secs(10));
        Arc::new(Self {
            start: Instant::now(),
            limits,
            open: Mutex::default(),
            changed: Notify::new(),
            evictions,
            large_heads: Arc::default(),
        })
    }

    /// Adds a connection, closing others if necessary. Returns `None` if all others have priority.
    pub(crate) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Slot> {
        let now = self.now();
        let mut open = self.open.lock();
        let of_peer = open.unauthenticated_by_address.get(&peer).copied().unwrap_or(0);
        if of_peer >= self.limits.unauthenticated_per_address {
            let room = self.make_room(&mut open, self.limits.unauthenticated_per_address, |connection| {
                !connection.is_authenticated() && connection.peer == peer
            });
            if !room {
                return None;
            }
        }
        if open.unauthenticated >= self.limits.unauthenticated {
            // Connections of the address with most connections are closed first.
            let room =
                self.make_room(&mut open, self.limits.unauthenticated, |connection| !connection.is_authenticated());
            if !room {
                return None;
            }
        }
        if open.all.len() >= self.limits.total && !self.make_room(&mut open, self.limits.total, |_| true) {
            return None;
        }
        let id = open.next;
        open.next += 1;
        let connection =
            Arc::new(Connection::new(id, peer, self.start, now, HeadMemory::new(self.large_heads.clone())));
        if open.all.is_empty() {
            self.changed.notify_waiters();
        }
        open.all.insert(id, connection.clone());
        *open.unauthenticated_by_address.entry(peer).or_default() += 1;
        open.unauthenticated += 1;
        Some(Slot::new(self.clone(), connection))
    }

    /// Recounts unauthenticated connections, and closes some of those for which `is_counted` returns true until the
    /// number is below a limit: unauthenticated ones first, then those of the address with most connections, then the
    /// longest idle ones. Authenticated connections with an active request are never closed.
    fn make_room(&self, open: &mut OpenConnections, limit: usize, is_counted: impl Fn(&Connection) -> bool) -> bool {
        let mut by_address: HashMap<IpAddr, usize> = HashMap::new();
        let mut unauthenticated_by_address: HashMap<IpAddr, usize> = HashMap::new();
        let mut candidates = Vec::new();
        for connection in open.all.values() {
            if !connection.is_authenticated() {
                *unauthenticated_by_address.entry(connection.peer).or_default() += 1;
            }
            if is_counted(connection) {
                *by_address.entry(connection.peer).or_default() += 1;
                candidates.push(connection.clone());
            }
        }
        open.unauthenticated = unauthenticated_by_address.values().sum();
        open.unauthenticated_by_address = unauthenticated_by_address;
        let count = candidates.len();
        if count < limit {
            return true;
        }
        candidates.retain(|connection| !(connection.is_authenticated() && connection.is_busy()));
        let most = |connection: &Connection| std::cmp::Reverse(by_address.get(&connection.peer).copied().unwrap_or(0));
        candidates.sort_by_cached_key(|connection| {
            (
                connection.is_authenticated(),
                most(connection),
                connection.is_busy(),
                connection.last_active(),
                connection.id,
            )
        });
        let surplus = count - limit + (limit / EVICTION_DIVISOR).max(1);
        let closed = candidates.iter().take(surplus).map(|connection| self.evict(open, connection)).count();
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

    fn evict(&self, open: &mut OpenConnections, connection: &Connection) {
        connection.close();
        self.remove(open, connection);
    }

    fn remove(&self, open: &mut OpenConnections, connection: &Connection) {
        if open.all.remove(&connection.id).is_none() {
            return;
        }
        if !connection.is_authenticated()
            && let Some(count) = open.unauthenticated_by_address.get_mut(&connection.peer)
        {
            *count -= 1;
            if *count == 0 {
                open.unauthenticated_by_address.remove(&connection.peer);
            }
            open.unauthenticated = open.unauthenticated.saturating_sub(1);
        }
    }

    /// Removes a connection that has ended.
    fn remove_ended(&self, connection: &Connection) {
        let mut open = self.open.lock();
        self.remove(&mut open, connection);
        drop(open);
        self.changed.notify_waiters();
    }

    /// Returns the time in milliseconds, starting at one, since zero means never.
    fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64 + 1
    }

    /// Closes connections whose timeouts have expired, for as long as the server runs.
    pub(crate) async fn sweep(self: Arc<Self>) {
        loop {
            let changed = self.changed.notified();
            if self.open.lock().all.is_empty() {
                changed.await;
                continue;
            }
            tokio::time::sleep(SWEEP_INTERVAL).await;
            let now = self.now();
            // Closing a connection wakes tasks, so it is done without holding the lock.
            let expired: Vec<_> = {
                let open = self.open.lock();
                let expired =
                    |connection: &Arc<Connection>| Some((connection.clone(), connection.timeout_action(now)?));
                open.all.values().filter_map(expired).collect()
            };
            for (connection, action) in expired {
                connection.apply(action);
            }
        }
    }

    /// Returns the number of open connections, except upgraded ones, which end independently.
    pub(crate) fn open_count(&self) -> usize {
        self.open.lock().all.values().filter(|connection| !connection.is_upgraded()).count()
    }

    /// Resolves when a connection has ended.
    pub(crate) fn next_change(&self) -> impl Future<Output = ()> {
        self.changed.notified()
    }

    /// Closes all remaining connections immediately.
    pub(crate) fn close_all(&self) {
        let all: Vec<_> = self.open.lock().all.values().cloned().collect();
        all.iter().for_each(|connection| connection.close());
    }

    /// Closes some idle connections after the process ran out of descriptors.
    pub(crate) fn close_idle(&self) {
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
    fn limits_reserve_descriptors() {
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
    fn one_address_cannot_evict_others() {
        let connections = Connections::new(limits(100, 60, 10));
        let other = connections.admit(THERE).unwrap();
        let slots: Vec<Slot> = (0..50).map(|_| connections.admit(HERE).unwrap()).collect();
        assert_eq!(connections.open_count(), 11);
        // The longest idle ones were closed.
        assert_eq!(closed(&slots), (0..40).collect::<Vec<_>>());
        assert!(!other.connection().is_closed());
        drop(slots);
        assert_eq!(connections.open_count(), 1);
    }

    #[test]
    fn evicts_connections_of_the_address_with_the_most() {
        let connections = Connections::new(limits(100, 16, 100));
        let few: Vec<Slot> = (0..4).map(|_| connections.admit(THERE).unwrap()).collect();
        let many: Vec<Slot> = (0..40).map(|_| connections.admit(HERE).unwrap()).collect();
        assert!(closed(&few).is_empty() && connections.open_count() == 16, "{}", connections.open_count());
        assert_eq!(closed(&many).len(), 28);
    }

    #[test]
    fn keeps_authenticated_connections() {
        let connections = Connections::new(limits(10, 10, 10));
        let authenticated: Vec<Slot> = (0..9).map(|_| connections.admit(HERE).unwrap()).collect();
        for slot in &authenticated {
            slot.connection().mark_authenticated();
        }
        let busy: Vec<_> = authenticated.iter().map(|slot| slot.connection().begin_request()).collect();
        for _ in 0..20 {
            // Each connection replaces the previous one.
            std::mem::forget(connections.admit(HERE).unwrap());
        }
        assert!(closed(&authenticated).is_empty());
        assert_eq!(connections.open_count(), 10);
        // A new connection is rejected if all others are busy; an idle one is replaced.
        let connections = Connections::new(limits(9, 9, 9));
        let all: Vec<Slot> = (0..9).map(|_| connections.admit(HERE).unwrap()).collect();
        let mut open: Vec<_> = all.iter().map(|slot| slot.connection().begin_request()).collect();
        all.iter().for_each(|slot| slot.connection().mark_authenticated());
        assert!(connections.admit(HERE).is_none());
        open.remove(3);
        assert!(connections.admit(HERE).is_some());
        assert_eq!(closed(&all), [3]);
        drop(busy);
    }
}
