//! The state of one connection while it lasts, and the limits on how long it may.

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
/// The longest time for a client to take nothing of what it is sent. Clients that vanish are found sooner, by pings.
const STALL_MS: u64 = 60_000;
/// The longest time for a connection that was told to go, once nothing is being answered on it.
const LEAVING_MS: u64 = 1_000;
/// The number of requests of a connection that run at once before it has proved an identity; others wait.
const UNKNOWN_STREAMS: usize = 16;

/// Milliseconds; zero is never.
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
    /// Requests that are being answered.
    open: AtomicU32,
    begun: AtomicU64,
    /// The time at which a request last began or ended, or else the connection itself began.
    active: Moment,
    /// The time at which bytes last came.
    heard: Moment,
    /// The time since which the head of a request is incomplete (HTTP/1).
    head: Moment,
    /// The time by which the answer must have been sent (HTTP/1; streams of HTTP/2 see to that themselves).
    send_by: Moment,
    /// The time since which the socket takes nothing of what there is to send.
    stalled: Moment,
    /// The time since which not all that was written has been sent.
    behind: Moment,
    /// The time at which it was told to go.
    left: Moment,
    close: Notify,
    leave: Notify,
    turns: Semaphore,
}

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The handshake is not over.
    Unknown,
    Http1,
    Http2,
}

/// The way in which a connection that lasted too long ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// It is told to go.
    Leave,
    Close,
}

/// A request that is being answered, until this is dropped.
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

    /// Somebody on it has proved who they are.
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

    pub(super) fn last_active(&self) -> u64 {
        self.active.load(Ordering::Relaxed)
    }

    /// Marks the connection as upgraded: it is no longer HTTP, and the code that took it over ends it.
    pub(crate) fn upgraded(&self) {
        self.upgraded.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_upgraded(&self) -> bool {
        self.upgraded.load(Ordering::Relaxed)
    }

    /// Waits while too many requests of an unknown caller run. Fails when the connection is told to go meanwhile.
    pub(crate) async fn turn(&self) -> Result<Option<SemaphorePermit<'_>>, AcquireError> {
        if self.is_known() {
            return Ok(None);
        }
        self.turns.acquire().await.map(Some)
    }

    /// A request has begun.
    pub(crate) fn begin(self: &Arc<Self>) -> Answering {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.head.store(0, Ordering::Relaxed);
        self.send_by.store(0, Ordering::Relaxed);
        self.active.store(self.now(), Ordering::Relaxed);
        Answering(self.clone())
    }

    /// The answer must have been sent by then.
    pub(crate) fn send_by(&self, deadline: Instant) {
        let at = deadline.saturating_duration_since(self.began).as_millis() as u64 + 1;
        self.send_by.store(at, Ordering::Relaxed);
    }

    /// Bytes have come.
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

    /// The time for which nothing has come, in milliseconds.
    pub(crate) fn silent_ms(&self) -> u64 {
        self.now().saturating_sub(self.heard.load(Ordering::Relaxed))
    }

    /// Something was written that has not been sent yet.
    pub(crate) fn owes(&self) {
        if self.behind.load(Ordering::Relaxed) == 0 {
            self.behind.store(self.now(), Ordering::Relaxed);
        }
    }

    /// The socket takes nothing.
    pub(crate) fn stalls(&self) {
        self.owes();
        if self.stalled.load(Ordering::Relaxed) == 0 {
            self.stalled.store(self.now(), Ordering::Relaxed);
        }
    }

    /// The socket takes something again.
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

    /// It should take no further requests.
    pub(crate) fn leave(&self) {
        if self.left.load(Ordering::Relaxed) == 0 {
            self.left.store(self.now(), Ordering::Relaxed);
            self.leave.notify_one();
            if !self.is_known() {
                self.turns.close();
            }
        }
    }

    /// Notes that the connection was told to go by other means.
    pub(crate) fn leaves(&self) {
        if self.left.load(Ordering::Relaxed) == 0 {
            self.left.store(self.now(), Ordering::Relaxed);
        }
    }

    pub(crate) async fn told_to_leave(&self) {
        self.leave.notified().await;
    }

    /// It ends at once.
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

    /// Returns how it has to end, if it has lasted too long.
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

impl Drop for Answering {
    fn drop(&mut self) {
        let connection = &self.0;
        connection.active.store(connection.now(), Ordering::Relaxed);
        connection.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A place among the connections. It is free again when this is dropped.
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

    /// A connection and what happens to it: `(what, at which second it is looked at, how it has to end)`.
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
        // Buffered bytes have to be taken as well.
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
        // Unless it is no longer ours.
        unread.upgraded();
        assert_eq!(at(&unread, 3600), None);
    }
}
