//! The parts of a request, and their latencies.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_parts_in_the_order_of_their_discriminants() {
        for (at, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, at);
        }
    }
}
