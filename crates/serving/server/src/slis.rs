//! `/metrics/slis`: the results of health checks per probe request (KEP-3466). Frequent scrapes yield the fraction of
//! time in which each component was healthy.

use std::sync::Arc;

use binnacle_metrics::{ExposedMetrics, GaugeVec, IntCounterVec, IntGaugeVec, MetricFamilies, Registry, families};
use binnacle_request::{BoxFuture, Handler, Request, RequestInfo, Response};
use http::Method;

use crate::exposition::{exposition, reset};
use crate::process::start_time;

const PATH: &str = "/metrics/slis";

families! {
    struct Families {
        latest: IntGaugeVec = "kubernetes_healthcheck" by ["name", "type"],
            "[STABLE] This metric records the result of a single healthcheck.";
        total: IntCounterVec = "kubernetes_healthchecks_total" by ["name", "status", "type"],
            "[STABLE] This metric records the results of all healthcheck.";
        /// Removed by a reset.
        started: GaugeVec = "process_start_time_seconds" by [],
            "[ALPHA] Start time of the process since unix epoch in seconds.";
    }
}

/// The results of the checks of each health endpoint. These families have their own registry.
pub struct HealthMetrics {
    registry: Registry,
    families: Families,
}

impl HealthMetrics {
    pub fn new() -> Result<Arc<Self>, prometheus::Error> {
        let registry = Registry::new();
        let families = Families::register(&registry)?;
        if let Some(seconds) = start_time() {
            families.started.with_label_values::<&str>(&[]).set(seconds);
        }
        Ok(Arc::new(Self { registry, families }))
    }

    /// Records a result of the check `name` for `endpoint`.
    pub(crate) fn observe(&self, endpoint: &str, name: &str, is_healthy: bool) {
        self.families.latest.with_label_values(&[name, endpoint]).set(i64::from(is_healthy));
        self.families.total.with_label_values(&[name, if is_healthy { "success" } else { "error" }, endpoint]).inc();
    }

    fn families(&self, exposed: &ExposedMetrics) -> MetricFamilies {
        exposed.enabled(self.registry.gather_all())
    }
}

/// Serves `/metrics/slis`.
pub struct HealthMetricsHandler {
    pub metrics: Arc<HealthMetrics>,
    pub exposed: Arc<ExposedMetrics>,
    /// True if `DELETE` resets the results.
    pub resets: bool,
}

impl Handler for HealthMetricsHandler {
    fn matches(&self, info: &RequestInfo) -> bool {
        info.path == PATH
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            if self.resets && request.method == Method::DELETE {
                self.metrics.registry.reset();
                return reset();
            }
            exposition(self.metrics.families(&self.exposed), &request.headers).await
        })
    }

    fn paths(&self) -> Vec<String> {
        vec![PATH.to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_results_of_checks() {
        let metrics = HealthMetrics::new().unwrap();
        for (endpoint, name, is_healthy) in
            [("healthz", "etcd", false), ("healthz", "etcd", true), ("livez", "ping", true), ("livez", "ping", true)]
        {
            metrics.observe(endpoint, name, is_healthy);
        }
        let text = binnacle_metrics::text(&metrics.families(&ExposedMetrics::default()).families);
        for line in [
            "# TYPE kubernetes_healthcheck gauge",
            "# TYPE kubernetes_healthchecks_total counter",
            "kubernetes_healthcheck{name=\"etcd\",type=\"healthz\"} 1",
            "kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1",
            "kubernetes_healthchecks_total{name=\"etcd\",status=\"error\",type=\"healthz\"} 1",
            "kubernetes_healthchecks_total{name=\"etcd\",status=\"success\",type=\"healthz\"} 1",
            "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"livez\"} 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
