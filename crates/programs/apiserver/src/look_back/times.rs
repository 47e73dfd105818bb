//! The revisions at earlier times: samples since the start of the server, and before that the leases that servers of
//! the cluster renew for themselves every ten seconds ([KEP-1965]), as the store's history has them.
//!
//! [KEP-1965]: https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/1965-kube-apiserver-identity

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use binnacle_fields::FieldRef;
use binnacle_fields::coordination::v1::{Lease, LeaseSpec};
use binnacle_meta::{MicroTime, Status, Time};
use binnacle_registry::{decode_stored, rfc3339, store_failure};
use binnacle_scheme::StoredType;
use binnacle_store::{Count, KeyValue, RangeRequest, Revision, Store, StoreError, prefix_range};
use parking_lot::Mutex;

use crate::cluster_storage::{ClusterStorage, IDENTITY_LEASES, built_in_type};

/// The interval between samples, which is the resolution of times.
const INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of samples. Beyond it, every other one is dropped.
const MAX_SAMPLES: usize = 100_000;
/// The maximum number of leases that are read. A cluster has few servers, and expired leases are deleted.
const MAX_SERVERS: usize = 100;

/// The times of the revisions of a store.
pub(crate) struct Times {
    /// Those without changes are left out.
    samples: Mutex<VecDeque<(SystemTime, Revision)>>,
    history: LeaseHistory,
}

impl Times {
    pub(crate) fn new(history: LeaseHistory) -> Self {
        Self { samples: Mutex::default(), history }
    }

