//! The resources of the peers, read when a peer joins, leaves or restarts.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_discovery::DiscoveredGroup;
use binnacle_meta::Text;
use binnacle_request::User;
use http::header::CONTENT_TYPE;

use super::metrics::SyncFailure;
use super::{PeerResources, Peers};
use crate::aggregator::documents::{LIMIT, REFRESH, RETRY, TIMEOUT, is_aggregated, parse_aggregated};
use crate::fetch::{FetchRequest, send};

const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,\
                      application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

impl Peers {
    /// Keeps the resources of the peers up to date, and never returns. Calls `on_synced` after each round of queries to
    /// all peers.
    pub(super) async fn sync_forever(&self, on_synced: impl Fn() -> bool) {
        let mut retry = RETRY;
        loop {
            let is_complete = self.read_all().await;
            on_synced();
            let pause = match is_complete {
                true => {
                    retry = RETRY;
                    None
                }
                // Identity leases are written before addresses, so the first attempt is often too early.
                false => {
                    let pause = retry;
                    retry = (retry * 2).min(REFRESH);
                    Some(pause)
                }
            };
            self.wait(pause).await;
        }
    }

    /// Waits until the next round of queries, and meanwhile drops removed group versions whose grace period is over.
    async fn wait(&self, pause: Option<Duration>) {
        let sleep = async |until: Option<tokio::time::Instant>| match until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        };
        let until = pause.map(|pause| tokio::time::Instant::now() + pause);
        loop {
            let (next, is_changed) = self.0.shared.reap();
            if is_changed {
                self.changed();
            }
            tokio::select! {
                () = self.0.leases_changed.notified() => return,
                () = sleep(until) => return,
                () = self.0.shared.removed_any.notified() => {}
                () = sleep(next.map(tokio::time::Instant::from_std)) => {}
            }
        }
    }

    /// Reads the resources of all peers; returns true if all have responded.
    async fn read_all(&self) -> bool {
        let names = self.0.leases.lock().names();
        let mut is_complete = true;
        let mut all = BTreeMap::new();
        for name in names {
            let (served, was_complete) = self.read(&name).await;
            is_complete &= was_complete;
            if served != PeerResources::default() {
                all.insert(name, served);
            }
        }
        if **self.0.served.load() != all {
            self.0.served.store(Arc::new(all));
            self.changed();
        }
        is_complete
    }

    /// Reads the resources of a peer; returns true if its documents are complete.
    async fn read(&self, name: &str) -> (PeerResources, bool) {
        let address = match self.0.addresses.address_of(name).await {
            Ok(address) => address,
            Err(why) => {
                self.0.metrics.sync_failed(SyncFailure::Address);
                tracing::debug!(server = name, why, "address of peer API server is unknown");
                return (PeerResources::default(), false);
            }
        };
        let (mut served, mut is_complete) = (PeerResources::default(), true);
        for path in ["/api", "/apis"] {
            match self.document(&address, path).await {
                Ok(groups) => add(&mut served, groups),
                Err(why) => {
                    is_complete = false;
                    self.0.metrics.sync_failed(SyncFailure::Document);
                    tracing::warn!(server = name, path, why, "failed to fetch discovery of peer API server");
                }
            }
        }
        (served, is_complete)
    }

    async fn document(&self, address: &str, path: &str) -> Result<Vec<DiscoveredGroup>, String> {
        let mut user = User::new(User::APISERVER, &[User::AUTHENTICATED]);
        user.uid = User::APISERVER.into();
        let request = FetchRequest {
            delete_options: None,
            path,
            accept: ACCEPT,
            if_none_match: "",
            user: &user,
            timeout: TIMEOUT,
            limit: Some(LIMIT),
            is_for_peer: true,
        };
        let response = send(&self.0.trust.connections(Instant::now()), address, &request).await;
        self.0.metrics.discovery_requested(response.as_ref().map_or(503, |response| response.code));
        let response = response?;
        if response.code != 200 {
            return Err(format!("discovery request failed with status: {}", response.code));
        }
        if !is_aggregated(response.header(CONTENT_TYPE)) {
            return Err("error decoding discovery response: it is not in the aggregated form".to_owned());
        }
        let parsed = tokio::task::spawn_blocking(move || parse_aggregated(&response.body)).await;
        parsed
            .map_err(|error| error.to_string())?
            .map_err(|error| format!("error decoding discovery response: {error}"))
    }
}

/// Adds the resources of groups, and the groups themselves except the core group, which is not listed in `/apis`.
fn add(served: &mut PeerResources, groups: Vec<DiscoveredGroup>) {
    let mut seen: HashSet<Text> = served.groups.iter().map(|group| group.name.clone()).collect();
    for group in groups {
        for version in &group.versions {
            let resources = version.resources.iter();
            served
                .resources
                .extend(resources.map(|one| (group.name.clone(), version.version.clone(), one.plural.clone())));
        }
        if !group.name.is_empty() && seen.insert(group.name.clone()) {
            served.groups.push(group);
        }
    }
}
