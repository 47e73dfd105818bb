//! One step of the election for a lease. All its state is in the lease and its candidates, so any server can continue
//! after another has stopped.

use std::time::Duration;

use binnacle_fields::coordination::v1::{Lease, LeaseSpec};
use binnacle_fields::coordination::v1beta1::{LeaseCandidate, LeaseCandidateSpec};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{MicroTime, Status, StatusReason};
use binnacle_schema::{Value, value};

use super::candidates::{Candidate, OLDEST_EMULATION, VALID, best, holds, strategy};
use binnacle_controllers::{Objects, lease_time};

/// The time in which candidates must respond to a ping, and for which a response is valid.
const ELECTION: Duration = Duration::from_secs(5);
/// The first duration of a new leader's lease, in seconds.
const LEASE_SECONDS: i64 = 5;

/// The election for a lease.
pub(super) struct Election<'a> {
    pub(super) leases: &'a Objects,
    pub(super) candidates: &'a Objects,
    pub(super) namespace: &'a str,
    pub(super) lease: &'a str,
}

impl Election<'_> {
    /// Performs the next step: does nothing, pings candidates, or elects one.
    pub(super) async fn step(&self, candidates: Vec<Candidate>) -> Result<(), Status> {
        let now = lease_time();
        let failed = |why: String| Status::internal(why);
        let lease = self.leases.get(self.namespace, self.lease).await?;
        if !is_needed(&candidates, lease.as_ref(), now).map_err(failed)? {
            return Ok(());
        }
        if self.ping(&candidates, now).await? {
            return Ok(());
        }
        let responsive: Vec<Candidate> = candidates
            .into_iter()
            .filter(|candidate| candidate.renewed.is_some_and(|renewed| holds(renewed, ELECTION, now)))
            .collect();
        if responsive.is_empty() {
            return Err(Status::internal("no available candidates"));
        }
        let strategy = strategy(&responsive).map_err(failed)?;
        // With another strategy, another program elects the leader.
        let elected = (strategy == OLDEST_EMULATION).then(|| best(&responsive)).flatten();
        if strategy == OLDEST_EMULATION && elected.is_none() {
            return Err(Status::internal("should not happen, could not find suitable electee"));
        }
        self.write_lease(strategy, elected.map(|candidate| candidate.name.as_str())).await
    }

    /// Pings candidates that have not renewed recently. Returns true while a response is pending.
    async fn ping(&self, candidates: &[Candidate], now: MicroTime) -> Result<bool, Status> {
        let mut is_pending = false;
        for candidate in candidates {
            let is_ping_pending = candidate.pinged.is_some_and(|pinged| holds(pinged, ELECTION, now));
            if is_ping_pending && !candidate.has_answered() {
                is_pending = true;
                continue;
            }
            if candidate.renewed.is_some_and(|renewed| holds(renewed, ELECTION, now)) {
                continue;
            }
            // A candidate that has never responded to a ping is not pinged again.
            if candidate.pinged.is_none() || (!is_ping_pending && candidate.has_answered()) {
                let ping = |object: &mut Value| {
                    let mut candidate = FieldMut::<LeaseCandidate>::root(object);
                    candidate.entry(LeaseCandidate::SPEC).set(LeaseCandidateSpec::PING_TIME, now.to_string());
                };
                self.candidates.update(self.namespace, &candidate.name, "", ping).await?;
                is_pending = true;
            }
        }
        Ok(is_pending)
    }

    async fn write_lease(&self, strategy: &str, elected: Option<&str>) -> Result<(), Status> {
        let (namespace, lease) = (self.namespace, self.lease);
        let mut lease_object = value!({"metadata": {"name": lease, "namespace": namespace}});
        let mut spec = FieldMut::<Lease>::root(&mut lease_object).into_entry(Lease::SPEC);
        spec.set(LeaseSpec::STRATEGY, strategy);
        spec.set(LeaseSpec::LEASE_DURATION_SECONDS, LEASE_SECONDS);
        spec.set(LeaseSpec::RENEW_TIME, lease_time().to_string());
        if let Some(elected) = elected {
            spec.set(LeaseSpec::HOLDER_IDENTITY, elected);
        }
        match self.leases.create(namespace, lease_object).await {
            Ok(_) => {
                match elected {
                    Some(elected) => tracing::info!("Created lease {namespace}/{lease} for {elected:?}"),
                    None => tracing::info!("Created lease {namespace}/{lease} without leader"),
                }
                return Ok(());
            }
            Err(status) if status.is(StatusReason::AlreadyExists) => {}
            Err(status) => return Err(status),
        }
        self.leases.update(namespace, lease, "", |lease| assign(lease, strategy, elected, lease_time())).await
    }
}

