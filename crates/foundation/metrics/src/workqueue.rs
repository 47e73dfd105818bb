//! The `workqueue_*` families of controllers. Each controller uses the name of the queue in kube-apiserver's
//! controller.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::exponential_buckets;
use prometheus::proto::MetricFamily;

use crate::{
    ComputedGauge, Count, Family, Histogram, HistogramVec, IntCounterVec, IntGaugeVec, Level, Registry, families,
    register_family,
};

families! {
    #[derive(Clone)]
    struct Families {
        depth: IntGaugeVec = "workqueue_depth" by ["name"], "[BETA] Current depth of workqueue";
        adds: IntCounterVec = "workqueue_adds_total" by ["name"], "[BETA] Total number of adds handled by workqueue";
        retries: IntCounterVec = "workqueue_retries_total" by ["name"],
            "[BETA] Total number of retries handled by workqueue";
        queued: HistogramVec = "workqueue_queue_duration_seconds" by ["name"] buckets exponential_buckets(1e-8, 10.0, 10)?,
            "[BETA] How long in seconds an item stays in workqueue before being requested.";
        worked: HistogramVec = "workqueue_work_duration_seconds" by ["name"] buckets exponential_buckets(1e-8, 10.0, 10)?,
            "[BETA] How long in seconds processing an item from workqueue takes.";
    }
}

families! {
    #[derive(Clone)]
    struct InProgressFamilies {
        unfinished: ComputedGauge = "workqueue_unfinished_work_seconds" by ["name"],
            "[BETA] How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large \
             values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this \
             increases.";
        longest: ComputedGauge = "workqueue_longest_running_processor_seconds" by ["name"],
            "[BETA] How many seconds has the longest running processor for workqueue been running.";
    }
}

/// The families of all queues. Clones share them.
#[derive(Clone)]
pub struct WorkQueues {
    families: Families,
    in_progress: InProgressCollector,
}

/// The metrics of one queue. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct WorkQueue(Option<Arc<Counters>>);

#[derive(Debug)]
struct Counters {
    depth: Level<i64>,
    adds: Count<u64>,
    retries: Count<u64>,
    queued: Histogram,
    worked: Histogram,
    in_progress: Arc<Mutex<ItemsInProgress>>,
}

/// A queued item. Dropping it removes it from the queue.
#[derive(Debug)]
pub struct QueuedItem {
    counters: Option<Arc<Counters>>,
    since: Instant,
}

/// An item in progress, until it is dropped.
#[derive(Debug)]
pub struct WorkItem {
    counters: Option<Arc<Counters>>,
    id: u64,
    since: Instant,
}

/// The start times of the items in progress, by ID.
#[derive(Debug, Default)]
struct ItemsInProgress {
    next: u64,
    since: BTreeMap<u64, Instant>,
}

// === impl WorkQueues ===

impl WorkQueues {
    /// Registers the families; fails if the registry already has their names.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let in_progress = InProgressCollector { families: InProgressFamilies::build()?, queues: Arc::default() };
        Ok(Self { families: Families::register(registry)?, in_progress: register_family(registry, in_progress)? })
    }

    /// Returns the queue with this name, and creates its metrics.
    pub fn queue(&self, name: &str) -> WorkQueue {
        let in_progress = self.in_progress.queues.lock().entry(name.to_owned()).or_default().clone();
        WorkQueue(Some(Arc::new(Counters {
            depth: self.families.depth.with_label_values(&[name]),
            adds: self.families.adds.with_label_values(&[name]),
            retries: self.families.retries.with_label_values(&[name]),
            queued: self.families.queued.with_label_values(&[name]),
            worked: self.families.worked.with_label_values(&[name]),
            in_progress,
        })))
    }
}

impl fmt::Debug for WorkQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueues").finish_non_exhaustive()
    }
}

// === impl WorkQueue ===

impl WorkQueue {
    /// Counts an added item.
    pub fn add(&self) -> QueuedItem {
        if let Some(counters) = &self.0 {
            counters.adds.inc();
            counters.depth.inc();
        }
        QueuedItem { counters: self.0.clone(), since: Instant::now() }
    }

