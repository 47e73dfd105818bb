//! The latencies of the parts of a request. Code adds them to the record of the current task, so that stores and
//! webhooks need no reference to the request.

use std::sync::Arc;
use std::time::{Duration, Instant};

pub use crate::latencies::Part;
use crate::spans::Trace;
use crate::{Record, RequestSeat};

tokio::task_local! {
    static CURRENT: Arc<Record>;
}

/// Runs work on behalf of a request: times measured in the same task are added to its record.
pub async fn working_for<T>(record: &Arc<Record>, work: impl Future<Output = T>) -> T {
    CURRENT.scope(record.clone(), work).await
}

/// Like [`working_for`], for a single step of a polled future.
pub fn stepping_for<T>(record: &Arc<Record>, step: impl FnOnce() -> T) -> T {
    CURRENT.sync_scope(record.clone(), step)
}

/// Measures the latency of a part, for the task's request if there is one.
pub async fn measured<T>(part: Part, work: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let done = work.await;
    took(part, began.elapsed());
    done
}

/// Like [`measured`], for synchronous work.
pub fn measure<T>(part: Part, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    took(part, began.elapsed());
    done
}

/// Adds a latency to the task's request, if there is one.
pub fn took(part: Part, time: Duration) {
    // The server's own controllers run without a request.
    let _ = CURRENT.try_with(|record| record.took(part, time));
}

/// Returns the trace of the task's request, if it has one.
pub(crate) fn current_trace() -> Option<Arc<Trace>> {
    CURRENT.try_with(|record| record.trace().cloned()).ok().flatten()
}

/// Returns the seat of the task's request, if it has one.
pub(crate) fn current_seat() -> Option<Arc<dyn RequestSeat>> {
    CURRENT.try_with(|record| record.seat()).ok().flatten()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn times(record: &Record) -> Vec<(&'static str, u64)> {
        record.latencies().map(|(part, time)| (part.as_str(), time.as_millis() as u64)).collect()
    }

    #[tokio::test]
    async fn adds_sequential_parts_and_takes_the_longest_of_parallel_ones() {
        let record = Record::open(Method::GET, "/".into(), None, None);
        let millis = Duration::from_millis;
        working_for(&record, async {
            for part in [Part::Storage, Part::Authorization] {
                took(part, millis(30));
                took(part, millis(20));
            }
            took(Part::Write, Duration::ZERO);
        })
        .await;
        took(Part::Storage, millis(1000));
        assert_eq!(times(&record), [("etcd", 50), ("authorization", 30)]);
        assert_eq!(record.latency(Part::Storage), millis(50));
    }

    #[tokio::test]
    async fn measures_asynchronous_and_synchronous_work() {
        let record = Record::open(Method::GET, "/".into(), None, None);
        let got = working_for(&record, async {
            measured(Part::Storage, tokio::time::sleep(Duration::from_millis(2))).await;
            7
        });
        assert_eq!(got.await, 7);
        stepping_for(&record, || measure(Part::Serialize, || std::thread::sleep(Duration::from_millis(1))));
        assert!(record.latency(Part::Storage) >= Duration::from_millis(2));
        assert!(record.latency(Part::Serialize) >= Duration::from_millis(1));
    }
}
