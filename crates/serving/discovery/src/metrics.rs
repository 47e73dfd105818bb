//! The `aggregator_discovery_*` families.

use binnacle_metrics::{IntCounter, Registry, families};

families! {
    #[derive(Clone, Debug)]
    struct Families {
        aggregations: IntCounter = "aggregator_discovery_aggregation_count_total",
            "[ALPHA] Counter of number of times discovery was aggregated";
    }
}

families! {
    #[derive(Clone, Debug)]
    struct PeerFamilies {
        no_peer_requests: IntCounter = "aggregator_discovery_nopeer_requests_total",
            "[ALPHA] Counter of number of times no-peer (non peer-aggregated) discovery was requested";
        hits: IntCounter = "aggregator_discovery_peer_aggregated_cache_hits_total",
            "[ALPHA] Counter of number of times discovery was served from peer-aggregated cache";
        misses: IntCounter = "aggregator_discovery_peer_aggregated_cache_misses_total",
            "[ALPHA] Counter of number of times discovery was aggregated across all API servers";
    }
}

/// Counters of requests for aggregated documents and of document builds.
#[derive(Clone, Debug)]
pub struct DiscoveryMetrics {
    families: Families,
    peers: Option<PeerFamilies>,
}

impl DiscoveryMetrics {
    /// Registers the families; `with_peers` is true if the gate UnknownVersionInteroperabilityProxy is on.
    ///
    /// # Errors
    /// Fails if the registry already has families with these names.
    pub fn register(registry: &Registry, with_peers: bool) -> Result<Self, prometheus::Error> {
        let peers = if with_peers { Some(PeerFamilies::register(registry)?) } else { None };
        Ok(Self { families: Families::register(registry)?, peers })
    }

    /// Counts a request for an aggregated document: `excludes_peers` for this server only, `includes_peers` with the
    /// resources of peers, and `is_cached` if the document was already built.
    pub(crate) fn count(&self, excludes_peers: bool, includes_peers: bool, is_cached: bool) {
        if let Some(counters) = &self.peers {
            if excludes_peers {
                counters.no_peer_requests.inc();
            }
            match (includes_peers, is_cached) {
                (true, true) => counters.hits.inc(),
                (true, false) => counters.misses.inc(),
                (false, _) => {}
            }
        }
        if !includes_peers && !is_cached {
            self.families.aggregations.inc();
        }
    }
}
