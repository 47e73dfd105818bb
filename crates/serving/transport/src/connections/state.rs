//! The state of one connection and its timeouts.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use tokio::sync::{AcquireError, Notify, Semaphore, SemaphorePermit};

use super::Connections;

/// The longest time for the head of a request to arrive, and for the first request to begin (Go's `ReadHeaderTimeout`).
const HEAD_MS: u64 = 32_000;
/// The longest idle time of a connection between requests (Go's `IdleTimeout`).
const IDLE_MS: u64 = 90_000;
/// The longest time in which a client reads nothing of its answer. Vanished clients are detected sooner, by pings.
const STALL_MS: u64 = 60_000;
/// The time for the client to close a connection that was told to close, once no requests are in progress.
const LEAVING_MS: u64 = 1_000;
/// The number of requests that run at once on an unauthenticated connection; others wait.
const UNKNOWN_STREAMS: usize = 16;

/// Milliseconds; zero means never.
type Moment = AtomicU64;

/// One connection.
pub(crate) struct Connection {
    pub(super) id: u64,
    pub(super) peer: IpAddr,
    began: Instant,
    protocol: AtomicU8,
    known: AtomicBool,
    upgraded: AtomicBool,
    closed: AtomicBool,
    /// The number of requests that were taken off the connection and have not begun.
    taken: AtomicU32,
    /// The number of requests in progress.
    open: AtomicU32,
    begun: AtomicU64,
    /// The time at which a request last began or ended, initially the start of the connection.
    active: Moment,
    /// The time at which bytes were last received.
    heard: Moment,
    /// The time since which the head of a request is incomplete (HTTP/1).
    head: Moment,
    /// The time by which the answer must have been sent (HTTP/1; HTTP/2 streams have their own).
    send_by: Moment,
    /// The time since which the socket has accepted none of the pending bytes.
    stalled: Moment,
    /// The time since which written bytes have been pending.
    behind: Moment,
    /// The time at which the connection was told to close.
    left: Moment,
    close: Notify,
    leave: Notify,
    turns: Semaphore,
}

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The handshake is not complete.
    Unknown,
    Http1,
    Http2,
}

/// The way to end a connection after a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The client is told to close it.
    Leave,
    Close,
}

/// A guard for a request that has not begun.
pub(crate) struct Taken(Arc<Connection>);

/// A guard for a request in progress.
pub(crate) struct Answering(Arc<Connection>);

impl Connection {
    pub(super) fn new(id: u64, peer: IpAddr, began: Instant, now: u64) -> Self {
        Self {
            id,
            peer,
            began,
            protocol: AtomicU8::new(Protocol::Unknown as u8),
            known: AtomicBool::default(),
            upgraded: AtomicBool::default(),
            closed: AtomicBool::default(),
            taken: AtomicU32::default(),
            open: AtomicU32::default(),
            begun: AtomicU64::default(),
            active: Moment::new(now),
            heard: Moment::new(now),
            head: Moment::default(),
            send_by: Moment::default(),
            stalled: Moment::default(),
            behind: Moment::default(),
            left: Moment::default(),
            close: Notify::new(),
            leave: Notify::new(),
            turns: Semaphore::new(UNKNOWN_STREAMS),
        }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64 + 1
    }

    pub(crate) fn speaks(&self, protocol: Protocol) {
        self.protocol.store(protocol as u8, Ordering::Relaxed);
    }

