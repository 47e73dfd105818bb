//! kube-apiserver's metrics of allocations for services: cluster IPs and node ports.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use binnacle_metrics::{
    Gauge, GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry, families, register_family,
};
use binnacle_registry::Catalog;
use binnacle_watchcache::Interest;
use futures::FutureExt;
use parking_lot::Mutex;
use prometheus::DEFAULT_BUCKETS;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use tokio::time::Instant;

use crate::range::AddressRange;

families! {
    #[derive(Clone, Debug)]
    struct Families {
        address_allocations: IntCounterVec = "kube_apiserver_clusterip_allocator_allocation_total" by ["cidr", "scope"],
            "[ALPHA] Number of Cluster IPs allocations";
        address_errors: IntCounterVec = "kube_apiserver_clusterip_allocator_allocation_errors_total"
            by ["cidr", "scope"],
            "[ALPHA] Number of errors trying to allocate Cluster IPs";
        address_durations: HistogramVec = "kube_apiserver_clusterip_allocator_allocation_duration_seconds" by ["cidr"]
            buckets DEFAULT_BUCKETS,
            "[ALPHA] Duration in seconds to allocate a Cluster IP by ServiceCIDR";
        ports: IntGauge = "kube_apiserver_nodeport_allocator_allocated_ports",
            "[ALPHA] Gauge measuring the number of allocated NodePorts for Services";
        free_ports: Gauge = "kube_apiserver_nodeport_allocator_available_ports",
            "[ALPHA] Gauge measuring the number of available NodePorts for Services";
        port_allocations: IntCounterVec = "kube_apiserver_nodeport_allocator_allocation_total" by ["scope"],
            "[ALPHA] Number of NodePort allocations";
        port_errors: IntCounterVec = "kube_apiserver_nodeport_allocator_allocation_errors_total" by ["scope"],
            "[ALPHA] Number of errors trying to allocate NodePort";
        repair_errors: IntCounter = "apiserver_nodeport_repair_reconcile_errors_total",
            "[ALPHA] Number of reconciliation failures on the nodeport repair reconcile loop";
    }
}

families! {
    /// Set at each scrape.
    struct AddressFamilies {
        allocated: GaugeVec = "kube_apiserver_clusterip_allocator_allocated_ips" by ["cidr"],
            "[ALPHA] Gauge measuring the number of allocated IPs for Services";
        free: GaugeVec = "kube_apiserver_clusterip_allocator_available_ips" by ["cidr"],
            "[ALPHA] Gauge measuring the number of available IPs for Services";
    }
}

/// The numbers of allocated and free addresses and ports. Clones share the families.
#[derive(Clone, Debug)]
pub struct AllocatorMetrics {
    addresses: AddressCollector,
    families: Families,
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
        Ok(Self {
            addresses: register_family(registry, AddressCollector::new()?)?,
            families: Families::register(registry)?,
        })
    }

    /// Sets the resources whose cached addresses are counted.
    pub(super) fn watch_resources(&self, resources: &Catalog) {
        // Only the first call has an effect.
        let _ = self.addresses.0.resources.set(resources.clone());
    }

    /// Counts a failed repair of node ports.
    pub(super) fn port_repair_failed(&self) {
        self.families.repair_errors.inc();
    }

    pub(super) fn address_allocated(&self, range: &AddressRange, scope: Scope, duration: Duration) {
        let name = range.text();
        self.families.address_allocations.with_label_values(&[&name, scope.label()]).inc();
        self.families.address_durations.with_label_values(&[&name]).observe(duration.as_secs_f64());
        self.addresses.0.ranges.lock().insert(name, *range);
    }

    pub(super) fn address_refused(&self, range: &AddressRange, scope: Scope) {
        self.families.address_errors.with_label_values(&[&range.text(), scope.label()]).inc();
    }

    pub(super) fn ports_allocated(&self, scopes: &[Scope]) {
        scopes.iter().for_each(|scope| self.families.port_allocations.with_label_values(&[scope.label()]).inc());
    }

    pub(super) fn port_refused(&self, scope: Scope) {
        self.families.port_errors.with_label_values(&[scope.label()]).inc();
    }

    pub(super) fn ports(&self, allocated: usize, size: usize) {
        self.families.ports.set(i64::try_from(allocated).unwrap_or(i64::MAX));
        self.families.free_ports.set(size.saturating_sub(allocated) as f64);
    }
}

/// The allocated addresses of each range, counted at each scrape.
#[derive(Clone)]
struct AddressCollector(Arc<AddressCounts>);

struct AddressCounts {
    families: AddressFamilies,
    /// The ranges with allocations.
    ranges: Mutex<BTreeMap<String, AddressRange>>,
    resources: OnceLock<Catalog>,
}

impl AddressCollector {
    fn new() -> Result<Self, prometheus::Error> {
        Ok(Self(Arc::new(AddressCounts {
            families: AddressFamilies::build()?,
            ranges: Mutex::default(),
            resources: OnceLock::new(),
        })))
    }

    fn count(&self) -> Option<()> {
        let resource = self.0.resources.get()?.find("networking.k8s.io", "v1", "ipaddresses")?;
        let cache = &resource.collection.cache;
        // The snapshot of a ready cache is available immediately.
        let snapshot = cache.snapshot(Instant::now()).now_or_never()?.ok()?;
        let all = cache.selection(Interest::default());
        let addresses: Vec<IpAddr> = snapshot.iter(&all, "").filter_map(|entry| entry.name().parse().ok()).collect();
        for (name, range) in &*self.0.ranges.lock() {
            let allocated = addresses.iter().filter(|address| range.contains(**address)).count() as f64;
            self.0.families.allocated.with_label_values(&[name]).set(allocated);
            self.0.families.free.with_label_values(&[name]).set((range.size() - allocated).max(0.0));
        }
        Some(())
    }
}

impl fmt::Debug for AddressCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Held")
    }
}

impl binnacle_metrics::Family for AddressCollector {}

impl Collector for AddressCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.0.families.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Until the cache is ready, the last numbers are reported.
        let _ = self.count();
        self.0.families.collect()
    }
}
