//! Waits during which a request gives its seat back: for the rest of its body, for a cache, or for another server. A
//! waiting request needs no processor and must not delay requests that do.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use crate::{RequestInfo, WaitError, latency};

/// Shorter waits keep the seat: most waits are short, and queuing again would take longer.
const BRIEF: Duration = Duration::from_millis(20);

/// Waits for something other than a processor. When this returns a value, the request has its seat again.
///
/// # Errors
/// Fails if the request cannot wait, or cannot get its seat back.
pub async fn waiting<T>(work: impl Future<Output = T>) -> Result<T, WaitError> {
    wait(work, |_| true, IfCrowded::Fail).await
}

/// Like [`waiting`], for a request that only reports a failure after it: that needs no seat.
///
/// # Errors
/// Same as [`waiting`].
pub async fn waiting_unless_failed<T, E>(work: impl Future<Output = Result<T, E>>) -> Result<Result<T, E>, WaitError> {
    wait(work, Result::is_ok, IfCrowded::Fail).await
}

/// Like [`waiting_unless_failed`], for a wait that is not the caller's doing, such as one for an authorization webhook:
/// if too many requests of the caller are already waiting, the request keeps its seat.
///
/// # Errors
/// Fails if the request cannot get its seat back.
pub async fn waiting_for_decision<T, E>(work: impl Future<Output = Result<T, E>>) -> Result<Result<T, E>, WaitError> {
    wait(work, Result::is_ok, IfCrowded::KeepSeat).await
}

/// The choice for a request when too many others of the caller wait without a seat.
enum IfCrowded {
    Fail,
    KeepSeat,
}

/// Notes that another server serves the request from now on. A watch gives its seat back at once, as in kube-apiserver.
/// Other requests give it back if they take long, so that slow bodies do not occupy it. A proxied request can no longer
/// be rejected, and therefore never waits for a seat again.
///
/// # Errors
/// Fails if the request must not be proxied because too many requests of the caller are with other servers.
pub fn served_remotely(info: &RequestInfo) -> Result<(), WaitError> {
    match latency::current_seat() {
        Some(seat) if info.is_long_running() => seat.give_back(),
        Some(seat) => seat.give_back_later()?,
        None => {}
    }
    Ok(())
}

