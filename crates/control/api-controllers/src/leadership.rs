//! Which process runs the controllers: the holder of kube-controller-manager's lease. It is acquired when there is work,
//! and released after a time without any, so that an idle cluster writes nothing.

use std::sync::Arc;
use std::time::Duration;

use binnacle_controllers::{Leadership, LeaseLock, Objects};
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use tokio::sync::watch;

use crate::outcome::Outcome;

/// The lease of kube-controller-manager.
const LEASE: &str = "kube-controller-manager";
/// The time without work after which the lease is released.
const IDLE: Duration = Duration::from_secs(30);
/// The pause before leases are looked for again, if they are not served.
const UNSERVED_RETRY: Duration = Duration::from_secs(5);

/// The leadership as controllers use it. Clones share it.
#[derive(Clone)]
pub(crate) struct LeadershipHandle(Arc<Shared>);

struct Shared {
    /// The number of keys that need the lease.
    wanted: watch::Sender<usize>,
    held: watch::Sender<bool>,
}

/// A wish for the lease, until it is dropped.
struct Wish<'a>(&'a Shared);

impl<'a> Wish<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.wanted.send_modify(|count| *count += 1);
        Self(shared)
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.0.wanted.send_modify(|count| *count -= 1);
    }
}

impl LeadershipHandle {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Shared { wanted: watch::Sender::new(0), held: watch::Sender::new(false) }))
    }

    /// Runs `work` as soon as this process holds the lease, and interrupts it when another process may hold it.
    pub(crate) async fn while_leading<F: Future<Output = Outcome>>(&self, work: impl FnOnce() -> F) -> Outcome {
        let _wish = Wish::new(&self.0);
        let mut held = self.0.held.subscribe();
        // The sender lives as long as `self`.
        let _ = held.wait_for(|held| *held).await;
        tokio::select! {
            outcome = work() => outcome,
            _ = held.wait_for(|held| !*held) => Outcome::After(Duration::ZERO),
        }
    }

    /// Acquires, renews and releases the lease until the shutdown signal.
    pub(crate) async fn run(&self, resources: &Catalog, hostname: &str, timing: Leadership, shutdown: &Shutdown) {
        let identity = LeaseLock::identity(hostname);
        let mut wanted = self.0.wanted.subscribe();
        while !shutdown.is_fired() {
            tokio::select! {
                _ = wanted.wait_for(|count| *count > 0) => {}
                () = shutdown.fired() => return,
            }
            let Ok(leases) = Objects::new(resources, "coordination.k8s.io", "v1", "leases") else {
                tokio::select! {
                    () = tokio::time::sleep(UNSERVED_RETRY) => continue,
                    () = shutdown.fired() => return,
                }
            };
            let mut lock = LeaseLock::new(leases, LEASE, &identity, timing);
            tokio::select! {
                () = lock.acquire() => {}
                () = shutdown.fired() => return,
            }
            tracing::debug!(lease = LEASE, identity, "leading");
            self.0.held.send_replace(true);
            tokio::select! {
                () = lock.renew_until_lost() => tracing::warn!(lease = LEASE, "lost the lease of the controllers"),
                () = self.idle() => {}
                () = shutdown.fired() => {}
            }
            self.0.held.send_replace(false);
            lock.release().await;
        }
    }

    /// Waits until there has been no work for a time.
    async fn idle(&self) {
        let mut wanted = self.0.wanted.subscribe();
        loop {
            let _ = wanted.wait_for(|count| *count == 0).await;
            tokio::select! {
                () = tokio::time::sleep(IDLE) => return,
                _ = wanted.wait_for(|count| *count > 0) => {}
            }
        }
    }
}
