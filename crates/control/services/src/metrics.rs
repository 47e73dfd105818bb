//! kube-apiserver's metrics of allocations for services: cluster IPs and node ports.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use binnacle_metrics::{HistogramVec, Registry, keep};
use binnacle_registry::Catalog;
use binnacle_watchcache::Interest;
use futures::FutureExt;
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{DEFAULT_BUCKETS, Gauge, GaugeVec, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts};
use tokio::time::Instant;

use crate::range::AddressRange;

/// The numbers of allocated and free addresses and ports. Clones share the families.
#[derive(Clone, Debug)]
pub struct AllocatorMetrics {
    held: Held,
    address_allocations: IntCounterVec,
    address_errors: IntCounterVec,
    address_durations: HistogramVec,
    ports: IntGauge,
    free_ports: Gauge,
    port_allocations: IntCounterVec,
    port_errors: IntCounterVec,
    repair_errors: IntCounter,
}

/// The way in which an address or a port was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The service requested it.
    Static,
    /// Any free one was chosen.
    Dynamic,
}

impl Scope {
    fn label(self) -> &'static str {
        match self {
            Self::Static => "static",
            Self::Dynamic => "dynamic",
        }
    }
}

impl AllocatorMetrics {
    /// Registers the families; fails if the registry already has their names.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let of_addresses = |name: &str| format!("kube_apiserver_clusterip_allocator_{name}");
        let of_ports = |name: &str| format!("kube_apiserver_nodeport_allocator_{name}");
        let counter = |name: String, help: &str, labels: &[&str]| {
            keep(registry, IntCounterVec::new(Opts::new(name, format!("[ALPHA] {help}")), labels)?)
        };
        let durations = HistogramOpts::new(
            of_addresses("allocation_duration_seconds"),
            "[ALPHA] Duration in seconds to allocate a Cluster IP by ServiceCIDR",
        );
        Ok(Self {
            held: keep(registry, Held::new()?)?,
            address_allocations: counter(
                of_addresses("allocation_total"),
                "Number of Cluster IPs allocations",
                &["cidr", "scope"],
            )?,
            address_errors: counter(
                of_addresses("allocation_errors_total"),
                "Number of errors trying to allocate Cluster IPs",
                &["cidr", "scope"],
            )?,
            address_durations: keep(
                registry,
                HistogramVec::new(durations.buckets(DEFAULT_BUCKETS.to_vec()), &["cidr"])?,
            )?,
            ports: keep(
                registry,
                IntGauge::new(
                    of_ports("allocated_ports"),
                    "[ALPHA] Gauge measuring the number of allocated NodePorts for Services",
                )?,
            )?,
            free_ports: keep(
                registry,
                Gauge::new(
                    of_ports("available_ports"),
                    "[ALPHA] Gauge measuring the number of available NodePorts for Services",
                )?,
            )?,
            port_allocations: counter(of_ports("allocation_total"), "Number of NodePort allocations", &["scope"])?,
            port_errors: counter(
                of_ports("allocation_errors_total"),
                "Number of errors trying to allocate NodePort",
                &["scope"],
            )?,
            repair_errors: keep(
                registry,
                IntCounter::new(
                    "apiserver_nodeport_repair_reconcile_errors_total",
                    "[ALPHA] Number of reconciliation failures on the nodeport repair reconcile loop",
                )?,
            )?,
        })
    }

    /// Counts the addresses in the cache of these resources from now on.
    pub(super) fn follow(&self, resources: &Catalog) {
        // The families belong to the first server that calls this.
        let _ = self.held.0.resources.set(resources.clone());
    }

    /// Counts a check of all node ports that failed.
    pub(super) fn port_repair_failed(&self) {
        self.repair_errors.inc();
    }

    pub(super) fn address_given(&self, range: &AddressRange, scope: Scope, took: Duration) {
        let name = range.text();
        self.address_allocations.with_label_values(&[&name, scope.label()]).inc();
        self.address_durations.with_label_values(&[&name]).observe(took.as_secs_f64());
        self.held.0.ranges.lock().insert(name, *range);
    }

    pub(super) fn address_refused(&self, range: &AddressRange, scope: Scope) {
        self.address_errors.with_label_values(&[&range.text(), scope.label()]).inc();
    }

    pub(super) fn ports_given(&self, scopes: &[Scope]) {
        scopes.iter().for_each(|scope| self.port_allocations.with_label_values(&[scope.label()]).inc());
    }

    pub(super) fn port_refused(&self, scope: Scope) {
        self.port_errors.with_label_values(&[scope.label()]).inc();
    }

    pub(super) fn ports(&self, given: usize, size: usize) {
        self.ports.set(i64::try_from(given).unwrap_or(i64::MAX));
        self.free_ports.set(size.saturating_sub(given) as f64);
    }
}

/// The allocated addresses of each range, counted at each scrape.
#[derive(Clone)]
struct Held(Arc<Addresses>);

struct Addresses {
    given: GaugeVec,
    free: GaugeVec,
    /// The ranges with allocations.
    ranges: Mutex<BTreeMap<String, AddressRange>>,
    resources: OnceLock<Catalog>,
}

impl Held {
    fn new() -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| {
            GaugeVec::new(Opts::new(format!("kube_apiserver_clusterip_allocator_{name}"), help), &["cidr"])
        };
        Ok(Self(Arc::new(Addresses {
            given: gauge("allocated_ips", "[ALPHA] Gauge measuring the number of allocated IPs for Services")?,
            free: gauge("available_ips", "[ALPHA] Gauge measuring the number of available IPs for Services")?,
            ranges: Mutex::default(),
            resources: OnceLock::new(),
        })))
    }

    fn count(&self) -> Option<()> {
        let resource = self.0.resources.get()?.find("networking.k8s.io", "v1", "ipaddresses")?;
        let cache = &resource.collection.cache;
        // A snapshot of a ready cache needs no waiting.
        let snapshot = cache.snapshot(Instant::now()).now_or_never()?.ok()?;
        let all = cache.selection(Interest::default());
        let addresses: Vec<IpAddr> = snapshot.iter(&all, "").filter_map(|entry| entry.name().parse().ok()).collect();
        for (name, range) in &*self.0.ranges.lock() {
            let given = addresses.iter().filter(|address| range.contains(**address)).count() as f64;
            self.0.given.with_label_values(&[name]).set(given);
            self.0.free.with_label_values(&[name]).set((range.size() - given).max(0.0));
        }
        Some(())
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

impl binnacle_metrics::Family for Held {}

impl Collector for Held {
    fn desc(&self) -> Vec<&Desc> {
        [&self.0.given, &self.0.free].into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Until the cache is ready the last numbers are reported.
        let _ = self.count();
        [&self.0.given, &self.0.free].into_iter().flat_map(Collector::collect).collect()
    }
}
