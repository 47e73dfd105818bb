//! The figures on the page at `/debug/live`, which are read only while a page is open.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_admission_webhooks::{WebhookReport, Webhooks};
use binnacle_flowcontrol::{FlowControl, LevelReport};
use binnacle_live::{
    Cache, Caches, GaugeSource, Gauges, InFlight, Level, LiveHandler, Log, Observer, Process, Sampler,
};
use binnacle_registry::Catalog;
use binnacle_request::BoxFuture;
use binnacle_server::{InFlightLimits, KUBERNETES_VERSION, Metrics, ProcessUsage};
use binnacle_store::Store;
use binnacle_store_embedded::EmbeddedStore;
use binnacle_store_embedded::disk::LogStats;
use binnacle_store_etcd::EtcdStore;
use futures::future::join_all;

use crate::stores::Stores;

/// The timeout of a store's response.
const STORE_TIMEOUT: Duration = Duration::from_millis(900);
/// The limits on rows.
const MAX_CACHES: usize = 60;
const MAX_WEBHOOKS: usize = 200;
const MAX_LEVELS: usize = 100;

/// The components whose figures are shown.
pub(crate) struct LiveSources {
    pub(crate) name: String,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) resources: Catalog,
    pub(crate) fairness: Option<Arc<FlowControl>>,
    pub(crate) limits: Option<InFlightLimits>,
    pub(crate) webhooks: Vec<Arc<Webhooks>>,
    pub(crate) stores: Vec<StoreFigures>,
}

/// A store, with its engine for figures that the contract does not have.
pub(crate) struct StoreFigures {
    store: Arc<dyn Store>,
    place: String,
    engine: Engine,
}

enum Engine {
    Memory,
    /// With the directory of its files.
    Embedded(Arc<EmbeddedStore>, PathBuf),
    Etcd(Arc<EtcdStore>),
}

/// Returns the handler of the page. Its observer receives all requests from now on.
pub(crate) fn link(parts: LiveSources) -> LiveHandler {
    let observer = Arc::new(Observer::default());
    parts.metrics.observe(observer.clone());
    LiveHandler::new(Sampler::new(observer, Arc::new(parts)))
}

// === impl LiveSources ===

impl GaugeSource for LiveSources {
    fn read(&self) -> BoxFuture<'_, Gauges> {
        Box::pin(async {
            let stores = join_all(self.stores.iter().map(StoreFigures::read)).await;
            let usage = ProcessUsage::now();
            let started = usage.map_or(0, |usage| (usage.started * 1e3) as u64);
            let webhooks = Webhooks::report(&self.webhooks, Instant::now());
            Gauges {
                server: binnacle_live::Server {
                    name: self.name.clone(),
                    version: KUBERNETES_VERSION.to_owned(),
                    started,
                },
                process: usage.map(process),
                in_flight: self.in_flight(),
                flow_control: self.fairness.as_ref().map(|fairness| binnacle_live::FlowControl {
                    levels: fairness.report().into_iter().take(MAX_LEVELS).map(level).collect(),
                }),
                stores,
                caches: self.caches(),
                webhooks: webhooks.into_iter().take(MAX_WEBHOOKS).map(webhook).collect(),
            }
        })
    }
}

impl LiveSources {
    fn in_flight(&self) -> InFlight {
        let counts = self.metrics.in_flight();
        // Zero is no limit.
        let limit = |of: fn(&InFlightLimits) -> i64| {
            self.limits.as_ref().and_then(|limits| u64::try_from(of(limits)).ok()).filter(|limit| *limit > 0)
        };
        InFlight {
            read_only: counts.read_only,
            mutating: counts.mutating,
            long_running: counts.long_running,
            most_read_only: limit(|limits| limits.read_only),
            most_mutating: limit(|limits| limits.mutating),
            sent_bytes: counts.sent_bytes,
        }
    }

    fn caches(&self) -> Caches {
        let mut all = Caches::default();
        let (mut prefixes, mut budgets) = (HashSet::new(), HashSet::new());
        let resources = self.resources.snapshot();
        // By the address of their cache.
        let mut sent: HashMap<_, u64> = HashMap::new();
        let mut rows = Vec::new();
        for resource in resources.resources() {
            let collection = &resource.collection;
            if budgets.insert(Arc::as_ptr(&collection.budget)) {
                all.form_bytes += collection.budget.used() as u64;
                all.form_limit += collection.budget.limit() as u64;
            }
            let (_, deliveries, _) = resource.sent.cumulative();
            *sent.entry(Arc::as_ptr(&collection.cache)).or_default() += deliveries;
            // The versions of a resource share a cache, unless a webhook converts it.
            if !prefixes.insert(Arc::as_ptr(&collection.cache)) {
                continue;
            }
            let stats = collection.cache.stats();
            if stats.initializations == 0 {
                continue;
            }
            let row = Cache {
                resource: resource.group_resource().to_string(),
                objects: stats.objects as u64,
                bytes: (stats.bytes + stats.window_bytes) as u64,
                watchers: stats.watchers as u64,
                window_events: stats.window_events as u64,
                window_bytes: stats.window_bytes as u64,
                received: stats.events_received,
                sent: 0,
                terminated: stats.terminated,
            };
            all.objects += row.objects;
            all.bytes += row.bytes;
            all.watchers += row.watchers;
            rows.push((Arc::as_ptr(&collection.cache), row));
        }
        let mut rows: Vec<Cache> = rows
            .into_iter()
            .map(|(cache, row)| Cache { sent: sent.get(&cache).copied().unwrap_or_default(), ..row })
            .collect();
        let weight = |row: &Cache| (row.watchers + row.objects, row.bytes);
        rows.sort_by(|a, b| weight(b).cmp(&weight(a)).then_with(|| a.resource.cmp(&b.resource)));
        all.others = rows.len().saturating_sub(MAX_CACHES) as u64;
        rows.truncate(MAX_CACHES);
        Caches { rows, ..all }
    }
}

