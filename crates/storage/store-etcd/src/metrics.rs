//! kube-apiserver's metrics for requests to etcd.

use std::sync::Arc;
use std::time::Instant;

use binnacle_metrics::{HistogramVec, IntCounterVec, Registry, families};

use crate::calls::CallMetrics;

const LATENCY_BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];

families! {
    struct Families {
        duration: HistogramVec = "etcd_request_duration_seconds" by ["operation", "group", "resource"]
            buckets LATENCY_BUCKETS,
            "[ALPHA] Etcd request latency in seconds for each operation and object type.";
        requests: IntCounterVec = "etcd_requests_total" by ["operation", "group", "resource"],
            "[ALPHA] Etcd request counts for each operation and object type.";
        errors: IntCounterVec = "etcd_request_errors_total" by ["operation", "group", "resource"],
            "[ALPHA] Etcd failed request counts for each operation and object type.";
        events: IntCounterVec = "apiserver_storage_events_received_total" by ["group", "resource"],
            "[BETA] Number of etcd events received split by kind.";
        bookmarks: IntCounterVec = "etcd_bookmark_total" by ["group", "resource"],
            "[ALPHA] Number of etcd bookmarks (progress notify events) split by kind.";
    }
}

/// The counters, shared by all stores of a server.
#[derive(Clone)]
pub struct Metrics(Arc<Shared>);

struct Shared {
    families: Families,
    calls: CallMetrics,
    resources: Vec<KeyOwner>,
}

/// The resource whose objects have keys that start with `prefix`.
#[derive(Clone, Debug)]
pub struct KeyOwner {
    /// The prefix, which ends with a slash.
    pub prefix: String,
    pub group: String,
    pub resource: String,
}

// === impl Metrics ===

impl Metrics {
    /// Registers the metrics. Keys that belong to none of `resources` are counted with empty labels.
    pub fn new(registry: &Registry, mut resources: Vec<KeyOwner>) -> Result<Self, prometheus::Error> {
        resources.sort_by(|a, b| a.prefix.cmp(&b.prefix));
        let families = Families::register(registry)?;
        Ok(Self(Arc::new(Shared { families, calls: CallMetrics::new(registry)?, resources })))
    }

    /// Counts a request about `key` that started at `started`.
    pub fn request(&self, operation: &str, key: &[u8], started: Instant, failed: bool) {
        let (group, resource) = self.0.owner(key);
        let labels = [operation, group, resource];
        self.0.families.duration.with_label_values(&labels).observe(started.elapsed().as_secs_f64());
        self.0.families.requests.with_label_values(&labels).inc();
        if failed {
            self.0.families.errors.with_label_values(&labels).inc();
        }
    }

    pub(crate) fn event(&self, key: &[u8]) {
        let (group, resource) = self.0.owner(key);
        // Keys without a resource are only watched if all keys are.
        if resource.is_empty() {
            return;
        }
        self.0.families.events.with_label_values(&[group, resource]).inc();
    }

    pub(crate) fn calls(&self) -> &CallMetrics {
        &self.0.calls
    }

    /// Counts progress without a resource, since all resources share one watch.
    pub(crate) fn bookmark(&self) {
        self.0.families.bookmarks.with_label_values(&["", ""]).inc();
    }
}

impl Shared {
    fn owner(&self, key: &[u8]) -> (&str, &str) {
        let at = self.resources.partition_point(|owner| owner.prefix.as_bytes() <= key);
        let owner = at.checked_sub(1).map(|at| &self.resources[at]);
        match owner.filter(|owner| key.starts_with(owner.prefix.as_bytes())) {
            Some(owner) => (&owner.group, &owner.resource),
            None => ("", ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_resource_of_key() {
        let owner = |prefix: &str, group: &str, resource: &str| KeyOwner {
            prefix: prefix.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
        };
        let resources = vec![
            owner("/registry/services/specs/", "", "services"),
            owner("/registry/pods/", "", "pods"),
            owner("/registry/services/endpoints/", "", "endpoints"),
            owner("/registry/deployments/", "apps", "deployments"),
        ];
        let metrics = Metrics::new(&Registry::new(), resources).expect("a new registry takes them");
        for (key, want) in [
            ("/registry/pods/default/a", ("", "pods")),
            ("/registry/pods/", ("", "pods")),
            ("/registry/podsets/default/a", ("", "")),
            ("/registry/services/specs/default/a", ("", "services")),
            ("/registry/services/endpoints/default/a", ("", "endpoints")),
            ("/registry/deployments/default/a", ("apps", "deployments")),
            ("/a", ("", "")),
            ("compact_rev_key", ("", "")),
        ] {
            assert_eq!(metrics.0.owner(key.as_bytes()), want, "{key}");
        }
    }
}