    /// Marks the connection as authenticated.
    pub(crate) fn identified(&self) {
        if !self.known.swap(true, Ordering::Relaxed) {
            self.turns.add_permits(1 << 20);
        }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    /// Returns true while more than one request is in progress, or one is about to begin. Many are answered as soon as they
    /// begin, and are never in progress at the same time.
    pub(crate) fn answers_several(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 1 || self.taken.load(Ordering::Relaxed) > 0
    }

    pub(super) fn last_active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    /// Marks the connection as upgraded: it is no longer HTTP, and its new owner closes it.
    pub(crate) fn upgraded(&self) {
        self.upgraded.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_upgraded(&self) -> bool {
        self.upgraded.load(Ordering::Relaxed)
    }

    /// Waits while too many requests of an unauthenticated connection run. Fails if the connection is told to close.
    pub(crate) async fn turn(&self) -> Result<Option<SemaphorePermit<'_>>, AcquireError> {
        if self.is_known() {
            return Ok(None);
        }
        self.turns.acquire().await.map(Some)
    }

    /// Notes that a request was taken off the connection. Returns a guard for the time until it begins.
    pub(crate) fn take(self: &Arc<Self>) -> Taken {
        self.taken.fetch_add(1, Ordering::Relaxed);
        Taken(self.clone())
    }

    /// Notes that a request begins. Returns a guard for its duration.
    pub(crate) fn begin(self: &Arc<Self>) -> Answering {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.head.store(0, Ordering::Relaxed);
        self.send_by.store(0, Ordering::Relaxed);
        self.active.store(self.now(), Ordering::Relaxed);
        Answering(self.clone())
    }

    /// Sets the deadline for sending the answer.
    pub(crate) fn send_by(&self, deadline: Instant) {
        let at = deadline.saturating_duration_since(self.began).as_millis() as u64 + 1;
        self.send_by.store(at, Ordering::Relaxed);
    }

    /// Notes that bytes were received.
    pub(crate) fn heard(&self) {
        let now = self.now();
        self.heard.store(now, Ordering::Relaxed);
        if self.protocol.load(Ordering::Relaxed) == Protocol::Http1 as u8
            && !self.is_busy()
            && self.head.load(Ordering::Relaxed) == 0
        {
            self.head.store(now, Ordering::Relaxed);
        }
    }

    /// Returns the time since bytes were last received, in milliseconds.
    pub(crate) fn silent_ms(&self) -> u64 {
        self.now().saturating_sub(self.heard.load(Ordering::Relaxed))
    }

    /// Notes that written bytes are pending.
    pub(crate) fn owes(&self) {
        if self.behind.load(Ordering::Relaxed) == 0 {
            self.behind.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Notes that the socket accepts no bytes.
    pub(crate) fn stalls(&self) {
        self.owes();
        if self.stalled.load(Ordering::Relaxed) == 0 {
            self.stalled.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Notes that the socket accepts bytes again.
    pub(crate) fn moves(&self) {
        self.stalled.store(0, Ordering::Relaxed);
    }

    /// Notes that all written bytes have been sent.
    pub(crate) fn sent(&self) {
        self.stalled.store(0, Ordering::Relaxed);
        self.behind.store(0, Ordering::Relaxed);
        if !self.is_busy() {
            self.send_by.store(0, Ordering::Relaxed);
        }
    }

    /// Tells the connection to take no further requests.
    pub(crate) fn leave(&self) {
        if self.left.load(Ordering::Relaxed) == 0 {
            self.left.store(self.now(), Ordering::Relaxed);
            self.leave.notify_one();
            if !self.is_known() {
                self.turns.close();
            }
        }
    }

    /// Notes that the connection was told to close by other means.
    pub(crate) fn leaves(&self) {
        if self.left.load(Ordering::Relaxed) == 0 {
            self.left.store(self.now(), Ordering::Relaxed);
        }
    }

    pub(crate) async fn told_to_leave(&self) {
        self.leave.notified().await;
    }

    /// Closes the connection at once.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.close.notify_one();
    }

    pub(crate) async fn closing(&self) {
        self.close.notified().await;
    }

    #[cfg(test)]
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Returns the way to end the connection if a timeout has expired.
    pub(super) fn due(&self, now: u64) -> Option<Due> {
        let since = |moment: &Moment| match moment.load(Ordering::Relaxed) {
            0 => 0,
            at => now.saturating_sub(at),
        };
        if self.is_upgraded() {
            return None;
        }
        let is_http1 = self.protocol.load(Ordering::Relaxed) == Protocol::Http1 as u8;
        let send_by = self.send_by.load(Ordering::Relaxed);
        let (busy, idle) = (self.is_busy(), since(&self.active));
        let overdue = since(&self.stalled) > STALL_MS
            || since(&self.head) > HEAD_MS
            || (send_by > 0 && now > send_by)
            || (!busy && since(&self.behind) > STALL_MS)
            || (!busy && is_http1 && self.begun.load(Ordering::Relaxed) == 0 && idle > HEAD_MS)
            || (!busy && self.left.load(Ordering::Relaxed) > 0 && since(&self.left).min(idle) > LEAVING_MS);
        match () {
            () if overdue => Some(Due::Close),
            () if busy || idle <= IDLE_MS || self.left.load(Ordering::Relaxed) > 0 => None,
            () if is_http1 => Some(Due::Close),
            () => Some(Due::Leave),
        }
    }

    pub(super) fn end(&self, due: Due) {
        match due {
            Due::Leave => self.leave(),
            Due::Close => self.close(),
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        let connection = &self.0;
        connection.active.store(connection.now(), Ordering::Relaxed);
        connection.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A place among the connections, which is released on drop.
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
        self.all.ended(&self.connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_end_at_once_are_several() {
        let connection = Arc::new(Connection::new(0, [127, 0, 0, 1].into(), Instant::now(), 1));
        let mut taken: Vec<_> = (0..3).map(|_| connection.take()).collect();
        let mut several = Vec::new();
        while let Some(next) = taken.pop() {
            let answering = connection.begin();
            drop(next);
            drop(answering);
            several.push(connection.answers_several());
        }
        assert_eq!(several, [true, true, false]);
        let _watches = (connection.begin(), connection.begin());
        assert!(connection.answers_several());
    }

    /// A connection and its events: `(event, second of the check, way to end)`.
    #[test]
    fn what_lasts_too_long() {
        let made = |protocol| {
            let connection = Arc::new(Connection::new(0, [127, 0, 0, 1].into(), Instant::now(), 1));
            connection.speaks(protocol);
            connection
        };
        let at = |connection: &Connection, seconds: u64| connection.due(seconds * 1000 + 500);
        let silent = made(Protocol::Http1);
        assert_eq!((at(&silent, 31), at(&silent, 33)), (None, Some(Due::Close)));
        let silent = made(Protocol::Http2);
        assert_eq!((at(&silent, 89), at(&silent, 91)), (None, Some(Due::Leave)));
        silent.leave();
        assert_eq!(at(&silent, 92), Some(Due::Close));
        let half = made(Protocol::Http1);
        drop(half.begin());
        assert_eq!((at(&half, 89), at(&half, 91)), (None, Some(Due::Close)));
        half.heard();
        assert_eq!((at(&half, 31), at(&half, 33)), (None, Some(Due::Close)));
        let request = half.begin();
        assert_eq!(at(&half, 3600), None);
        half.send_by(half.began + std::time::Duration::from_secs(60));
        assert_eq!((at(&half, 59), at(&half, 61)), (None, Some(Due::Close)));
        drop(request);
        // Buffered bytes must be read as well.
        assert_eq!(at(&half, 61), Some(Due::Close));
        half.sent();
        assert_eq!(at(&half, 61), None);
        let unread = made(Protocol::Http2);
        let watch = unread.begin();
        unread.stalls();
        assert_eq!((at(&unread, 59), at(&unread, 61)), (None, Some(Due::Close)));
        unread.moves();
        assert_eq!(at(&unread, 3600), None);
        unread.leave();
        assert_eq!(at(&unread, 3600), None);
        drop(watch);
        assert_eq!(at(&unread, 3), Some(Due::Close));
        // Unless it is upgraded.
        unread.upgraded();
        assert_eq!(at(&unread, 3600), None);
    }
}