// === impl StoreFigures ===

impl StoreFigures {
    /// Returns all stores, the main one first.
    pub(crate) fn all(stores: &Stores) -> Vec<Self> {
        let engines: Vec<_> = match stores {
            Stores::Embedded { store, directory: Some(directory), .. } => {
                vec![(directory.display().to_string(), Engine::Embedded(store.clone(), directory.clone()))]
            }
            Stores::Embedded { .. } => vec![("in memory, lost when the server stops".to_owned(), Engine::Memory)],
            Stores::Etcd(_) => {
                let clusters = stores.clusters().iter().enumerate();
                let place = |n| if n == 0 { stores.place() } else { format!("etcd of overrides, number {n}") };
                clusters.map(|(n, cluster)| (place(n), Engine::Etcd(cluster.clone()))).collect()
            }
        };
        let figures = stores.all().into_iter().zip(engines);
        figures.map(|(store, (place, engine))| Self { store, place, engine }).collect()
    }

    async fn read(&self) -> binnacle_live::Store {
        let mut figures = binnacle_live::Store { place: self.place.clone(), ..Default::default() };
        let started_at = Instant::now();
        let requested = async {
            let health = self.store.health().await;
            figures.answered = Some((started_at.elapsed().as_secs_f64() * 1e6).round() / 1e3);
            health?;
            figures.revision = Some(self.store.current_revision().await?.0);
            figures.compacted = Some(self.store.compacted_revision().await?.0);
            if let Engine::Etcd(etcd) = &self.engine {
                figures.database_bytes = Some(etcd.database_size().await?);
            }
            Ok::<_, binnacle_store::StoreError>(())
        };
        let failure = match tokio::time::timeout(STORE_TIMEOUT, requested).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no answer within {} ms", STORE_TIMEOUT.as_millis())),
        };
        figures.error = failure.unwrap_or_default();
        match &self.engine {
            Engine::Memory => figures.kind = "memory",
            Engine::Etcd(_) => figures.kind = "etcd",
            Engine::Embedded(store, directory) => {
                figures.kind = "embedded";
                figures.log = Some(log(&store.stats()));
                figures.free_bytes = rustix::fs::statvfs(directory).ok().map(|stat| stat.f_bavail * stat.f_frsize);
            }
        }
        figures
    }
}

fn process(usage: ProcessUsage) -> Process {
    let ProcessUsage { cpu_seconds, resident_bytes, open_files, most_files, .. } = usage;
    Process { cpu_seconds, resident_bytes, open_files, most_files }
}

fn level(report: LevelReport) -> Level {
    Level {
        name: report.name.into(),
        exempt: report.exempt,
        seats: report.seats as u64,
        limit: u64::from(report.limit),
        nominal: u64::from(report.nominal),
        executing: report.executing as u64,
        waiting: report.waiting as u64,
        active_queues: report.active_queues as u64,
        queues: report.queues as u64,
        dispatched: report.dispatched,
        rejected: report.rejected,
        timed_out: report.timed_out,
    }
}

fn log(stats: &LogStats) -> Log {
    Log {
        segments: stats.segments,
        needed_bytes: stats.needed_bytes,
        dead_bytes: stats.dead_bytes,
        disk_bytes: stats.disk_bytes,
        reserve_bytes: stats.reserve_bytes,
        syncs: stats.syncs,
        sync_seconds: stats.sync_time.as_secs_f64(),
        moves: stats.moves,
        moved_bytes: stats.moved_bytes,
        failures: stats.failures,
        full: stats.full,
        delay: stats.delay.as_secs_f64() * 1e3,
    }
}

fn webhook(report: WebhookReport) -> binnacle_live::Webhook {
    let WebhookReport { kind, configuration, name, url, state, in_vain, seconds_left, why } = report;
    let (configuration, name) = (configuration.into(), name.into());
    binnacle_live::Webhook { kind, configuration, name, url, state, in_vain, seconds_left, why }
}
