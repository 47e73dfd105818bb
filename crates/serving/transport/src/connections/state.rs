//! The state of one connection and its timeouts.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::{AcquireError, Notify, Semaphore, SemaphorePermit};

use super::Connections;
use super::head_memory::HeadMemory;

/// The timeout for the head of a request, and for the start of the first request (Go's `ReadHeaderTimeout`).
const HEAD_MS: u64 = 32_000;
/// The idle timeout of a connection between requests (Go's `IdleTimeout`).
const IDLE_MS: u64 = 90_000;
/// The maximum time in which a client reads no bytes of a response. Disconnected clients are detected sooner, by pings.
const STALL_MS: u64 = 60_000;
/// The time for the client to close a connection that is shutting down, once it has no active requests.
const SHUTDOWN_MS: u64 = 1_000;
/// The number of requests that run concurrently on an unauthenticated connection; further ones wait.
const UNAUTHENTICATED_STREAMS: usize = 16;

/// Milliseconds; zero means never.
type Timestamp = AtomicU64;

/// One connection.
pub(crate) struct Connection {
    pub(super) id: u64,
    pub(super) peer: IpAddr,
    began: Instant,
    protocol: AtomicU8,
    authenticated: AtomicBool,
    upgraded: AtomicBool,
    closed: AtomicBool,
    /// The number of received requests that have not started.
    pending_requests: AtomicU32,
    /// The number of active requests.
    active_requests: AtomicU32,
    started_requests: AtomicU64,
    /// The time at which a request last started or ended, initially the start of the connection.
    active_at: Timestamp,
    /// The time at which bytes were last received.
    received_at: Timestamp,
    /// The time since which the head of a request is incomplete (HTTP/1).
    head_since: Timestamp,
    head_memory: HeadMemory,
    /// The time by which the response must have been sent (HTTP/1; HTTP/2 streams have their own).
    send_by: Timestamp,
    /// The time since which the socket has accepted none of the pending bytes.
    stalled_since: Timestamp,
    /// The time since which written bytes have been pending.
    unflushed_since: Timestamp,
    /// The time at which the shutdown of the connection started.
    shutdown_at: Timestamp,
    close: Notify,
    shutdown: Notify,
    request_permits: Semaphore,
}

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The handshake is not complete.
    Unknown,
    Http1,
    Http2,
}

/// The action after a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeoutAction {
    /// Shuts down the connection gracefully.
    Shutdown,
    Close,
}

/// A guard for a request that has not started.
pub(crate) struct PendingRequest(Arc<Connection>);

/// A guard for an active request.
pub(crate) struct ActiveRequest(Arc<Connection>);

/// A guard for the memory of a request's head (HTTP/2).
pub(crate) struct HeldHead {
    connection: Arc<Connection>,
    bytes: usize,
}

impl Connection {
    pub(super) fn new(id: u64, peer: IpAddr, began: Instant, now: u64, head_memory: HeadMemory) -> Self {
        Self {
            id,
            peer,
            began,
            protocol: AtomicU8::new(Protocol::Unknown as u8),
            authenticated: AtomicBool::default(),
            upgraded: AtomicBool::default(),
            closed: AtomicBool::default(),
            pending_requests: AtomicU32::default(),
            active_requests: AtomicU32::default(),
            started_requests: AtomicU64::default(),
            active_at: Timestamp::new(now),
            received_at: Timestamp::new(now),
            head_since: Timestamp::default(),
            head_memory,
            send_by: Timestamp::default(),
            stalled_since: Timestamp::default(),
            unflushed_since: Timestamp::default(),
            shutdown_at: Timestamp::default(),
            close: Notify::new(),
            shutdown: Notify::new(),
            request_permits: Semaphore::new(UNAUTHENTICATED_STREAMS),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64 + 1
    }

    pub(crate) fn set_protocol(&self, protocol: Protocol) {
        self.protocol.store(protocol as u8, Ordering::Relaxed);
    }

    /// Marks the connection as authenticated.
    pub(crate) fn mark_authenticated(&self) {
        if !self.authenticated.swap(true, Ordering::Relaxed) {
            self.request_permits.add_permits(1 << 20);
        }
    }

    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated.load(Ordering::Relaxed)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.active_requests.load(Ordering::Relaxed) > 0
    }

    /// Returns true while more than one request is active, or one is about to start. Many requests complete
    /// immediately, so they are never active at the same time.
    pub(crate) fn has_several_requests(&self) -> bool {
        self.active_requests.load(Ordering::Relaxed) > 1 || self.pending_requests.load(Ordering::Relaxed) > 0
    }

    pub(super) fn last_active(&self) -> u64 {
        self.active_at.load(Ordering::Relaxed)
    }

    /// Marks the connection as upgraded: it no longer carries HTTP, and its new owner closes it.
    pub(crate) fn mark_upgraded(&self) {
        self.upgraded.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_upgraded(&self) -> bool {
        self.upgraded.load(Ordering::Relaxed)
    }

    /// Waits while too many requests of an unauthenticated connection run. Fails if the connection shuts down.
    pub(crate) async fn acquire_request_permit(&self) -> Result<Option<SemaphorePermit<'_>>, AcquireError> {
        if self.is_authenticated() {
            return Ok(None);
        }
        self.request_permits.acquire().await.map(Some)
    }

