//! Coordinated leader election (KEP-4355): one of the servers of a store elects the holder of each lease that has
//! candidates.

mod candidates;
mod election;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_meta::Status;
use binnacle_metrics::WorkQueue;
use binnacle_request::{BoxFuture, Shutdown};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::context::ControllerContext;
use binnacle_controllers::{ChangeWatcher, Changes, LeaseLock, Objects, lease_time};
use candidates::Candidate;
use election::Election;

/// The lease that decides which server of a store runs elections.
const NAME: &str = "leader-election-controller";
/// The maximum time between two checks of the leases.
const RECHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The interval at which expired candidates are deleted.
const COLLECTION_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// The pause before a resource that is not served is checked again.
const UNSERVED_RETRY: Duration = Duration::from_secs(5);

/// Waits until this server leads, and runs elections while it does.
pub(crate) fn run(
    ctx: Arc<ControllerContext>,
    report: watch::Sender<bool>,
    shutdown: Shutdown,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        // Like kube-apiserver's hook, which only starts the controller.
        report.send_replace(true);
        // The holder identity stays the same as long as this server runs.
        let identity = LeaseLock::identity(ctx.identity.hostname());
        while !shutdown.is_fired() {
            let leases = Objects::new(&ctx.resources, "coordination.k8s.io", "v1", "leases");
            let candidates = Objects::new(&ctx.resources, "coordination.k8s.io", "v1beta1", "leasecandidates");
            let (Ok(leases), Ok(candidates)) = (leases, candidates) else {
                tokio::select! {
                    () = tokio::time::sleep(UNSERVED_RETRY) => {}
                    () = shutdown.fired() => {}
                }
                continue;
            };
            let queue = ctx.config.queues.queue("leader-election-controller");
            let mut lock = LeaseLock::new(leases.clone(), NAME, &identity, ctx.config.leadership);
            tokio::select! {
                () = lock.acquire() => {}
                () = shutdown.fired() => return,
            }
            tokio::select! {
                () = lock.renew_until_lost() => {}
                () = lead(&leases, &candidates, &queue) => {}
                () = shutdown.fired() => {}
            }
            lock.release().await;
        }
    })
}

/// Runs elections when candidates or leases change, and at intervals.
async fn lead(leases: &Objects, candidates: &Objects, queue: &WorkQueue) {
    let (mut lease_changes, mut candidate_changes) =
        (ChangeWatcher::all(leases.resource()), ChangeWatcher::all(candidates.resource()));
    let mut recheck = interval(RECHECK_INTERVAL);
    recheck.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut collected_at: Option<Instant> = None;
    let mut names = BTreeSet::new();
    loop {
        tokio::select! {
            _ = recheck.tick() => {}
            _ = candidate_changes.changed() => {}
            // Ignore other leases, since nodes renew theirs all the time.
            changed = lease_changes.changed() => match changed {
                Changes::Named(changed) if !changed.iter().any(|name| names.contains(name.as_str())) => continue,
                _ => {}
            },
        }
        if collected_at.is_none_or(|at| at.elapsed() >= COLLECTION_INTERVAL) {
            collected_at = Some(Instant::now());
            if let Err(status) = collect(candidates).await {
                tracing::error!(error = status.message(), "Error while deleting lease candidates");
            }
        }
        let _item = queue.add().begin();
        match elect(leases, candidates).await {
            Ok(found) => names = found,
            Err(status) => tracing::error!(error = status.message(), "Failed to list lease candidates"),
        }
    }
}

/// Performs a step of every election; returns the names of the leases with candidates.
async fn elect(leases: &Objects, candidates: &Objects) -> Result<BTreeSet<String>, Status> {
    let now = lease_time();
    let mut by_lease: BTreeMap<(String, String), Vec<Candidate>> = BTreeMap::new();
    for object in candidates.list("").await? {
        let candidate = Candidate::of(&object);
        if !candidate.is_expired(now) {
            let namespace = metadata(&object).at(ObjectMeta::NAMESPACE).str().to_owned();
            by_lease.entry((namespace, candidate.lease.clone())).or_default().push(candidate);
        }
    }
    let names = by_lease.keys().map(|(_, lease)| lease.clone()).collect();
    for ((namespace, lease), of_lease) in by_lease {
        let election = Election { leases, candidates, namespace: &namespace, lease: &lease };
        if let Err(status) = election.step(of_lease).await {
            let key = format!("{namespace}/{lease}");
            tracing::error!(err = status.message(), key, "Failed to reconcile election step");
        }
    }
    Ok(names)
}

/// Deletes expired candidates.
async fn collect(candidates: &Objects) -> Result<(), Status> {
    for object in candidates.list("").await? {
        let candidate = Candidate::of(&object);
        if candidate.is_expired(lease_time()) {
            candidates.delete(metadata(&object).at(ObjectMeta::NAMESPACE).str(), &candidate.name).await?;
        }
    }
    Ok(())
}
