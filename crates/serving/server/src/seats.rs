//! The seat of a request. It is released while the request waits, and permanently if the client does not read the
//! response or a remote server is slow.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use binnacle_flowcontrol::{PausedRequest, Seat, WaitOutcome, Waiter, Waiters};
use binnacle_request::{BoxFuture, RequestSeat, WaitError};
use binnacle_work::Caller;
use parking_lot::Mutex;

/// The time after which a client that reads nothing of its response is considered stalled.
const MAX_UNREAD: Duration = Duration::from_secs(1);
/// The time after which a request that a remote server handles loses its seat, so that requests for a slow server do
/// not delay those of other users.
const BRIEF_REMOTE: Duration = Duration::from_millis(50);
/// The time after which such a request counts towards the limit that rejects further ones.
const MAX_REMOTE: Duration = Duration::from_secs(1);

/// The seat of a request, until it is dropped.
pub(crate) struct HeldSeat(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    waiters: Arc<Waiters>,
    /// The authenticated caller, not the impersonated user.
    caller: Caller,
    deadline: Option<Instant>,
    /// The maximum wait for a seat.
    max_wait: Duration,
    /// Incremented when a piece of the response is handed over to the connection, and when the next one is polled:
    /// while it is odd, the client has not read everything.
    handed_over: AtomicU64,
}

enum State {
    Held(Seat),
    Paused(PausedRequest),
    /// Released permanently by a request that a remote server handles, which is counted until it is dropped.
    ReleasedWhileRemote(Waiter),
    Released,
}

impl HeldSeat {
    pub(crate) fn new(
        seat: Seat,
        waiters: Arc<Waiters>,
        caller: Caller,
        deadline: Option<Instant>,
        max_wait: Duration,
    ) -> Self {
        let (state, handed_over) = (Mutex::new(State::Held(seat)), AtomicU64::new(0));
        Self(Arc::new(Shared { state, waiters, caller, deadline, max_wait, handed_over }))
    }

    /// Returns the seat, for parts of the request that wait.
    pub(crate) fn shared(&self) -> Arc<dyn RequestSeat> {
        self.0.clone()
    }

    /// Records that a piece of the response was handed over.
    pub(crate) fn mark_handed_over(&self) {
        self.0.handed_over.fetch_or(1, Ordering::Relaxed);
    }

    /// Records that the client has read what was handed over.
    pub(crate) fn mark_taken(&self) {
        if self.0.handed_over.load(Ordering::Relaxed) % 2 == 1 {
            self.0.handed_over.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Releases the seat when the client does not read the response, which is sent in pieces.
    pub(crate) fn watch_reader(&self) {
        tokio::spawn(watch_reader(Arc::downgrade(&self.0)));
    }
}

impl Shared {
    /// Releases the seat permanently, if the request has it.
    fn replace(&self, then: State) {
        let mut state = self.state.lock();
        if matches!(*state, State::Held(_)) {
            let seat = std::mem::replace(&mut *state, then);
            drop(state);
            drop(seat);
        }
    }

    fn has_limited_seat(&self) -> bool {
        matches!(&*self.state.lock(), State::Held(seat) if !seat.is_exempt())
    }

    fn take_paused(&self) -> Option<PausedRequest> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Released) {
            State::Paused(paused) => Some(paused),
            other => {
                *state = other;
                None
            }
        }
    }
}

impl Drop for HeldSeat {
    fn drop(&mut self) {
        let seat = std::mem::replace(&mut *self.0.state.lock(), State::Released);
        drop(seat);
    }
}

async fn watch_reader(seat: Weak<Shared>) {
    let mut before = 0;
    loop {
        tokio::time::sleep(MAX_UNREAD).await;
        let Some(seat) = seat.upgrade() else { return };
        let handed_over = seat.handed_over.load(Ordering::Relaxed);
        if handed_over % 2 == 1 && handed_over == before {
            return seat.give_back();
        }
        before = handed_over;
    }
}

async fn give_back_later(seat: Weak<Shared>) {
    tokio::time::sleep(BRIEF_REMOTE).await;
    {
        let Some(seat) = seat.upgrade() else { return };
        if let Some(waiter) = seat.waiters.add_brief(&seat.caller.name) {
            seat.replace(State::ReleasedWhileRemote(waiter));
        }
    }
    tokio::time::sleep(MAX_REMOTE - BRIEF_REMOTE).await;
    let Some(seat) = seat.upgrade() else { return };
    if let State::ReleasedWhileRemote(waiter) = &mut *seat.state.lock() {
        return waiter.lasts();
    }
    if let Some(waiter) = seat.waiters.add(&seat.caller.name, seat.caller.is_system) {
        seat.replace(State::ReleasedWhileRemote(waiter));
    }
}

impl RequestSeat for Shared {
    fn pause(&self) -> Result<Option<Box<dyn Any + Send>>, WaitError> {
        let mut state = self.state.lock();
        if !matches!(&*state, State::Held(seat) if !seat.is_exempt()) {
            return Ok(None);
        }
        let waiter = match self.waiters.enter(&self.caller.name, self.caller.is_system) {
            WaitOutcome::Waits(waiter) => waiter,
            WaitOutcome::KeepsSeat => return Ok(None),
            WaitOutcome::Refused => return Err(WaitError::Crowded),
        };
        *state = match std::mem::replace(&mut *state, State::Released) {
            State::Held(seat) => State::Paused(seat.pause()),
            other => other,
        };
        Ok(Some(Box::new(waiter)))
    }

