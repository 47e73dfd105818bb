//! The `aggregator_discovery_*` families.

use binnacle_metrics::{Registry, keep};
use prometheus::IntCounter;

/// Counters of requests for aggregated documents, and of built documents.
#[derive(Clone, Debug)]
pub struct DiscoveryMetrics {
    made: IntCounter,
    peers: Option<PeerCounters>,
}

#[derive(Clone, Debug)]
struct PeerCounters {
    asked_alone: IntCounter,
    hits: IntCounter,
    misses: IntCounter,
}

impl DiscoveryMetrics {
    /// `with_peers` is true if the gate UnknownVersionInteroperabilityProxy is on. Fails if the registry already has
    /// families with these names.
    pub fn register(registry: &Registry, with_peers: bool) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| {
            let (name, help) =
                (format!("aggregator_discovery_{name}"), format!("[ALPHA] Counter of number of times {help}"));
            keep(registry, IntCounter::new(name, help)?)
        };
        let made = counter("aggregation_count_total", "discovery was aggregated")?;
        let peers = match with_peers {
            true => Some(PeerCounters {
                asked_alone: counter("nopeer_requests_total", "no-peer (non peer-aggregated) discovery was requested")?,
                hits: counter("peer_aggregated_cache_hits_total", "discovery was served from peer-aggregated cache")?,
                misses: counter(
                    "peer_aggregated_cache_misses_total",
                    "discovery was aggregated across all API servers",
                )?,
            }),
            false => None,
        };
        Ok(Self { made, peers })
    }

    /// Counts a request for an aggregated document: `alone` for this server only, `of_peers` with the resources of
    /// peers, and `is_made` if the document was built before.
    pub(crate) fn count(&self, alone: bool, of_peers: bool, is_made: bool) {
        if let Some(counters) = &self.peers {
            if alone {
                counters.asked_alone.inc();
            }
            match (of_peers, is_made) {
                (true, true) => counters.hits.inc(),
                (true, false) => counters.misses.inc(),
                (false, _) => {}
            }
        }
        if !of_peers && !is_made {
            self.made.inc();
        }
    }
}
