//! The times that the parts of a request's way took. Code that works for a request adds to its record without being
//! handed it: deep inside, where it waits for a store or a webhook, it knows nothing of requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Record;
use crate::trace::Trace;

tokio::task_local! {
    static CURRENT: Arc<Record>;
}

/// A part of the way of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Making the form that was asked for out of the stored one: a table, metadata alone, another version.
    Transform,
    /// Waiting for the store.
    Storage,
    Serialize,
    /// Waiting for the client to take the answer.
    Write,
    MutatingWebhooks,
    ValidatingWebhooks,
    /// Reading stored objects of a list.
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

    /// Returns its name in annotations of audit events, behind `apiserver.latency.k8s.io/`.
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

    /// Returns true for concurrent parts: the longest counts, while the times of other parts add up.
    fn is_parallel(self) -> bool {
        matches!(self, Self::ValidatingWebhooks | Self::QueueWait | Self::Authorization)
    }
}

/// The times of one request, by part, in nanoseconds.
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

    /// The parts that took any time.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Part, Duration)> {
        Part::ALL.into_iter().map(|part| (part, self.of(part))).filter(|(_, time)| !time.is_zero())
    }
}

/// Does work for a request: what is measured meanwhile, in the same task, counts for that request.
pub async fn working_for<T>(record: &Arc<Record>, work: impl Future<Output = T>) -> T {
    CURRENT.scope(record.clone(), work).await
}

/// As [`working_for`], of one step of something that is polled.
pub fn stepping_for<T>(record: &Arc<Record>, step: impl FnOnce() -> T) -> T {
    CURRENT.sync_scope(record.clone(), step)
}

/// Measures a part of the work for the request that is being worked for, if there is one.
pub async fn measured<T>(part: Part, work: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let done = work.await;
    took(part, began.elapsed());
    done
}

/// As [`measured`], of work that does not wait.
pub fn measure<T>(part: Part, work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    took(part, began.elapsed());
    done
}

/// Adds to the times of the request that is being worked for, if there is one.
pub fn took(part: Part, time: Duration) {
    // Loops of the server's own work for nobody.
    let _ = CURRENT.try_with(|record| record.took(part, time));
}

/// The trace of the request that is being worked for, if it has one.
pub(crate) fn current_trace() -> Option<Arc<Trace>> {
    CURRENT.try_with(|record| record.trace().cloned()).ok().flatten()
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn times(record: &Record) -> Vec<(&'static str, u64)> {
        record.latencies().map(|(part, time)| (part.as_str(), time.as_millis() as u64)).collect()
    }

    #[tokio::test]
    async fn parts_add_up_or_overlap() {
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
    async fn work_is_measured() {
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
    fn all_parts_have_their_place() {
        for (at, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, at);
        }
    }
}
