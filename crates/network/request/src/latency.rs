//! The latencies of the parts of a request. Code adds them to the record of the current task, so that stores and
//! webhooks need no reference to the request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::trace::Trace;
use crate::{Record, RequestSeat};

tokio::task_local! {
    static CURRENT: Arc<Record>;
}

/// A part of serving a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Converting a stored object to the requested form: a table, metadata only, or another version.
    Transform,
    /// Waiting for the store.
    Storage,
    Serialize,
    /// Waiting for the client to read the response.
    Write,
    MutatingWebhooks,
    ValidatingWebhooks,
    /// Decoding the stored objects of a list.
    Decode,
    QueueWait,
    Authentication,
    Authorization,
    Impersonation,
}

impl Part {
    const ALL: [Self; 11] = [
        Self::Transform,
        Self::Storage,
        Self::Serialize,
        Self::Write,
        Self::MutatingWebhooks,
        Self::ValidatingWebhooks,
        Self::Decode,
        Self::QueueWait,
        Self::Authentication,
        Self::Authorization,
        Self::Impersonation,
    ];

    /// Returns the name in audit annotations, after `apiserver.latency.k8s.io/`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transform => "transform-response-object",
            Self::Storage => "etcd",
            Self::Serialize => "serialize-response-object",
            Self::Write => "response-write",
            Self::MutatingWebhooks => "mutating-webhook",
            Self::ValidatingWebhooks => "validating-webhook",
            Self::Decode => "decode-response-object",
            Self::QueueWait => "apf-queue-wait",
            Self::Authentication => "authentication",
            Self::Authorization => "authorization",
            Self::Impersonation => "impersonation",
        }
    }

    /// Returns true for parts that run concurrently: their maximum counts, while the times of other parts are added.
    fn is_parallel(self) -> bool {
        matches!(self, Self::ValidatingWebhooks | Self::QueueWait | Self::Authorization)
    }
}

/// The latencies of one request, by part, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Latencies([AtomicU64; Part::ALL.len()]);

impl Latencies {
    pub(crate) fn add(&self, part: Part, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let sum = &self.0[part as usize];
        if part.is_parallel() {
            sum.fetch_max(nanos, Ordering::Relaxed);
        } else {
            sum.fetch_add(nanos, Ordering::Relaxed);
        }
    }

    pub(crate) fn of(&self, part: Part) -> Duration {
        Duration::from_nanos(self.0[part as usize].load(Ordering::Relaxed))
    }

    /// Returns the parts with a time above zero.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Part, Duration)> {
        Part::ALL.into_iter().map(|part| (part, self.of(part))).filter(|(_, time)| !time.is_zero())
    }
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

    #[test]
    fn lists_parts_in_the_order_of_their_discriminants() {
        for (at, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, at);
        }
    }
}