/// Returns true if a lease has no leader, or not the best one.
fn is_needed(candidates: &[Candidate], lease: Option<&Value>, now: MicroTime) -> Result<bool, String> {
    let Some(lease) = lease else { return Ok(true) };
    let holder = spec_of(lease).at(LeaseSpec::HOLDER_IDENTITY).str();
    if is_expired(lease, now) || holder.is_empty() {
        return Ok(true);
    }
    // An election makes all candidates renew periodically.
    if candidates.iter().any(|one| one.renewed.is_some_and(|renewed| !holds(renewed, VALID / 2, now))) {
        return Ok(true);
    }
    if strategy(candidates)? != OLDEST_EMULATION {
        return Ok(false);
    }
    Ok(best(candidates).is_some_and(|best| best.name != holder))
}

/// Returns true if a lease is expired, or has no duration or renew time.
fn is_expired(lease: &Value, now: MicroTime) -> bool {
    let spec = spec_of(lease);
    let renewed = MicroTime::parse(spec.at(LeaseSpec::RENEW_TIME).str()).ok();
    let seconds = spec.at(LeaseSpec::LEASE_DURATION_SECONDS).int().and_then(|seconds| u64::try_from(seconds).ok());
    renewed.zip(seconds).is_none_or(|(renewed, seconds)| !holds(renewed, Duration::from_secs(seconds), now))
}

fn spec_of(lease: &Value) -> FieldRef<'static, '_, LeaseSpec> {
    FieldRef::<Lease>::root(lease).at(Lease::SPEC).detached()
}

/// Assigns a free lease to the elected candidate; otherwise sets the candidate as the preferred holder.
fn assign(lease: &mut Value, strategy: &str, elected: Option<&str>, now: MicroTime) {
    let expired = is_expired(lease, now);
    let mut spec = FieldMut::<Lease>::root(lease).into_entry(Lease::SPEC);
    let holder = spec.str(LeaseSpec::HOLDER_IDENTITY).to_owned();
    spec.set(LeaseSpec::STRATEGY, strategy);
    let Some(elected) = elected else { return };
    if holder.is_empty() || (expired && holder != elected) {
        spec.remove(LeaseSpec::PREFERRED_HOLDER);
        spec.remove(LeaseSpec::ACQUIRE_TIME);
        spec.set(LeaseSpec::HOLDER_IDENTITY, elected);
        spec.set(LeaseSpec::RENEW_TIME, now.to_string());
        spec.set(LeaseSpec::LEASE_DURATION_SECONDS, LEASE_SECONDS);
    } else if holder != elected {
        spec.set(LeaseSpec::PREFERRED_HOLDER, elected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> MicroTime {
        MicroTime::from_unix(seconds, 0)
    }

    fn lease(holder: &str, renewed: i64) -> Value {
        let mut lease = value!({"spec": {"leaseDurationSeconds": 15}});
        lease.make_at(&["spec"]).insert("renewTime", at(renewed).to_string());
        if !holder.is_empty() {
            lease.make_at(&["spec"]).insert("holderIdentity", holder);
        }
        lease
    }

    fn candidate(name: &str, version: &str, renewed: i64) -> Candidate {
        let renewed = at(renewed).to_string();
        Candidate::of(&value!({"metadata": {"name": name}, "spec": {
            "leaseName": "l", "strategy": OLDEST_EMULATION, "emulationVersion": version, "binaryVersion": version,
            "renewTime": renewed
        }}))
    }

    #[test]
    fn election_is_needed_unless_best_candidate_leads() {
        let (old, new) = (candidate("old", "1.35.0", 100), candidate("new", "1.36.0", 100));
        let both = [old, new];
        for (lease, now, want) in [
            (None, 100, true),
            (Some(lease("old", 100)), 110, false),
            (Some(lease("new", 100)), 110, true),
            (Some(lease("", 100)), 110, true),
            (Some(lease("old", 100)), 116, true),
            (Some(lease("old", 1000)), 1001, true),
        ] {
            assert_eq!(is_needed(&both, lease.as_ref(), at(now)), Ok(want), "{lease:?} {now}");
        }
    }

    #[test]
    fn assigns_free_lease_or_sets_preferred_holder() {
        for (lease, elected, now, holder, preferred) in [
            (lease("", 0), Some("a"), 1, "a", ""),
            (lease("b", 0), Some("a"), 1, "b", "a"),
            (lease("b", 0), Some("a"), 100, "a", ""),
            (lease("a", 0), Some("a"), 100, "a", ""),
            (lease("b", 0), None, 100, "b", ""),
        ] {
            let mut settled = lease.clone();
            assign(&mut settled, OLDEST_EMULATION, elected, at(now));
            let spec = |field| settled.str_at(&["spec", field]);
            assert_eq!((spec("holderIdentity"), spec("preferredHolder")), (holder, preferred), "{lease:?}");
            assert_eq!(spec("strategy"), OLDEST_EMULATION);
        }
    }
}
