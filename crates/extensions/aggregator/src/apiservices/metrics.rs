//! The `aggregator_unavailable_*` families.

use binnacle_metrics::{Registry, keep};
use binnacle_schema::Value;
use prometheus::{IntCounterVec, IntGaugeVec, Opts};

use super::checks::Condition;

/// Metrics of APIServices: which are unavailable, and how often they became unavailable.
#[derive(Clone, Debug)]
pub struct AvailabilityMetrics {
    unavailable: IntGaugeVec,
    became_unavailable: IntCounterVec,
}

impl AvailabilityMetrics {
    /// Registers the families; fails if the registry already has their names.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        const NAME: &str = "aggregator_unavailable_apiservice";
        let unavailable =
            "[ALPHA] Gauge of APIServices which are marked as unavailable broken down by APIService name.";
        let became = "[ALPHA] Counter of APIServices which are marked as unavailable broken down by APIService name and \
                      reason.";
        let unavailable = IntGaugeVec::new(Opts::new(NAME, unavailable), &["name"])?;
        let became = IntCounterVec::new(Opts::new(format!("{NAME}_total"), became), &["name", "reason"])?;
        // Not kept: kube-apiserver reads it from elsewhere, so that a reset does not forget it.
        registry.register(unavailable.clone())?;
        Ok(Self { unavailable, became_unavailable: keep(registry, became)? })
    }

    /// Sets the availability of an APIService after a check.
    pub(super) fn seen(&self, name: &str, condition: &Condition) {
        self.unavailable.with_label_values(&[name]).set(i64::from(condition.status != "True"));
    }

    /// Counts a condition that replaces the one in `before`, if the APIService becomes unavailable.
    pub(super) fn told(&self, before: &Value, condition: &Condition) {
        let mut conditions = before.list_at(&["status", "conditions"]).iter();
        let available = conditions.find(|condition| condition.str_at(&["type"]) == "Available");
        let was_available = available.is_some_and(|condition| condition.str_at(&["status"]) == "True");
        if was_available && condition.status != "True" {
            let name = before.str_at(&["metadata", "name"]);
            self.became_unavailable.with_label_values(&[name, &condition.reason]).inc();
        }
    }

    /// Removes a deleted APIService.
    pub(super) fn forget(&self, name: &str) {
        // One that was never checked has no value.
        drop(self.unavailable.remove_label_values(&[name]));
    }
}
