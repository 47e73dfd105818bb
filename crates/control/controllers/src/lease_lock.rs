//! A lease that one of several processes holds, acquired and renewed like in client-go's leader elector.

use std::time::{Duration, Instant, SystemTime};

use binnacle_fields::coordination::v1::{Lease, LeaseSpec};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{MicroTime, Status, StatusReason};
use binnacle_schema::{Value, value};
use uuid::Uuid;

use crate::objects::Objects;

/// The namespace of leases.
const NAMESPACE: &str = "kube-system";

/// The timing of a lease by which processes choose a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leadership {
    /// The time without renewal after which the holder loses the lease.
    pub lease_duration: Duration,
    /// The time without a successful renewal after which the holder gives up.
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

impl Default for Leadership {
    fn default() -> Self {
        let [lease_duration, renew_deadline, retry_period] = [15, 10, 2].map(Duration::from_secs);
        Self { lease_duration, renew_deadline, retry_period }
    }
}

/// A lease in `kube-system` that this server holds or wants to hold.
pub struct LeaseLock {
    leases: Objects,
    name: &'static str,
    identity: String,
    timing: Leadership,
    /// The spec of the lease at its last observed change, and the local time of that observation. The clocks of other
    /// servers are not used.
    observed: Option<(Value, Instant)>,
}

impl LeaseLock {
    pub fn new(leases: Objects, name: &'static str, identity: &str, timing: Leadership) -> Self {
        Self { leases, name, identity: identity.to_owned(), timing, observed: None }
    }

    /// Returns a unique holder identity for a server.
    pub fn identity(hostname: &str) -> String {
        format!("{hostname}_{}", Uuid::new_v4())
    }

    /// Waits until this server holds the lease.
    pub async fn acquire(&mut self) {
        while !self.try_acquire_or_renew().await {
            // The random part keeps servers from trying at the same time.
            let more = (self.timing.retry_period * 12 / 10).mul_f64(rand::random());
            tokio::time::sleep(self.timing.retry_period + more).await;
        }
    }

    /// Renews the lease until this has failed for too long.
    pub async fn renew_until_lost(&mut self) {
        let mut renewed = Instant::now();
        while renewed.elapsed() < self.timing.renew_deadline {
            tokio::time::sleep(self.timing.retry_period).await;
            if self.try_acquire_or_renew().await {
                renewed = Instant::now();
            }
        }
    }

    /// Releases the lease, so that another server can acquire it immediately.
    pub async fn release(&self) {
        let identity = self.identity.as_str();
        let released = self.leases.update(NAMESPACE, self.name, "", |lease| {
            let mut spec = FieldMut::<Lease>::root(lease).into_entry(Lease::SPEC);
            if spec.get(LeaseSpec::HOLDER_IDENTITY).as_str() != Some(identity) {
                return;
            }
            let now = lease_time().to_string();
            spec.remove(LeaseSpec::HOLDER_IDENTITY);
            spec.set(LeaseSpec::LEASE_DURATION_SECONDS, 1i64);
            spec.set(LeaseSpec::RENEW_TIME, now.as_str());
            spec.set(LeaseSpec::ACQUIRE_TIME, now);
        });
        match released.await {
            Err(status) if !status.is(StatusReason::NotFound) => {
                tracing::warn!(error = status.message(), "failed to release leader election lease");
            }
            _ => {}
        }
    }

    async fn try_acquire_or_renew(&mut self) -> bool {
        match self.acquire_or_renew().await {
            Ok(is_held) => is_held,
            Err(status) => {
                tracing::warn!(error = status.message(), "failed to renew leader election lease");
                false
            }
        }
    }

    async fn acquire_or_renew(&mut self) -> Result<bool, Status> {
        let Some(lease) = self.leases.get(NAMESPACE, self.name).await? else {
            let mut lease = value!({"metadata": {"name": (self.name), "namespace": NAMESPACE}});
            self.fill(FieldMut::<Lease>::root(&mut lease).entry(Lease::SPEC));
            return match self.leases.create(NAMESPACE, lease).await {
                Ok(_) => Ok(true),
                Err(status) if status.is(StatusReason::AlreadyExists) => Ok(false),
                Err(status) => Err(status),
            };
        };
        let spec = FieldRef::<Lease>::root(&lease).at(Lease::SPEC).detached();
        if self.observed.as_ref().is_none_or(|(seen, _)| seen != spec.value()) {
            self.observed = Some((spec.value().clone(), Instant::now()));
        }
        let holder = spec.at(LeaseSpec::HOLDER_IDENTITY).str();
        let seconds = spec.at(LeaseSpec::LEASE_DURATION_SECONDS).int().and_then(|seconds| u64::try_from(seconds).ok());
        let held = Duration::from_secs(seconds.unwrap_or(0));
        let fresh = self.observed.as_ref().is_some_and(|(_, at)| at.elapsed() < held);
        if !holder.is_empty() && holder != self.identity && fresh {
            return Ok(false);
        }
        // A lease that was written meanwhile belongs to its writer.
        let mut written = false;
        let change = |lease: &mut Value| {
            let mut lease = FieldMut::<Lease>::root(lease);
            written = lease.read().at(Lease::SPEC).get().is_none_or(|found| found == spec.value());
            if written {
                self.fill(lease.entry(Lease::SPEC));
            }
        };
        self.leases.update(NAMESPACE, self.name, "", change).await?;
        Ok(written)
    }

    fn fill(&self, mut spec: FieldMut<LeaseSpec>) {
        let now = lease_time().to_string();
        let is_new = spec.is_nil(LeaseSpec::HOLDER_IDENTITY) && spec.is_nil(LeaseSpec::LEASE_TRANSITIONS);
        let changes = spec.get(LeaseSpec::HOLDER_IDENTITY).as_str() != Some(self.identity.as_str());
        let before = spec.read().at(LeaseSpec::LEASE_TRANSITIONS).int_or_zero();
        let seconds = i64::try_from(self.timing.lease_duration.as_secs()).unwrap_or(i64::MAX);
        spec.set(LeaseSpec::HOLDER_IDENTITY, self.identity.as_str());
        spec.set(LeaseSpec::LEASE_DURATION_SECONDS, seconds);
        spec.set(LeaseSpec::RENEW_TIME, now.as_str());
        if changes {
            spec.set(LeaseSpec::ACQUIRE_TIME, now);
            spec.set(LeaseSpec::LEASE_TRANSITIONS, if is_new { 0 } else { before + 1 });
        }
    }
}

/// Returns the current time for leases.
pub fn lease_time() -> MicroTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    MicroTime::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
}