    fn resume(&self) -> BoxFuture<'_, Result<(), WaitError>> {
        Box::pin(async {
            let Some(paused) = self.take_paused() else { return Ok(()) };
            let max_wait = Instant::now() + self.max_wait;
            let until = self.deadline.map_or(max_wait, |deadline| deadline.min(max_wait));
            let seat = paused.resume(until).await.map_err(|none| {
                let retry_after = u32::try_from(none.retry_after).unwrap_or(1);
                WaitError::Refused { retry_after }
            })?;
            *self.state.lock() = State::Held(seat);
            Ok(())
        })
    }

    fn give_back(&self) {
        self.replace(State::Released);
    }

    fn give_back_later(self: Arc<Self>) -> Result<(), WaitError> {
        if self.has_limited_seat() {
            if !self.caller.is_system && self.waiters.is_crowded(&self.caller.name) {
                return Err(WaitError::Crowded);
            }
            tokio::spawn(give_back_later(Arc::downgrade(&self)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use binnacle_flowcontrol::{AdmittedRequest, FlowControl, RequestLimits};
    use binnacle_metrics::Registry;
    use binnacle_request::{Query, RequestInfo, User};
    use http::Method;

    use super::*;

    /// Returns flow control with one seat for users.
    fn control() -> Arc<FlowControl> {
        let limits = RequestLimits { read_only: 1, mutating: 0 };
        FlowControl::new(limits, Arc::new(|_| None), Arc::new(|_| None), &Registry::new()).expect("valid")
    }

    async fn seat(control: &FlowControl, groups: &[&str]) -> Option<HeldSeat> {
        let query = Query::default();
        let info = RequestInfo::parse(&Method::GET, "/api/v1/nodes/n", &query, "").expect("valid");
        let user = User::new("jane", groups);
        let AdmittedRequest { seat, .. } = control.admit(&info, &query, &user, Instant::now()).await.ok()?;
        Some(HeldSeat::new(seat, control.waiters().clone(), Caller::default(), None, Duration::ZERO))
    }

    #[tokio::test]
    async fn waiting_requests_release_their_seat() {
        let control = control();
        let first = seat(&control, &[]).await.expect("a free seat");
        assert!(seat(&control, &[]).await.is_none());
        let shared = first.shared();
        let waiter = shared.pause().expect("few wait").expect("it had a seat");
        assert!(shared.pause().expect("few wait").is_none());
        let second = seat(&control, &[]).await.expect("the seat of the first");
        drop(waiter);
        assert_eq!(shared.resume().await, Err(WaitError::Refused { retry_after: 1 }));
        assert!(shared.pause().expect("few wait").is_none());
        let shared = second.shared();
        let waiter = shared.pause().expect("few wait").expect("it had a seat");
        drop(waiter);
        assert_eq!(shared.resume().await, Ok(()));
        assert!(seat(&control, &[]).await.is_none());
        drop(second);
        assert!(seat(&control, &[]).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn remote_requests_release_their_seat_early() {
        let control = control();
        let first = seat(&control, &[]).await.expect("a free seat");
        assert_eq!(first.shared().give_back_later(), Ok(()));
        tokio::time::sleep(BRIEF_REMOTE / 2).await;
        assert!(seat(&control, &[]).await.is_none());
        tokio::time::sleep(BRIEF_REMOTE).await;
        let second = seat(&control, &[]).await.expect("the seat of the first");
        // A request that has ended is not counted later.
        assert_eq!(second.shared().give_back_later(), Ok(()));
        drop((first, second));
        tokio::time::sleep(2 * MAX_REMOTE).await;
        assert!(seat(&control, &[]).await.is_some());
    }

    #[tokio::test]
    async fn exempt_requests_keep_their_seat() {
        let control = control();
        let seat = seat(&control, &[User::MASTERS]).await.expect("no limit");
        assert!(seat.shared().pause().expect("no bound").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn slow_remote_requests_release_their_seat() {
        let control = control();
        let mut slow = Vec::new();
        let refused = loop {
            let held = seat(&control, &[]).await.expect("a free seat");
            if let Err(refused) = held.shared().give_back_later() {
                break refused;
            }
            assert!(seat(&control, &[]).await.is_none());
            tokio::time::sleep(2 * MAX_REMOTE).await;
            slow.push(held);
        };
        assert_eq!((refused, slow.len()), (WaitError::Crowded, 64));
        // Unread responses are counted too.
        slow[0].watch_reader();
        slow[0].mark_handed_over();
        tokio::time::sleep(3 * MAX_UNREAD).await;
        let held = seat(&control, &[]).await.expect("a free seat");
        assert_eq!(held.shared().give_back_later(), Err(WaitError::Crowded));
        slow.pop();
        assert_eq!(held.shared().give_back_later(), Ok(()));
        drop(held);
        let held = seat(&control, &[]).await.expect("a free seat");
        held.shared().give_back();
        assert!(seat(&control, &[]).await.is_some());
        // Administrators have seats without a limit.
        let exempt = seat(&control, &[User::MASTERS]).await.expect("no limit");
        assert_eq!(exempt.shared().give_back_later(), Ok(()));
        assert!(!exempt.0.has_limited_seat());
    }

    #[tokio::test(start_paused = true)]
    async fn unread_responses_release_their_seat() {
        let control = control();
        let first = seat(&control, &[]).await.expect("a free seat");
        first.watch_reader();
        for _ in 0..10 {
            first.mark_handed_over();
            tokio::time::sleep(MAX_UNREAD / 2).await;
            first.mark_taken();
            assert!(seat(&control, &[]).await.is_none());
        }
        // If the server itself is paused, the client is not considered stalled.
        tokio::time::sleep(3 * MAX_UNREAD).await;
        assert!(seat(&control, &[]).await.is_none());
        first.mark_handed_over();
        tokio::time::sleep(3 * MAX_UNREAD).await;
        assert!(seat(&control, &[]).await.is_some());
    }
}