    /// Counts several added items.
    pub fn add_all(&self, count: usize) -> Vec<QueuedItem> {
        (0..count).map(|_| self.add()).collect()
    }

    /// Counts items that are retried because processing them failed.
    pub fn retry(&self, count: usize) {
        if let Some(counters) = &self.0 {
            counters.retries.inc_by(count as u64);
        }
    }
}

// === impl QueuedItem ===

impl QueuedItem {
    /// Removes the item from the queue and starts to process it.
    pub fn begin(mut self) -> WorkItem {
        let counters = self.counters.take();
        let now = Instant::now();
        let id = counters.as_ref().map_or(0, |counters| {
            counters.depth.dec();
            counters.queued.observe(now.saturating_duration_since(self.since).as_secs_f64());
            let mut in_progress = counters.in_progress.lock();
            in_progress.next += 1;
            let id = in_progress.next;
            in_progress.since.insert(id, now);
            id
        });
        WorkItem { counters, id, since: now }
    }
}

impl Drop for QueuedItem {
    fn drop(&mut self) {
        if let Some(counters) = &self.counters {
            counters.depth.dec();
        }
    }
}

// === impl WorkItem ===

impl Drop for WorkItem {
    fn drop(&mut self) {
        if let Some(counters) = &self.counters {
            counters.in_progress.lock().since.remove(&self.id);
            counters.worked.observe(self.since.elapsed().as_secs_f64());
        }
    }
}

/// The families about the work in progress, computed at each scrape.
#[derive(Clone)]
struct InProgressCollector {
    families: InProgressFamilies,
    queues: Arc<Mutex<BTreeMap<String, Arc<Mutex<ItemsInProgress>>>>>,
}

impl Family for InProgressCollector {}

impl Collector for InProgressCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.families.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (now, queues) = (Instant::now(), self.queues.lock().clone());
        let InProgressFamilies { unfinished, longest } = &self.families;
        let (mut sums, mut longests) = (Vec::new(), Vec::new());
        for (name, in_progress) in &queues {
            let (mut sum, mut most) = (0.0, 0.0_f64);
            for since in in_progress.lock().since.values() {
                let seconds = now.saturating_duration_since(*since).as_secs_f64();
                sum += seconds;
                most = most.max(seconds);
            }
            sums.push(unfinished.metric(&[name], sum));
            longests.push(longest.metric(&[name], most));
        }
        vec![unfinished.with(sums), longest.with(longests)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_an_item_from_add_to_completion() {
        let registry = Registry::new();
        let queues = WorkQueues::register(&registry).unwrap();
        let queue = queues.queue("autoregister");
        let has = |line: &str| {
            let text = crate::text(&registry.gather());
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        };
        has("workqueue_unfinished_work_seconds{name=\"autoregister\"} 0");
        has("workqueue_queue_duration_seconds_bucket{name=\"autoregister\",le=\"9.999999999999999e-06\"} 0");
        let mut waiting = queue.add_all(2);
        has("workqueue_depth{name=\"autoregister\"} 2");
        let work = waiting.pop().map(QueuedItem::begin);
        has("workqueue_depth{name=\"autoregister\"} 1");
        has("workqueue_queue_duration_seconds_count{name=\"autoregister\"} 1");
        has("workqueue_work_duration_seconds_count{name=\"autoregister\"} 0");
        let in_progress = queues.in_progress.collect();
        assert!(in_progress.iter().all(|family| family.get_metric()[0].get_gauge().get_value() > 0.0));
        drop((work, waiting));
        queue.retry(1);
        for line in ["depth", "retries_total", "adds_total", "unfinished_work_seconds", "work_duration_seconds_count"]
            .into_iter()
            .zip([0, 1, 2, 0, 1])
            .map(|(name, value)| format!("workqueue_{name}{{name=\"autoregister\"}} {value}"))
        {
            has(&line);
        }
        // A queue without families records nothing.
        drop(WorkQueue::default().add().begin());
    }
}