    /// Records that a request was received. Returns a guard for the time until it starts.
    pub(crate) fn add_pending_request(self: &Arc<Self>) -> PendingRequest {
        self.pending_requests.fetch_add(1, Ordering::Relaxed);
        PendingRequest(self.clone())
    }

    /// Records that a request starts. Returns a guard for its duration.
    pub(crate) fn begin_request(self: &Arc<Self>) -> ActiveRequest {
        self.active_requests.fetch_add(1, Ordering::Relaxed);
        self.started_requests.fetch_add(1, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
        if self.is_http1() {
            self.head_memory.complete();
        }
        self.send_by.store(0, Ordering::Relaxed);
        self.active_at.store(self.now(), Ordering::Relaxed);
        ActiveRequest(self.clone())
    }

    /// Sets the deadline for sending the response.
    pub(crate) fn send_by(&self, deadline: Instant) {
        let at = deadline.saturating_duration_since(self.began).as_millis() as u64 + 1;
        self.send_by.store(at, Ordering::Relaxed);
    }

    /// Records that bytes were received. Returns false if they belong to an incomplete head (HTTP/1), and the heads of
    /// all connections take too much memory.
    pub(crate) fn mark_received(&self, count: usize) -> bool {
        let now = self.now();
        self.received_at.store(now, Ordering::Relaxed);
        if !self.is_http1() || self.is_busy() {
            return true;
        }
        if self.head_since.load(Ordering::Relaxed) == 0 {
            self.head_since.store(now, Ordering::Relaxed);
        }
        self.is_upgraded() || self.head_memory.receive(count)
    }

    /// Counts the memory of a request's head until the guard is dropped. Returns `None` if the heads of all connections
    /// take too much.
    pub(crate) fn hold_head(self: &Arc<Self>, bytes: usize) -> Option<HeldHead> {
        let is_within = self.head_memory.add(bytes);
        // Dropped if it is beyond the limit.
        let held = HeldHead { connection: self.clone(), bytes };
        is_within.then_some(held)
    }

    pub(crate) fn head_memory(&self) -> &HeadMemory {
        &self.head_memory
    }

    /// Returns true if the connection received a large head, so it should end soon, to free its buffers.
    pub(crate) fn has_large_head(&self) -> bool {
        self.head_memory.has_large()
    }

    /// Returns true if the connection has sent large heads, some of which may be incomplete or refused.
    pub(crate) fn had_large_heads(&self) -> bool {
        self.head_memory.had_large()
    }

    fn is_http1(&self) -> bool {
        self.protocol.load(Ordering::Relaxed) == Protocol::Http1 as u8
    }

    /// Returns the time at which bytes were last received, in milliseconds since the connection began.
    pub(crate) fn received_ms(&self) -> u64 {
        self.received_at.load(Ordering::Relaxed)
    }

    /// Records that written bytes are pending.
    pub(crate) fn mark_unflushed(&self) {
        if self.unflushed_since.load(Ordering::Relaxed) == 0 {
            self.unflushed_since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Records that the socket accepts no bytes.
    pub(crate) fn mark_stalled(&self) {
        self.mark_unflushed();
        if self.stalled_since.load(Ordering::Relaxed) == 0 {
            self.stalled_since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Records that the socket accepts bytes again.
    pub(crate) fn clear_stalled(&self) {
        self.stalled_since.store(0, Ordering::Relaxed);
    }

    /// Records that all written bytes have been sent.
    pub(crate) fn mark_flushed(&self) {
        self.stalled_since.store(0, Ordering::Relaxed);
        self.unflushed_since.store(0, Ordering::Relaxed);
        if !self.is_busy() {
            self.send_by.store(0, Ordering::Relaxed);
        }
    }

    /// Starts a graceful shutdown: the connection accepts no further requests.
    pub(crate) fn begin_shutdown(&self) {
        if self.shutdown_at.load(Ordering::Relaxed) == 0 {
            self.shutdown_at.store(self.now(), Ordering::Relaxed);
            self.shutdown.notify_one();
            if !self.is_authenticated() {
                self.request_permits.close();
            }
        }
    }

    /// Records that the connection is shutting down for other reasons.
    pub(crate) fn mark_shutdown(&self) {
        if self.shutdown_at.load(Ordering::Relaxed) == 0 {
            self.shutdown_at.store(self.now(), Ordering::Relaxed);
        }
    }

    pub(crate) async fn shutdown_requested(&self) {
        self.shutdown.notified().await;
    }

    /// Closes the connection immediately.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.close.notify_one();
    }

    pub(crate) async fn close_requested(&self) {
        self.close.notified().await;
    }

    #[cfg(test)]
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Returns the action for an expired timeout, if any.
    pub(super) fn timeout_action(&self, now: u64) -> Option<TimeoutAction> {
        let since = |timestamp: &Timestamp| match timestamp.load(Ordering::Relaxed) {
            0 => 0,
            at => now.saturating_sub(at),
        };
        if self.is_upgraded() {
            return None;
        }
        let is_http1 = self.is_http1();
        let send_by = self.send_by.load(Ordering::Relaxed);
        let (busy, idle) = (self.is_busy(), since(&self.active_at));
        let overdue = since(&self.stalled_since) > STALL_MS
            || since(&self.head_since) > HEAD_MS
            || (send_by > 0 && now > send_by)
            || (!busy && since(&self.unflushed_since) > STALL_MS)
            || (!busy && is_http1 && self.started_requests.load(Ordering::Relaxed) == 0 && idle > HEAD_MS)
            || (!busy
                && self.shutdown_at.load(Ordering::Relaxed) > 0
                && since(&self.shutdown_at).min(idle) > SHUTDOWN_MS);
        match () {
            () if overdue => Some(TimeoutAction::Close),
            () if busy || idle <= IDLE_MS || self.shutdown_at.load(Ordering::Relaxed) > 0 => None,
            () if is_http1 => Some(TimeoutAction::Close),
            () => Some(TimeoutAction::Shutdown),
        }
    }

    pub(super) fn apply(&self, action: TimeoutAction) {
        match action {
            TimeoutAction::Shutdown => self.begin_shutdown(),
            TimeoutAction::Close => self.close(),
        }
    }
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        self.0.pending_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for HeldHead {
    fn drop(&mut self) {
        self.connection.head_memory.remove(self.bytes);
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let connection = &self.0;
        connection.active_at.store(connection.now(), Ordering::Relaxed);
        connection.active_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A slot among the connections, which is released on drop.
pub(crate) struct Slot {
    all: Arc<Connections>,
    connection: Arc<Connection>,
}

impl Slot {
    pub(super) fn new(all: Arc<Connections>, connection: Arc<Connection>) -> Self {
        Self { all, connection }
    }

    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.all.remove_ended(&self.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_pending_requests_as_several() {
        let connection = Arc::new(Connection::new(0, [127, 0, 0, 1].into(), Instant::now(), 1, HeadMemory::default()));
        let mut pending_requests: Vec<_> = (0..3).map(|_| connection.add_pending_request()).collect();
        let mut several = Vec::new();
        while let Some(next) = pending_requests.pop() {
            let active = connection.begin_request();
            drop(next);
            drop(active);
            several.push(connection.has_several_requests());
        }
        assert_eq!(several, [true, true, false]);
        let _watches = (connection.begin_request(), connection.begin_request());
        assert!(connection.has_several_requests());
    }

    /// A connection with its events, as `(event, second of the check, action)`.
    #[test]
    fn timeouts_end_idle_stalled_and_overdue_connections() {
        let connection_of = |protocol| {
            let connection =
                Arc::new(Connection::new(0, [127, 0, 0, 1].into(), Instant::now(), 1, HeadMemory::default()));
            connection.set_protocol(protocol);
            connection
        };
        let at = |connection: &Connection, seconds: u64| connection.timeout_action(seconds * 1000 + 500);
        let silent = connection_of(Protocol::Http1);
        assert_eq!((at(&silent, 31), at(&silent, 33)), (None, Some(TimeoutAction::Close)));
        let silent = connection_of(Protocol::Http2);
        assert_eq!((at(&silent, 89), at(&silent, 91)), (None, Some(TimeoutAction::Shutdown)));
        silent.begin_shutdown();
        assert_eq!(at(&silent, 92), Some(TimeoutAction::Close));
        let half = connection_of(Protocol::Http1);
        drop(half.begin_request());
        assert_eq!((at(&half, 89), at(&half, 91)), (None, Some(TimeoutAction::Close)));
        assert!(half.mark_received(1));
        assert_eq!((at(&half, 31), at(&half, 33)), (None, Some(TimeoutAction::Close)));
        let request = half.begin_request();
        assert_eq!(at(&half, 3600), None);
        half.send_by(half.began + std::time::Duration::from_secs(60));
        assert_eq!((at(&half, 59), at(&half, 61)), (None, Some(TimeoutAction::Close)));
        drop(request);
        // Buffered bytes must be read too.
        assert_eq!(at(&half, 61), Some(TimeoutAction::Close));
        half.mark_flushed();
        assert_eq!(at(&half, 61), None);
        let unread = connection_of(Protocol::Http2);
        let watch = unread.begin_request();
        unread.mark_stalled();
        assert_eq!((at(&unread, 59), at(&unread, 61)), (None, Some(TimeoutAction::Close)));
        unread.clear_stalled();
        assert_eq!(at(&unread, 3600), None);
        unread.begin_shutdown();
        assert_eq!(at(&unread, 3600), None);
        drop(watch);
        assert_eq!(at(&unread, 3), Some(TimeoutAction::Close));
        // Upgraded connections are exempt.
        unread.mark_upgraded();
        assert_eq!(at(&unread, 3600), None);
    }
}