    /// Takes samples until the future is dropped. Forgets those older than `retention`.
    pub(crate) async fn sample(&self, store: &dyn Store, retention: Duration) {
        loop {
            // A store that cannot be reached has no new revisions to serve.
            if let Ok(revision) = store.current_revision().await {
                self.add(SystemTime::now(), revision, retention);
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    fn add(&self, now: SystemTime, revision: Revision, retention: Duration) {
        let mut samples = self.samples.lock();
        if samples.back().is_none_or(|(_, last)| *last != revision) {
            samples.push_back((now, revision));
        }
        let is_old = |time: &SystemTime| now.duration_since(*time).is_ok_and(|age| age > retention);
        // The newest of the old ones is the revision at the beginning of the retention.
        while samples.get(1).is_some_and(|(time, _)| is_old(time)) {
            samples.pop_front();
        }
        if samples.len() > MAX_SAMPLES {
            let mut n = 0;
            samples.retain(|_| {
                n += 1;
                n % 2 == 1
            });
        }
    }

    /// Returns the revision at a time, which is looked up in the history if there is no sample.
    pub(crate) async fn revision_at(&self, text: &str, now: SystemTime) -> Result<Revision, Status> {
        match self.sampled(text, now)? {
            TimeLookup::Revision(revision) => Ok(revision),
            TimeLookup::Before(time) => match self.history.revision_at(time).await.map_err(store_failure)? {
                Some(revision) => Ok(revision),
                None => {
                    let known = self.history.begins().await.map_err(store_failure)?;
                    let since = rfc3339(known.or_else(|| self.first_sample()).unwrap_or(now));
                    Err(Status::expired(format!("the revision at {text} is not known: times are known since {since}")))
                }
            },
        }
    }

    fn first_sample(&self) -> Option<SystemTime> {
        self.samples.lock().front().map(|(time, _)| *time)
    }

    fn sampled(&self, text: &str, now: SystemTime) -> Result<TimeLookup, Status> {
        let time = Time::parse(text).ok().and_then(|time| system_time(time.unix_seconds()));
        let time = time.ok_or_else(|| Status::bad_request(format!("{text:?} is no revision and no RFC 3339 time")))?;
        if time > now + Duration::from_secs(1) {
            return Err(Status::bad_request(format!("the time {text} is in the future")));
        }
        let samples = self.samples.lock();
        let earlier = samples.partition_point(|(sample, _)| *sample <= time);
        match earlier.checked_sub(1).and_then(|at| samples.get(at)) {
            Some((_, revision)) => Ok(TimeLookup::Revision(*revision)),
            None => Ok(TimeLookup::Before(time)),
        }
    }
}

/// What the samples say of a time.
#[derive(Debug, PartialEq, Eq)]
enum TimeLookup {
    Revision(Revision),
    /// It is before the first sample.
    Before(SystemTime),
}

/// The leases of the servers of a cluster in the history of its store.
pub(crate) struct LeaseHistory {
    /// The store with the leases, without encryption.
    pub(crate) store: Arc<dyn Store>,
    /// The beginning of the keys of the leases.
    pub(crate) prefix: String,
    /// The type of the leases.
    pub(crate) lease: StoredType,
}

/// Returns the type of leases.
fn lease_type() -> Option<StoredType> {
    built_in_type("coordination.k8s.io", "leases")
}

impl LeaseHistory {
    /// Returns the history of the leases in a storage.
    pub(crate) fn of(storage: &ClusterStorage) -> Self {
        let store = storage.views().swap_remove(storage.store_index(IDENTITY_LEASES));
        let lease = lease_type().expect("leases are built in");
        Self { store, prefix: format!("{}{IDENTITY_LEASES}", storage.root()), lease }
    }

    /// Returns the revision of the last renewal at or before a time; `None` if the history has none.
    async fn revision_at(&self, time: SystemTime) -> Result<Option<Revision>, StoreError> {
        let (oldest, newest) =
            (self.store.compacted_revision().await?.0.max(1), self.store.current_revision().await?.0);
        let (mut low, mut high) = (oldest, newest + 1);
        let mut found = None;
        // The renewals of one server are in order, and those of several nearly so.
        while low < high {
            let middle = low + (high - low) / 2;
            match self.last_renewal(Revision(middle)).await? {
                Some((renewed, revision)) if renewed <= time => {
                    found = Some(revision);
                    low = middle + 1;
                }
                Some(_) => high = middle,
                // There was no server yet.
                None => low = middle + 1,
            }
        }
        // Older revisions are not kept.
        Ok(found.map(|found| found.max(Revision(oldest))))
    }

    /// Returns the time of the oldest renewal that is kept.
    async fn begins(&self) -> Result<Option<SystemTime>, StoreError> {
        let oldest = self.store.compacted_revision().await?.0.max(1);
        Ok(self.last_renewal(Revision(oldest)).await?.map(|(time, _)| time))
    }

    /// Returns the time and the revision of the last renewal as of a revision.
    async fn last_renewal(&self, at: Revision) -> Result<Option<(SystemTime, Revision)>, StoreError> {
        let range = prefix_range(self.prefix.as_bytes());
        let request = RangeRequest { range, revision: Some(at), limit: MAX_SERVERS, count: Count::Returned };
        let leases = self.store.range(request).await?.kvs;
        Ok(leases
            .iter()
            .filter_map(|kv| Some((self.renewed(kv)?, kv.mod_revision)))
            .max_by_key(|(_, revision)| *revision))
    }

    fn renewed(&self, kv: &KeyValue) -> Option<SystemTime> {
        let object = decode_stored(&self.lease, &kv.value).ok()?;
        let renewed = FieldRef::<Lease>::root(&object).at(Lease::SPEC).at(LeaseSpec::RENEW_TIME).str();
        let renewed = MicroTime::parse(renewed).ok()?;
        UNIX_EPOCH.checked_add(Duration::new(u64::try_from(renewed.unix_seconds()).ok()?, renewed.nanos()))
    }
}

fn system_time(seconds: i64) -> Option<SystemTime> {
    // The whole second counts.
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?) + Duration::from_millis(999))
}

#[cfg(test)]
mod tests {
    use binnacle_fields::FieldMut;
    use binnacle_schema::Value;
    use binnacle_scheme::{MediaType, StoredKind};
    use binnacle_store::{Expect, Op, Txn};
    use binnacle_store_embedded::EmbeddedStore;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds)
    }

    fn times() -> Times {
        let lease = lease_type().expect("leases are stored");
        Times::new(LeaseHistory { store: Arc::new(EmbeddedStore::ephemeral()), prefix: "/leases/".to_owned(), lease })
    }

    async fn put(times: &Times, key: &str, value: Vec<u8>) -> u64 {
        let op = Op::Put { value: value.into(), lease: None };
        let txn = Txn { key: key.to_owned().into(), expect: Expect::Anything, op };
        times.history.store.txn(txn).await.expect("a put");
        times.history.store.current_revision().await.expect("a revision").0
    }

    /// Renews a lease, and returns the revision.
    async fn renew(times: &Times, name: &str, now: u64) -> u64 {
        let mut object = Value::default();
        let seconds = i64::try_from(1_700_000_000 + now).expect("a time");
        let renewed = MicroTime::from_unix(seconds, 0).to_string();
        FieldMut::<Lease>::root(&mut object).entry(Lease::SPEC).set(LeaseSpec::RENEW_TIME, renewed);
        let kind = &times.history.lease;
        let api_version = kind.storage.group_version_kind().api_version();
        let value = kind.codec().write(&StoredKind::new(kind, &api_version), MediaType::Protobuf, &object);
        put(times, &format!("/leases/{name}"), value).await
    }

    async fn revision(times: &Times, seconds: u64) -> Result<u64, u16> {
        let found = times.revision_at(&rfc3339(at(seconds)), at(100)).await;
        found.map(|revision| revision.0).map_err(|status| status.code())
    }

    #[tokio::test]
    async fn returns_the_last_revision_before_a_time() {
        let times = times();
        for (second, revision) in [(0, 5), (10, 5), (20, 8), (30, 9)] {
            times.add(at(second), Revision(revision), Duration::from_secs(3600));
        }
        for (seconds, want) in [(0, 5), (19, 5), (20, 8), (29, 8), (30, 9), (99, 9)] {
            assert_eq!(revision(&times, seconds).await, Ok(want), "{seconds}");
        }
        // Samples are no older than the history.
        times.add(at(5000), Revision(20), Duration::from_secs(60));
        assert_eq!(revision(&times, 20).await, Err(410));
        assert_eq!(revision(&times, 102).await, Err(400));
        assert_eq!(times.revision_at("yesterday", at(0)).await.map_err(|status| status.code()), Err(400));
    }

    #[tokio::test]
    async fn looks_up_earlier_times_in_the_history_of_leases() {
        let times = times();
        put(&times, "/other", b"x".to_vec()).await;
        let mut renewals = Vec::new();
        for n in 0..20 {
            // Two servers, and writes of others between their renewals.
            renewals.push((n * 10, renew(&times, &format!("server-{}", n % 2), n * 10).await));
            for _ in 0..n % 4 {
                put(&times, "/other", b"x".to_vec()).await;
            }
        }
        times.add(at(195), Revision(1000), Duration::from_secs(3600));
        let now = at(1000);
        for (second, want) in &renewals {
            for after in [0, 9] {
                let found = times.revision_at(&rfc3339(at(second + after)), now).await;
                let found = found.map(|revision| revision.0).map_err(|status| status.code());
                let want = if second + after >= 195 { 1000 } else { *want };
                assert_eq!(found, Ok(want), "{second} + {after}");
            }
        }
        // What is compacted is gone.
        let (second, compacted) = renewals[10];
        times.history.store.compact(Revision(compacted + 1)).await.expect("a compaction");
        assert_eq!(revision(&times, second - 20).await, Err(410));
        assert_eq!(revision(&times, second).await, Ok(compacted + 1));
    }

    #[test]
    fn samples_have_a_bound() {
        let times = times();
        for n in 0..250_000 {
            times.add(at(n), Revision(n), Duration::from_secs(1_000_000));
        }
        let samples = times.samples.lock();
        assert!(samples.len() <= MAX_SAMPLES, "{}", samples.len());
        assert_eq!(samples.front().map(|(_, revision)| revision.0), Some(0));
    }
}