async fn wait<T>(
    work: impl Future<Output = T>,
    goes_on: impl FnOnce(&T) -> bool,
    if_crowded: IfCrowded,
) -> Result<T, WaitError> {
    let mut work = pin!(work);
    let first = poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await;
    if let Poll::Ready(done) = first {
        return Ok(done);
    }
    let Some(seat) = latency::current_seat() else { return Ok(work.await) };
    if let Ok(done) = tokio::time::timeout(BRIEF, work.as_mut()).await {
        return Ok(done);
    }
    let paused = match (seat.pause(), if_crowded) {
        (Err(WaitError::Crowded), IfCrowded::KeepSeat) => None,
        (paused, _) => paused?,
    };
    let Some(paused) = paused else { return Ok(work.await) };
    let done = work.await;
    drop(paused);
    if goes_on(&done) {
        seat.resume().await?;
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::sync::Arc;

    use http::Method;
    use parking_lot::Mutex;
    use tokio::sync::oneshot;

    use super::*;
    use crate::latency::working_for;
    use crate::{BoxFuture, Query, Record, RequestSeat};

    /// A seat that records the calls.
    #[derive(Default)]
    struct RecordingSeat {
        calls: Arc<Mutex<Vec<&'static str>>>,
        is_crowded: bool,
    }

    struct PausedSeat(Arc<Mutex<Vec<&'static str>>>);

    impl Drop for PausedSeat {
        fn drop(&mut self) {
            self.0.lock().push("waited");
        }
    }

    impl RequestSeat for RecordingSeat {
        fn pause(&self) -> Result<Option<Box<dyn Any + Send>>, WaitError> {
            self.calls.lock().push("pause");
            if self.is_crowded { Err(WaitError::Crowded) } else { Ok(Some(Box::new(PausedSeat(self.calls.clone())))) }
        }

        fn resume(&self) -> BoxFuture<'_, Result<(), WaitError>> {
            self.calls.lock().push("resume");
            Box::pin(async { Ok(()) })
        }

        fn give_back(&self) {
            self.calls.lock().push("gave back");
        }

        fn give_back_later(self: Arc<Self>) -> Result<(), WaitError> {
            self.calls.lock().push("later");
            Ok(())
        }
    }

    /// Waits on behalf of a request. Returns the outcome and the calls.
    async fn waited<E>(
        seat: RecordingSeat,
        work: impl Future<Output = Result<u8, E>>,
    ) -> (Result<Result<u8, E>, WaitError>, Vec<&'static str>) {
        let record = Record::open(Method::GET, "/".into(), None, None);
        let calls = seat.calls.clone();
        record.seat_with(Arc::new(seat));
        let done = working_for(&record, waiting_unless_failed(work)).await;
        let calls = calls.lock().clone();
        (done, calls)
    }

    async fn later<T>(value: T) -> T {
        tokio::time::sleep(2 * BRIEF).await;
        value
    }

    #[tokio::test(start_paused = true)]
    async fn gives_the_seat_back_in_long_waits() {
        let all = ["pause", "waited", "resume"];
        let (done, calls) = waited(RecordingSeat::default(), later(Ok::<_, ()>(1))).await;
        assert_eq!((done, calls.as_slice()), (Ok(Ok(1)), &all[..]));
        let (done, calls) = waited(RecordingSeat::default(), later(Err(()))).await;
        assert_eq!((done, calls.as_slice()), (Ok(Err(())), &all[..2]));
        let brief = async {
            tokio::time::sleep(BRIEF / 2).await;
            Ok::<_, ()>(1)
        };
        let (done, calls) = waited(RecordingSeat::default(), brief).await;
        assert_eq!((done, calls.is_empty()), (Ok(Ok(1)), true));
        let crowded = RecordingSeat { is_crowded: true, ..RecordingSeat::default() };
        let (done, calls) = waited(crowded, later(Ok::<_, ()>(1))).await;
        assert_eq!((done, calls.as_slice()), (Err(WaitError::Crowded), &all[..1]));
        assert_eq!(waiting(later(1)).await, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn keeps_the_seat_in_a_crowded_wait_for_a_decision() {
        for (is_crowded, want) in [(false, &["pause", "waited", "resume"][..]), (true, &["pause"])] {
            let record = Record::open(Method::GET, "/".into(), None, None);
            let seat = RecordingSeat { is_crowded, ..RecordingSeat::default() };
            let calls = seat.calls.clone();
            record.seat_with(Arc::new(seat));
            let decided = working_for(&record, waiting_for_decision(later(Ok::<_, ()>(1)))).await;
            assert_eq!((decided, calls.lock().as_slice()), (Ok(Ok(1)), want));
        }
    }

    #[tokio::test]
    async fn gives_the_seat_back_to_be_served_remotely() {
        for (query, want) in [("", "later"), ("watch=true", "gave back")] {
            let query = Query::parse(query);
            let info = RequestInfo::parse(&Method::GET, "/apis/a.b/v1/things", &query, "").expect("valid");
            assert_eq!(served_remotely(&info), Ok(()));
            let passed_on = async { served_remotely(&info).map(|()| 1) };
            assert_eq!(waited(RecordingSeat::default(), passed_on).await, (Ok(Ok(1)), vec![want]));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn releases_the_pause_of_a_cancelled_wait() {
        let (_sender, receiver) = oneshot::channel::<()>();
        let seat = RecordingSeat::default();
        let calls = seat.calls.clone();
        let work = waited(seat, async { receiver.await.map(|()| 1) });
        assert!(tokio::time::timeout(10 * BRIEF, work).await.is_err());
        assert_eq!(*calls.lock(), ["pause", "waited"]);
    }
}
